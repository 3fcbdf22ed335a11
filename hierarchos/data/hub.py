"""Rows of a data set on the Hub, through the `datasets` library: pinned to a commit, by the library's readers of files only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING

from hierarchos.data.rows import Row, RowReport
from hierarchos.errors import UserError, nearest
from hierarchos.hub.client import hub_client

if TYPE_CHECKING:
    from datasets import DatasetBuilder

READERS = ("parquet", "json", "csv", "text", "arrow")         # files of rows; others decode images, sounds or archives
NAMES = re.compile(r"'([^']*)'")


def read_hub_rows(
    name: str, report: RowReport, subset: str | None = None, split: str = "train", revision: str | None = None,
    streaming: bool = False, max_rows: int | None = None,
) -> Iterator[Row]:
    """Yields the rows of `name`: downloaded whole and kept in the cache, or with `streaming` read as they come, a few at a time.

    What cannot be had raises `UserError`."""
    place = f"{name}/{subset}" if subset else name
    for number, fields in enumerate(islice(load(name, subset, split, revision, streaming), max_rows), 1):
        report.rows += 1
        yield Row(f"{place}[{split}]", number, dict(fields), "row")


def load(name: str, subset: str | None, split: str, revision: str | None, streaming: bool) -> Iterator[dict]:
    """Rows as the library gives them; its errors, also those that come while it reads, as `UserError`."""
    datasets = library()
    try:
        builder = datasets.load_dataset_builder(name, name=subset, revision=revision)
        check_reader(builder, name)
        if streaming:
            table = builder.as_streaming_dataset(split=split)
        else:
            builder.download_and_prepare()
            table = builder.as_dataset(split=split)
        yield from table
    except UserError:
        raise
    except Exception as error:
        raise unavailable(error, name, subset, split, revision) from error


def library() -> ModuleType:
    """`datasets`, without bars where nobody watches."""
    import sys

    hub_client()
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def check_reader(builder: DatasetBuilder, name: str) -> None:
    """Only files of rows are read."""
    reader = type(builder).__module__.rpartition(".")[2]
    if reader not in READERS:
        raise UserError(f"the data set {name} holds {reader} files, not rows of text", where=f"data.repo={name}",
                        hint=f"what is read: {', '.join(READERS)}")


def unavailable(error: Exception, name: str, subset: str | None, split: str, revision: str | None) -> UserError:
    """An error of the library: a name that is not there, a refusal of the Hub, or what it said first."""
    from hierarchos.hub.refusals import refusal

    said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    if "BuilderConfig" in said or "Config name is missing" in said or "Unknown split" in said:
        key, given = ("split", split) if "Unknown split" in said else ("subset", subset)
        there = [found for found in NAMES.findall(str(error).replace('"', "'")) if found != given]
        close = nearest(given, there, 0.5) if given else None
        what = f"{name} has no {key} {given}" if given else f"{name} has several subsets, and none is chosen"
        command = f"data.{key}={there[0]}" if close is None and there else None
        return UserError(what, where=f"data.repo={name}", nearest=f"data.{key}={close}" if close else None,
                         hint=f"there is: {', '.join(there)}", command=command)
    if (told := refusal(error, "dataset", name, revision)) is not None:
        return told
    asked = f"data.repo={name}" + (f" data.subset={subset}" if subset else "") + f" data.split={split}"
    return UserError(f"the data set {name} cannot be read", where=asked, hint=[said, "files of your own are read without the Hub:"],
                     command="data=files data.path=rows.jsonl")
