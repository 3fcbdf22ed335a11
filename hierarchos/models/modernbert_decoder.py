"""ModernBERT's causal twin: q, k and v by projections of their own."""

from __future__ import annotations

from functools import partial

from hierarchos.models import modernbert
from hierarchos.models.family import Family
from hierarchos.models.modernbert import EMBEDDING, MODERN_TINY
from hierarchos.nn.attention import separate

FAMILY = Family(
    "modernbert-decoder", partial(modernbert.read, causal=True), partial(modernbert.forward, head="lm_head", project=separate),
    embedding=EMBEDDING, head="decoder.weight",
    tiny={"model_type": "modernbert-decoder", "architectures": ["ModernBertDecoderForCausalLM"], **MODERN_TINY})
