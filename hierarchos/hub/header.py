"""The header of a safetensors file, read with distrust: whatever is inconsistent is refused before any tensor is touched.

Format: 8 bytes little-endian length N, N bytes of JSON {name: {dtype, shape, data_offsets: [start, stop]}}, then the tensors' bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hierarchos.errors import UserError

MAX_HEADER = 100_000_000     # bytes; the format's own limit
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
              "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}


class BadTensorFile(UserError):
    """A safetensors file that is truncated, inconsistent or hostile. Nothing was read from it."""


@dataclass(frozen=True)
class Entry:
    """One tensor: bytes start .. stop of the file (absolute)."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(path: Path) -> tuple[dict[str, Entry], dict[str, str]]:
    """Entries by name, and the metadata; raises `BadTensorFile` with the place and the reason."""
    size = path.stat().st_size
    with path.open("rb") as file:
        text = _header_bytes(path, file, size)
    origin = 8 + len(text)
    parsed = _parse(path, text)
    metadata = parsed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _bad(path, "__metadata__ is not an object of strings")
    entries = {name: _entry(path, name, value, origin) for name, value in parsed.items()}
    _check_layout(path, entries, origin, size)
    return entries, metadata


def _header_bytes(path: Path, file, size: int) -> bytes:
    if size < 8:
        raise _bad(path, f"the file has {size} bytes; it is truncated", download=True)
    length = int.from_bytes(file.read(8), "little")
    if length > MAX_HEADER:
        raise _bad(path, f"the header claims {length} bytes; at most {MAX_HEADER} are allowed, so this is not a safetensors file")
    if 8 + length > size:
        raise _bad(path, f"the header claims {length} bytes, the file has {size}; it is truncated", download=True)
    return file.read(length)


def _parse(path: Path, text: bytes) -> dict:
    try:
        parsed = json.loads(text.decode("utf-8"), object_pairs_hook=lambda pairs: _unique(path, pairs))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _bad(path, f"the header is not JSON ({type(error).__name__})") from None
    if not isinstance(parsed, dict):
        raise _bad(path, "the header is not an object")
    return parsed


def _unique(path: Path, pairs: list[tuple[str, object]]) -> dict:
    found: dict = {}
    for name, value in pairs:
        if name in found:
            raise _bad(path, f"{name!r} stands twice in the header")
        found[name] = value
    return found


def _entry(path: Path, name: str, value, origin: int) -> Entry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _bad(path, f"{name!r} needs dtype, shape and data_offsets, nothing else")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if dtype not in ITEM_BYTES:
        raise _bad(path, f"{name!r} has dtype {dtype!r}; known are {', '.join(ITEM_BYTES)}")
    if not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise _bad(path, f"{name!r} has shape {shape} and data_offsets {offsets}; lists of whole numbers from 0 are needed")
    nbytes = ITEM_BYTES[dtype]
    for extent in shape:
        nbytes *= extent
    start, stop = offsets
    if stop - start != nbytes:
        raise _bad(path, f"{name!r} {dtype}{shape} needs {nbytes} bytes, its data_offsets span {stop - start}")
    return Entry(dtype, tuple(shape), origin + start, origin + stop)


def _counts(value) -> bool:
    return isinstance(value, list) and all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in value)


def _check_layout(path: Path, entries: dict[str, Entry], origin: int, size: int) -> None:
    """The tensors must cover the bytes after the header exactly once."""
    end, last = origin, "the header"
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.stop > size:
            raise _bad(path, f"{name!r} ends at byte {entry.stop}, the file has {size}; it is truncated", download=True)
        if entry.start < end:
            raise _bad(path, f"{name!r} overlaps {last}")
        if entry.start > end:
            raise _bad(path, f"{entry.start - end} bytes between {last} and {name!r} belong to no tensor")
        end, last = entry.stop, repr(name)
    if end != size:
        raise _bad(path, f"{size - end} bytes after {last} belong to no tensor")


def _bad(path: Path, what: str, download: bool = False) -> BadTensorFile:
    hint = "copy or download it again" if download else ()
    return BadTensorFile(f"not a usable safetensors file: {what}", where=str(path), hint=hint, outcome="nothing was loaded")
