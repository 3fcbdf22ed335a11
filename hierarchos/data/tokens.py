"""Rows that hold token ids already: `input_ids` with labels, attention mask and loss weights as Transformers writes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hierarchos.data.json_arrays import kind_of
from hierarchos.data.rows import BadRow

UNTRAINED = -100  # the label of tokens that are context only, as in Transformers


def checked_tokens(fields: dict[str, Any]) -> dict[str, np.ndarray]:
    """Arrays `ids` int32 [N] and `weights` float32 [N] of the attended tokens; anything unclear raises `BadRow`."""
    ids = _integers("input_ids", fields.get("input_ids"))
    if ids.size == 0:
        raise BadRow("empty text", "input_ids is empty")
    if (ids < 0).any():
        raise BadRow("negative id", f"input_ids[{int(np.argmax(ids < 0))}] is {ids.min()}; ids start at 0")
    weights = _weights(fields, ids)
    mask = fields.get("attention_mask")
    if mask is not None:
        kept = _attended(_same_length("attention_mask", _integers("attention_mask", mask), ids))
        ids, weights = ids[kept], weights[kept]
    return {"ids": ids.astype(np.int32), "weights": weights}


def _weights(fields: dict[str, Any], ids: np.ndarray) -> np.ndarray:
    weights = np.ones(ids.size, np.float32)
    if fields.get("loss_weights") is not None:
        weights = _same_length("loss_weights", _numbers("loss_weights", fields["loss_weights"]), ids).astype(np.float32)
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise BadRow("loss weight", "loss_weights holds a negative or not finite number")
    if fields.get("labels") is not None:
        labels = _same_length("labels", _integers("labels", fields["labels"]), ids)
        other = (labels != UNTRAINED) & (labels != ids)
        if other.any():
            at = int(np.argmax(other))
            raise BadRow("labels", f"labels[{at}] is {labels[at]} where input_ids has {ids[at]}; a label is the same id or {UNTRAINED}")
        weights = np.where(labels == UNTRAINED, np.float32(0), weights)
    return weights


def _attended(mask: np.ndarray) -> np.ndarray:
    kept = np.flatnonzero(mask)
    if kept.size == 0:
        raise BadRow("empty text", "attention_mask is 0 everywhere")
    if kept[-1] - kept[0] + 1 != kept.size:
        raise BadRow("attention mask", "attention_mask has a hole; only padding at the ends can be masked")
    return kept


def _integers(name: str, value: Any) -> np.ndarray:
    array = _numbers(name, value)
    if array.size and array.dtype.kind not in "iu":
        raise BadRow("not integers", f"{name} holds numbers that are not integers")
    return array.astype(np.int64)


def _numbers(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise BadRow("not a list", f"{name} is {kind_of(value)}, not a list of numbers")
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        array = np.empty(0, object)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iuf"):
        raise BadRow("not a list", f"{name} must be a flat list of numbers")
    return array


def _same_length(name: str, array: np.ndarray, ids: np.ndarray) -> np.ndarray:
    if array.size != ids.size:
        raise BadRow("unequal lengths", f"{name} has {array.size} entries where input_ids has {ids.size}")
    return array
