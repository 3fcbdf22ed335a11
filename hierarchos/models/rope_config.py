"""Rotary settings of config.json: `rope_parameters`, or the older rope_theta, rope_scaling and partial_rotary_factor."""

from __future__ import annotations

from hierarchos.errors import nearest
from hierarchos.models.config import Fields, UnsupportedField
from hierarchos.nn.rotary import SCALED, Rope

LLAMA3_FIELDS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
TAKEN = {"default": (), "linear": ("factor",), "llama3": LLAMA3_FIELDS}


def read_rope(fields: Fields, head_width: int, max_positions: int, theta: float = 10000.0, part: float = 1.0) -> Rope:
    """The rope of a model whose layers all share one. Defaults: `theta`, and the rotated `part` of the head."""
    theta = fields.number("rope_theta", theta)
    part = fields.number("partial_rotary_factor", part, below=1.0000001)
    found = fields.mapping("rope_scaling") or fields.mapping("rope_parameters") or {}
    fields.harmless("rope_scaling", "rope_parameters")
    given = {name: value for name, value in found.items() if value is not None}
    kind = given.pop("rope_type", given.pop("type", "default"))
    given.pop("type", None)
    if kind not in TAKEN:
        raise UnsupportedField(f"rope_type {kind!r} of {fields.model_type} is not implemented", where=f"{fields.where}: rope_parameters",
                               nearest=nearest(str(kind), SCALED), hint="implemented: " + ", ".join(SCALED))
    theta, part = given.pop("rope_theta", theta), given.pop("partial_rotary_factor", part)
    scaling = {name: given.pop(name) for name in TAKEN[kind] if name in given}
    given.pop("original_max_position_embeddings", None)     # the other kinds do not read it
    _check(fields, kind, scaling, given, theta)
    width = int(head_width * part)
    if width % 2 or width < 2:
        raise UnsupportedField(f"{width} of {head_width} channels are rotated; pairs need an even number", where=fields.where)
    return _rope(kind, scaling, float(theta), width, max_positions)


def _rope(kind: str, scaling: dict, theta: float, width: int, max_positions: int) -> Rope:
    if kind == "llama3":
        return Rope(theta, width, kind, float(scaling["factor"]), float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"]),
                    int(scaling.get("original_max_position_embeddings", max_positions)))
    return Rope(theta, width, kind, float(scaling.get("factor", 1.0)))


def _check(fields: Fields, kind: str, scaling: dict, left: dict, theta) -> None:
    """Refuses unknown keys, missing factors and impossible numbers."""
    where = f"{fields.where}: rope_parameters"
    if left:
        name = next(iter(left))
        raise UnsupportedField(f"{name} = {left[name]} is not implemented for rope_type {kind!r}", where=where,
                               nearest=nearest(name, ("rope_theta", "partial_rotary_factor", *TAKEN[kind])))
    missing = [name for name in TAKEN[kind] if name not in scaling and name != "original_max_position_embeddings"]
    if missing:
        raise UnsupportedField(f"rope_type {kind!r} needs {', '.join(missing)}", where=where)
    for name, value in {"rope_theta": theta, **scaling}.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise UnsupportedField(f"{name} is {value!r}; a number above 0 is needed", where=where)
