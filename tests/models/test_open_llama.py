"""Open-Llama is absent from current Transformers: it must be Llama on a normed embedding, and plain Llama without that norm."""

import numpy as np
import pytest

from hierarchos.models.registry import resolve
from tests.models.twin import GOLDEN_IDS, SHARED, run_logits

SIZES = {**SHARED, "num_key_value_heads": 4, "hidden_dropout_prob": 0.0}
UNTIED = {"model_type": "open-llama", **SIZES, "shared_input_output_embedding": False}


def values_of(model) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    return {spec.name: (spec.initial == "ones") + 0.3 * generator.standard_normal(spec.shape) for spec in model.parameters}


def normed(table: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """LayerNorm of each row, eps 1e-5."""
    centred = table - table.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias


@pytest.mark.parametrize("stable", [True, False])
def test_open_llama_is_llama_on_a_normed_embedding(stable):
    model = resolve({**UNTIED, "use_stable_embedding": stable})
    values = values_of(model)
    llama = {name: value for name, value in values.items() if "embed_layer_norm" not in name}
    if stable:
        table = llama["model.embed_tokens.weight"]
        llama["model.embed_tokens.weight"] = normed(table, *(values[f"model.embed_layer_norm.{part}"] for part in ("weight", "bias")))
    plain = resolve({"model_type": "llama", **{name: value for name, value in SIZES.items() if name != "hidden_dropout_prob"}})

    found, expected = run_logits(model, values, GOLDEN_IDS), run_logits(plain, llama, GOLDEN_IDS)

    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_head_is_the_embedding_unless_the_config_says_otherwise():
    names = [spec.name for spec in resolve({"model_type": "open-llama", **SIZES}).parameters]
    assert "lm_head.weight" not in names and "lm_head.weight" in [spec.name for spec in resolve(UNTIED).parameters]
