"""Jina embeddings 3: RoBERTa with rotary positions in place of the table, and layers under Llama's names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models import bert
from hierarchos.models.bert import BertConfig, body, encoder_family, post_norm, read_encoder, words
from hierarchos.models.config import Fields
from hierarchos.models.disk import Disk, Fused
from hierarchos.models.roberta import ROBERTA_TINY, roberta_head
from hierarchos.models.rope_config import read_rope
from hierarchos.nn.attention import rotation, separate
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.rotary import Rope
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class RotaryBertConfig(BertConfig):
    """rope: the rotation of all layers; bias: projections have one."""

    rope: Rope | None = None
    bias: bool = True


def read_rotary(fields: Fields, theta: float, bias: bool) -> RotaryBertConfig:
    """BERT's fields and a rope."""
    cfg = read_encoder(fields, RotaryBertConfig, bias=bias)
    return replace(cfg, rope=read_rope(fields, cfg.heads.width, cfg.max_positions, theta))


def read(fields: Fields) -> RotaryBertConfig:
    """Positions start at 0, whatever the padding token."""
    fields.assume(vocab_size=250002, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                  max_position_embeddings=8194, type_vocab_size=1, layer_norm_eps=1e-5)
    return read_rotary(fields, 20000.0, bias=True)


def rotary_body(cfg: RotaryBertConfig, w: Weights, batch: Batch, mlp) -> Tensor:
    """Embeddings without positions, and blocks: [B,T,D]."""
    attention = partial(bert.attention, rotate=rotation(cfg.rope, batch), project=separate, output="o_proj", qkv_bias=cfg.bias,
                        output_bias=cfg.bias)
    block = partial(post_norm, attention=attention, mlp=mlp, norms=("post_attention_layernorm", "post_mlp_layernorm"), mixer="self_attn")
    return body(cfg, w, batch, block=block, embedded=words, path=("layers",))


def forward(cfg: RotaryBertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, blocks, head."""
    x = rotary_body(cfg, w.at("roberta"), batch, partial(bert.mlp, names=("mlp.fc1", "mlp.fc2")))
    return roberta_head(cfg, w, x, "roberta.embeddings.word_embeddings")


DISK = Disk(
    names=(("layers", "encoder.layers"), ("embeddings.LayerNorm", "emb_ln"), ("self_attn.o_proj", "mixer.out_proj"),
           ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2")),
    fused=(Fused("mixer.Wqkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),))
FAMILY = encoder_family("jina_embeddings_v3", read, forward, "JinaEmbeddingsV3ForMaskedLM", "roberta", "lm_head.decoder.weight", {
    **ROBERTA_TINY, "max_position_embeddings": 512, "type_vocab_size": 1, "layer_norm_eps": 1e-5}, disk=DISK)
