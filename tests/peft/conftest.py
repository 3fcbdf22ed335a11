from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="session")
def base(tmp_path_factory, tiny_model):
    """A package of a tiny Llama, untrained."""
    from hierarchos.models.load import load_model, save_model

    folder = tmp_path_factory.mktemp("base") / "model"
    save_model(folder, tiny_model, tiny_model.initial_values(1), shard_bytes=20_000)
    return load_model(folder)


@pytest.fixture
def adapter(base, tmp_path):
    """adapter(name="one", seed=1, **settings) -> folder of an adapter whose matrices are random."""
    from hierarchos.peft.adapted import adapted
    from hierarchos.peft.config import LoraConfig
    from hierarchos.peft.files import save_adapter
    from hierarchos.peft.load import hash_of

    def make(name: str = "one", seed: int = 1, **settings):
        model = adapted(base.model, LoraConfig(**{"r": 2, "lora_alpha": 6, **settings}))
        generator = np.random.default_rng(seed)
        values = {spec.name: generator.standard_normal(spec.shape).astype(np.float32) * np.float32(0.2) for spec in model.trained}
        return save_adapter(tmp_path / name, model, values, base_name="tiny", base_hash=hash_of(base))

    return make
