"""BitNet: Llama with an RMSNorm before each of the two projections back, and squared ReLU in the gate. Weights are plain floats."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.attention import self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import gated_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """attention_bias is on all four projections."""
    fields.assume(vocab_size=128256, hidden_size=2560, intermediate_size=6912, num_hidden_layers=30, num_attention_heads=20,
                  num_key_value_heads=5, rms_norm_eps=1e-5, rope_theta=500000.0, hidden_act="relu2")
    bias = fields.boolean("attention_bias", False)
    return replace(read_decoder(fields), qkv_bias=bias, output_bias=bias)


def bitnet_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with two inner norms."""
    def inner_norm(name: str):
        return lambda w, x: w.rms_norm(name, x, cfg.norm_eps)

    return forward(cfg, w, batch, attention=partial(self_attention, finish=inner_norm("attn_sub_norm")),
                   mlp=partial(gated_mlp, finish=inner_norm("ffn_sub_norm")))


FAMILY = Family("bitnet", read, bitnet_forward, tiny={
    **{name: value for name, value in TINY.items() if name != "mlp_bias"},
    "model_type": "bitnet", "architectures": ["BitNetForCausalLM"], "hidden_act": "relu2", "rope_theta": 500000.0})
