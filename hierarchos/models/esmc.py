"""ESM C (protein language model): Llama that sees both sides, with LayerNorm, a norm on all of q and of k before the heads are split,
halves of a block divided by sqrt(layers / 36), and a head of its own behind a transformation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models import llama
from hierarchos.models.bert import head_behind
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import TINY, LlamaConfig
from hierarchos.nn.attention import Heads, self_attention, split_heads
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.mlp import activate
from hierarchos.nn.weights import Weights

NORM_EPS = 1e-5     # not a field


def read(fields: Fields) -> LlamaConfig:
    """Keys are not grouped, and the head is never tied, whatever tie_word_embeddings says."""
    fields.assume(vocab_size=64, hidden_size=2560, intermediate_size=6912, num_hidden_layers=80, num_attention_heads=40)
    fields.harmless("classifier_dropout", "rms_norm_eps")
    cfg = replace(llama.read(fields), norm_eps=NORM_EPS, tied=False)
    if cfg.heads.keys != cfg.heads.queries:
        raise fields.refuse("num_key_value_heads", f"num_attention_heads = {cfg.heads.queries}")
    return cfg


def norm(w: Weights, leaf: str, x: Tensor, eps: float) -> Tensor:
    """LayerNorm; the last one has no bias."""
    return w.layer_norm(leaf, x, eps, bias=leaf != "norm")


def normed(w: Weights, x: Tensor, heads: Heads, bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v [B,T,H,D]; q and k under a norm over all their channels."""
    q, k, v = (w.linear(name, x, heads.queries * heads.width, bias) for name in ("q_proj", "k_proj", "v_proj"))
    q, k = w.layer_norm("q_norm", q, NORM_EPS, bias=False), w.layer_norm("k_norm", k, NORM_EPS, bias=False)
    return tuple(split_heads(part, heads.queries, heads.width) for part in (q, k, v))


def forward(cfg: LlamaConfig, w: Weights, batch: Batch) -> Output:
    """Llama's trunk with the differences above, transformation, head."""
    share = (36 / cfg.layers) ** 0.5

    def block(layer: Weights, x: Tensor, norm, attention, mlp) -> Tensor:
        x = x + attention(norm(layer, "input_layernorm", x)) * share
        return x + mlp(norm(layer, "post_attention_layernorm", x)) * share

    x = llama.trunk(cfg, w.at("esmc"), batch, attention=partial(self_attention, project=normed, causal=False), norm=norm, block=block)
    head = w.at("lm_head")
    x = head.layer_norm("layer_norm", activate("gelu", head.linear("dense", x, cfg.width, bias=True)), NORM_EPS)
    return head_behind(cfg, head, x, "", "decoder")


FAMILY = Family("esmc", read, forward, task="masked", base="esmc", embedding="esmc.embed_tokens.weight",
                head="lm_head.decoder.weight", tiny={
    **{name: value for name, value in TINY.items() if name != "rms_norm_eps"}, "model_type": "esmc", "architectures": ["EsmcForMaskedLM"],
    "num_key_value_heads": 4, "tie_word_embeddings": False})
