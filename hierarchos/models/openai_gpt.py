"""GPT (the first): GPT-2 with its norms behind the residual sums, x = norm(x + attention(x)), and none at the end."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.gpt2 import GPT2_TINY, GPT2Config, attention, embedded, mlp
from hierarchos.models.gpt2 import read as read_gpt2
from hierarchos.models.llama import language_model
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.weights import Weights

ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "silu": "silu", "swish": "silu"}     # its "gelu" is the tanh form


def read(fields: Fields) -> GPT2Config:
    """GPT-2's sizes under the same names; afn is the activation, and the MLP is always four times as wide."""
    fields.assume(vocab_size=40478, n_positions=512)
    fields.only("n_inner", None)
    cfg = read_gpt2(fields)
    return replace(cfg, activation=ACTIVATIONS[fields.choice("afn", "gelu", ACTIVATIONS)], projection_std=cfg.initializer_range)


def forward(cfg: GPT2Config, w: Weights, batch: Batch) -> Output:
    """x = norm(x + attention(x)); x = norm(x + mlp(x))."""
    model = w.at("transformer")
    x = embedded(cfg, model, batch, tokens="tokens_embed", positions="positions_embed")
    for index, scale in enumerate(cfg.scales):
        layer = model.at("h", index)
        with region(batch, layer.prefix):
            x = layer.layer_norm("ln_1", x + attention(cfg, layer.at("attn"), x, batch, scale), cfg.norm_eps)
            x = layer.layer_norm("ln_2", x + mlp(cfg, layer.at("mlp"), x, batch), cfg.norm_eps)
    return language_model(cfg.tied, "transformer.tokens_embed", w, x, cfg.vocab_size)


FAMILY = Family("openai-gpt", read, forward, base="transformer", embedding="transformer.tokens_embed.weight",
                buffers=(r"\.attn\.bias$", r"position_ids$"), tiny={
    **{name: value for name, value in GPT2_TINY.items() if name != "activation_function"}, "model_type": "openai-gpt",
    "architectures": ["OpenAIGPTLMHeadModel"], "afn": "gelu"})
