"""How a text is continued: the options of Transformers' GenerationConfig by their names, and where they come from.

Precedence: what a caller gives, then the package's generation_config.json (its config.json for token ids), then the defaults here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hierarchos.errors import UserError, nearest
from hierarchos.kernels.choose import Drawing

NOT_SET = (None, False, 0, 1, 1.0, 0.0, [], {}, "")
# What does not change a text, or only says where it came from.
# fmt: off
IGNORED = frozenset((
    "transformers_version", "_from_model_config", "use_cache", "cache_implementation", "cache_config", "max_cache_len",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate", "pad_token_id",
    "bos_token_id", "decoder_start_token_id", "low_memory", "compile_config", "disable_compile", "continuous_batching_config",
    "prefill_chunk_size", "remove_invalid_values", "renormalize_logits", "is_assistant", "num_assistant_tokens",
    "num_assistant_tokens_schedule", "assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind",
    "target_lookbehind", "max_matching_ngram_size", "assistant_ensemble_weight", "speculation_type", "_name_or_path",
))
# fmt: on
REFUSED = {
    "num_beam_groups": "group beam search",
    "diversity_penalty": "group beam search",
    "constraints": "constrained beam search",
    "force_words_ids": "constrained beam search",
    "encoder_repetition_penalty": "encoder-decoder models",
    "encoder_no_repeat_ngram_size": "encoder-decoder models",
    "guidance_scale": "classifier-free guidance",
    "watermarking_config": "watermarking",
    "dola_layers": "DoLa",
    "prompt_lookup_num_tokens": "prompt lookup decoding",
    "token_healing": "token healing",
    "top_h": "top-h sampling",
    "use_mtp": "multi-token prediction",
}


@dataclass(frozen=True)
class Policy:
    """Names, meanings and defaults of Transformers 5; lengths count a row's own tokens, never padding.

    seed: of the counter-based generator. Equal options and seed give the same text on the same device."""

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_length: int = 0
    min_new_tokens: int | None = None
    early_stopping: bool | str = False
    max_time: float | None = None
    stop_strings: tuple[str, ...] = ()
    eos_token_id: tuple[int, ...] = ()
    do_sample: bool = False
    num_beams: int = 1
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    penalty_alpha: float | None = None
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_p: float | None = None
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    sequence_bias: tuple[tuple[tuple[int, ...], float], ...] = ()
    forced_bos_token_id: int | None = None
    forced_eos_token_id: tuple[int, ...] = ()
    exponential_decay_length_penalty: tuple[int, float] | None = None
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self):
        for name, (fits, allowed) in self._ranges().items():
            if not fits:
                raise UserError(
                    f"{name} is {getattr(self, name)}; it can be {allowed}", where=f"generate.{name}", outcome="nothing was generated"
                )
        self._check_together()

    def _ranges(self) -> dict[str, tuple[bool, str]]:
        """Whether each number is one that Transformers takes, and which ones are."""

        def optional(value, fits) -> bool:
            return value is None or fits(value)

        return {
            "max_new_tokens": (optional(self.max_new_tokens, lambda n: n >= 1), "1 or more"),
            "max_length": (optional(self.max_length, lambda n: n >= 1), "1 or more"),
            "min_length": (self.min_length >= 0, "0 (off) or more"),
            "min_new_tokens": (optional(self.min_new_tokens, lambda n: n >= 0), "0 or more"),
            "max_time": (optional(self.max_time, lambda t: t > 0), "above 0 seconds"),
            "early_stopping": (self.early_stopping in (True, False, "never"), "true, false or never"),
            "num_beams": (self.num_beams >= 1, "1 (off) or more"),
            "num_return_sequences": (self.num_return_sequences >= 1, "1 or more"),
            "penalty_alpha": (optional(self.penalty_alpha, lambda a: 0 <= a <= 1), "from 0 (off) to 1"),
            "temperature": (self.temperature > 0, "above 0 (greedy: do_sample=false)"),
            "top_k": (self.top_k >= 0, "0 (off) or more"),
            "top_p": (0 < self.top_p <= 1, "above 0, at most 1 (off)"),
            "min_p": (optional(self.min_p, lambda p: 0 <= p <= 1), "from 0 (off) to 1"),
            "typical_p": (0 < self.typical_p <= 1, "above 0, at most 1 (off)"),
            "epsilon_cutoff": (0 <= self.epsilon_cutoff < 1, "from 0 (off) to below 1"),
            "eta_cutoff": (0 <= self.eta_cutoff < 1, "from 0 (off) to below 1"),
            "repetition_penalty": (self.repetition_penalty > 0, "above 0; 1 is off"),
            "no_repeat_ngram_size": (self.no_repeat_ngram_size >= 0, "0 (off) or more"),
        }

    def _check_together(self) -> None:
        if self.num_beams == 1 and not self.do_sample and self.num_return_sequences > 1:
            raise UserError(
                f"num_return_sequences is {self.num_return_sequences}; greedy search has one result",
                where="generate.num_return_sequences",
                hint="do_sample=true or num_beams of as many gives several",
            )
        if 1 < self.num_beams < self.num_return_sequences:
            raise UserError(
                f"num_return_sequences is {self.num_return_sequences}; {self.num_beams} beams have {self.num_beams} results",
                where="generate.num_return_sequences",
            )
        if self.contrastive and (self.do_sample or self.num_beams > 1):
            raise UserError(
                "penalty_alpha asks for contrastive search, which neither samples nor has beams",
                where="generate.penalty_alpha",
                hint="do_sample=false and num_beams=1 go with it",
            )
        needs_end = {
            "min_length": self.min_length,
            "min_new_tokens": self.min_new_tokens,
            "exponential_decay_length_penalty": self.exponential_decay_length_penalty,
        }
        for name, value in needs_end.items():
            if value and not self.eos_token_id and name == "exponential_decay_length_penalty":
                raise UserError(f"{name} acts on the end token; there is no eos_token_id", where=f"generate.{name}")

    @property
    def contrastive(self) -> bool:
        return bool(self.penalty_alpha) and self.top_k > 1

    @property
    def drawing(self) -> Drawing:
        """What the device does."""
        if not self.do_sample:
            return Drawing(repetition_penalty=self.repetition_penalty, seed=self.seed)
        return Drawing(
            True,
            self.temperature,
            self.top_k,
            0.0 if self.top_p >= 1 else self.top_p,
            self.min_p or 0.0,
            0.0 if self.typical_p >= 1 else self.typical_p,
            self.epsilon_cutoff,
            self.eta_cutoff,
            self.repetition_penalty,
            self.seed,
        )

    @property
    def on_device(self) -> bool:
        """Whether the device chooses alone: no beams, and no rule that looks at the tokens before or at how many there are."""
        rules = (
            self.min_length,
            self.min_new_tokens,
            self.no_repeat_ngram_size,
            self.bad_words_ids,
            self.sequence_bias,
            self.forced_eos_token_id,
            self.exponential_decay_length_penalty,
            self.suppress_tokens,
            self.begin_suppress_tokens,
            self.forced_bos_token_id is not None,
        )
        return self.num_beams == 1 and not self.contrastive and not any(rules)

    def new_tokens(self, prompt: int, default: int = 64) -> int:
        """Most tokens after a prompt of so many."""
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        return default if self.max_length is None else self.max_length - prompt


NAMES = tuple(field.name for field in fields(Policy))


def policy_from(options: Mapping[str, Any], place: str, base: Policy | None = None) -> Policy:
    """`base` with the given options; None leaves one as it is. An option that is not implemented is refused by name, an unknown one too."""
    changes = {}
    for name, value in options.items():
        if value is None or name in IGNORED:
            continue
        if name in REFUSED:
            if value not in NOT_SET:
                raise UserError(
                    f"{name} is not implemented: {REFUSED[name]}", where=place, hint=f"leave {name} out", outcome="nothing was generated"
                )
        elif name not in NAMES:
            raise UserError(
                f"{name} is not an option of generation", where=place, nearest=nearest(name, NAMES), outcome="nothing was generated"
            )
        else:
            changes[name] = _value(name, value, place)
    return replace(base or Policy(), **changes)


def _value(name: str, value: Any, place: str) -> Any:
    """A JSON value as the dataclass holds it."""
    try:
        if name in ("eos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens"):
            return tuple(_token(name, number) for number in (value if isinstance(value, (list, tuple)) else [value]))
        if name == "stop_strings":
            return tuple([value] if isinstance(value, str) else value)
        if name == "bad_words_ids":
            return tuple(tuple(_token(name, number) for number in word) for word in value)
        if name == "sequence_bias":
            pairs = value.items() if isinstance(value, Mapping) else value
            return tuple((tuple(_token(name, number) for number in ids), float(bias)) for ids, bias in pairs)
        if name == "exponential_decay_length_penalty":
            start, factor = value
            return int(start), float(factor)
    except (TypeError, ValueError):
        raise UserError(f"{name} is {value!r}, which is not what it takes", where=place) from None
    kinds = {"int": int, "float": (int, float), "bool": bool}
    wanted = next(field.type for field in fields(Policy) if field.name == name).partition(" |")[0]
    fits = isinstance(value, kinds.get(wanted, object)) and (wanted == "bool" or not isinstance(value, bool))
    if not fits and not (name == "early_stopping" and isinstance(value, str)):
        words = {"int": "a whole number", "float": "a number", "bool": "true or false"}[wanted]
        raise UserError(f"{name} is {value!r}; it is {words}", where=place)
    return float(value) if wanted == "float" else value


def _token(name: str, number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise TypeError(name)
    return number


def package_policy(folder: str | Path) -> Policy:
    """What a package asks for: generation_config.json, and eos_token_id of config.json where that has none."""
    folder = Path(folder)
    found, config = _read(folder / "generation_config.json"), _config(folder / "config.json")
    if found.get("eos_token_id") is None and config.get("eos_token_id") is not None:
        found = found | {"eos_token_id": config["eos_token_id"]}
    place = folder / ("generation_config.json" if (folder / "generation_config.json").is_file() else "config.json")
    return policy_from(found, str(place))


def _config(path: Path) -> dict:
    """config.json; nothing where it is not JSON, since reading the model says so, with the line."""
    try:
        return _read(path)
    except UserError:
        return {}


def _read(path: Path) -> dict:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise UserError(f"{path.name} is not JSON", where=str(path)) from None
    return found if isinstance(found, dict) else {}
