"""GPT-NeoX Japanese: sequential GPT-NeoX without biases, but for one on what the last layer's attention gives."""

from __future__ import annotations

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.gpt_neox import NEOX_TINY, NeoXConfig, attend_and_feed, read_neox
from hierarchos.models.llama import language_model
from hierarchos.nn.attention import rotation
from hierarchos.nn.batch import Batch, Output, region
from hierarchos.nn.dropout import dropout
from hierarchos.nn.weights import ZEROS, Weights


def read(fields: Fields) -> NeoXConfig:
    """The MLP is a multiple of the width."""
    fields.assume(vocab_size=32000, hidden_size=2560, num_hidden_layers=32, num_attention_heads=32, attention_dropout=0.1,
                  tie_word_embeddings=True)
    inner = fields.integer("hidden_size") * fields.integer("intermediate_multiple_size", 4)
    return read_neox(fields, inner, parallel=False, attention_bias=False, mlp_bias=False)


def forward(cfg: NeoXConfig, w: Weights, batch: Batch) -> Output:
    """x += attention(norm(x)) + bias (last layer); x += mlp(norm(x)); final norm."""
    model = w.at("gpt_neox_japanese")
    x = model.embedding("embed_in", batch.ids, cfg.vocab_size, cfg.width)
    rotate = rotation(cfg.rope, batch)
    for index in range(cfg.layers):
        layer = model.at("layers", index)
        attention, mlp = attend_and_feed(cfg, layer, batch, rotate)
        with region(batch, layer.prefix):
            mixed = attention(layer.layer_norm("input_layernorm", x, cfg.norm_eps))
            if index == cfg.layers - 1:
                mixed = mixed + layer.parameter("attention.dense_bias", (cfg.width,), ZEROS)
            x = x + dropout(mixed, cfg.hidden_dropout, batch, layer.name("attention"))
            x = x + mlp(layer.layer_norm("post_attention_layernorm", x, cfg.norm_eps))
    hidden = model.layer_norm("final_layer_norm", x, cfg.norm_eps)
    return language_model(cfg.tied, "gpt_neox_japanese.embed_in", w, hidden, cfg.vocab_size, head="embed_out")


FAMILY = Family("gpt_neox_japanese", read, forward, base="gpt_neox_japanese", embedding="gpt_neox_japanese.embed_in.weight",
                head="embed_out.weight",
                buffers=(r"attention\.(bias|masked_bias)$", r"rotary_emb\.inv_freq$"),
                tiny={"model_type": "gpt_neox_japanese", "architectures": ["GPTNeoXJapaneseForCausalLM"], **NEOX_TINY,
                      "intermediate_multiple_size": 4, "tie_word_embeddings": True})
