"""The decode programs on the default device agree with the NumPy twins."""

import numpy as np
import pytest

from hierarchos.generation.generator import Generator
from hierarchos.generation.policy import Policy
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Spec
from tests.generation.twins import Letters, greedy
from tests.models.twin import CONFIGS, model_and_values, run_logits

TOLERANCE = 2e-6  # of max(1, largest |logit|): float32 rounding, here and in the twin


@pytest.mark.parametrize("name", CONFIGS)
def test_cached_logits_on_the_device(device, name):
    model, values = model_and_values(name)
    values = {key: value.astype(np.float32) for key, value in values.items()}
    store = StateStore(device)
    store.allocate("parameters", {spec.name: Spec(spec.shape) for spec in model.parameters})
    for key, value in values.items():
        store.write(key, value)
    maker = Generator(model, Letters(), store)
    prompts = ["prompts", "abc"]
    results = maker.generate(prompts, Policy(max_new_tokens=5))
    for result in results:
        assert list(result.ids) == greedy(model, values, Letters().encode(result.prompt), 5)
    ids = Letters().encode("onerowofletters")
    maker.session.reset()
    found = [maker.session.extend([ids[:9], ids[:4]]), maker.session.extend([ids[9:10], ids[4:5]])]
    for row, stops in enumerate([(9, 10), (4, 5)]):
        for logits, stop in zip(found, stops, strict=True):
            whole = run_logits(model, values, [ids[:stop]])[0, -1]
            assert np.abs(logits[row] - whole).max() < TOLERANCE * max(1.0, np.abs(whole).max())
    maker.close()
    store.free("parameters")
