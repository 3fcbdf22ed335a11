"""Runs one case on both sides and records every quantity."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from hierarchos.models.load import load_model, save_model
from hierarchos.models.registry import resolve
from validation.parity import oracle
from validation.parity.cases import Case, batch_arrays
from validation.parity.engine import without_gradient
from validation.parity.gates import SETTINGS, Measure, Record, after_noise, after_steps, largest, noise
from validation.parity.results import NOISY, results
from validation.parity.results import orders as orders_of


def compare(case: Case, engine, orders: int = oracle.ORDERS) -> list[Record]:
    """All records of a case. orders: of float32 PyTorch, see `gates.after_noise`."""
    reference = oracle.build(case)
    raw = reference.config.to_dict()
    model, values = resolve(raw), oracle.values_of(reference)
    arrays = batch_arrays(case, raw["vocab_size"])
    truth, single = (results(case, arrays, double) for double in (True, False))
    engine.prepare(model, values, arrays)
    measures = [*logits_and_loss(engine, arrays, truth, single), *gradients(engine, model, arrays, truth, single),
                *steps(engine, case, arrays, truth, single, orders), *round_trip(reference, model, values, case, arrays)]
    blank = Record(case.model_type, case.name, "", 0.0, 0.0, 0.0, True, engine.device, engine.driver)
    return [replace(blank, quantity=name, error=m.error, pytorch_error=m.pytorch_error, gate=m.gate, passed=m.passed,
                    usual_gate=m.usual_gate) for name, m in measures]


def logits_and_loss(engine, arrays: dict, truth, single):
    """Logits where there is a token; the mean loss of a trained token."""
    real = arrays["segments"] > 0
    yield "logits", largest(engine.logits()[real], truth.logits[real], single.logits[real])


def gradients(engine, model, arrays: dict, truth, single):
    """Loss and the gradient of each parameter; having none must agree too."""
    loss, found = engine.gradients()
    yield "loss", largest(loss, truth.loss, single.loss)
    absent = without_gradient(model, *arrays["ids"].shape)
    for name, expected in truth.gradients.items():
        if expected is None or name in absent:
            yield f"no gradient of {name}", Measure(float((expected is None) != (name in absent)), 0.0, 0.0)
        else:
            yield f"gradient of {name}", largest(found[name], expected, single.gradients[name])


def steps(engine, case: Case, arrays: dict, truth, single, orders: int):
    """Every parameter after each AdamW run."""
    for setting in SETTINGS:
        count, eps, decay = setting
        run, found = f"{count} steps, eps {eps:g}, decay {decay:g}", engine.train(*setting)
        noises = list(orders_of(case, arrays, orders, lambda: truth)) if setting == NOISY else []
        for name, expected in truth.after[setting].items():
            if setting == NOISY:
                ours = noise(found[name], expected, truth.firm[setting][name])
                for kind, measure in after_noise(ours, [order[name] for order in noises]):
                    yield f"{name} after {run}, {kind}", measure
            else:
                yield f"{name} after {run}, max", after_steps(setting, found[name], expected, single.after[setting][name])


def round_trip(reference, model, values: dict, case: Case, arrays: dict):
    """Our package in Transformers gives equal logits; the package that Transformers writes gives equal values here."""
    import torch

    batch = oracle.inputs_of(case, reference, arrays)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        save_model(ours, model, values, shard_bytes=100_000)
        again = type(reference).from_pretrained(ours, attn_implementation=reference.config._attn_implementation)
        difference = (again(**batch).logits - reference(**batch).logits).abs().max()
        yield "exported package in Transformers, logits", Measure(float(difference), 0.0, 0.0)
        reference.save_pretrained(theirs)
        loaded = load_model(theirs)
        same = loaded.model.config == model.config and set(loaded.values()) == set(values)
        worst = max(float(np.abs(loaded.value(name) - values[name]).max()) for name in values) if same else float("nan")
        yield "package of Transformers here, parameters", Measure(worst, 0.0, 0.0)
