"""The command: `python -m validation.peft_parity [FAMILIES] [OPTIONS]`. Ends with 1 when anything fails."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from validation.command import exit_with
from validation.parity.engine import open_engine
from validation.parity.gates import Record
from validation.peft_parity.cases import FAMILIES, cases_of
from validation.records import read, remember


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.peft_parity", description="Compares adapters with PEFT.")
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="all by default")
    parser.add_argument("--device", default="auto", help="auto, a number or part of a name")
    parser.add_argument("--case", default="", help="only adapters whose name contains this")
    parser.add_argument("--json", action="store_true", help="print the records as a JSON list")
    parser.add_argument("--from", dest="found", type=Path, metavar="FILE", help="do not run: take the records that --json printed")
    parser.add_argument("--write-docs", action="store_true", help="write docs/peft-parity.md")
    parser.add_argument("--write-records", action="store_true", help="write what passed into hierarchos/models/records.json")
    options = parser.parse_args()
    records = read(options.found) if options.found else run(options)
    if options.json:
        print(json.dumps([record.as_dict() for record in records], indent=1))
    failed = [record for record in records if not record.passed]
    print(f"{len(records) - len(failed)} of {len(records)} comparisons with PEFT pass", file=sys.stderr)
    write(options, records)
    return 1 if failed or not records else 0


def run(options) -> list[Record]:
    """All comparisons that are asked for."""
    from validation.peft_parity.compare import compare

    records, engine = [], open_engine(options.device)
    for family in options.families or FAMILIES:
        for case in cases_of(family):
            if options.case in case.name:
                found = compare(case, engine)
                records += found
                print(line(found), file=sys.stderr if options.json else sys.stdout, flush=True)
    return records


def write(options, records: list[Record]) -> None:
    """The page and the verdicts that were asked for."""
    from validation.peft_parity.report import DOCS, markdown, verdicts_of

    if options.write_docs:
        DOCS.write_text(markdown(records), encoding="utf-8")
    if options.write_records:
        remember(verdicts_of(records))


def line(records: list) -> str:
    """One line: what passed, and what comes closest to its gate or fails."""
    failed = [record for record in records if not record.passed]
    share = max((record for record in records if record.gate), key=lambda record: record.error / record.gate)
    head = f"{records[0].model_type:8} {records[0].variant:52} {len(records) - len(failed)} of {len(records)}"
    tail = "".join(f"\n    FAILS {r.quantity}: {r.error:.3g}, gate {r.gate:.3g} (PyTorch {r.pytorch_error:.3g})" for r in failed[:8])
    return f"{head}  closest {share.error / share.gate:.0%}: {share.quantity}{tail}"


if __name__ == "__main__":
    exit_with(main)
