"""On CPU drivers, tokens that come one at a time have the bits of the same tokens in pieces of eight: every decoder family.

All variants: `python -m validation.cached_logits`. Whether the numbers are right is tested elsewhere (test_on_device, parity)."""

import numpy as np
import pytest

from hierarchos.generation import session as session_module
from hierarchos.generation.session import Session
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.kernels.gemv import MOST_ROWS
from hierarchos.models.registry import resolve
from hierarchos.nn.stored import place_of
from tests.models.golden_cases import golden_cases, golden_values

PROMPT, STEPS = 11, 3


def decoders():
    """The first variant of each family that generates."""
    first = {case.model_type: case for case in reversed(golden_cases())}
    models = {name: resolve(case.tiny.raw) for name, case in sorted(first.items())}
    return {name: model for name, model in models.items() if model.task == "causal"}


DECODERS = decoders()


@pytest.mark.parametrize("name", DECODERS)
def test_single_tokens_have_the_bits_of_pieces(device, name, monkeypatch):
    if not device.info.software:
        pytest.skip("GPUs sum norms and products of several rows in other orders")
    monkeypatch.setattr(session_module, "CHUNKS", (1, MOST_ROWS))
    model, store = DECODERS[name], StateStore(device)
    store.allocate("parameters", {spec.name: place_of(spec) for spec in model.parameters})
    for key, value in golden_values(model).items():
        store.write(key, value)
    session = Session(model, store, 1, PROMPT + STEPS, lambda graph, store: compile_program(graph, device, store))
    ids = np.random.default_rng(2).integers(6, model.config.vocab_size - 8, PROMPT + STEPS).tolist()
    session.extend([ids[:PROMPT]])
    single = [session.extend([[token]]) for token in ids[PROMPT:]]
    for number, logits in enumerate(single):
        session.reset()
        whole = session.extend([ids[: PROMPT + number + 1]])
        assert np.isfinite(whole).all() and np.array_equal(logits, whole)
    session.close()
    store.free("parameters")
