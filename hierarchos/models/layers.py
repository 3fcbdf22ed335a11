"""Per-layer values of config.json: which layers see a sliding window."""

from __future__ import annotations

from hierarchos.models.config import Fields

LAYER_TYPES = ("full_attention", "sliding_attention")


def read_windows(fields: Fields, layers: int, default_window: int | None) -> tuple[int | None, ...]:
    """The window of each layer (None: all earlier keys), for families with use_sliding_window, max_window_layers and layer_types."""
    window = fields.integer("sliding_window", default_window)
    enabled = fields.boolean("use_sliding_window", False)
    first = fields.integer("max_window_layers", 28, minimum=0)
    window = window if enabled else None
    types = fields.any("layer_types")
    if types is None:
        types = [LAYER_TYPES[window is not None and index >= first] for index in range(layers)]
    check_layer_types(fields, types, layers)
    if window is None and LAYER_TYPES[1] in types:
        raise fields.refuse("layer_types", "sliding layers only with use_sliding_window = true and a sliding_window")
    return tuple(window if kind == LAYER_TYPES[1] else None for kind in types)


def read_layer_types(fields: Fields, layers: int, is_full=None) -> list[str]:
    """layer_types, or where they are absent full attention in the layers for which `is_full(index)` (None: in all)."""
    types = fields.any("layer_types")
    if types is None:
        types = [LAYER_TYPES[is_full is not None and not is_full(index)] for index in range(layers)]
    check_layer_types(fields, types, layers)
    return types


def windows_of(fields: Fields, types: list[str], name: str = "sliding_window") -> tuple[int | None, ...]:
    """The window of each layer (None: all earlier keys); refuses sliding layers without a window."""
    window = fields.integer(name, None)
    if window is None and LAYER_TYPES[1] in types:
        raise fields.refuse(name, "a number of keys: layer_types has sliding layers")
    return tuple(window if kind == LAYER_TYPES[1] else None for kind in types)


def every(interval: int, rest: int = -1):
    """Which layers are full: those with index % interval == rest (-1: the last of each group)."""
    return lambda index: index % interval == rest % interval


def check_layer_types(fields: Fields, types, layers: int) -> None:
    """Refuses a list of layer types that has another length or unknown names."""
    if not isinstance(types, list) or len(types) != layers:
        raise fields.refuse("layer_types", f"a list with one name for each of the {layers} layers")
    if set(types) - set(LAYER_TYPES):
        raise fields.refuse("layer_types", " or ".join(LAYER_TYPES) + " for each layer")
