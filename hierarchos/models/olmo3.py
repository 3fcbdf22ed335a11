"""OLMo 3: OLMo 2 with sliding windows on three of four layers, and a rope for each kind of layer."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import every, read_layer_types, windows_of
from hierarchos.models.llama import LlamaConfig
from hierarchos.models.olmo2 import OLMO_TINY, olmo2_forward
from hierarchos.models.olmo2 import read as read_olmo2
from hierarchos.models.rope_config import read_ropes


def read(fields: Fields) -> LlamaConfig:
    """rope_theta of older files is that of full layers, as in the reference."""
    fields.assume(sliding_window=4096)
    cfg = read_olmo2(fields, rope=None)
    types = read_layer_types(fields, cfg.layers, every(4))
    theta = {"full_attention": fields.number("rope_theta", 5e5), "sliding_attention": 5e5}
    ropes = read_ropes(fields, set(types), cfg.heads.width, cfg.max_positions, theta)
    return replace(cfg, ropes=tuple(ropes[kind] for kind in types), windows=windows_of(fields, types))


FAMILY = Family("olmo3", read, olmo2_forward, tiny={
    **{name: value for name, value in OLMO_TINY.items() if name != "rope_theta"}, "model_type": "olmo3",
    "architectures": ["Olmo3ForCausalLM"], "sliding_window": 64})
