"""Rotary settings of config.json: `rope_parameters`, or the older rope_theta, rope_scaling and partial_rotary_factor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hierarchos.errors import nearest
from hierarchos.models.config import Fields, UnsupportedField
from hierarchos.nn.rope_scaling import Alpha, Dynamic, Linear, Llama3, LongRope, Scaling, Unscaled, Yarn
from hierarchos.nn.rotary import Rope

ORIGINAL = "original_max_position_embeddings"
NEEDED = {
    "default": (), "linear": ("factor",), "dynamic": ("factor",), "yarn": ("factor",), "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"), "ntk-alpha": ("alpha",),
}
OPTIONAL = {
    "ntk-alpha": ("factor",), "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "longrope": ("attention_factor", "factor"),
}
SPELLINGS = {"su": "longrope", "mrope": "default"}
# Sections of channels for positions in time, height and width: a text has one position for all three.
SECTIONS = ("mrope_section", "mrope_interleaved", "xdrope_section")


@dataclass(frozen=True)
class Defaults:
    """What a family assumes. part: rotated share of a head. also: keys that the family reads for itself. spellings: kind -> kind.
    alpha: "dynamic" with an alpha means "ntk-alpha"."""

    theta: float = 10000.0
    part: float = 1.0
    parameters: dict | None = None
    also: tuple[str, ...] = ()
    spellings: tuple[tuple[str, str], ...] = ()
    alpha: bool = False


def read_rope(fields: Fields, head_width: int, max_positions: int, theta: float = 10000.0, part: float = 1.0, **defaults) -> Rope:
    """The rope of a model whose layers all share one. Defaults: `theta`, the rotated `part` of the head, and those of `Defaults`."""
    fields.harmless("rope_scaling", "rope_parameters")
    found = fields.mapping("rope_scaling") or fields.mapping("rope_parameters") or defaults.get("parameters") or {}
    return resolve_rope(fields, found, head_width, max_positions, Defaults(theta, part, **defaults))


def read_ropes(fields: Fields, kinds: Iterable[str], head_width: int, max_positions: int,
               theta: dict[str, float]) -> dict[str, Rope | None]:
    """The rope of each kind of layer, from nested rope_parameters or older flat ones; None where the file says null.

    theta: the default of each kind. A rope_scaling of older files acts on full layers only, as in the reference."""
    nested = dict(fields.mapping("rope_parameters") or {})
    older = fields.mapping("rope_scaling")
    if nested and not set(nested) & set(theta):
        raise fields.refuse("rope_parameters", "an object for each of " + ", ".join(theta))
    extra = set(nested) - set(theta) - {"rope_theta", "rope_type"}      # released files have those two left over beside the kinds
    if extra:
        raise fields.refuse("rope_parameters", "only " + ", ".join(theta), nearest(min(extra), theta))
    ropes = {}
    for kind in theta:
        found = nested.get(kind, {})
        if older and kind == "full_attention":
            found = {**(found or {}), **older}
        ropes[kind] = None if found is None else resolve_rope(fields, found, head_width, max_positions, Defaults(theta[kind]), top=False)
    return {kind: ropes[kind] for kind in kinds}


def resolve_rope(fields: Fields, found: dict, head_width: int, max_positions: int, defaults: Defaults, top: bool = True) -> Rope:
    """One object of rope_parameters -> explicit values. top: rope_theta and partial_rotary_factor may stand beside it."""
    theta, part = defaults.theta, defaults.part
    if top:
        theta = fields.number("rope_theta", theta)
        part = fields.number("partial_rotary_factor", part, below=1.0000001)
    given = {name: value for name, value in found.items() if value is not None and name not in SECTIONS and name not in defaults.also}
    kind = given.pop("rope_type", given.pop("type", "default"))
    given.pop("type", None)
    kind = {**SPELLINGS, **dict(defaults.spellings)}.get(kind, kind)
    if kind == "dynamic" and defaults.alpha and given.get("alpha"):
        kind = "ntk-alpha"
    if kind not in NEEDED:
        raise UnsupportedField(f"rope_type {kind!r} of {fields.model_type} is not implemented", where=f"{fields.where}: rope_parameters",
                               nearest=nearest(str(kind), NEEDED), hint="implemented: " + ", ".join(NEEDED))
    theta, part = given.pop("rope_theta", theta), given.pop("partial_rotary_factor", part)
    original = fields.integer(ORIGINAL, None) if top else None      # Phi-3 has it outside, which wins in the reference
    original = original or given.get(ORIGINAL) or max_positions
    given.pop(ORIGINAL, None)
    if kind in ("yarn", "longrope"):
        given.setdefault("factor", max_positions / original)
    width = int(head_width * part)
    if width % 2 or width < 2:
        raise UnsupportedField(f"{width} of {head_width} channels are rotated; pairs need an even number", where=fields.where)
    _check(fields, kind, {"rope_theta": theta, **given}, width)
    return Rope(float(theta), width, _scaling(kind, given, original, max_positions))


def _scaling(kind: str, given: dict, original: int, max_positions: int) -> Scaling:
    if kind == "linear":
        return Linear(float(given["factor"]))
    if kind == "ntk-alpha":
        return Alpha(float(given["alpha"]))
    if kind == "dynamic":
        return Dynamic(float(given["factor"]), max_positions)
    if kind == "llama3":
        return Llama3(float(given["factor"]), float(given["low_freq_factor"]), float(given["high_freq_factor"]), int(original))
    if kind == "longrope":
        amplitude = given.get("attention_factor", LongRope.natural_amplitude(given["factor"], original))
        return LongRope(tuple(map(float, given["short_factor"])), tuple(map(float, given["long_factor"])), int(original), float(amplitude))
    return _yarn(given, original) if kind == "yarn" else Unscaled()


def _yarn(given: dict, original: int) -> Yarn:
    """The two mscales matter only together, as in the reference."""
    scales = given.get("mscale"), given.get("mscale_all_dim")
    natural = Yarn.natural_amplitude(given["factor"], *(scales if all(scales) else ()))
    return Yarn(float(given["factor"]), int(original), float(given.get("attention_factor", natural)), float(given.get("beta_fast") or 32),
                float(given.get("beta_slow") or 1), given.get("truncate", True))


def _check(fields: Fields, kind: str, given: dict, width: int) -> None:
    """Refuses unknown keys, missing factors and impossible numbers."""
    where = f"{fields.where}: rope_parameters"
    known = ("rope_theta", "partial_rotary_factor", *NEEDED[kind], *OPTIONAL.get(kind, ()))
    left = [name for name in given if name not in known]
    if left:
        raise UnsupportedField(f"{left[0]} = {given[left[0]]} is not implemented for rope_type {kind!r}", where=where,
                               nearest=nearest(left[0], known))
    missing = [name for name in NEEDED[kind] if name not in given]
    if missing:
        raise UnsupportedField(f"rope_type {kind!r} needs {', '.join(missing)}", where=where)
    for name, value in given.items():
        values = value if name in ("short_factor", "long_factor") and isinstance(value, list) else [value]
        if name == "truncate" and isinstance(value, bool):
            continue
        if any(isinstance(one, bool) or not isinstance(one, (int, float)) or one <= 0 for one in values):
            raise UnsupportedField(f"{name} is {value!r}; a number above 0 is needed", where=where)
        if values is value and len(values) != width // 2:
            raise UnsupportedField(f"{name} has {len(values)} numbers; {width // 2} pairs of channels are rotated", where=where)
