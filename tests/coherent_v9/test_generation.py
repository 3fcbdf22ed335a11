"""Inference on the device: prefill, greedy text, chat with carried state, every path of the fast memory; sampling and its stops."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.generation.coherent.sampling import GREEDY, Sampling, choose, distribution, undecided
from hierarchos.generation.coherent.session import CoherentSession
from hierarchos.models.coherent_v9 import state as states
from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.memory import FastMemory, writer_values
from tests.coherent_v9.cases import STEPS, case, vectors


def session(golden, device, **how) -> CoherentSession:
    return CoherentSession(golden.cfg, golden.values, device, longest=16, warmup_step=golden.warmup_step, **how)


def same_state(found: CoherentSession, wanted: dict, tolerance=1e-5) -> bool:
    packed = states.pack(found.state())
    return max(np.abs(packed[name] - wanted[name]).max() for name in packed) < tolerance


def greedy(chat: CoherentSession, logits, count: int):
    """(tokens, logits after each) of the likeliest continuation."""
    tokens, seen = [], []
    for _ in range(count):
        tokens.append(int(logits.argmax()))
        logits = chat.feed([tokens[-1]])[0, -1]
        seen.append(logits)
    return tokens, np.array(seen)


@pytest.mark.parametrize("name", [name for name in STEPS if "gen.tokens" in case(name).tensors])
def test_prefill_and_greedy_text(name, device):
    golden, t = case(name), case(name).tensors
    chat = session(golden, device)
    prompt = t["gen.prompt_ids"][0]
    logits = np.concatenate([chat.feed(prompt[:5]), chat.feed(prompt[5:])], 1)[0]
    assert np.abs(logits - t["gen.prefill_logits"]).max() < 1e-5
    assert same_state(chat, golden.group("gen.prefill_state."))
    tokens, seen = greedy(chat, logits[-1], 16)
    assert tokens == t["gen.tokens"].tolist() and np.abs(seen - t["gen.step_logits"]).max() < 1e-5
    assert same_state(chat, golden.group("gen.final_state."))
    told = chat.telemetry[len(prompt) :]
    assert [float(step["depth"][0]) for step in told] == t["gen.h_steps"].tolist()
    assert [float(step["worker_steps"][0]) for step in told] == t["gen.l_steps"].tolist()
    chat.close()


def test_two_turns_with_carried_state(device):
    golden = case("chat_two_turns")
    chat = session(golden, device)
    for number, facts in enumerate(golden.facts["turns"]):
        turn = golden.group(f"turn{number}.")
        logits = chat.feed(turn["prompt_ids"].reshape(-1))[0]
        assert np.abs(logits - turn["prefill_logits"]).max() < 1e-5
        tokens, seen = greedy(chat, logits[-1], 6)
        assert tokens == turn["tokens"].reshape(-1).tolist() and np.abs(seen - turn["step_logits"]).max() < 1e-5
        assert chat.position == facts["position_after"]
        assert chat.rosa[0].tokens == facts["rosa_tokens"] and len(chat.rosa[0].link) == facts["rosa_num_states"]
        assert same_state(chat, golden.group(f"turn{number}.state."))
    chat.close()


def initial_memory(golden) -> FastMemory:
    t = golden.tensors
    return FastMemory(
        t["ltm_init.fast_vals"].copy(), t["ltm_init._mom_vals"].copy(), t["ltm_init.timestamps"].copy(), t["ltm_init.sources"].copy()
    )


def test_overlay_and_filters_of_the_fast_memory(device):
    golden = case("ltm_paths")
    chat = session(golden, device, rows=2, filtered=True)
    for name, how in (("overlay", {}), ("source3", {"source": 3}), ("mints19", {"earliest": 19.0})):
        chat.reset()
        chat.set_memory(initial_memory(golden))
        chat.filter(**how)
        wanted = golden.group(f"{name}.")
        logits = chat.feed(golden.tensors["input_ids"])
        assert np.abs(logits - wanted["logits"]).max() < 2e-5, name
        last = golden.tensors["input_ids"].shape[1] % 16
        assert np.array_equal(chat.machine.read("index", 1)[0], wanted["topk_idx"][:, last - 1])
        if "topk_vals" in wanted:
            assert np.abs(chat.machine.read("value", 1)[0] - wanted["topk_vals"][:, last - 1]).max() < 1e-5
    chat.close()


@pytest.mark.parametrize(("name", "rows"), [("hebbian_b2", 2), ("hebbian_b1", 1)])
def test_values_written_after_each_token(name, rows, device):
    golden = case("ltm_paths")
    cfg = resolve({**golden.facts["config"], "allow_untrained_hebbian_writer": True})
    chat = CoherentSession(cfg, golden.values, device, rows=rows, writes=True, own_memory=rows > 1, longest=16)
    memory = initial_memory(golden)
    if rows > 1:
        memory = FastMemory(
            *(np.repeat(array[None], rows, 0) for array in (memory.values, memory.momentum, memory.timestamps, memory.sources))
        )
    chat.set_memory(memory)
    logits, wanted = chat.feed(golden.tensors["input_ids"][:rows]), golden.group(f"{name}.")
    assert np.abs(logits - wanted["logits"]).max() < 2e-5
    assert np.abs(chat.fast.values - wanted["state.ltm.fast_vals"]).max() < 2e-6
    assert np.abs(chat.fast.momentum - wanted["state.ltm.mom_vals"]).max() < 2e-5
    assert np.array_equal(chat.fast.sources, wanted["state.ltm.sources"]) and np.array_equal(
        chat.fast.timestamps, wanted["state.ltm.timestamps"]
    )
    chat.close()


@pytest.mark.parametrize(("name", "shared"), [("update", False), ("update_shared", True)])
def test_one_update_of_the_fast_memory(name, shared):
    golden, t = case("ltm_paths"), case("ltm_paths").tensors
    before, momentum = t["update.fast_before"].copy(), t["update.mom_before"].copy()
    lead = before.shape[:2]
    memory = FastMemory(before, momentum, np.zeros(lead, np.float32), np.zeros(lead, np.int64))
    if shared:
        memory = FastMemory(before[0], momentum[0], np.zeros(lead[1:], np.float32), np.zeros(lead[1:], np.int64))
    memory.write(golden.cfg, t["update.idx"], t["update.grads"], 0.05, 4, 17.0, 3)
    for ours, leaf in ((memory.values, "fast"), (memory.momentum, "mom")):
        assert np.abs(ours - t[f"{name}.{leaf}_after"]).max() < 3e-6
    assert np.array_equal(memory.sources, t[f"{name}.sources_after"]) and np.array_equal(memory.timestamps, t[f"{name}.timestamps_after"])


def test_nothing_is_written_where_nothing_was_found():
    cfg = case("ltm_paths").cfg
    memory = FastMemory.empty(cfg)
    memory.values[...], memory.momentum[...] = 1.0, 2.0
    memory.write(cfg, np.full((1, 3), -1), np.ones((1, 3, cfg.ltm_val_dim), np.float32), 0.1, 1, 1.0, 1)
    assert (memory.values == 1.0).all() and (memory.momentum == 2.0).all()


def test_written_values_are_limited():
    assert writer_values(np.full((2, 3), 100.0), np.ones((1, 3))).tolist() == [[20.0, 20.0]]


def test_an_untrained_writer_writes_nothing(device):
    golden = case("ltm_paths")
    with pytest.raises(UserError) as told:
        session(golden, device, writes=True)
    assert told.value.what == "the memory's value writer is not trained, so nothing is written at inference"


def test_a_logit_that_is_not_finite_is_an_error(device):
    golden = case("full_random")
    chat = CoherentSession(golden.cfg, golden.values | {"out_norm.bias": np.full(16, np.nan, np.float32)}, device, longest=1)
    with pytest.raises(UserError, match="a logit at position 0 is not finite: the state or the weights are broken"):
        chat.feed([1])
    with pytest.raises(UserError, match="token 64 is outside the vocabulary of 64"):
        chat.feed([64])
    chat.close()


def test_distributions_are_those_of_the_reference():
    facts = vectors()["sampling"]
    for entry in facts["cases"]:
        how = Sampling(entry["temperature"], entry["top_k"], entry["top_p"], entry["repetition_penalty"])
        p = distribution(np.array(facts["logits"]), facts["previous_tokens"], how)
        if "argmax" in entry:
            assert p.argmax() == entry["argmax"] and p.max() == 1.0
        else:
            assert np.abs(p - entry["probs"]).max() < 1e-7


def test_draws_follow_the_distribution_and_the_seed():
    logits, how = np.log(np.array([0.5, 0.3, 0.2])), Sampling(1.0, 0, 1.0, 1.0)
    draws = [choose(logits, (), how, np.random.default_rng(seed)) for seed in range(3000)]
    assert np.abs(np.bincount(draws) / 3000 - [0.5, 0.3, 0.2]).max() < 0.03
    assert choose(logits, (), GREEDY, np.random.default_rng(0)) == 0


def test_doubt_ends_a_text():
    flat, sharp = np.zeros(100), np.eye(100)[3] * 20
    assert undecided(flat, 3, Sampling(entropy_stop=4.0), None) == "entropy"
    assert undecided(flat, 2, Sampling(entropy_stop=4.0), None) is None  # too early
    assert undecided(flat, 3, Sampling(entropy_stop=5.0), None) is None  # ln 100 is 4.6
    assert undecided(sharp, 9, Sampling(entropy_stop=0.1), None) is None  # one token is likely
    assert undecided(sharp, 0, Sampling(eos_stop=0.9), 3) == "end token"
    assert undecided(flat, 0, Sampling(eos_stop=0.9), 3) is None
