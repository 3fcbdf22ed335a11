"""A base in a narrow format: less memory, the same mathematics on the rounded weights."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.kernels.packed import FORMATS, pack, unpacked
from hierarchos.peft.adapted import adapted, kept_in
from hierarchos.peft.compute import logits_of_package
from hierarchos.peft.config import LoraConfig
from hierarchos.peft.start import Start
from hierarchos.training.graphs import FROZEN
from hierarchos.training.need import NAMES, Planner

IDS = np.random.default_rng(2).integers(0, 61, (2, 9)).astype(np.int32)
KINDS = {"lora": {}, "dora": {"use_dora": True}, "saved": {"modules_to_save": ("q_proj",), "target_modules": ("v_proj",)}}


def rounded(base, form: str) -> dict:
    """The base's values as they are after packing."""
    return {name: unpacked(pack(value, form), form, value.size).reshape(value.shape) if "_proj" in name else value
            for name, value in base.values().items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS)
def test_training_over_packed_weights_equals_training_over_their_floats(tiny_trainer, base, form, kind):
    model = adapted(base.model, LoraConfig(r=3, lora_alpha=6, **KINDS[kind]))
    start = dict(Start(model, dict(base.values()), 5))
    saved = {name: value for name, value in start.items() if ":" in name}
    states = []
    for name, made, values in (("packed", kept_in(model, form), start), ("floats", model, {**rounded(base, form), **saved})):
        trainer = tiny_trainer(name, model=made, steps=4, recompute=name == "packed" and form == "int8")
        trainer.start(values)
        trainer.run()
        states.append({spec.name: trainer.state.store.read(spec.name) for spec in trainer.state.specs})
    assert max(np.abs(states[0][name] - states[1][name]).max() for name in states[0]) < 2e-6


def test_logits_over_packed_weights_are_those_of_their_floats(base, device):
    for form in FORMATS:
        packed = replace(base, model=kept_in(base.model, form))
        floats = Values(base, rounded(base, form))
        assert np.abs(logits_of_package(packed, IDS, device) - logits_of_package(floats, IDS, device)).max() < 1e-6


class Values:
    """A package whose values are given."""

    def __init__(self, base, values):
        self.model, self.values = base.model, values

    def value(self, name):
        return self.values[name]


def test_the_plan_knows_what_is_saved(tiny_trainer, base, device):
    model = adapted(base.model, LoraConfig(r=2))
    needs = {}
    for form in ("fp32", *FORMATS):
        made = kept_in(model, form)
        trainer = tiny_trainer(form, model=made)
        needs[form] = Planner(made, device).training(trainer.settings, [(2, 11)]).items[NAMES[FROZEN]]
        assert needs[form] == trainer.state.store.layout.arenas[FROZEN]
    assert needs["int4"] < needs["int8"] < needs["fp16"] == needs["bf16"] < needs["fp32"]
