"""TrOCR's decoder: OPT with norms after each half of a block, none at the end, one on the embedding, GELU, and cross-attention that is
there and not used without an encoder. Positions are learned, or sinusoidal behind the padding token's number."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.llama import language_model
from hierarchos.models.opt import NAMES, OFFSET, OPTConfig, decoder_layers, norm, read_layers
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.dropout import dropout
from hierarchos.nn.positions import learned, sinusoidal
from hierarchos.nn.weights import ONES, ZEROS, Weights

TROCR_NAMES = {**NAMES, "width": "d_model", "layers": "decoder_layers", "heads": "decoder_attention_heads", "inner": "decoder_ffn_dim"}


@dataclass(frozen=True)
class TrOCRConfig(OPTConfig):
    """cross_width: of the encoder; embed_norm: a norm behind the embedding; padding: token whose number sinusoids start behind."""

    cross_width: int = 0
    learned: bool = True
    embed_norm: bool = True
    padding: int = 1


def read(fields: Fields) -> TrOCRConfig:
    """Each size under its own name or the common one."""
    fields.spelled(d_model="hidden_size", decoder_layers="num_hidden_layers", decoder_attention_heads="num_attention_heads")
    fields.assume(vocab_size=50265, d_model=1024, decoder_layers=12, decoder_attention_heads=16, decoder_ffn_dim=4096,
                  max_position_embeddings=512, pad_token_id=1)
    fields.only("decoder_layerdrop", None, 0.0, 0)
    width = fields.integer("d_model")
    return read_layers(
        fields, TROCR_NAMES, TrOCRConfig, embed_scale=width ** 0.5 if fields.boolean("scale_embedding", False) else 1.0,
        activation_dropout=fields.number("activation_dropout", 0.0, below=1.0), pre_norm=False, final_norm=False,
        cross_width=fields.integer("cross_attention_hidden_size", width), embed_norm=fields.boolean("layernorm_embedding", True),
        learned=fields.boolean("use_learned_position_embeddings", True), padding=fields.integer("pad_token_id", 1, minimum=0))


def forward(cfg: TrOCRConfig, w: Weights, batch: Batch) -> Output:
    """Embedding, positions, norm, layers."""
    def cross_attention(layer: Weights) -> None:
        """Declares what a decoder without an encoder does not use: it gets no gradient, and is there in packages."""
        for name, width in (("k_proj", cfg.cross_width), ("v_proj", cfg.cross_width), ("q_proj", cfg.width), ("out_proj", cfg.width)):
            layer.parameter(f"encoder_attn.{name}.weight", (cfg.width, width), used=False)
            layer.parameter(f"encoder_attn.{name}.bias", (cfg.width,), ZEROS, used=False)
        layer.parameter("encoder_attn_layer_norm.weight", (cfg.width,), ONES, used=False)
        layer.parameter("encoder_attn_layer_norm.bias", (cfg.width,), ZEROS, used=False)

    model = w.at("model.decoder")
    x = model.embedding("embed_tokens", batch.ids, cfg.vocab_size, cfg.width)
    x = x if cfg.embed_scale == 1.0 else x * cfg.embed_scale
    if cfg.learned:
        x = x + learned(model, "embed_positions", batch, cfg.max_positions, cfg.width, OFFSET)
    else:
        x = x + sinusoidal(batch, cfg.width, cfg.padding + 1, zero_row=cfg.padding)
    x = norm(cfg, model, "layernorm_embedding", x) if cfg.embed_norm else x
    x = decoder_layers(cfg, model, dropout(x, cfg.dropout, batch, model.name("embed_tokens")), batch, beside=cross_attention)
    return language_model(cfg.tied, "model.decoder.embed_tokens", w, x, cfg.vocab_size, head="output_projection")


FAMILY = Family("trocr", read, forward, base="model", embedding="model.decoder.embed_tokens.weight", head="output_projection.weight", tiny={
    "model_type": "trocr", "architectures": ["TrOCRForCausalLM"], "vocab_size": 2048, "d_model": 128, "decoder_layers": 4,
    "decoder_attention_heads": 4, "decoder_ffn_dim": 512, "activation_function": "gelu", "max_position_embeddings": 512, "dropout": 0.0,
    "attention_dropout": 0.0, "activation_dropout": 0.0, "decoder_layerdrop": 0.0, "init_std": 0.02})
