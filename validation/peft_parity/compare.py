"""Runs one adapter on both sides and records every quantity."""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from hierarchos.models.load import load_model, save_model
from hierarchos.models.registry import resolve
from hierarchos.peft.adapted import adapted
from hierarchos.peft.config import from_peft
from hierarchos.peft.files import save_adapter
from hierarchos.peft.load import hash_of, load_adapters
from hierarchos.peft.merge import merge_adapter, unmerge_adapter
from validation.parity.cases import batch_arrays
from validation.parity.gates import Measure, Record, after_noise, largest, noise
from validation.parity.oracle import build as build_base
from validation.parity.oracle import inputs_of, values_of
from validation.peft_parity import oracle
from validation.peft_parity.cases import SETTINGS, AdapterCase


def compare(case: AdapterCase, engine) -> list[Record]:
    """All records of a case."""
    base = build_base(case.case)
    raw, values = base.config.to_dict(), values_of(base)
    arrays = batch_arrays(case.case, raw["vocab_size"])
    truth, single = (oracle.run(case, arrays, double) for double in (True, False))
    reference = oracle.adapted(case, double=False)
    model = adapted(resolve(raw), from_peft(json.loads(json.dumps(reference.peft_config["default"].to_dict(), default=plain))))
    own = {name: oracle.array(p).astype(np.float32) for name, p in oracle.named(reference).items()}
    everything = values | {model.adapter.parameter(leaf): value for leaf, value in own.items()}
    measures = [*names(model, own), *computed(case, engine, model, everything, arrays, truth, single),
                *files(case, base, reference, model, everything, values, arrays)]
    blank = Record(case.case.model_type, f"{case.name}, {case.case.name}", "", 0.0, 0.0, 0.0, True, engine.device, engine.driver)
    return [replace(blank, quantity=name, error=m.error, pytorch_error=m.pytorch_error, gate=m.gate, passed=m.passed)
            for name, m in measures]


def plain(value):
    """Sets and enumerations of PEFT's configuration as JSON."""
    return sorted(value) if isinstance(value, set) else value.value


def exact(error: float) -> Measure:
    """Something that must be equal."""
    return Measure(float(error), 0.0, 0.0)


def worst(ours, truth) -> float:
    return float(np.abs(np.asarray(ours, np.float64) - truth).max())


def names(model, own: dict):
    """The trained parameters are those of PEFT, of the same shapes."""
    ours = {model.adapter.leaf(spec.name): spec.shape for spec in model.trained}
    yield "trained parameters", exact(float(ours != {name: value.shape for name, value in own.items()}))


def computed(case: AdapterCase, engine, model, values: dict, arrays: dict, truth, single):
    """Logits where there is a token, loss, gradients, and parameters after steps."""
    engine.prepare(model, values, arrays)
    seen = arrays["segments"] > 0
    yield "logits", largest(engine.logits()[seen], truth.logits[seen], worst(single.logits[seen], truth.logits[seen]))
    loss, gradients = engine.gradients()
    yield "loss", largest(loss, truth.loss, worst(single.loss, truth.loss))
    for name, expected in truth.gradients.items():
        found = gradients[model.adapter.parameter(name)]
        yield f"gradient of {name}", largest(found, expected, worst(single.gradients[name], expected))
    for setting in SETTINGS:
        after = engine.train(*setting)
        for name, expected in truth.after[setting].items():
            yield from after_steps(setting, f"{name} after", after[model.adapter.parameter(name)], single.after[setting][name], expected,
                                   truth.firm[setting][name])
    frozen = [spec.name for spec in engine.state.frozen if not np.array_equal(engine.state.store.read(spec.name), values[spec.name])]
    yield "frozen base after all steps", exact(len(frozen))
    engine.prepare(model.use(None), values, arrays)
    yield "logits, disabled", largest(engine.logits()[seen], truth.disabled[seen], worst(single.disabled[seen], truth.disabled[seen]))


def after_steps(setting: tuple, name: str, ours, theirs, truth, firm):
    """With eps 1e-3 every element; with 1e-8 the root mean square, and the largest where the gradient stayed firm."""
    steps, eps, decay = setting
    run = f"{name} {steps} steps, eps {eps:g}, decay {decay:g}"
    if eps > 1e-6:
        yield f"{run}, max", largest(ours, truth, 0.0)
        return
    for kind, measure in after_noise(noise(ours, truth, firm), noise(theirs, truth, firm)):
        yield f"{run}, {kind}", measure


def files(case: AdapterCase, base, reference, model, everything: dict, values: dict, arrays: dict):
    """Adapters of both sides on the other, merge and unmerge."""
    import torch
    from peft import PeftModel

    batch = inputs_of(case.case, base, arrays)
    with tempfile.TemporaryDirectory() as name, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        save_model(folder / "base", resolve(base.config.to_dict()), values, shard_bytes=40_000)
        loaded = load_model(folder / "base")
        save_adapter(folder / "ours", model, everything, base_name=str(folder / "base"), base_hash=hash_of(loaded))
        again = PeftModel.from_pretrained(build_base(case.case), folder / "ours").eval()
        expected = reference(**batch).logits
        yield "our adapter in PEFT, logits", exact((again(**batch).logits - expected).abs().max())
        reference.save_pretrained(folder / "theirs")
        for side in ("ours", "theirs"):
            opened = load_adapters(loaded, {"default": folder / side})
            same = {spec.name for spec in opened.model.parameters} == {spec.name for spec in model.parameters}
            difference = max(worst(opened.value(spec.name), everything[spec.name]) for spec in model.trained) if same else float("nan")
            yield f"{'our' if side == 'ours' else 'PEFT'} adapter here, parameters", exact(difference)
        yield from merged(folder, case, reference, expected, batch, values)


def merged(folder: Path, case: AdapterCase, reference, expected, batch: dict, values: dict):
    """Our merged package in Transformers computes what the adapter did; taking the adapter out again gives the base."""
    from transformers import AutoModelForCausalLM

    merge_adapter(folder / "base", folder / "ours", folder / "merged", shard_bytes=40_000)
    whole = AutoModelForCausalLM.from_pretrained(folder / "merged", attn_implementation="eager").eval()
    theirs = reference.merge_and_unload()(**batch).logits
    seen = batch["input_ids"] != 0
    error, usual = ((logits - expected)[seen].abs().max() for logits in (whole(**batch).logits, theirs))
    yield "merged package in Transformers, logits", Measure(float(error), float(usual), max(2e-6, 3 * float(usual)))
    if not reference_replaces(case):
        unmerge_adapter(folder / "merged", folder / "ours", folder / "unmerged")
        back = load_model(folder / "unmerged")
        yield "unmerged package, parameters", Measure(max(worst(back.value(n), v) for n, v in values.items()), 0.0, 3e-7 * scale(values))


def reference_replaces(case: AdapterCase) -> bool:
    """Whether the adapter replaces or turns weights, which nothing can take out again."""
    kinds = ("use_dora", "modules_to_save", "trainable_token_indices")
    return any(case.settings.get(kind) for kind in kinds) or case.settings.get("bias", "none") != "none"


def scale(values: dict) -> float:
    return max(1.0, max(float(np.abs(value).max()) for value in values.values()))
