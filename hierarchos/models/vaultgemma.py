"""VaultGemma: Gemma 2 without the second norms."""

from __future__ import annotations

from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.family import Family
from hierarchos.models.gemma2 import GEMMA2_TINY, gemma2_forward, read
from hierarchos.nn.weights import Weights


def block(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
    """x += attention(norm(x)); x += mlp(norm(x))."""
    x = x + attention(norm(layer, "input_layernorm", x))
    return x + mlp(norm(layer, "pre_feedforward_layernorm", x))


FAMILY = Family("vaultgemma", read, partial(gemma2_forward, block=block), tiny={
    **GEMMA2_TINY, "model_type": "vaultgemma", "architectures": ["VaultGemmaForCausalLM"]})
