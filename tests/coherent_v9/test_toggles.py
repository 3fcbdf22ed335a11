"""Each clamp holds and cuts its gradient; each mask freezes; each toggle does what it says. Float64, one small model."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.models.coherent_v9 import feeds, head
from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.feeds import Rows, front_feeds, gate_floor, head_feeds, plan_spans
from hierarchos.models.coherent_v9.memory import FastMemory, prepared_gradients
from hierarchos.models.coherent_v9.pieces import limited, shortened
from tests.coherent_v9.cases import case
from tests.coherent_v9.twin import Twin

GOLDEN, LENGTH = "full_random", 5


def forward(**changes) -> Twin:
    """Five tokens of two rows with a changed configuration."""
    golden = case(GOLDEN)
    cfg = resolve({**golden.facts["config"], **changes})
    twin = Twin(cfg, golden.values, 2, training=False)
    twin.logits = twin.forward(Rows.of(golden.tensors["input_ids"][:, :LENGTH]), 0, LENGTH)
    return twin


@pytest.fixture(scope="module")
def plain() -> Twin:
    return forward()


CLAMPS = {
    "recurrent_state_clamp": (
        0.3,
        lambda twin: max(np.abs(twin.tape[f"{c}.{s}"][1:]).max() for c in "hl" for s in ("n1", "n2", "v", "out", "M")),
    ),
    "context_state_clamp": (0.02, lambda twin: max(np.abs(twin.tape[name][1:]).max() for name in ("previous", "target"))),
    "drift_state_clamp": (0.01, lambda twin: np.abs(twin.tape["drift"][1:]).max()),
    "drift_norm_clamp": (0.05, lambda twin: np.linalg.norm(twin.tape["drift"][1:], axis=-1).max()),
    "activation_clamp": (0.2, lambda twin: np.abs(twin.tape["out"]).max()),
}


@pytest.mark.parametrize("key", CLAMPS)
def test_a_clamp_holds_where_it_bites(key, plain):
    bound, largest = CLAMPS[key]
    assert largest(plain) > bound  # it would be exceeded
    clamped = forward(**{key: bound})
    assert largest(clamped) <= bound + 1e-12 and (clamped.logits != plain.logits).any()


@pytest.mark.parametrize(("key", "value"), [("rwkv_channel_mix_key_clamp", 0.3), ("rwkv_channel_mix_deepembed_clamp", 0.5)])
def test_a_channel_mix_clamp_bites_and_zero_is_off(key, value, plain):
    assert (forward(**{key: value}).logits != plain.logits).any()
    assert np.abs(forward(**{key: 0}).logits - forward(**{key: 1e6}).logits).max() < 1e-12


def test_the_halting_clamp_limits_how_sure_a_plan_can_be():
    depths = {clamp: forward(halt_logit_clamp=clamp, h_halt_thresh=0.6).tape["depth"][0] for clamp in (30.0, 1e-6)}
    assert (depths[1e-6] == 2).all()  # p is 0.5 everywhere: 0.5, then 0.75
    assert (depths[30.0] != 2).any()


def test_depth_follows_threshold_and_bounds():
    assert (forward(h_halt_thresh=0.0).tape["depth"][0] == 1).all()
    assert (forward(h_halt_thresh=0.0, min_h_steps=3).tape["depth"][0] == 3).all()
    assert (forward(h_halt_thresh=1.0).tape["depth"][0] == 4).all()


def test_refinement_ends_where_the_drift_hardly_changes():
    assert (forward(l_conv_atol=1e9).tape["worker_steps"] == 2).all()  # the converging step itself is kept
    assert (forward(l_conv_atol=1e-12).tape["worker_steps"] == 4).all()


def test_the_drift_scale_is_a_real_zero(plain):
    still = forward(drift_delta_scale=0.0)
    assert (still.tape["worker_steps"] == 2).all() and (still.logits != plain.logits).any()


def test_plans_come_every_stride():
    once = forward(h_stride=4)
    assert once.tape["depth"].any(1).tolist() == [True, False, False, False, True]
    target = once.tape["target"]
    assert [(target[t] != target[t + 1]).any() for t in range(LENGTH)] == [True, False, False, False, True]


def test_the_gate_floor_falls_to_nothing():
    cfg = resolve({**case(GOLDEN).facts["config"], "memory_gate_warmup_steps": 100, "memory_gate_warmup_floor": 0.4})
    assert [gate_floor(cfg, step) for step in (0, 50, 100, 900)] == pytest.approx([0.4, 0.2, 0.0, 0.0])
    assert gate_floor(case(GOLDEN).cfg, 0) == 0.0
    off = {"use_rosa": False, "rosa_embedding_mode": None, "memory_gate_warmup_steps": 100}  # its gate would change the token itself
    opened, closed = (forward(memory_gate_warmup_floor=floor, **off).tape["gate"] for floor in (0.4, 0.0))
    assert np.allclose(opened, 0.4 + 0.6 * closed, atol=1e-6)


def test_no_prediction_adds_exactly_nothing():
    golden = case(GOLDEN)
    rows = Rows.of(np.array([[1, 2, 3]]))  # nothing repeats
    for use in (True, False):
        cfg = resolve({**golden.facts["config"], "use_rosa": use, "rosa_embedding_mode": None})
        twin = Twin(cfg, golden.values, 1, training=False)
        logits = twin.forward(rows, 0, 3)
        if use:
            first = logits
    assert np.array_equal(first, logits)


def test_a_bounded_history_predicts_less():
    golden = case(GOLDEN)
    rows = Rows.of(np.array([[7, 8, 9, 7, 8, 9]]))
    for cap, known in ((0, 3), (3, 0), (4, 1)):
        cfg = resolve({**golden.facts["config"], "rosa_max_context": cap})
        assert front_feeds(cfg, rows, 0, 6, 0, feeds.automata(cfg, 1), 0.0)["known"].sum() == known
    unbounded = resolve({**golden.facts["config"], "rosa_max_context": 3, "enforce_rosa_max_context": False})
    assert front_feeds(unbounded, rows, 0, 6, 0, feeds.automata(unbounded, 1), 0.0)["known"].sum() == 3


def test_padding_freezes_every_part_of_a_row():
    golden = case(GOLDEN)
    rows = Rows.of(golden.tensors["input_ids"][:, :LENGTH], mask=np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]))
    twin = Twin(golden.cfg, golden.values, 2, padded=True, training=False)
    twin.forward(rows, 0, LENGTH)
    for name in twin.carried:
        assert all(np.array_equal(twin.tape[name][2][1], twin.tape[name][t][1]) for t in (3, 4, 5)), name
    assert (twin.tape["worker_steps"][2:, 1] == 0).all() and (twin.tape["commitment"][2:, 1] == 0).all()


def test_padding_changes_no_other_row():
    golden, ids = case(GOLDEN), case(GOLDEN).tensors["input_ids"][:, :LENGTH]
    alone = Twin(golden.cfg, golden.values, 1, training=False).forward(Rows.of(ids[:1]), 0, LENGTH)
    rows = Rows.of(ids, mask=np.array([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]))
    beside = Twin(golden.cfg, golden.values, 2, padded=True, training=False).forward(rows, 0, LENGTH)
    assert np.abs(alone[0] - beside[0]).max() < 1e-12


def test_wrong_masks_are_told():
    with pytest.raises(UserError, match="row 1 has a token after padding; coherent-v9 takes padding on the right only"):
        Rows.of(np.ones((2, 3), int), mask=np.array([[1, 1, 1], [0, 1, 1]]))
    with pytest.raises(UserError, match="a label stands on padding; padded positions need the label -100"):
        Rows.of(np.ones((1, 3), int), np.ones((1, 3), int), np.array([[1, 1, 0]]))


def test_columns_of_padding_are_cut_off_and_short_labels_filled():
    rows = Rows.of(np.ones((1, 6), int), mask=np.array([[1, 1, 1, 0, 0, 0]]), weights=np.ones((1, 2)))
    assert rows.length == 3 and rows.weights.shape == rows.labels.shape
    assert [vars(span)["token_ratio"] for span in plan_spans(rows, 2)] == [2 / 3, 1 / 3]


def test_masked_labels_and_weights_decide_what_is_trained():
    cfg = case(GOLDEN).cfg
    rows = Rows.of(np.array([[1, 2, 3, 4]]), np.array([[1, -100, 3, 4]]), weights=np.array([[1.0, 1.0, 0.0, 2.0]]))
    found = head_feeds(cfg, rows, 0, 4, 0)
    assert found["targets"].tolist() == [-100, -100, 4, -100] and found["weights"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert rows.mass() == 2.0
    nothing = head_feeds(cfg, Rows.of(np.array([[1, 2]]), np.array([[-100, -100]])), 0, 2, 0)
    assert not nothing["weights"].any()


def number(build, **given) -> dict[str, float]:
    """Outputs of a small graph over [1] inputs, in float64."""
    with tracing(Graph()) as graph:
        leaves = {name: F.input(name, (1,)) for name in given}
        graph.outputs |= {str(i): tensor for i, tensor in enumerate(build(**leaves))}
    return [
        float(v[0]) for v in evaluate(graph, {name: np.array([float(value)]) for name, value in given.items()}, {}, "float64")[0].values()
    ]


def objective(**changes):
    return resolve({**case(GOLDEN).facts["config"], **changes})


def test_ponder_aims_at_half_the_loss_within_the_steps():
    cfg = objective(ponder_loss_weight=1.0)  # scale 0.5, beta 0.5, steps 1 to 4
    near = number(lambda cost, loss: head.ponder_slope(cfg, cost, loss), cost=2.2, loss=4.0)
    assert near == pytest.approx([0.2**2 / (2 * 0.5), 0.2 / 0.5])
    assert number(lambda cost, loss: head.ponder_slope(cfg, cost, loss), cost=1.0, loss=6.0) == pytest.approx([2.0 - 0.25, -1.0])
    assert number(lambda cost, loss: head.ponder_slope(cfg, cost, loss), cost=4.0, loss=99.0)[0] == pytest.approx(0.0)


def test_other_ponder_objectives():
    think, plain_ = objective(ponder_loss_weight=0.5, encourage_thinking=True), objective(ponder_loss_weight=0.5, adaptive_ponder=False)
    capped = objective(ponder_loss_weight=0.5, adaptive_ponder=False, max_ponder_cost_for_backward=2.0)
    run = lambda cfg, cost: number(lambda cost, loss: head.ponder_slope(cfg, cost, loss), cost=cost, loss=1.0)  # noqa: E731
    assert run(think, 3.0) == pytest.approx([-1.5, -0.5]) and run(plain_, 3.0) == pytest.approx([1.5, 0.5])
    assert run(capped, 3.0) == pytest.approx([1.0, 0.0]) and run(capped, 1.0) == pytest.approx([0.5, 0.5])


def trained(weights=None, max_ce=0.0, **changes) -> tuple[dict, dict]:
    """(losses, gradients) of five tokens."""
    golden = case(GOLDEN)
    cfg = resolve({**golden.facts["config"], **changes})
    rows = Rows.of(golden.tensors["input_ids"][:, :LENGTH])
    twin = Twin(cfg, golden.values, 2)
    twin.forward(rows, 0, LENGTH)
    return twin.backward(rows, 0, LENGTH, max_ce=max_ce), twin.gradients


def test_weights_of_the_objective():
    losses, gradients = trained()
    parts = losses["ce"] + losses["z_loss"] + 0.5 * losses["commitment_cost"] + 0.01 * losses["alignment_cost"]
    assert losses["objective"] - parts == pytest.approx(
        number(
            lambda cost, loss: head.ponder_slope(case(GOLDEN).cfg, cost, loss),
            cost=losses["ponder_cost"],
            loss=losses["ce"] + losses["z_loss"],
        )[0]
    )
    assert gradients["gradients/val_proj.weight"].any()


def test_the_commitment_cap_limits_the_value_and_not_the_gradient():
    free, by_free = trained(max_commitment_cost_for_backward=0.0)
    capped, by_capped = trained(max_commitment_cost_for_backward=0.01)
    assert free["objective"] - capped["objective"] == pytest.approx(0.5 * (free["commitment_cost"] - 0.01))
    assert all(np.array_equal(by_free[name], by_capped[name]) for name in by_free)


def test_a_loss_above_its_limit_gives_no_gradient_of_it():
    losses, gradients = trained(max_ce=0.5, ponder_loss_weight=0.0, commitment_loss_weight=0.0, ltm_value_alignment_weight=0.0)
    assert losses["objective"] == pytest.approx(0.5) and not any(g.any() for g in gradients.values())


def test_without_alignment_the_writer_has_no_gradient():
    losses, gradients = trained(ltm_value_alignment_weight=0.0)
    assert losses["alignment_cost"] == 0.0 and not gradients["gradients/val_proj.weight"].any()


def test_the_address_gradient_scales():
    full, none = trained(ltm_score_grad_scale=1.0)[1], trained(ltm_score_grad_scale=0.0)[1]
    assert full["gradients/ltm.keys"].any() and not none["gradients/ltm.keys"].any()
    assert none["gradients/ltm.vals"].any()


def test_a_constant_depth_gives_the_halting_no_gradient():
    assert not trained(min_h_steps=4)[1]["gradients/h_halt_proj.weight"].any()
    assert trained()[1]["gradients/h_halt_proj.weight"].any()


def test_a_limit_passes_its_gradient_inside_edges_included():
    with tracing(Graph()) as graph:
        x = F.input("x", (5,))
        y = limited(x, 2.0)
        graph.outputs |= {"y": y, "d": F.gradients(y, [x])[0]}
    found = evaluate(graph, {"x": np.array([-3.0, -2.0, 0.5, 2.0, np.inf])}, {}, "float64")[0]
    assert found["y"].tolist() == [-2.0, -2.0, 0.5, 2.0, np.inf] and found["d"].tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]


def test_a_norm_limit_and_its_gradient():
    rng = np.random.default_rng(0)
    for x in (np.zeros((1, 4)), rng.normal(size=(1, 4)) * 0.01, rng.normal(size=(1, 4)) * 3):
        with tracing(Graph()) as graph:
            leaf, slope = F.input("x", (1, 4)), F.input("g", (1, 4))
            y = shortened(leaf, 0.7)
            graph.outputs |= {"y": y, "d": F.gradients([y], [leaf], [slope])[0]}
        g, n = rng.normal(size=(1, 4)), np.linalg.norm(x)
        found, s = evaluate(graph, {"x": x, "g": g}, {}, "float64")[0], min(1, 0.7 / (n + 1e-6))
        wanted = g if s == 1 else s * g - x * (x * g).sum() * 0.7 / ((n + 1e-6) ** 2 * n)
        assert np.allclose(found["y"], s * x) and np.allclose(found["d"], wanted)


def test_rows_of_the_memory_are_apart_or_shared():
    cfg = case("ltm_paths").cfg
    index, gradients = np.array([[[0, 1]], [[0, 2]]]), np.ones((2, 1, 2, cfg.ltm_val_dim), np.float32)
    apart, shared = FastMemory.empty(cfg, 2), FastMemory.empty(cfg)
    for memory in (apart, shared):
        memory.write(cfg, index, gradients, 0.1, 1, 5.0, 2)
    assert [set(np.nonzero(row.any(-1))[0]) for row in apart.values] == [{0, 1}, {0, 2}]
    assert set(np.nonzero(shared.values.any(-1))[0]) == {0, 1, 2}


def test_memory_gradients_are_clipped_then_shortened_and_must_be_finite():
    ready = prepared_gradients(np.array([3.0, -4.0, 0.1]), 1.0)
    assert np.abs(ready).max() < 1.0 and np.linalg.norm(ready) == pytest.approx(1.0, abs=1e-6)
    assert np.array_equal(prepared_gradients(np.array([0.1]), 1.0), [0.1])
    with pytest.raises(UserError, match="a gradient of the fast memory is not finite"):
        prepared_gradients(np.array([np.nan]), 1.0)
