"""ModernBERT: an encoder of pre-norm blocks with LayerNorm, rotary positions and gated MLPs; two of three layers see a window on both
sides, each kind of layer has its own rope, and the first block has no norm before its attention. Base of its causal twin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.layers import every, read_layer_types
from hierarchos.models.llama import LlamaConfig, extended, language_model, read_decoder
from hierarchos.models.rope_config import read_ropes
from hierarchos.nn.attention import Heads, fused_in_blocks, rotations, self_attention
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, activate
from hierarchos.nn.weights import Normal, Weights


@dataclass(frozen=True)
class ModernBertConfig(LlamaConfig):
    """cutoff: of initial values, in std; head_*: of the transformation before the head."""

    causal: bool = False
    norm_bias: bool = False
    mlp_dropout: float = 0.0
    head_activation: str = "gelu"
    head_bias: bool = False
    decoder_bias: bool = True
    cutoff: float = 2.0

    @property
    def inward(self) -> Normal:
        """Initial values of projections from the residual stream."""
        return Normal(self.initializer_range, self.cutoff)

    @property
    def outward(self) -> Normal:
        """Of those back to it."""
        return Normal(self.initializer_range / (2 * self.layers) ** 0.5, self.cutoff)


UNUSED = ("layer_norm_eps", "position_embedding_type", "reference_compile", "repad_logits_with_grad", "deterministic_flash_attn",
          "sparse_prediction", "sparse_pred_ignore_index", "classifier_pooling", "classifier_dropout")


def read(fields: Fields, causal: bool = False) -> ModernBertConfig:
    """local_attention counts keys on both sides: an encoder sees half of it either way and itself, its causal twin half with itself."""
    fields.assume(vocab_size=50368, hidden_size=768, intermediate_size=1152, num_hidden_layers=22, num_attention_heads=12,
                  hidden_activation="gelu", max_position_embeddings=8192, norm_eps=1e-5, tie_word_embeddings=True)
    fields.harmless(*UNUSED)
    for name in ("num_key_value_heads", "head_dim", "rope_scaling"):
        fields.only(name, None)
    cfg, bias = read_decoder(fields, activation="hidden_activation", eps="norm_eps", rope=None), fields.boolean("attention_bias", False)
    types = read_layer_types(fields, cfg.layers, every(fields.integer("global_attn_every_n_layers", 3), 0))
    theta = {"full_attention": fields.number("global_rope_theta", 160000.0), "sliding_attention": fields.number("local_rope_theta", 1e4)}
    ropes = read_ropes(fields, set(types), cfg.heads.width, cfg.max_positions, theta)
    window = fields.integer("local_attention", 128, minimum=2) // 2
    fields.only("sliding_window", window)
    window += not causal
    return extended(
        ModernBertConfig, cfg, causal=causal, qkv_bias=bias, output_bias=bias, mlp_bias=fields.boolean("mlp_bias", False),
        ropes=tuple(ropes[kind] for kind in types), windows=tuple(window if kind == "sliding_attention" else None for kind in types),
        norm_bias=fields.boolean("norm_bias", False), mlp_dropout=fields.number("mlp_dropout", 0.0, below=1.0),
        embedding_dropout=fields.number("embedding_dropout", 0.0, below=1.0), residual_dropout=cfg.attention_dropout,
        head_activation=fields.choice("classifier_activation", "gelu", ACTIVATIONS), head_bias=fields.boolean("classifier_bias", False),
        decoder_bias=fields.boolean("decoder_bias", True), cutoff=fields.number("initializer_cutoff_factor", 2.0))


def attention(cfg: ModernBertConfig, w: Weights, x: Tensor, batch: Batch, rotate, window, project) -> Tensor:
    """Self-attention with dropout behind it."""
    mixed = self_attention(w, x, batch, cfg.heads, rotate, project=project, qkv_bias=cfg.qkv_bias, output_bias=cfg.output_bias, output="Wo",
                           output_std=cfg.outward, causal=cfg.causal, window=window, dropout=cfg.attention_dropout)
    return dropout(mixed, cfg.residual_dropout, batch, w.prefix)


def mlp(cfg: ModernBertConfig, w: Weights, x: Tensor, batch: Batch) -> Tensor:
    """Wo(activation(a) * b) with a, b = Wi(x)."""
    gate, up = F.split(w.linear("Wi", x, 2 * cfg.inner, cfg.mlp_bias), (cfg.inner, cfg.inner), axis=2)
    h = dropout(activate(cfg.activation, gate) * up, cfg.mlp_dropout, batch, w.prefix)
    return w.linear("Wo", h, cfg.width, cfg.mlp_bias, std=cfg.outward)


def in_one(w: Weights, x: Tensor, heads: Heads, bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v by one projection."""
    return fused_in_blocks(w, x, heads, bias, "Wqkv")


def forward(cfg: ModernBertConfig, w: Weights, batch: Batch, head: str = "head", project=in_one) -> Output:
    """Embedding under a norm, blocks, final norm, transformation, head. head: what the transformation is called."""
    w, w_head = replace(w, std=cfg.inward), replace(w, std=cfg.outward)
    model, norm = w.at("model"), partial(Weights.layer_norm, eps=cfg.norm_eps, bias=cfg.norm_bias)
    part = model.at("embeddings")
    x = norm(part, "norm", part.embedding("tok_embeddings", batch.ids, cfg.vocab_size, cfg.width))
    x = dropout(x, cfg.embedding_dropout, batch, part.prefix)
    for index, (rotate, window) in enumerate(zip(rotations(cfg.ropes, batch), cfg.windows, strict=True)):
        layer = model.at("layers", index)
        with region(batch, layer.prefix):
            h = norm(layer, "attn_norm", x) if index else x
            x = x + attention(cfg, layer.at("attn"), h, batch, rotate, window, project)
            x = x + mlp(cfg, layer.at("mlp"), norm(layer, "mlp_norm", x), batch)
    part = w_head.at(head)
    x = part.linear("dense", norm(model, "final_norm", x), cfg.width, cfg.head_bias)
    x = norm(part, "norm", activate(cfg.head_activation, x))
    return language_model(cfg.tied, "model.embeddings.tok_embeddings", w_head, x, cfg.vocab_size, bias=cfg.decoder_bias, head="decoder")


MODERN_TINY = {
    "vocab_size": 2048, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4,
    "max_position_embeddings": 512, "local_attention": 64, "hidden_activation": "gelu", "norm_eps": 1e-5, "initializer_range": 0.02}
EMBEDDING = "model.embeddings.tok_embeddings.weight"
FAMILY = Family("modernbert", read, forward, task="masked", embedding=EMBEDDING, head="decoder.weight", tiny={
    "model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], **MODERN_TINY})
