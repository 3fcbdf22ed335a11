"""XGLM: OPT with embeddings times sqrt(width), sinusoidal positions (numbered from 2), and GELU."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.opt import NAMES, OFFSET, OPTConfig, decoder_layers, norm, read_layers
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.positions import sinusoidal
from hierarchos.nn.weights import Weights

XGLM_NAMES = {**NAMES, "width": "d_model", "layers": "num_layers", "heads": "attention_heads"}


@dataclass(frozen=True)
class XGLMConfig(OPTConfig):
    """padding: the row of the sinusoids that the reference sets to zero."""

    padding: int | None = None


def read(fields: Fields) -> XGLMConfig:
    """Each size under its own name or the common one."""
    fields.spelled(d_model="hidden_size", num_layers="num_hidden_layers", attention_heads="num_attention_heads")
    fields.assume(vocab_size=256008, d_model=1024, ffn_dim=4096, num_layers=24, attention_heads=16, max_position_embeddings=2048,
                  attention_dropout=0.1, pad_token_id=1)
    fields.only("layerdrop", None, 0.0, 0)
    scale = fields.integer("d_model") ** 0.5 if fields.boolean("scale_embedding", True) else 1.0
    return read_layers(fields, XGLM_NAMES, XGLMConfig, embed_scale=scale, padding=fields.integer("pad_token_id", None, minimum=0),
                       activation_dropout=fields.number("activation_dropout", 0.0, below=1.0))


def forward(cfg: XGLMConfig, w: Weights, batch: Batch) -> Output:
    """Scaled embedding, positions, layers, final norm."""
    model = w.at("model")
    x = model.embedding("embed_tokens", batch.ids, cfg.vocab_size, cfg.width) * cfg.embed_scale
    x = x + sinusoidal(batch, cfg.width, OFFSET, zero_row=cfg.padding)
    x = decoder_layers(cfg, model, dropout(x, cfg.dropout, batch, model.name("embed_tokens")), batch)
    return language_model(cfg.tied, "model.embed_tokens", w, norm(cfg, model, "layer_norm", x), cfg.vocab_size)


FAMILY = Family("xglm", read, forward, buffers=(r"embed_positions\.weights$",), tiny={
    "model_type": "xglm", "architectures": ["XGLMForCausalLM"], "vocab_size": 2048, "d_model": 128, "num_layers": 4, "attention_heads": 4,
    "ffn_dim": 512, "activation_function": "gelu", "max_position_embeddings": 512, "dropout": 0.0, "attention_dropout": 0.0,
    "activation_dropout": 0.0, "layerdrop": 0.0, "init_std": 0.02, "scale_embedding": True})
