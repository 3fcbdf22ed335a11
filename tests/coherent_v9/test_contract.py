"""Configuration: every resolved contract has the digest that others computed; wrong input is told exactly."""

from __future__ import annotations

import json

import pytest

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.contract import check_contract, contract_of, digest_of
from hierarchos.models.coherent_v9.head_size import automatic_head_size, decay_rank, gate_rank
from hierarchos.models.coherent_v9.parameters import initial_values, parameters
from tests.coherent_v9.cases import CHUNKED, STEPS, case, own_name, vectors

SMALL = {"architecture_revision": "coherent-v9", "vocab_size": 40, "context_dim": 16}


@pytest.mark.parametrize("name", [*STEPS, *CHUNKED, "chat_two_turns", "ltm_paths"])
def test_the_digest_is_that_of_the_reference(name):
    wanted = case(name).facts.get("contract_sha256")
    assert wanted is None or digest_of(contract_of(case(name).cfg)) == wanted


def test_defaults_give_the_reference_contract():
    contract = contract_of(resolve({"architecture_revision": " V9 ", "vocab_size": 50257}))
    assert contract == vectors()["resolved_default_contract"]
    assert digest_of(contract) == vectors()["resolved_default_contract_sha256"]


@pytest.mark.parametrize("name", [*STEPS, *CHUNKED])
def test_parameters_are_those_of_the_reference(name):
    ours, facts = parameters(case(name).cfg), case(name).facts
    assert {spec.name: spec.shape for spec in ours} == {name: value.shape for name, value in case(name).values.items()}
    assert {spec.name for spec in ours if spec.decay} == set(map(own_name, facts["decay_params"]))
    assert [spec.name for spec in ours if spec.name in ("val_proj.weight",) and spec.decay] == []


def test_head_sizes_and_ranks_by_width():
    for width, size in vectors()["default_head_size_by_width"].items():
        assert automatic_head_size(int(width)) == size
    for width, rank in vectors()["low_rank_by_width"].items():
        assert (decay_rank(int(width)), gate_rank(int(width))) == (rank["decay_and_a"], rank["gate"])


def test_null_text_and_auto_take_the_default():
    assert contract_of(resolve({**SMALL, "h_stride": None, "ltm_topk": "", "l_hidden": "auto"})) == contract_of(resolve(SMALL))


def test_detach_zero_and_null_mean_never():
    assert [resolve({**SMALL, "detach_every_n_steps": n}).detach_every_n_steps for n in (0, -1, None, 4)] == [None, None, None, 4]
    assert resolve(SMALL).detach_every_n_steps == 32


def test_a_feature_that_is_off_has_its_mode_off():
    cfg = resolve({**SMALL, "use_rosa": False, "use_deepembed": False, "deepembed_mode": "shared-factorized"})
    assert (cfg.rosa_embedding_mode, cfg.deepembed_mode) == ("off", "off")


def test_an_own_head_size_even_null_goes_before_the_shared_one():
    cfg = resolve({**SMALL, "rwkv_head_size": 4, "l_rwkv_head_size": None})
    assert (cfg.h_head, cfg.l_head, cfg.rwkv_head_size) == (4, 16, None)


def test_fresh_values_follow_the_table_and_the_seed():
    cfg = resolve({**SMALL, "context_dim": 32})
    first, again, other = (initial_values(cfg, seed) for seed in (1, 1, 2))
    assert all((first[name] == again[name]).all() for name in first)
    assert (first["lm_head.weight"] != other["lm_head.weight"]).any()
    golden = case("base_default_init").values
    ours = initial_values(case("base_default_init").cfg, 0)
    for name, value in golden.items():  # what is not random is the same, what is has the same size
        if name.rpartition(".")[2][:2] in ("x_", "w0", "a0", "k_") or "ln" in name or name.endswith("r_k"):
            assert abs(value - ours[name]).max() < 1e-6, name
        elif value.size > 200:
            assert abs(value.std() - ours[name].std()) < 0.15 * value.std() + 1e-9, name


MISTAKES = {
    "top-k above the slots": ({"ltm_topk": 9, "ltm_slots": 8}, "ltm_topk is 9, but there are only 8 slots"),
    "a head size that does not divide": ({"rwkv_head_size": 5}, "rwkv_head_size is 5, which does not divide the width 16"),
    "an own head size that does not divide": (
        {"l_hidden": 24, "l_rwkv_head_size": 7},
        "l_rwkv_head_size is 7, which does not divide the width 24",
    ),
    "more minimal than maximal steps": ({"min_h_steps": 6}, "min_h_steps is 6, more than max_h_steps = 5"),
    "another manager width": ({"h_hidden": 8}, "h_hidden is 8; it must be context_dim = 16"),
    "a key that does not exist": ({"ltm_slotz": 8}, "ltm_slotz is not a key of coherent-v9"),
    "a mode that does not exist": ({"ltm_training_mode": "write"}, "ltm_training_mode is 'write', not one of read-only, inner-update"),
    "a mode of v8": (
        {"rwkv_state_readout_mode": "input-cache"},
        "rwkv_state_readout_mode is 'input-cache'; coherent-v9 has only 'explicit-output'",
    ),
    "a clamp of zero": ({"activation_clamp": 0}, "activation_clamp is 0.0; it must be above 0"),
    "a threshold above one": ({"h_halt_thresh": 1.5}, "h_halt_thresh is 1.5; it must be at least 0 and at most 1"),
    "text for a number": ({"h_stride": "four"}, "h_stride is 'four', which is not a whole number"),
    "a setting of the run": ({"warmup_steps": 5}, "warmup_steps is not a key of the model but a setting of the run"),
    "segments of a graph": ({"gradient_checkpointing": True}, "gradient_checkpointing is not a key of the model but a setting of the run"),
    "compiled steps": ({"compile_mode": "max"}, "compile_mode is not there"),
    "a clamp without end": ({"drift_state_clamp": float("inf")}, "drift_state_clamp is inf; it must be above 0"),
    "a weight that is no number": ({"ponder_loss_weight": float("nan")}, "ponder_loss_weight is nan; it must be a finite number"),
    "a mode against its switch": ({"deepembed_mode": "off"}, "deepembed_mode is 'off', but use_deepembed is true"),
    "a mode of ROSA against its switch": ({"rosa_embedding_mode": "off"}, "rosa_embedding_mode is 'off', but use_rosa is true"),
    "writes while a whole sample is one graph": (
        {"full_sample_bptt": True, "ltm_training_mode": "inner-update"},
        "full_sample_bptt needs ltm_training_mode: read-only",
    ),
    "a null that is no default": ({"vocab_size": None}, "vocab_size is missing"),
    "logits clamped": ({"inference_logit_clamp": 30}, "inference_logit_clamp is 30.0; coherent-v9 has only 0.0"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_wrong_configuration_is_told(what):
    change, message = MISTAKES[what]
    with pytest.raises(UserError) as told:
        resolve({**SMALL, **change})
    assert told.value.what == message


@pytest.mark.parametrize("revision", [None, "legacy", "V8", "legacy_v1"])
def test_a_legacy_model_is_refused_with_the_reason(revision):
    with pytest.raises(UserError) as told:
        resolve({"vocab_size": 40, "architecture_revision": revision})
    assert str(told.value).startswith(
        "this is a legacy-v8 model: its learned function differs from coherent-v9 in state, memory and halting"
    )


def test_an_unknown_revision_names_the_nearest():
    with pytest.raises(UserError) as told:
        resolve({**SMALL, "architecture_revision": "coherant-v9"})
    assert told.value.what == "architecture_revision 'coherant-v9' does not exist" and told.value.nearest == "coherent-v9"


def test_another_contract_names_the_key():
    here, there = contract_of(resolve(SMALL)), contract_of(resolve({**SMALL, "h_stride": 8}))
    with pytest.raises(UserError) as told:
        check_contract(here, there, digest_of(there), "state.json")
    assert told.value.what == "another model: h_stride is 8 there and 4 here"


def test_a_digest_alone_is_compared():
    here, other = contract_of(resolve(SMALL)), "0" * 64
    with pytest.raises(UserError) as told:
        check_contract(here, None, other, "model.safetensors")
    assert told.value.what == f"another model: its contract digest is 000000000000..., here it is {digest_of(here)[:12]}..."


def test_a_contract_changed_by_hand_is_refused():
    contract = contract_of(resolve(SMALL))
    digest = digest_of(contract)
    with pytest.raises(UserError, match="architecture_contract_sha256 is"):
        check_contract(contract, json.loads(json.dumps(contract)) | {"h_stride": 8}, digest, "config")


def test_a_package_may_say_how_it_was_trained():
    told = {"warmup_steps": 5, "compile_mode": "max", "max_length": 9}
    assert resolve({**SMALL, **told}, "hierarchos_config.json").values == resolve(SMALL).values
