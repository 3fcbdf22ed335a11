"""Misses that are known: rounding, looked into and written down in known.json with the largest error that they may have.

    python -m validation.parity --known           # ends with 0 where only these miss; they are still named as misses

An entry has the model type, the variant, a part of the quantity's name, a part of the device's name, the largest error, how many
comparisons may miss, and why. A new miss, a larger error, or more of them than the entry says is not known."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from validation.parity.gates import Record

FILE = Path(__file__).with_name("known.json")


def entries() -> list[dict]:
    """What is in the file."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def entry_of(record: Record, known: list[dict]) -> int | None:
    """Index of the entry that a miss falls under; None where there is none."""
    return next((index for index, entry in enumerate(known) if covers(entry, record)), None)


def covers(entry: dict, record: Record) -> bool:
    """Whether the entry is about this comparison, and its error (NaN is not) within what the entry says."""
    return ((entry["model_type"], entry["variant"]) == (record.model_type, record.variant) and entry["quantity"] in record.quantity
            and entry["device"] in record.device and record.error <= entry["error"])


def split(missed: list[Record], known: list[dict]) -> tuple[list[Record], list[Record]]:
    """The misses that are known, and the others. Where more fall under an entry than it says, none of its misses is known."""
    found = [entry_of(record, known) for record in missed]
    counts = Counter(index for index in found if index is not None)
    within = [index is not None and counts[index] <= known[index]["comparisons"] for index in found]
    return [r for r, ok in zip(missed, within, strict=True) if ok], [r for r, ok in zip(missed, within, strict=True) if not ok]
