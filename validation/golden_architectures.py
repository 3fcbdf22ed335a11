"""Writes tests/models/golden_architectures.npz: every architecture as Transformers has it, so that the ordinary tests need no torch.

    python -m validation.golden_architectures
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import torch

from hierarchos.models.registry import resolve
from tests.models.golden_cases import ELEMENTS, FILE, LOGITS, Golden, golden_cases, golden_values, key, sample
from validation import reference
from validation.command import exit_with
from validation.names import named_parameters
from validation.parity import oracle
from validation.parity.cases import CANDIDATES, Case, batch_arrays
from validation.parity.gates import SETTINGS, largest

SHORT = SETTINGS[0]
SHORT_ERROR = 1.2e-7      # of PyTorch after 2 steps; the gate of 2e-7 rests on it


def run(case: Case, values: dict, arrays: dict, double: bool) -> oracle.Results:
    """Logits, loss, gradients and two steps of Transformers with our values."""
    found = None
    for settings in ((), (SHORT,)):
        model = reference.build(case.tiny, double=False)
        fill(model, values)
        model = oracle.precise(model) if double else model
        batch = reference.inputs(model, arrays)
        with oracle.StayDouble() if double else nullcontext():
            if not settings:
                output = model(**batch)
                output.loss.backward()
                found = oracle.Results(array(output.logits), array(output.loss), reference.gradients(model))
            else:
                oracle.train(model, batch, *SHORT, mode=nullcontext(), watch=False)
                found.after[SHORT] = {name: array(parameter) for name, parameter in named_parameters(model)}
    return found


def fill(model, values: dict) -> None:
    """Our values into a model of Transformers; both must have the same parameters."""
    named = dict(named_parameters(model))
    assert named.keys() == values.keys(), named.keys() ^ values.keys()
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(torch.from_numpy(values[name]))


def golden(case: Case) -> Golden:
    """The numbers of a variant, with the first token ids where PyTorch's two steps are accurate."""
    values = golden_values(resolve(case.tiny.raw))
    for seed in CANDIDATES:
        arrays = batch_arrays(replace(case, seed=seed), case.config["vocab_size"])
        truth, single = (run(case, values, arrays, double) for double in (True, False))
        if max(np.abs(single.after[SHORT][name] - expected).max() for name, expected in truth.after[SHORT].items()) <= SHORT_ERROR:
            break
    real = arrays["segments"] > 0
    gate = {name: 0.0 if expected is None else largest(single.gradients[name], expected, distance(single.gradients[name], expected)).gate
            for name, expected in truth.gradients.items()}
    ours = truth.gradients.keys() & values.keys()
    return Golden(
        seed, sample(truth.logits[real], LOGITS), float(truth.loss),
        largest(single.logits[real], truth.logits[real], distance(single.logits[real], truth.logits[real])).gate,
        largest(single.loss, truth.loss, distance(single.loss, truth.loss)).gate,
        {name: None if truth.gradients[name] is None else sample(truth.gradients[name], ELEMENTS) for name in values if name in ours},
        {name: sample(truth.after[SHORT][name] - values[name], ELEMENTS) for name in values}, {name: gate[name] for name in values})


def array(tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)


def distance(found, expected) -> float:
    return float(np.abs(found - expected).max(initial=0.0))


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    arrays = {}
    for case in golden_cases():
        found = golden(case)
        arrays |= found.packed(key(case))
        print(f"{key(case)}: token ids {found.seed}", flush=True)
    np.savez_compressed(FILE, **arrays)
    print(f"{FILE.name}: {len(arrays)} arrays, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    exit_with(main)
