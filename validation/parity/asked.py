"""What Transformers says of a case, in both precisions, and its packages."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from hierarchos.errors import UserError
from hierarchos.models.family import Model
from hierarchos.models.load import load_model, save_model
from validation.parity import oracle
from validation.parity.cases import Case, batch_arrays
from validation.parity.expected import Errors, Expected
from validation.parity.gates import NOISY, SETTINGS, Measure, noise
from validation.parity.results import results
from validation.tiny import UNLOADABLE


def ask(case: Case, reference=None, results=results) -> Expected:
    """Everything that a case is compared with. reference: the model, where it is built already. results: as `results.results`."""
    reference = reference or oracle.build(case)
    values = oracle.values_of(reference)
    raw = reference.config.to_dict()
    arrays = batch_arrays(case, raw["vocab_size"])
    truth, single = (results(case, arrays, double) for double in (True, False))
    noises = {name: noise(single.after[NOISY][name], value, truth.firm[NOISY][name]) for name, value in truth.after[NOISY].items()}
    return Expected(raw, values, arrays, truth, errors_of(arrays, truth, single), noises,
                    partial(packages, reference, values, case, arrays))


def errors_of(arrays: dict, truth: oracle.Results, single: oracle.Results) -> Errors:
    """PyTorch's largest errors; of logits where there is a token, of parameters in the settings whose gate asks for them."""
    real = arrays["segments"] > 0
    gradients = {name: distance(single.gradients[name], expected) for name, expected in truth.gradients.items() if expected is not None}
    after = {setting: {name: distance(single.after[setting][name], expected) for name, expected in truth.after[setting].items()}
             for setting in SETTINGS[:2]}
    return Errors(distance(single.logits[real], truth.logits[real]), distance(single.loss, truth.loss), gradients, after)


def distance(found, expected) -> float:
    """Largest difference of two arrays; 0 where they have no elements."""
    return float(np.abs(np.asarray(found, np.float64) - expected).max(initial=0.0))


def packages(reference, values: dict, case: Case, arrays: dict, model: Model) -> Iterator[tuple[str, Measure]]:
    """Our package in Transformers gives equal logits; the package that Transformers writes gives equal values here."""
    batch = oracle.inputs_of(case, reference, arrays)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        save_model(ours, model, values, shard_bytes=100_000)
        again = read_there(ours, reference, case)
        difference = (again(**batch).logits - reference(**batch).logits).abs().max()
        yield "exported package in Transformers, logits", Measure(float(difference), 0.0, 0.0)
        reference.save_pretrained(theirs)
        yield "package of Transformers here, parameters", Measure(read_here(theirs, model, values), 0.0, 0.0)


def read_there(folder: Path, reference, case: Case):
    """Transformers' model of a package."""
    if case.tiny and (case.model_type, case.tiny.name) in UNLOADABLE:
        again = oracle.build(case)
        stored = {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}
        missing, unexpected = again.load_state_dict(stored, strict=False)
        assert not unexpected and set(missing) <= set(again.all_tied_weights_keys), (missing, unexpected)
        return again
    with tables(case):
        return type(reference).from_pretrained(folder, attn_implementation=reference.config._attn_implementation)


def read_here(folder: Path, model: Model, values: dict) -> float:
    """Largest difference of a package's values; NaN where it does not load, or as another model."""
    try:
        loaded = load_model(folder)
    except UserError as error:
        print(error, file=sys.stderr)
        return float("nan")
    if loaded.model.config != model.config or set(loaded.values()) != set(values):
        return float("nan")
    return max(float(np.abs(loaded.value(name) - values[name]).max()) for name in values)


def tables(case: Case):
    """Sinusoidal tables are made when a model is, and have to be those of `oracle.build`."""
    if not case.tiny:
        return nullcontext()
    from validation.reference import ExactTables

    return ExactTables()
