"""Records as a table: the worst of each kind of quantity for each variant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from validation.parity.gates import Record

DOCS = Path(__file__).parents[2] / "docs" / "parity.md"
KINDS = (("logits", "logits"), ("loss", "loss"), ("gradient of", "gradients"), ("no gradient", "gradients"),
         ("2 steps, eps 0.001, decay 0,", "2 steps, eps 1e-3"), ("10 steps, eps 0.001, decay 0.1,", "10 steps, eps 1e-3, decay 0.1"),
         ("decay 0.1, rms", "10 steps, eps 1e-8, decay 0.1, rms"), ("decay 0.1, max of firm", "same, max"), ("package", "packages"))


def kind_of(quantity: str) -> str:
    """The column of a quantity."""
    if "package" in quantity:
        return "packages"
    return next(column for part, column in KINDS if part in quantity)


def share(record: Record) -> float:
    """Error as a share of its gate; at most 1 passes."""
    if record.gate == 0:
        return 0.0 if record.error == 0 else float("inf")
    return record.error / record.gate if record.error == record.error else float("inf")


def worst(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, Record]]:
    """(model_type, variant) -> column -> the record closest to its gate."""
    table: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        row = table.setdefault((record.model_type, record.variant), {})
        column = kind_of(record.quantity)
        if column not in row or share(record) > share(row[column]):
            row[column] = record
    return table


def markdown(records: list[Record]) -> str:
    """The page in docs/: error / gate of the worst tensor in each cell."""
    columns = list(dict.fromkeys(column for _, column in KINDS))
    lines = ["# Parity with Transformers", "",
             "Written by `python -m validation.parity --write-docs`; not edited by hand. Each cell is the error of the worst tensor and",
             "the gate that it must not pass (design decision 10: at most twice PyTorch's own float32 error, or 2e-7 of the largest value;",
             "2 steps: 2e-7 without exception). The truth is Transformers with everything in float64. With eps 1e-8, AdamW turns rounding",
             "noise into full steps: PyTorch in another order of the same sums misses the gate that its usual order sets in 2.8 % of",
             "comparisons (39 of 1410), so there PyTorch's error is the largest over twelve orders.", "",
             f"Device: {records[0].device}, {records[0].driver}. {sum(r.passed for r in records)} of {len(records)} comparisons pass.", "",
             "| model | variant | " + " | ".join(columns) + " |", "|" + " --- |" * (len(columns) + 2)]
    for (model_type, variant), row in worst(records).items():
        lines.append(f"| {model_type} | {variant} | " + " | ".join(_cell(row.get(column)) for column in columns) + " |")
    return "\n".join(lines) + "\n"


def _cell(record: Record | None) -> str:
    if record is None:
        return ""
    if record.gate == 0:
        return "equal" if record.error == 0 else f"**{record.error:.1e}**"
    text = f"{record.error:.1e} / {record.gate:.1e}"
    return text if record.passed else f"**{text}**"


def line(records: list[Record]) -> str:
    """One variant in one line, for a person who waits."""
    (key, row), = worst(records).items()
    failed = [record for record in records if not record.passed]
    shares = ", ".join(f"{column} {share(record):.2f}" for column, record in row.items())
    text = f"{'ok  ' if not failed else 'FAIL'} {key[0]}: {key[1]} ({len(records)} comparisons; error / gate: {shares})"
    details = [f"       {r.quantity}: error {r.error:.2e}, gate {r.gate:.2e}, PyTorch {r.pytorch_error:.2e}" for r in failed[:6]]
    return "\n".join([text, *details])
