"""Mllama's text model: Llama between layers that attend to an image. Text goes past those, so they are not part of the model: their
tensors stay in the package. The embedding has 8 more rows than the head."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import LlamaConfig, forward, read_decoder

IMAGE_LAYERS = [3, 8, 13, 18, 23, 28, 33, 38]


def read(fields: Fields) -> LlamaConfig:
    """cross_attention_layers are the numbers of the layers that text goes past."""
    fields.assume(vocab_size=128256, num_hidden_layers=40, num_key_value_heads=8, intermediate_size=14336, rms_norm_eps=1e-5,
                  max_position_embeddings=131072, rope_theta=500000.0)
    fields.harmless("dropout")              # the reference reads it nowhere
    for name in ("attention_bias", "mlp_bias"):
        fields.only(name, False, None)
    cfg, past = read_decoder(fields), fields.any("cross_attention_layers", IMAGE_LAYERS)
    if not isinstance(past, list) or not all(isinstance(number, int) for number in past):
        raise fields.refuse("cross_attention_layers", "a list of numbers of layers")
    if cfg.tied:
        raise fields.refuse("tie_word_embeddings", "false: embedding and head have different sizes")
    numbers = tuple(number for number in range(cfg.layers) if number not in past)
    return replace(cfg, layers=len(numbers), numbers=numbers, ropes=cfg.ropes[:len(numbers)], windows=cfg.windows[:len(numbers)],
                   extra_rows=8)


FAMILY = Family("mllama_text_model", read, forward, keeps_others=True)
