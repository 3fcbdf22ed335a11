"""EXAONE 4: OLMo 2's order of norms, a norm on each query and key head, and rotation on sliding layers only (where there are any)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import every, read_layer_types, windows_of
from hierarchos.models.llama import LlamaConfig, forward, read_decoder
from hierarchos.models.olmo2 import OLMO_TINY, post_norm
from hierarchos.nn.attention import normed_rotated, self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """sliding_window_pattern may be a string in released files, beside layer_types that say the same."""
    fields.assume(vocab_size=102400, intermediate_size=16384, num_key_value_heads=32, rms_norm_eps=1e-5, sliding_window=4096,
                  sliding_window_pattern=4)
    cfg, slides = read_decoder(fields), fields.any("sliding_window") is not None
    pattern = fields.any("sliding_window_pattern")
    if fields.any("layer_types") is None and slides and not isinstance(pattern, int):
        raise fields.refuse("sliding_window_pattern", "a whole number, or layer_types beside it")
    types = read_layer_types(fields, cfg.layers, every(pattern) if slides and isinstance(pattern, int) else None)
    ropes = tuple(rope if kind == "sliding_attention" or not slides else None for rope, kind in zip(cfg.ropes, types, strict=True))
    return replace(cfg, ropes=ropes, windows=windows_of(fields, types))


def exaone4_forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama with its norms behind the sublayers and on heads."""
    place = partial(normed_rotated, norm=partial(Weights.rms_norm, eps=cfg.norm_eps))
    return forward(cfg, w, batch, attention=partial(self_attention, place=place), block=post_norm)


FAMILY = Family("exaone4", read, exaone4_forward, tiny={
    **{name: value for name, value in OLMO_TINY.items() if name != "attention_bias"}, "model_type": "exaone4",
    "architectures": ["Exaone4ForCausalLM"], "sliding_window": 64, "sliding_window_pattern": 4})
