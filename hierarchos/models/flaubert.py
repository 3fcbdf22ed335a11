"""FlauBERT: XLM under another name. Its variant with norms before each half (pre_norm) is not implemented."""

from __future__ import annotations

from hierarchos.models import xlm
from hierarchos.models.config import Fields
from hierarchos.models.xlm import XLMConfig, xlm_family


def read(fields: Fields) -> XLMConfig:
    """Layers dropped at random in training are not implemented."""
    fields.only("pre_norm", False)
    fields.only("layerdrop", 0.0, 0)
    return xlm.read(fields)


FAMILY = xlm_family("flaubert", read, xlm.forward, "FlaubertWithLMHeadModel")
