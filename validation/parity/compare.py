"""Runs one case here and records every quantity beside what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hierarchos.models.registry import resolve
from validation.parity.cases import Case
from validation.parity.engine import without_gradient
from validation.parity.expected import Expected
from validation.parity.gates import NOISY, SETTINGS, Measure, Record, after_noise, after_steps, largest, noise
from validation.parity.generation import generated

Measures = Iterator[tuple[str, Measure]]


def compare(case: Case, engine, expected: Expected) -> list[Record]:
    """All records of a case."""
    model = resolve(expected.raw)
    engine.prepare(model, expected.values, expected.arrays)
    measures = [*forward(engine, expected), *gradients(engine, model, expected), *steps(engine, expected), *expected.packages(model),
                *generated(engine, model, expected)]
    blank = Record(case.model_type, case.name, "", 0.0, 0.0, 0.0, True, engine.device, engine.driver)
    return [replace(blank, quantity=name, error=m.error, pytorch_error=m.pytorch_error, gate=m.gate, passed=m.passed)
            for name, m in measures]


def forward(engine, expected: Expected) -> Measures:
    """Logits where there is a token."""
    real = expected.arrays["segments"] > 0
    yield "logits", largest(engine.logits()[real], expected.truth.logits[real], expected.errors.logits)


def gradients(engine, model, expected: Expected) -> Measures:
    """Loss and the gradient of each parameter; having none must agree too."""
    loss, found = engine.gradients()
    yield "loss", largest(loss, expected.truth.loss, expected.errors.loss)
    absent = without_gradient(model, *expected.arrays["ids"].shape)
    for name, truth in expected.truth.gradients.items():
        if truth is None or name in absent:
            yield f"no gradient of {name}", Measure(float((truth is None) != (name in absent)), 0.0, 0.0)
        else:
            yield f"gradient of {name}", largest(found[name], truth, expected.errors.gradients[name])


def steps(engine, expected: Expected, settings=SETTINGS) -> Measures:
    """Every parameter after each AdamW run."""
    for setting in settings:
        count, eps, decay = setting
        run, found = f"{count} steps, eps {eps:g}, decay {decay:g}", engine.train(*setting)
        for name, truth in expected.truth.after[setting].items():
            if setting == NOISY:
                ours = noise(found[name], truth, expected.truth.firm[setting][name])
                for kind, measure in after_noise(ours, expected.noise[name]):
                    yield f"{name} after {run}, {kind}", measure
            else:
                yield f"{name} after {run}, max", after_steps(setting, found[name], truth, expected.errors.after[setting][name])
