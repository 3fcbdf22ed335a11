"""What was found as a page in docs/, and as verdicts on architectures."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from hierarchos.models.records import Verdict
from validation.parity.gates import Record, share
from validation.peft_parity.cases import ENOUGH, SEEDS, cases_of

DOCS = Path(__file__).parents[2] / "docs" / "peft-parity.md"
COLUMNS = (("gradient of", "gradients"), ("after 2 steps, eps 0.001", "2 steps, eps 1e-3"),          # what names parameters comes first
           ("after 2 steps, eps 1e-08, decay 0.01, rms", "2 steps, eps 1e-8, rms"), ("after 2 steps, eps 1e-08", "same, max"),
           ("after 10 steps, eps 1e-08, decay 0.01, rms", "10 steps, eps 1e-8, rms"), ("after 10 steps, eps 1e-08", "10 steps, max"),
           ("package", "merge, unmerge"), (" adapter ", "files both ways"), ("logits", "logits"), ("loss", "loss"),
           ("trained parameters", "names, frozen base"), ("frozen base", "names, frozen base"))
INTRODUCTION = """# Adapters beside PEFT

Written by `python -m validation.peft_parity --write-docs`; not edited by hand. Cells: error of the worst tensor, and the gate that it
must not pass, as in [parity.md](parity.md): the truth is PEFT {peft} with everything in float64, p the error of one run of PyTorch in
float32. Token ids are chosen by a rule that looks at PyTorch only (`python -m validation.peft_parity.seeds`).
{reached} of {cases} adapters reach the rule's {enough}, the worst is at {furthest}. AdamW has
decay 0.01 where eps is 1e-8. "Files both ways": our adapter in PEFT gives equal logits, and either's file here equal parameters. "Merge":
the merged package in Transformers, beside PEFT's own merge; taking the adapter out again gives the base within 3e-7 of its largest value.

Device: {device}, {driver}. {passed} of {total} comparisons pass, of {cases} adapters on {families} families.

"""


def column_of(quantity: str) -> str:
    """The column of a quantity."""
    return next(column for part, column in COLUMNS if part in quantity)


def worst(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, Record]]:
    """(model_type, adapter) -> column -> the record closest to its gate."""
    table: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        row, column = table.setdefault((record.model_type, record.variant), {}), column_of(record.quantity)
        if column not in row or share(record) > share(row[column]):
            row[column] = record
    return table


def markdown(records: list[Record]) -> str:
    """The page."""
    table, columns = worst(records), list(dict.fromkeys(column for _, column in COLUMNS))
    shares = [SEEDS[family][case.name]["share"] for family in {family for family, _ in table} for case in cases_of(family)
              if (family, f"{case.name}, {case.case.name}") in table]
    lines = [INTRODUCTION.format(peft=version("peft"), enough=ENOUGH, reached=sum(share <= ENOUGH for share in shares),
                                 furthest=max(shares, default=0.0), device=records[0].device, driver=records[0].driver,
                                 passed=sum(record.passed for record in records), total=len(records), cases=len(table),
                                 families=len({family for family, _ in table})) +
             "| model | adapter | " + " | ".join(columns) + " |", "|" + " --- |" * (len(columns) + 2)]
    lines += [f"| {family} | {variant} | " + " | ".join(cell(row.get(column)) for column in columns) + " |"
              for (family, variant), row in table.items()]
    return "\n".join(lines) + "\n"


def cell(record: Record | None) -> str:
    """Error / gate; bold where it fails."""
    if record is None:
        return ""
    text = ("equal" if record.error == 0 else f"{record.error:.1e}") if record.gate == 0 else f"{record.error:.1e} / {record.gate:.1e}"
    return text if record.passed else f"**{text}**"


def verdicts_of(records: Iterable[Record]) -> list[Verdict]:
    """Verdicts on the families of which every adapter was run."""
    found: dict[tuple, list[bool]] = {}
    records = list(records)
    for record in records:
        found.setdefault((record.model_type, record.device, record.driver), []).append(record.passed)
    run = {(record.model_type, record.variant) for record in records}
    whole = {name for name, *_ in found if all((name, f"{case.name}, {case.case.name}") in run for case in cases_of(name))}
    return [Verdict(name, "lora", device, driver, sum(passed), len(passed))
            for (name, device, driver), passed in found.items() if name in whole]
