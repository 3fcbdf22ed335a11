"""GPT-BigCode: GPT-2 with ordinary linear layers and, by default, one key head for all queries; else q, k, v ordered by head."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models import gpt2
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.gpt2 import GPT2_TINY, GPT2Config
from hierarchos.nn.attention import attend, fused_by_head, fused_in_blocks
from hierarchos.nn.batch import Batch
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> GPT2Config:
    """As GPT-2, and multi_query. The other fields matter in half precision or to a server."""
    fields.assume(activation_function="gelu_pytorch_tanh")
    fields.harmless("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner", "validate_runner_input",
                    "pre_allocate_kv_cache", "max_sequence_length", "max_batch_size", "pad_key_length")
    fields.only("scale_attn_by_inverse_layer_idx", None, False)
    cfg = gpt2.read(fields)
    keys = 1 if fields.boolean("multi_query", True) else cfg.heads.queries
    fields.only("num_key_value_heads", None, keys)
    return replace(cfg, heads=replace(cfg.heads, keys=keys))


def attention(cfg: GPT2Config, w: Weights, x: Tensor, batch: Batch, scale: float) -> Tensor:
    """c_attn gives q, k and v; c_proj mixes the heads."""
    split = fused_in_blocks if cfg.heads.keys == 1 else fused_by_head
    q, k, v = split(w, x, cfg.heads, bias=True, name="c_attn")
    mixed = attend(w, batch, q, k, v, scale=scale, dropout=cfg.attention_dropout)
    return gpt2.project(cfg, w, mixed, batch, "out_in")


forward = partial(gpt2.forward, attention=attention, mlp=partial(gpt2.mlp, layout="out_in"))
FAMILY = Family("gpt_bigcode", read, forward, base="transformer", embedding="transformer.wte.weight",
                buffers=(r"\.attn\.(bias|masked_bias)$", r"transformer\.bias$"),
                tiny={**GPT2_TINY, "model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"],
                      "activation_function": "gelu_pytorch_tanh", "multi_query": True})
