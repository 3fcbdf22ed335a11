"""config.json from a GGUF file's metadata; keys are read closed, like fields of a config.json."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hierarchos.convert.gguf_file import GgufFile
from hierarchos.errors import UserError, nearest

COMMON = {"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size", "block_count": "num_hidden_layers",
          "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
          "attention.key_length": "head_dim",
          "attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta", "context_length": "max_position_embeddings"}
GPT2 = {"embedding_length": "n_embd", "feed_forward_length": "n_inner", "block_count": "n_layer", "attention.head_count": "n_head",
        "attention.layer_norm_epsilon": "layer_norm_epsilon", "context_length": "n_positions"}
NEUTRAL = {"vocab_size": None, "rope.dimension_count": None, "attention.value_length": None, "rope.scaling.type": ("none", ""),
           "expert_count": (0,), "expert_used_count": (0,), "attention.causal": (True,), "use_parallel_residual": (True,)}


@dataclass(frozen=True)
class Kind:
    """An architecture of GGUF: model_type, metadata key -> field, further fields that it has always."""

    model_type: str
    fields: dict[str, str]
    constants: Callable[[GgufFile], dict]


def _llama(file: GgufFile) -> dict:
    biased = "blk.0.attn_q.bias" in file.tensors
    return {"hidden_act": "silu", "attention_bias": biased, "mlp_bias": "blk.0.ffn_gate.bias" in file.tensors}


KINDS = {
    "llama": Kind("llama", COMMON, _llama),
    "qwen2": Kind("qwen2", COMMON, lambda file: {"hidden_act": "silu", "use_sliding_window": False}),
    "qwen3": Kind("qwen3", COMMON, lambda file: {"hidden_act": "silu", "use_sliding_window": False, "attention_bias": False}),
    "gpt2": Kind("gpt2", GPT2, lambda file: {"activation_function": "gelu_new", "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}),
}
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "gpt2": "GPT2LMHeadModel"}


def config_of(file: GgufFile) -> dict:
    """The contents of config.json; raises UserError for architectures and settings that are not read."""
    name, where = file.value("general.architecture"), str(file.path)
    if name not in KINDS:
        raise UserError(f"GGUF architecture {name!r} is not one that is converted", where=where, nearest=nearest(str(name), KINDS),
                        hint=f"those that are: {', '.join(KINDS)}", outcome="nothing was written")
    kind, config = KINDS[name], {}
    for key in file.fields:
        if not key.startswith(f"{name}."):
            continue
        short, value = key.removeprefix(f"{name}."), file.value(key)
        if short in kind.fields:
            config[kind.fields[short]] = shortest(value)
        elif short not in NEUTRAL or (NEUTRAL[short] and value not in NEUTRAL[short]):
            raise UserError(f"{key}={value} is not implemented", where=where, hint="it would change what the model computes",
                            outcome="nothing was written")
    _check_rotation(file, name, config)
    ends = {f"{which}_token_id": file.value(f"tokenizer.ggml.{which}_token_id") for which in ("bos", "eos")}
    tokens = file.value("tokenizer.ggml.tokens") or ()
    embedding = file.shape("token_embd.weight")[0] if "token_embd.weight" in file.tensors else len(tokens)
    return {"model_type": kind.model_type, "architectures": [CLASSES[name]], **config, **kind.constants(file), **ends,
            "vocab_size": embedding, "tie_word_embeddings": "output.weight" not in file.tensors}


def shortest(value: object) -> object:
    """A number as people write it: files hold float32, and 9.999999747378752e-06 is 1e-05."""
    import numpy as np

    return float(str(np.float32(value))) if isinstance(value, float) else value


def _check_rotation(file: GgufFile, name: str, config: dict) -> None:
    """Rotary widths other than the head's, and frequencies that are given as a tensor, are refused."""
    if "rope_freqs.weight" in file.tensors:
        raise UserError("rope_freqs.weight scales the rotary frequencies (llama3 scaling), which is not converted", where=str(file.path),
                        outcome="nothing was written")
    rotated, width = file.value(f"{name}.rope.dimension_count"), config.get("head_dim")
    width = width or (config["hidden_size"] // config["num_attention_heads"] if "hidden_size" in config else None)
    if rotated is not None and width is not None and rotated != width:
        raise UserError(f"{name}.rope.dimension_count={rotated} rotates a part of a head of {width}, which is not implemented",
                        where=str(file.path), outcome="nothing was written")
