"""BioGPT: OPT with embeddings times sqrt(width), GELU, and a head of its own name."""

from __future__ import annotations

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.opt import NAMES, OFFSET, OPTConfig, decoder_layers, norm, read_layers
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.positions import learned
from hierarchos.nn.weights import Weights

BIOGPT_NAMES = {**NAMES, "inner": "intermediate_size", "activation": "hidden_act", "spread": "initializer_range",
                "dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}


def read(fields: Fields) -> OPTConfig:
    """layer_norm_eps is there, and the reference does not read it."""
    fields.assume(vocab_size=42384, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                  max_position_embeddings=1024, attention_probs_dropout_prob=0.1)
    fields.harmless("layer_norm_eps")
    fields.only("layerdrop", None, 0.0, 0)
    scale = fields.integer("hidden_size") ** 0.5 if fields.boolean("scale_embedding", True) else 1.0
    return read_layers(fields, BIOGPT_NAMES, embed_scale=scale, activation_dropout=fields.number("activation_dropout", 0.0, below=1.0))


def forward(cfg: OPTConfig, w: Weights, batch: Batch) -> Output:
    """Scaled embedding, positions, layers, final norm."""
    model = w.at("biogpt")
    x = model.embedding("embed_tokens", batch.ids, cfg.vocab_size, cfg.width) * cfg.embed_scale
    x = x + learned(model, "embed_positions", batch, cfg.max_positions, cfg.width, OFFSET)
    x = decoder_layers(cfg, model, dropout(x, cfg.dropout, batch, model.name("embed_tokens")), batch)
    hidden = norm(cfg, model, "layer_norm", x)
    return language_model(cfg.tied, "biogpt.embed_tokens", w, hidden, cfg.vocab_size, head="output_projection")


FAMILY = Family("biogpt", read, forward, base="biogpt", embedding="biogpt.embed_tokens.weight", head="output_projection.weight", tiny={
    "model_type": "biogpt", "architectures": ["BioGptForCausalLM"], "vocab_size": 2048, "hidden_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "intermediate_size": 512, "hidden_act": "gelu", "max_position_embeddings": 512, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0, "activation_dropout": 0.0, "layerdrop": 0.0, "initializer_range": 0.02, "scale_embedding": True})
