"""Configuration of coherent-v9: every key, its default, its limits; resolved once, then frozen.

A key that is missing, null, "" or "auto" takes its default. Keys that are hashed into the contract are in `CONTRACT_KEYS`; `RUNTIME` holds
the rest. Sizes are in channels, tokens or slots; clamps are bounds of absolute values.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hierarchos.errors import UserError, nearest
from hierarchos.models.coherent_v9.head_size import automatic_head_size
from hierarchos.models.coherent_v9.runtime_keys import is_runtime, refuse

REVISION = "coherent-v9"
MODEL_TYPE = "hierarchos"
OF_A_RUN = "model.config"                # where keys are that someone gave, not those of a package
ALIASES = {"coherent": REVISION, "v9": REVISION, "v9-coherent": REVISION, REVISION: REVISION,
           "legacy": "legacy-v8", "v8": "legacy-v8", "legacy-v1": "legacy-v8", "legacy-v8": "legacy-v8"}


@dataclass(frozen=True)
class Key:
    """default: value, or None where `resolve` works it out. least, above, most: limits. only: the one value that exists."""

    kind: type
    default: Any = None
    least: float | None = None
    above: float | None = None
    most: float | None = None
    only: Any = None
    nullable: bool = False


def _only(value) -> Key:
    return Key(type(value), value, only=value)


def _clamp(value: float) -> Key:
    return Key(float, value, above=0)


CONTRACT_KEYS: dict[str, Key] = {
    "architecture_revision": Key(str, REVISION),
    "vocab_size": Key(int, None, least=1),
    "context_dim": Key(int, 448, least=1),
    "persistent_dim": Key(int, 128, least=0),
    "ltm_slots": Key(int, 1024, least=1),
    "ltm_key_dim": Key(int, 128, least=1),
    "ltm_val_dim": Key(int, 128, least=1),
    "ltm_topk": Key(int, 4, least=1),
    "h_hidden": Key(int, None, least=1),
    "l_hidden": Key(int, None, least=1),
    "rwkv_head_size": Key(int, None, nullable=True),
    "h_rwkv_head_size": Key(int, None, nullable=True),
    "l_rwkv_head_size": Key(int, None, nullable=True),
    "h_stride": Key(int, 4, least=1),
    "max_h_steps": Key(int, 5, least=1),
    "max_l_steps": Key(int, 5, least=1),
    "core_recurrence_version": _only(2),
    "drift_recurrence_mode": _only("state-derived"),
    "rwkv_state_readout_mode": _only("explicit-output"),
    "manager_compute_mode": _only("hard-masked"),
    "manager_state_commit_mode": _only("hard-selected"),
    "h_halt_thresh": Key(float, 0.9, least=0, most=1),
    "act_depth_temperature": Key(float, 0.05, above=0),
    "l_conv_atol": Key(float, 1e-4, above=0),
    "commitment_cost_mode": _only("mean-square"),
    "commitment_threshold": Key(float, None, least=0),
    "drift_delta_scale": Key(float, 1.0, least=0),
    "detach_every_n_steps": Key(int, 32, nullable=True),
    "full_sample_bptt": Key(bool, False),
    "inference_logit_parity": _only(True),
    "inference_recurrence_mode": Key(str, None),
    "halt_logit_clamp": _clamp(30.0),
    "recurrent_state_clamp": _clamp(50.0),
    "context_state_clamp": _clamp(50.0),
    "drift_state_clamp": _clamp(5.0),
    "drift_norm_clamp": Key(float, 0.0, least=0),
    "activation_clamp": _clamp(100.0),
    "rwkv_channel_mix_key_clamp": Key(float, 12.0, least=0),
    "rwkv_channel_mix_deepembed_clamp": Key(float, 4.0, least=0),
    "inference_logit_clamp": Key(float, 0.0, only=0.0),
    "use_deepembed": Key(bool, True),
    "deepembed_mode": Key(str, None),
    "use_rosa": Key(bool, True),
    "rosa_embedding_mode": Key(str, None),
    "token_adapter_rank": Key(int, None, least=1),
    "memory_token_routers": Key(bool, True),
    "rosa_max_context": Key(int, 512, least=0),
    "enforce_rosa_max_context": Key(bool, True),
    "rosa_zero_no_prediction": _only(True),
    "isolate_batch_ltm": Key(bool, True),
    "ltm_training_mode": Key(str, "read-only"),
    "ltm_lr": Key(float, 1e-3, least=0),
    "ltm_momentum": Key(float, 0.9, least=0),
    "ltm_weight_decay": Key(float, 1e-4, least=0),
    "ltm_forget_rate": Key(float, 0.01, least=0, most=1),
    "ltm_score_grad_scale": Key(float, 1.0),
    "ltm_time_feature_mode": _only("metadata-only"),
    "reference_chunk_len": Key(int, None, least=1),
    "training_chunk_size": Key(int, 256, least=1),
    "allow_untrained_hebbian_writer": Key(bool, False),
    "memory_gate_warmup_steps": Key(int, 0, least=0),
    "memory_gate_warmup_floor": Key(float, 0.0, least=0, most=0.95),
    "adaptive_ponder": Key(bool, True),
    "ponder_objective": _only("symmetric-huber"),
    "ponder_target_scale": Key(float, 0.5),
    "ponder_huber_beta": Key(float, 0.5, above=0),
    "ponder_loss_weight": Key(float, 0.01),
    "encourage_thinking": Key(bool, False),
    "commitment_loss_weight": Key(float, 0.5),
    "max_commitment_cost_for_backward": Key(float, 2.0, least=0),
    "max_ponder_cost_for_backward": Key(float, 0.0, least=0),
    "z_loss_weight": Key(float, 1e-4, least=0),
    "ltm_value_alignment_weight": Key(float, 0.01, least=0),
    "ltm_value_alignment_stride": Key(int, 8, least=1),
    "ltm_value_alignment_min_updates": Key(int, 100, least=0),
    "ltm_value_alignment_ready_threshold": Key(float, 0.95),
    "ltm_value_alignment_ema_decay": Key(float, 0.95, least=0, most=1),
    "ltm_value_writer_max_norm": Key(float, 64.0),
}
CONTRACT_KEYS["min_h_steps"] = Key(int, 1, least=1)
CONTRACT_KEYS["rwkv_n_layer_hint"] = Key(int, 2, least=2)
WRITER_STATUS = {"val_proj_alignment_updates": 0, "val_proj_alignment_last": None, "val_proj_alignment_ema": None,
                 "val_proj_alignment_best": None, "val_proj_writer_norm": None, "val_proj_trained": False}
CHOICES = {"ltm_training_mode": ("read-only", "inner-update"), "inference_recurrence_mode": ("tbptt", "full-sample"),
           "deepembed_mode": ("shared-factorized", "off"), "rosa_embedding_mode": ("shared-factorized", "off")}


@dataclass(frozen=True)
class Config:
    """Resolved values: `cfg["context_dim"]` or `cfg.context_dim`. `status`: of the memory's value writer."""

    values: Mapping[str, Any]
    status: Mapping[str, Any] = field(default_factory=lambda: dict(WRITER_STATUS))

    def __getattr__(self, name: str):
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str):
        return self.values[name]

    @property
    def h_head(self) -> int:
        return self.h_rwkv_head_size

    @property
    def l_head(self) -> int:
        return self.l_rwkv_head_size

    @property
    def rosa_cap(self) -> int:
        """Tokens after which the automaton starts afresh; 0: never."""
        return max(1, self.rosa_max_context) if self.enforce_rosa_max_context and self.rosa_max_context > 0 else 0


def revision_of(raw: Mapping) -> str:
    """The architecture revision that a config names; one without the key is legacy-v8."""
    given = raw.get("architecture_revision")
    if given in (None, "", "auto"):
        return "legacy-v8"
    word = str(given).strip().lower().replace("_", "-")
    if word not in ALIASES:
        raise UserError(f"architecture_revision {given!r} does not exist", nearest=nearest(word, ALIASES), where="architecture_revision")
    return ALIASES[word]


def resolve(raw: Mapping, where: str = OF_A_RUN, outcome: str | None = "nothing was started") -> Config:
    """Fills, checks and freezes. Raises UserError for legacy packages, unknown keys and values that do not fit."""
    if revision_of(raw) != REVISION:
        raise UserError("this is a legacy-v8 model: its learned function differs from coherent-v9 in state, memory and halting",
                        where=where, outcome=outcome,
                        hint="legacy packages cannot be converted; train a model with architecture_revision: coherent-v9")
    others = [name for name in raw if name not in CONTRACT_KEYS and name not in WRITER_STATUS and name not in BOOKKEEPING]
    if where == OF_A_RUN and (runtime := [name for name in others if is_runtime(name)]):
        refuse(runtime[0], where, outcome)
    unknown = [name for name in others if not is_runtime(name)]
    if unknown:
        raise UserError(f"{unknown[0]} is not a key of coherent-v9", where=where, nearest=nearest(unknown[0], CONTRACT_KEYS),
                        outcome=outcome)
    values = {name: _value(name, key, raw.get(name), where) for name, key in CONTRACT_KEYS.items()}
    values["architecture_revision"] = REVISION
    _derive(values, raw, where)
    _check(values, where)
    return Config(values, {name: raw.get(name, default) for name, default in WRITER_STATUS.items()})


BOOKKEEPING = frozenset((
    "model_type", "format_version", "architecture_contract", "architecture_contract_sha256", "architectures", "torch_dtype", "dtype",
    "eos_token_id", "bos_token_id", "pad_token_id", "transformers_version", "tie_word_embeddings"))


def _value(name: str, key: Key, given, where: str):
    if given is None or given == "" or given == "auto":
        return key.default
    if key.kind is float and isinstance(given, int) and not isinstance(given, bool):
        given = float(given)
    if not isinstance(given, key.kind) or (key.kind is int and isinstance(given, bool)):
        raise UserError(f"{name} is {given!r}, which is not {_article(key.kind)}", where=where)
    if key.only is not None and given != key.only:
        raise UserError(f"{name} is {given!r}; coherent-v9 has only {key.only!r}", where=where)
    if name in CHOICES and given not in CHOICES[name]:
        raise UserError(f"{name} is {given!r}, not one of {', '.join(CHOICES[name])}", where=where, nearest=nearest(given, CHOICES[name]))
    if key.kind in (int, float):
        _in_range(name, key, given, where)
    return given


def _article(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[kind]


def _in_range(name: str, key: Key, value: float, where: str) -> None:
    bad = (not math.isfinite(value) or (key.least is not None and value < key.least) or (key.above is not None and value <= key.above)
           or (key.most is not None and value > key.most))
    if bad:
        words = [f"{word} {limit:g}" for word, limit in (("at least", key.least), ("above", key.above), ("at most", key.most))
                 if limit is not None]
        raise UserError(f"{name} is {value}; it must be {' and '.join(words) or 'a finite number'}", where=where)


def _derive(v: dict, raw: Mapping, where: str) -> None:
    """Defaults that follow from other keys."""
    if v["vocab_size"] is None:
        raise UserError("vocab_size is missing", where=where, hint="it is the number of entries of the tokenizer")
    width = v["context_dim"]
    v["h_hidden"] = v["h_hidden"] or width
    v["l_hidden"] = v["l_hidden"] or width
    v["commitment_threshold"] = 0.1 / width if v["commitment_threshold"] is None else v["commitment_threshold"]
    v["token_adapter_rank"] = v["token_adapter_rank"] or min(64, width)
    v["reference_chunk_len"] = v["reference_chunk_len"] or v["training_chunk_size"]
    if (v["detach_every_n_steps"] is not None and v["detach_every_n_steps"] <= 0) or raw.get("detach_every_n_steps", 1) is None:
        v["detach_every_n_steps"] = None
    v["inference_recurrence_mode"] = v["inference_recurrence_mode"] or ("full-sample" if v["full_sample_bptt"] else "tbptt")
    for use, mode in (("use_deepembed", "deepembed_mode"), ("use_rosa", "rosa_embedding_mode")):
        if v[use] and v[mode] == "off":
            raise UserError(f"{mode} is 'off', but {use} is true", where=where, command=f"model.config.{use}=false")
        v[mode] = "shared-factorized" if v[use] else "off"
    _derive_heads(v, raw, where)


def _derive_heads(v: dict, raw: Mapping, where: str) -> None:
    """Head sizes of both cells; a key of its own, even null, goes before the shared one."""
    for cell in ("h", "l"):
        name, width = f"{cell}_rwkv_head_size", v[f"{cell}_hidden"]
        wish = v[name] if name in raw else v["rwkv_head_size"]
        if wish is not None and (wish < 1 or width % wish):
            asked = name if name in raw and raw[name] is not None else "rwkv_head_size"
            fitting = [n for n in range(1, min(width, 128) + 1) if width % n == 0]
            near = min(fitting, key=lambda n: abs(n - wish))
            raise UserError(f"{asked} is {wish}, which does not divide the width {width}", where=where, nearest=f"{asked}={near}")
        v[name] = wish or automatic_head_size(width)
    v["rwkv_head_size"] = v["h_rwkv_head_size"] if v["h_rwkv_head_size"] == v["l_rwkv_head_size"] else None


def _check(v: dict, where: str) -> None:
    if v["h_hidden"] != v["context_dim"]:
        raise UserError(f"h_hidden is {v['h_hidden']}; it must be context_dim = {v['context_dim']}", where=where)
    if v["ltm_topk"] > v["ltm_slots"]:
        raise UserError(f"ltm_topk is {v['ltm_topk']}, but there are only {v['ltm_slots']} slots", where=where,
                        nearest=f"ltm_topk={v['ltm_slots']}")
    if v["min_h_steps"] > v["max_h_steps"]:
        raise UserError(f"min_h_steps is {v['min_h_steps']}, more than max_h_steps = {v['max_h_steps']}", where=where)
    if v["full_sample_bptt"] and v["ltm_training_mode"] != "read-only":
        raise UserError("full_sample_bptt needs ltm_training_mode: read-only", where=where,
                        command="model.config.ltm_training_mode=read-only")
    if v["full_sample_bptt"] and v["detach_every_n_steps"]:
        raise UserError("full_sample_bptt needs detach_every_n_steps: null", where=where, command="model.config.detach_every_n_steps=null")
