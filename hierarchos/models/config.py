"""Reading config.json so that nothing passes unnoticed: every field is used, known to be harmless, or refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hierarchos.errors import UserError, nearest

ABSENT = object()
NULL_ONLY = (None,)

# Bookkeeping, generation defaults and training-time reports: none of them changes a text decoder's forward computation or loss.
HARMLESS_NAMES = """
    attn_implementation architectures auto_map
    model_type torch_dtype dtype transformers_version use_cache id2label label2id num_labels problem_type finetuning_task
    return_dict return_dict_in_generate output_attentions output_hidden_states output_scores task_specific_params tokenizer_class
    prefix bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id
    forced_bos_token_id forced_eos_token_id max_length min_length do_sample early_stopping num_beams num_beam_groups
    diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences exponential_decay_length_penalty suppress_tokens
    begin_suppress_tokens remove_invalid_values tf_legacy_loss use_bfloat16 torchscript pruned_heads gradient_checkpointing
    transformers.js_config base_model_tp_plan base_model_pp_plan chunk_size_feed_forward is_llama_config
    unsloth_version unsloth_fixed neftune_noise_alpha
"""
HARMLESS = frozenset(HARMLESS_NAMES.split())
PRIVATE = "_"      # fields such as _name_or_path: the reference's own bookkeeping

# Switches of the base class that must stand at the value that means "nothing special".
NEUTRAL = {
    "is_encoder_decoder": (False,), "is_decoder": (False, True), "add_cross_attention": (False,), "cross_attention_hidden_size": NULL_ONLY,
    "tie_encoder_decoder": (False,), "quantization_config": NULL_ONLY, "pretraining_tp": (1, None), "rope_interleaved": (False, None),
    "mrope_section": NULL_ONLY, "logit_scale": (None, 1, 1.0), "final_logit_softcapping": NULL_ONLY, "attn_logit_softcapping": NULL_ONLY,
}


class UnsupportedField(UserError):
    """A field of config.json that would change the computation and is not implemented, or has a value that is not possible."""


@dataclass
class Fields:
    """The fields of one config.json. Each read marks a field as used; `finish` refuses what nobody read."""

    raw: dict
    model_type: str
    where: str = "config.json"
    ignore: tuple[str, ...] = ()
    used: set[str] = field(default_factory=set)
    assumed: dict = field(default_factory=dict)

    def assume(self, **values) -> None:
        """What the family takes where a field is absent; a null field stays null."""
        self.assumed.update(values)

    def spelled(self, **common: str) -> None:
        """Other names of fields: `spelled(n_embd="hidden_size")` takes hidden_size where n_embd is absent."""
        for own, other in common.items():
            self.used.add(other)
            if own not in self.raw and other in self.raw:
                self.raw = {**self.raw, own: self.raw[other]}

    def any(self, name: str, default=None):
        """The value of `name`, or `default` where it is absent (and the family assumes nothing) or null."""
        self.used.add(name)
        value = self.raw.get(name) if name in self.raw else self.assumed.get(name)
        return default if value is None else value

    def integer(self, name: str, default: int | None = ABSENT, minimum: int = 1) -> int | None:
        value = self._present(name, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.refuse(name, f"a whole number of at least {minimum}")
        return value

    def number(self, name: str, default: float | None = ABSENT, minimum: float = 0.0, below: float = float("inf")) -> float | None:
        value = self._present(name, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not minimum <= value < below:
            bound = f"at least {minimum}" + ("" if below == float("inf") else f" and below {below}")
            raise self.refuse(name, f"a number, {bound}")
        return float(value)

    def boolean(self, name: str, default: bool) -> bool:
        value = self._present(name, default)
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        value = self._present(name, default)
        if value not in choices:
            raise self.refuse(name, "one of " + ", ".join(sorted(choices)), nearest(str(value), choices))
        return value

    def mapping(self, name: str) -> dict | None:
        value = self.any(name)
        if value is not None and not isinstance(value, dict):
            raise self.refuse(name, "an object")
        return value

    def harmless(self, *names: str) -> None:
        """Marks fields that this family has but that change neither forward computation nor loss."""
        self.used.update(names)

    def only(self, name: str, *values) -> None:
        """Refuses `name` unless it is absent or stands at one of `values`."""
        self.used.add(name)
        if name in self.raw and self.raw[name] not in values:
            raise self.refuse(name, " or ".join(_shown(v) for v in values) + " (other values are not implemented)")

    def finish(self) -> None:
        """Refuses, all at once, the fields that nothing has accounted for. A null field says nothing and is accepted."""
        for name, values in NEUTRAL.items():
            if name not in self.used:
                self.only(name, *values)
        known = self.used | HARMLESS | set(self.ignore)
        unknown = [name for name, value in self.raw.items() if name not in known and not name.startswith(PRIVATE) and value is not None]
        if not unknown:
            return
        listed = ", ".join(f"{name} = {_shown(self.raw[name])}" for name in unknown)
        raise UnsupportedField(
            f"{_last_part(self.where)} of {self.model_type} has fields that are not implemented: {listed}", where=self.where,
            nearest=nearest(unknown[0], self.used | set(self.raw) - set(unknown)),
            hint="each could change the computation, so none is skipped silently; where you know that it does not, remove it from the file")

    def refuse(self, name: str, expected: str, near: str | None = None) -> UnsupportedField:
        """The error for a value that is not possible here."""
        found = "absent" if name not in self.raw else _shown(self.raw[name])
        return UnsupportedField(f"{name} is {found}; {self.model_type} takes {expected}", where=self.where, nearest=near)

    def _present(self, name: str, default):
        value = self.any(name, default)
        if value is ABSENT:
            raise self.refuse(name, "a value here: it has no default")
        return value


def _last_part(where: str) -> str:
    """The file's name without its folder, which stands below."""
    return where.replace("\\", "/").rpartition("/")[2]


def _shown(value) -> str:
    import json

    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
