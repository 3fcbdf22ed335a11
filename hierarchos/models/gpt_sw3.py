"""GPT-SW3: GPT-2 under another name; only its tokenizer is its own."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models import gpt2

FAMILY = replace(gpt2.FAMILY, model_type="gpt-sw3", tiny={**gpt2.GPT2_TINY, "model_type": "gpt-sw3"})
