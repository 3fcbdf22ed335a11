"""GLM-4: GLM with a second norm on what attention and MLP give."""

from __future__ import annotations

from hierarchos.graph.tensor import Tensor
from hierarchos.models.family import Family
from hierarchos.models.glm import GLM_TINY, read
from hierarchos.models.llama import LlamaConfig, forward
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import fused_gated_mlp
from hierarchos.nn.weights import Weights


def sandwich(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
    """x += norm(attention(norm(x))); x += norm(mlp(norm(x)))."""
    x = x + norm(layer, "post_self_attn_layernorm", attention(norm(layer, "input_layernorm", x)))
    return x + norm(layer, "post_mlp_layernorm", mlp(norm(layer, "post_attention_layernorm", x)))


def glm4_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """GLM with four norms a block."""
    return forward(cfg, w, batch, mlp=fused_gated_mlp, block=sandwich)


FAMILY = Family("glm4", read, glm4_forward, tiny={**GLM_TINY, "model_type": "glm4", "architectures": ["Glm4ForCausalLM"]})
