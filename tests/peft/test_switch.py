"""Generation with several adapters over one store."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.errors import UserError
from tests.bad_input.conftest import package

__all__ = ["package"]


def test_a_generator_switches_and_disables_adapters(package, device, tmp_path):
    from hierarchos.data.tokenizer import load_tokenizer
    from hierarchos.generation.generator import Generator
    from hierarchos.models.load import load_model
    from hierarchos.peft.adapted import adapted
    from hierarchos.peft.config import LoraConfig
    from hierarchos.peft.files import save_adapter
    from hierarchos.peft.load import load_adapters
    from hierarchos.peft.switch import switch

    base, tokenizer = load_model(package), load_tokenizer(package)
    for seed, name in enumerate(("one", "two")):
        model, generator = adapted(base.model, LoraConfig(r=2)), np.random.default_rng(seed)
        values = {spec.name: generator.standard_normal(spec.shape).astype(np.float32) for spec in model.trained}
        save_adapter(tmp_path / name, model, values)

    def text(made):
        return made.generate(["1 and"], replace(made.policy, max_new_tokens=6, do_sample=False))[0].ids

    def alone(loaded):
        made = Generator.from_loaded(loaded, device, tokenizer)
        found = text(made)
        made.close()
        return found

    expected = {name: alone(load_adapters(base, {name: tmp_path / name})) for name in ("one", "two")} | {None: alone(base)}
    together = Generator.from_loaded(load_adapters(base, {"one": tmp_path / "one", "two": tmp_path / "two"}), device, tokenizer)
    for name in ("one", "two", None, "one"):
        switch(together, name)
        assert text(together) == expected[name]
    assert len(set(expected.values())) > 1
    with pytest.raises(UserError, match="there is no adapter 'thre'"):
        switch(together, "thre")
    together.close()
