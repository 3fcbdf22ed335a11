"""XLM: BERT under its own names, without types of tokens; its head is the tied embedding and a bias, positions may start as sinusoids,
and it may be causal. Embeddings of languages are there and not used: which language a text is in is no input here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models import bert
from hierarchos.models.bert import BertConfig, encoder_family, head_behind, read_encoder
from hierarchos.models.config import Fields
from hierarchos.nn.attention import separate
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.positions import learned
from hierarchos.nn.weights import SINES, Normal, Weights


@dataclass(frozen=True)
class XLMConfig(BertConfig):
    """languages: rows of the unused table (None: there is none); embed_std: of initial embeddings."""

    languages: int | None = None
    embed_std: float = 0.02


UNUSED = ("mask_index", "unk_index", "bos_index", "eos_index", "pad_index", "lang_id", "summary_type", "summary_use_proj",
          "summary_activation", "summary_proj_to_labels", "summary_first_dropout", "start_n_top", "end_n_top", "lang2id", "id2lang",
          "asm_cutoffs", "asm_div_value", "max_vocab", "min_count", "same_enc_dec", "share_inout_emb", "encoder_only", "is_encoder")
NAMES = {"hidden_size": "emb_dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "hidden_dropout_prob": "dropout",
         "attention_probs_dropout_prob": "attention_dropout"}


def read(fields: Fields) -> XLMConfig:
    """Each size under its own name or the common one. The MLP is four times as wide as the model."""
    fields.spelled(emb_dim="hidden_size", n_layers="num_hidden_layers", n_heads="num_attention_heads", vocab_size="n_words")
    fields.assume(vocab_size=30145, emb_dim=2048, n_layers=12, n_heads=16, dropout=0.1, attention_dropout=0.1, type_vocab_size=None)
    fields.only("is_encoder", True)
    fields.harmless(*UNUSED)
    fields.only("asm", False)
    width, languages, std = fields.integer("emb_dim"), fields.integer("n_langs", 1), fields.number("init_std", 0.02)
    used = fields.boolean("use_lang_emb", True) and languages > 1
    return read_encoder(
        fields, XLMConfig, NAMES, inner=4 * width, activation="gelu" if fields.boolean("gelu_activation", True) else "relu",
        initializer_range=std, causal=fields.boolean("causal", False), sines=fields.boolean("sinusoidal_embeddings", False),
        languages=languages if used else None, embed_std=fields.number("embed_init_std", 2048 ** -0.5))


attention = partial(bert.attention, project=partial(separate, names=("q_lin", "k_lin", "v_lin")), output="out_lin")


def forward(cfg: XLMConfig, w: Weights, batch: Batch) -> Output:
    """Embeddings under a norm, blocks, head. Parts of a block stand in lists of their own."""
    model = w.at("transformer")
    x = model.embedding("embeddings", batch.ids, cfg.vocab_size, cfg.width, cfg.embed_std)
    start = SINES if cfg.sines else Normal(cfg.embed_std)
    x = x + learned(model, "position_embeddings", batch, cfg.max_positions, cfg.width, initial=start)
    if cfg.languages:
        model.parameter("lang_embeddings.weight", (cfg.languages, cfg.width), Normal(cfg.embed_std), used=False)
    x = dropout(model.layer_norm("layer_norm_emb", x, cfg.norm_eps), cfg.dropout, batch, model.name("embeddings"))
    for index in range(cfg.layers):
        with region(batch, model.name(f"attentions.{index}")):
            x = block(cfg, model, x, batch, index)
    return head_behind(cfg, w, x, "transformer.embeddings", "pred_layer.proj")


def block(cfg: XLMConfig, model: Weights, x: Tensor, batch: Batch, index: int) -> Tensor:
    """x = norm(x + attention(x)); x = norm(x + mlp(x))."""
    x = model.at("layer_norm1").layer_norm(str(index), x + attention(cfg, model.at("attentions", index), x, batch), cfg.norm_eps)
    feed = bert.mlp(cfg, model.at("ffns", index), x, batch, ("lin1", "lin2"))
    return model.at("layer_norm2").layer_norm(str(index), x + feed, cfg.norm_eps)


XLM_TINY = {"vocab_size": 2048, "emb_dim": 128, "n_layers": 4, "n_heads": 4, "max_position_embeddings": 512, "dropout": 0.0,
            "attention_dropout": 0.0, "init_std": 0.02, "embed_init_std": 0.09}
xlm_family = partial(encoder_family, root="transformer", head="pred_layer.proj.weight", tiny=XLM_TINY,
                     embedding="transformer.embeddings.weight", buffers=(r"transformer\.position_ids$",))
FAMILY = xlm_family("xlm", read, forward, "XLMWithLMHeadModel")
