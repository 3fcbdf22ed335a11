"""EuroBERT: Llama that sees both sides, trained on masked tokens."""

from __future__ import annotations

from functools import partial

from hierarchos.models import llama
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig
from hierarchos.nn.attention import self_attention
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> LlamaConfig:
    """The sizes of the smallest model are the default."""
    fields.assume(vocab_size=128256, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
                  max_position_embeddings=8192, rms_norm_eps=1e-5)
    fields.harmless("classifier_pooling")
    return llama.read(fields)


def forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama's without a causal mask; the head has a bias where the MLP has."""
    return llama.forward(cfg, w, batch, attention=partial(self_attention, causal=False), head_bias=cfg.mlp_bias)


FAMILY = Family("eurobert", read, forward, task="masked", tiny={
    **TINY, "model_type": "eurobert", "architectures": ["EuroBertForMaskedLM"]})
