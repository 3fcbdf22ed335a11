"""Rows of a data set on a hub, through the `datasets` library (HF_ENDPOINT and HF_HUB_OFFLINE are respected by it)."""

from __future__ import annotations

from collections.abc import Iterator

from hierarchos.data.rows import Row, RowReport
from hierarchos.errors import UserError


def read_hub_rows(
    name: str, report: RowReport, subset: str | None = None, split: str = "train", revision: str | None = None
) -> Iterator[Row]:
    """Yields the rows of `name` (downloaded whole, then cached by the library). What cannot be had raises `UserError`."""
    import datasets

    try:
        table = datasets.load_dataset(name, name=subset, split=split, revision=revision, streaming=False)
    except (OSError, ValueError, KeyError) as error:
        raise _unavailable(name, subset, split, error) from None
    place = f"{name}/{subset}" if subset else name
    for number, fields in enumerate(table, 1):
        report.rows += 1
        yield Row(f"{place}[{split}]", number, dict(fields), "row")


def _unavailable(name: str, subset: str | None, split: str, error: Exception) -> UserError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    asked = f"data.repo={name}" + (f" data.subset={subset}" if subset else "") + f" data.split={split}"
    hint = [reason, "without a network, give files instead:"]
    return UserError(f"the data set {name} cannot be loaded", where=asked, hint=hint, command="data.source=files data.path=rows.jsonl")
