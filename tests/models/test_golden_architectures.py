"""Every small variant of every architecture on a device against Transformers in float64, from golden_architectures.npz.

`python -m validation.golden_architectures` writes the file; the gates are those of docs/parity.md, the elements a sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.models.registry import FAMILIES, resolve
from tests.models.golden_cases import ELEMENTS, FILE, LOGITS, Golden, golden_cases, golden_values, key, sample
from validation.parity.cases import batch_arrays
from validation.parity.engine import VulkanEngine, without_gradient
from validation.parity.gates import FLOOR, SETTINGS

ARRAYS = np.load(FILE)
CASES = golden_cases()


@pytest.mark.parametrize("case", CASES, ids=key)
def test_architecture_computes_and_trains_as_transformers_does(case, device):
    model, engine = resolve(case.tiny.raw), VulkanEngine(device)
    golden, values = Golden.unpacked(ARRAYS, key(case), model), golden_values(model)
    arrays = batch_arrays(replace(case, seed=golden.seed), case.config["vocab_size"])
    engine.prepare(model, values, arrays)

    logits = engine.logits()[arrays["segments"] > 0]
    assert distance(sample(logits, LOGITS), golden.logits) <= golden.logits_gate

    loss, gradients = engine.gradients()
    assert abs(loss - golden.loss) <= golden.loss_gate
    assert without_gradient(model, *arrays["ids"].shape) == {name for name, found in golden.gradients.items() if found is None}
    for name, expected in golden.gradients.items():
        if expected is not None:
            assert distance(sample(gradients[name], ELEMENTS), expected) <= golden.gates[name], f"gradient of {name}"

    after = engine.train(*SETTINGS[0])
    engine.close()
    for name, change in golden.changes.items():
        expected = sample(values[name], ELEMENTS).astype(np.float64) + change
        assert distance(sample(after[name], ELEMENTS), expected) <= FLOOR * max(1.0, np.abs(values[name]).max()), f"{name} after 2 steps"


def distance(found, expected) -> float:
    return float(np.abs(np.asarray(found, np.float64) - expected).max(initial=0.0))


def test_every_architecture_is_there():
    assert {case.model_type for case in CASES} == set(FAMILIES)
    assert {name.rpartition("/")[0] for name in ARRAYS.files} == {key(case) for case in CASES}
