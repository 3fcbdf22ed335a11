"""From the paths that a person gives to files, and from files to UTF-8 lines that know their place."""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hierarchos.errors import UserError, nearest

FORMATS = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
GZIP_MAGIC = b"\x1f\x8b"
UTF8_BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def find_files(paths: str | Path | list, where: str = "data.path") -> list[Path]:
    """Files for names, globs, folders and `corpus:shakespeare`, each sorted, none twice. Nothing found is an error at `where`."""
    found: list[Path] = []
    for path in paths if isinstance(paths, (list, tuple)) else [paths]:
        found += _find(str(path), where)
    return list(dict.fromkeys(found))


def _find(path: str, where: str) -> list[Path]:
    if path == "corpus:shakespeare":
        from hierarchos.data.corpus import corpus_files

        return corpus_files()
    if Path(path).is_file():
        return [Path(path)]
    if Path(path).is_dir():
        return _files_of_folder(Path(path), where)
    if glob.has_magic(path):
        matches = sorted(Path(match) for match in glob.glob(path, recursive=True) if Path(match).is_file())
        if matches:
            return matches
        raise _not_found(path, f"{path} matches no file", where)
    raise _not_found(path, f"{path} is not there", where)


def _files_of_folder(folder: Path, where: str) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and suffix_of(file) in FORMATS)
    if not files:
        raise UserError(f"{folder} holds no data files", where=where, hint=f"looked for {', '.join(FORMATS)}, each also with .gz")
    return files


def _not_found(path: str, what: str, where: str) -> UserError:
    """Names the closest file of the nearest folder that exists, and what else lies there."""
    folder = Path(path).parent
    while not folder.is_dir() or glob.has_magic(str(folder)):
        folder = folder.parent
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    close = nearest(Path(path).name, names, cutoff=0.5)
    shown = ", ".join(names[:6]) + (" ..." if len(names) > 6 else "") if names else "nothing"
    return UserError(what, where=where, nearest=str(folder / close) if close else None, hint=f"{folder} holds {shown}")


def suffix_of(path: Path) -> str:
    """The last suffix in lower case, that before `.gz` for compressed files."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def format_of(path: Path, stated: str = "auto") -> str:
    """The stated file format, or the one that the file's name says."""
    if stated != "auto":
        return _checked_format(stated)
    if suffix_of(path) not in FORMATS:
        raise UserError(
            f"{path.name} has no known ending",
            where=str(path),
            hint=f"known: {', '.join(FORMATS)}, each also with .gz",
            command="data.format=jsonl  (or text, json, csv, tsv, parquet)",
        )
    return FORMATS[suffix_of(path)]


def _checked_format(stated: str) -> str:
    valid = list(dict.fromkeys(FORMATS.values()))
    if stated not in valid:
        hint = f"formats: auto, {', '.join(valid)}"
        raise UserError(f"data.format={stated} is not a file format", nearest=nearest(stated, valid), hint=hint)
    return stated


def open_binary(path: Path) -> BinaryIO:
    """Opens a file for reading bytes, decompressing when its first bytes say gzip, whatever its name."""
    try:
        with open(path, "rb") as file:
            magic = file.read(2)
        return gzip.open(path, "rb") if magic == GZIP_MAGIC else open(path, "rb")
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=str(path)) from None


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, text with its line end). Anything but UTF-8 is an error with line and byte offset."""
    offset = 0
    with open_binary(path) as file:
        for number, raw in enumerate(_raw_lines(file, path), 1):
            yield number, decode(raw, path, number, offset)
            offset += len(raw)


def read_all(path: Path) -> bytes:
    """The whole file, decompressed."""
    with open_binary(path) as file:
        return b"".join(_raw_lines(file, path))


def _raw_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    seen = 0
    try:
        for raw in file:
            seen += len(raw)
            yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        ends = "ends early" if isinstance(error, EOFError) else "is damaged"
        hint = ["the download or copy was probably cut short; get the file again", f"check with  gzip -t {path.name}"]
        raise UserError(f"the gzip data {ends} after {seen} bytes of content", where=str(path), hint=hint) from None


def decode(raw: bytes, path: Path, line: int, offset: int) -> str:
    """Bytes of one line as text, without a byte order mark; `offset` is where they begin in the file."""
    if offset == 0 and raw.startswith(UTF16_BOMS):
        raise _not_utf8("the file is UTF-16, not UTF-8", f"{path}:{line}", "UTF-16", path)
    if offset == 0 and raw.startswith(UTF8_BOM):
        raw, offset = raw[len(UTF8_BOM) :], len(UTF8_BOM)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        what = f"byte 0x{byte:02x} at offset {offset + error.start} is not UTF-8"
        raise _not_utf8(what, f"{path}:{line}", "WINDOWS-1252", path, _as_windows(raw, error.start)) from None


def _as_windows(raw: bytes, start: int) -> str | None:
    """What the bytes around `start` say when they are Windows-1252, or None."""
    around = raw[max(0, start - 10) : start + 10].decode("cp1252", errors="ignore").strip()
    return f"as Windows-1252 it would read: {around}" if around else None


def _not_utf8(what: str, where: str, encoding: str, path: Path, reading: str | None = None) -> UserError:
    hint = ([reading] if reading else []) + ["files are read as UTF-8 on every system; convert this one:"]
    return UserError(what, where=where, hint=hint, command=f"iconv -f {encoding} -t UTF-8 {path.name} > utf8_{path.name}")
