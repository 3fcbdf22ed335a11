"""Writes what harnesses found into hierarchos/models/records.json, in place of what they found earlier on the same device.

    python -m validation.parity --write-records
    python -m validation.records FILE...          # (maybe .gz) of records that `python -m validation.parity --json` printed elsewhere
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable
from pathlib import Path

from hierarchos.errors import UserError
from hierarchos.models.records import FILE, KINDS, Verdict, verdicts
from validation.command import exit_with
from validation.parity.cases import cases_of
from validation.parity.gates import Record
from validation.parity.report import kind_of

OF_COLUMN = {"logits": "forward", "packages": "packages", "generation": "generates"}      # every other column of the report is training


def of_parity(records: Iterable[Record]) -> list[Verdict]:
    """Verdicts on the architectures of which every variant was run."""
    records = list(records)
    found: dict[tuple, list[bool]] = {}
    for record in records:
        key = record.model_type, OF_COLUMN.get(kind_of(record.quantity), "trained"), record.device, record.driver
        found.setdefault(key, []).append(record.passed)
    run = {(record.model_type, record.variant) for record in records}
    whole = {name for name in {key[0] for key in found} if all((name, case.name) in run for case in cases_of(name))}
    return [Verdict(*key, sum(passed), len(passed)) for key, passed in found.items() if key[0] in whole]


def remember(new: Iterable[Verdict]) -> None:
    """Puts verdicts into the file. An architecture that has none of a kind on a device keeps the earlier one."""
    new = list(new)
    if not new:
        return
    kept = {(v.model_type, v.kind, v.device): v for v in [*(verdicts() if FILE.exists() else []), *new]}
    tree: dict = {}
    for model_type, kind, device in sorted(kept, key=lambda key: (key[0], list(KINDS).index(key[1]), key[2])):
        verdict = kept[model_type, kind, device]
        entry = {"driver": verdict.driver, "passed": verdict.passed, "of": verdict.total}
        tree.setdefault(model_type, {}).setdefault(kind, {})[device] = entry
    FILE.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> list[Record]:
    """What `python -m validation.parity --json` or `validation.peft_parity --json` printed. UserError where the file is anything else."""
    try:
        data = path.read_bytes()
        return [Record(**raw) for raw in json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)]
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise UserError(f"no records of a harness: {error}", where=str(path), hint="its option --json prints them",
                        outcome="nothing was taken from this file") from error


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON of records, maybe .gz")
    for path in arguments.parse_args().files:
        new = of_parity(read(path))
        remember(new)
        print(f"{path}: {len(new)} verdicts on {len({verdict.model_type for verdict in new})} architectures")


if __name__ == "__main__":
    exit_with(main)
