"""What a LoRA adapter is, in the words of PEFT's adapter_config.json; fields are read closed."""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from hierarchos.errors import UserError, nearest

CONFIG = "adapter_config.json"
PEFT_VERSION = "0.21.2"       # whose format and behaviour these are
INITS = (True, False, "gaussian", "olora", "pissa")         # False: random B too, of adapters that are loaded
BIASES = ("none", "lora_only", "all")
TASKS = {"causal": "CAUSAL_LM", "masked": None}
INFORMATION = ("peft_type", "peft_version", "auto_mapping", "inference_mode", "megatron_core", "qalora_group_size", "runtime_config")
INACTIVE = (None, False, [], {}, "")        # values with which a field that is not implemented changes nothing


@dataclass(frozen=True)
class LoraConfig:
    """Settings of one adapter under PEFT's names; `dict` fields hold patterns of module names."""

    r: int = 8
    lora_alpha: float = 16
    lora_dropout: float = 0.0
    use_rslora: bool = False
    use_dora: bool = False
    bias: str = "none"
    target_modules: tuple[str, ...] | str = "all-linear"
    exclude_modules: tuple[str, ...] | str = ()
    layers_to_transform: tuple[int, ...] | None = None
    layers_pattern: tuple[str, ...] = ()
    rank_pattern: dict[str, int] = field(default_factory=dict)
    alpha_pattern: dict[str, float] = field(default_factory=dict)
    modules_to_save: tuple[str, ...] = ()
    trainable_token_indices: dict[str, tuple[int, ...]] = field(default_factory=dict)
    init_lora_weights: bool | str = True
    ensure_weight_tying: bool = False
    fan_in_fan_out: bool = False
    task_type: str | None = "CAUSAL_LM"
    base_model_name_or_path: str | None = None
    revision: str | None = None

    def check(self, where: str = CONFIG) -> LoraConfig:
        """Itself; raises UserError for values out of range and for settings that contradict each other."""
        if self.r < 1 or any(rank < 1 for rank in self.rank_pattern.values()):
            raise _refuse("r", self.r if self.r < 1 else self.rank_pattern, where, "a rank is 1 or more")
        if not 0 <= self.lora_dropout < 1:
            raise _refuse("lora_dropout", self.lora_dropout, where, "a share from 0 to below 1")
        if self.bias not in BIASES:
            raise _refuse("bias", self.bias, where, f"one of {', '.join(BIASES)}")
        if self.init_lora_weights not in INITS:
            raise _refuse("init_lora_weights", self.init_lora_weights, where, "true, gaussian, olora or pissa")
        if self.layers_pattern and self.layers_to_transform is None:
            raise UserError("layers_pattern says where layer numbers stand, so it needs layers_to_transform", where=where)
        if isinstance(self.target_modules, str) and self.target_modules != "all-linear" and self.layers_to_transform is not None:
            raise UserError("layers_to_transform does not go with a regular expression in target_modules", where=where,
                            hint="put the layer numbers into the expression, or name the modules in a list")
        return self


def read_config(folder: Path) -> LoraConfig:
    """The configuration in a folder or file; raises UserError where it is not one that is implemented."""
    path = folder / CONFIG if folder.is_dir() else folder
    try:
        raw = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError:
        hint = "config.json is there: this is a model, not an adapter" if (path.parent / "config.json").is_file() else ()
        raise UserError(f"an adapter needs {CONFIG}, there is none", where=str(path), hint=hint) from None
    except ValueError as error:
        raise UserError(f"{path.name} is not JSON: {getattr(error, 'msg', 'not UTF-8')}", where=f"{path}:{getattr(error, 'lineno', 1)}") \
            from None
    if not isinstance(raw, dict):
        raise UserError(f"{path.name} holds a {type(raw).__name__}, not an object", where=str(path))
    return from_peft(raw, str(path))


def from_peft(raw: Mapping, where: str = CONFIG) -> LoraConfig:
    """The configuration of an adapter_config.json's contents."""
    kind = raw.get("peft_type")
    if str(kind).upper() != "LORA":
        raise UserError(f"peft_type {kind!r} is not a kind of adapter that is implemented", where=where,
                        nearest="LORA" if nearest(str(kind), ["LORA"]) else None, hint="LORA is, with rsLoRA and DoRA")
    known = {entry.name for entry in fields(LoraConfig)}
    for name, value in raw.items():
        if name not in known and name not in INFORMATION and value not in INACTIVE:
            raise UserError(f"{name}={json.dumps(value)} of the adapter is not implemented", where=where,
                            hint="it would change what the adapter computes, so the adapter is not used", outcome="nothing was loaded")
    values = {name: _value(name, value, where) for name, value in raw.items() if name in known and value is not None}
    return LoraConfig(**{"lora_alpha": 8, "target_modules": (), **values}).check(where)


def _value(name: str, value: object, where: str) -> object:
    """A JSON value in the type of its field."""
    if name in ("target_modules", "exclude_modules") and isinstance(value, str):
        return value.lower() if value.lower() == "all-linear" else value
    if name == "trainable_token_indices":
        return {module: tuple(map(int, ids)) for module, ids in (value if isinstance(value, dict) else {"embed_tokens": value}).items()}
    if name in ("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "modules_to_save"):
        return tuple(sorted(value) if name == "target_modules" else value) if isinstance(value, list) else (value,)
    wanted = {"r": int, "lora_alpha": (int, float), "lora_dropout": (int, float), "rank_pattern": dict, "alpha_pattern": dict, "bias": str,
              "use_rslora": bool, "use_dora": bool}.get(name)
    if wanted and not isinstance(value, wanted):
        raise _refuse(name, value, where, "another kind of value")
    return value


def to_peft(config: LoraConfig) -> dict:
    """adapter_config.json: every field that PEFT reads for what is used here; PEFT fills in the rest."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}
    tokens = {module: list(ids) for module, ids in config.trainable_token_indices.items()}
    empty = ("exclude_modules", "layers_pattern", "modules_to_save")
    alpha = config.lora_alpha
    return values | {name: values[name] or None for name in empty} | {
        "peft_type": "LORA", "peft_version": PEFT_VERSION, "inference_mode": True, "trainable_token_indices": tokens or None,
        "lora_alpha": int(alpha) if float(alpha).is_integer() else alpha}


def _refuse(name: str, value: object, where: str, wanted: str) -> UserError:
    return UserError(f"{name} is {json.dumps(value, default=str)}; it can be {wanted}", where=where)
