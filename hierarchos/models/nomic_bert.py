"""Nomic BERT: BERT with rotary positions in place of the table, a gated MLP, no biases in its layers, and layers under Llama's names."""

from __future__ import annotations

from hierarchos.graph.tensor import Tensor
from hierarchos.models.bert import TINY, encoder_family, masked_head
from hierarchos.models.config import Fields
from hierarchos.models.disk import Disk, Fused
from hierarchos.models.jina_embeddings_v3 import RotaryBertConfig, read_rotary, rotary_body
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import gated_mlp
from hierarchos.nn.weights import Weights


def read(fields: Fields) -> RotaryBertConfig:
    """Heads of another width than hidden_size / num_attention_heads are not implemented."""
    fields.spelled(hidden_size="n_embd", num_attention_heads="n_head", num_hidden_layers="n_layer", intermediate_size="n_inner",
                   layer_norm_eps="layer_norm_epsilon", attention_probs_dropout_prob="attn_pdrop", hidden_dropout_prob="resid_pdrop",
                   rope_theta="rotary_emb_base", max_position_embeddings="n_positions")
    _first_files(fields)
    fields.assume(vocab_size=30528, hidden_act="silu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                  max_position_embeddings=2048)
    cfg = read_rotary(fields, 1000.0, bias=False)
    fields.only("head_dim", None, cfg.heads.width)
    return cfg


FIXED = {"activation_function": "swiglu", "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False,
         "parallel_block": False, "parallel_block_tied_norm": False, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
         "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "scale_attn_weights": True, "use_rms_norm": False, "causal": False,
         "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False, "embd_pdrop": 0.0}
SILENT = ("dense_seq_parallel", "fused_bias_fc", "fused_dropout_add_ln", "max_trained_positions", "pad_vocab_size_multiple",
          "use_flash_attn", "use_xentropy", "last_layer_subset", "summary_activation", "summary_first_dropout",
          "summary_proj_to_labels", "summary_type", "summary_use_proj")


def _first_files(fields: Fields) -> None:
    """The first packages were written by code of their own: its options must stand at what the model is, or do not matter."""
    for name, value in FIXED.items():
        fields.only(name, value, None)
    fields.harmless(*SILENT)


def mlp(cfg: RotaryBertConfig, layer: Weights, x: Tensor, batch: Batch) -> Tensor:
    """down(activation(gate(x)) * up(x)), with dropout behind it."""
    part = layer.at("mlp")
    return dropout(gated_mlp(part, x, cfg.inner, cfg.activation), cfg.dropout, batch, part.prefix)


def forward(cfg: RotaryBertConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings, blocks, head."""
    x = rotary_body(cfg, w.at("nomic_bert"), batch, mlp)
    return masked_head(cfg, w, x, "nomic_bert.embeddings.word_embeddings", norm="transform.layer_norm")


DISK = Disk(
    names=(("layers", "encoder.layers"), ("embeddings.LayerNorm", "emb_ln"), ("self_attn.o_proj", "attn.out_proj"),
           ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2"),
           ("mlp.up_proj", "mlp.fc11"), ("mlp.gate_proj", "mlp.fc12"), ("mlp.down_proj", "mlp.fc2")),
    fused=(Fused("attn.Wqkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),))
FAMILY = encoder_family("nomic_bert", read, forward, "NomicBertForMaskedLM", "nomic_bert", disk=DISK, tiny={
    **TINY, "hidden_act": "silu", "intermediate_size": 352})
