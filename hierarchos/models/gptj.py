"""GPT-J: attention and MLP read the same LayerNorm, interleaved rotation of the first channels of each head, a head with a bias."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.sizes import DenseSizes
from hierarchos.nn.attention import Heads, rotation, self_attention, separate
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.mlp import ACTIVATIONS, plain_mlp
from hierarchos.nn.rotary import Rope
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class GPTJConfig(DenseSizes):
    """Explicit values; dropouts are probabilities."""

    rope: Rope
    embedding_dropout: float
    residual_dropout: float
    attention_dropout: float


def read(fields: Fields) -> GPTJConfig:
    """Each size under its own name or the common one."""
    fields.spelled(n_embd="hidden_size", n_positions="max_position_embeddings", n_head="num_attention_heads", n_layer="num_hidden_layers")
    fields.harmless("n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout")
    fields.only("rotary", None, True)
    fields.only("scale_attn_weights", None, True)
    width, count = fields.integer("n_embd", 4096), fields.integer("n_head", 16)
    if width % count:
        raise fields.refuse("n_embd", f"a multiple of n_head = {count}")
    rotated = fields.integer("rotary_dim", 64, minimum=2)
    if rotated % 2 or rotated > width // count:
        raise fields.refuse("rotary_dim", f"an even number up to the width of a head, {width // count}")
    return GPTJConfig(
        vocab_size=fields.integer("vocab_size", 50400),
        max_positions=fields.integer("n_positions", 2048),
        width=width,
        inner=fields.integer("n_inner", 4 * width),
        layers=fields.integer("n_layer", 28),
        heads=Heads(count, count, width // count),
        rope=Rope(10000.0, rotated, layout="interleaved"),
        activation=fields.choice("activation_function", "gelu_new", ACTIVATIONS),
        initializer_range=fields.number("initializer_range", 0.02),
        norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        tied=fields.boolean("tie_word_embeddings", False),
        embedding_dropout=fields.number("embd_pdrop", 0.0, below=1.0),
        residual_dropout=fields.number("resid_pdrop", 0.0, below=1.0),
        attention_dropout=fields.number("attn_pdrop", 0.0, below=1.0),
    )


def forward(cfg: GPTJConfig, w: Weights, batch: Batch, project=separate) -> Output:
    """x += attention(norm(x)) + mlp(norm(x)), the same norm; final norm. project: see `self_attention`."""
    model = w.at("transformer")
    x = dropout(model.embedding("wte", batch.ids, cfg.vocab_size, cfg.width), cfg.embedding_dropout, batch, model.name("wte"))
    rotate = rotation(cfg.rope, batch)
    for index in range(cfg.layers):
        layer = model.at("h", index)
        attn, mlp = layer.at("attn"), layer.at("mlp")
        with region(batch, layer.prefix):
            h = layer.layer_norm("ln_1", x, cfg.norm_eps)
            mixed = self_attention(attn, h, batch, cfg.heads, rotate, project=project, output="out_proj", dropout=cfg.attention_dropout)
            fed = plain_mlp(mlp, h, cfg.inner, cfg.activation, bias=True, names=("fc_in", "fc_out"))
            x = (x + dropout(mixed, cfg.residual_dropout, batch, attn.prefix)) + dropout(fed, cfg.residual_dropout, batch, mlp.prefix)
    hidden = model.layer_norm("ln_f", x, cfg.norm_eps)
    return language_model(cfg.tied, "transformer.wte", w, hidden, cfg.vocab_size, bias=True)


GPTJ_TINY = {
    "vocab_size": 2048, "n_positions": 512, "n_embd": 128, "n_layer": 4, "n_head": 4, "rotary_dim": 16, "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0}

FAMILY = Family("gptj", read, forward, base="transformer", embedding="transformer.wte.weight",
                buffers=(r"\.attn\.(bias|masked_bias|embed_positions)$",),
                tiny={"model_type": "gptj", "architectures": ["GPTJForCausalLM"], **GPTJ_TINY})
