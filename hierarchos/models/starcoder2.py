"""StarCoder2: Llama with LayerNorms, biases everywhere, a plain MLP and a window on all layers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig, forward, read_decoder
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import plain_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """use_bias is for all projections, norms always have theirs."""
    fields.assume(vocab_size=49152, hidden_size=3072, intermediate_size=12288, num_hidden_layers=30, num_attention_heads=24,
                  num_key_value_heads=2, hidden_act="gelu_pytorch_tanh", max_position_embeddings=4096, initializer_range=0.018042,
                  norm_epsilon=1e-5, tie_word_embeddings=True)
    fields.only("mlp_type", "default")
    fields.only("norm_type", "layer_norm")
    cfg, bias = read_decoder(fields, eps="norm_epsilon"), fields.boolean("use_bias", True)
    return replace(cfg, qkv_bias=bias, output_bias=bias, mlp_bias=bias, windows=(fields.integer("sliding_window", None),) * cfg.layers,
                   residual_dropout=fields.number("residual_dropout", 0.0, below=1.0),
                   embedding_dropout=fields.number("embedding_dropout", 0.0, below=1.0))


def starcoder2_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with LayerNorms and a plain MLP."""
    return forward(cfg, w, batch, norm=Weights.layer_norm, mlp=partial(plain_mlp, names=("c_fc", "c_proj")))


FAMILY = Family("starcoder2", read, starcoder2_forward, tiny={
    **{name: value for name, value in TINY.items() if name not in ("attention_bias", "mlp_bias", "rms_norm_eps")},
    "model_type": "starcoder2", "architectures": ["Starcoder2ForCausalLM"], "intermediate_size": 512, "hidden_act": "gelu_pytorch_tanh",
    "norm_epsilon": 1e-5, "sliding_window": 64, "use_bias": True})
