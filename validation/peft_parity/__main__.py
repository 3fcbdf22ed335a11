"""The command: `python -m validation.peft_parity [FAMILIES] [--device D] [--case WORD] [--json]`. Ends with 1 when anything fails."""

from __future__ import annotations

import argparse
import json
import sys

from validation.parity.engine import open_engine
from validation.peft_parity.cases import FAMILIES, cases_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.peft_parity", description="Compares adapters with PEFT.")
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="all by default")
    parser.add_argument("--device", default="auto", help="auto, a number or part of a name")
    parser.add_argument("--case", default="", help="only adapters whose name contains this")
    parser.add_argument("--json", action="store_true", help="print the records as a JSON list")
    options = parser.parse_args()
    from validation.peft_parity.compare import compare

    records, engine = [], open_engine(options.device)
    for family in options.families or FAMILIES:
        for case in cases_of(family):
            if options.case in case.name:
                found = compare(case, engine)
                records += found
                print(line(found), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps([record.as_dict() for record in records], indent=1))
    failed = [record for record in records if not record.passed]
    print(f"{len(records) - len(failed)} of {len(records)} comparisons with PEFT pass", file=sys.stderr)
    return 1 if failed or not records else 0


def line(records: list) -> str:
    """One line: what passed, and what comes closest to its gate or fails."""
    failed = [record for record in records if not record.passed]
    share = max((record for record in records if record.gate), key=lambda record: record.error / record.gate)
    head = f"{records[0].model_type:8} {records[0].variant:52} {len(records) - len(failed)} of {len(records)}"
    tail = "".join(f"\n    FAILS {r.quantity}: {r.error:.3g}, gate {r.gate:.3g} (PyTorch {r.pytorch_error:.3g})" for r in failed[:8])
    return f"{head}  closest {share.error / share.gate:.0%}: {share.quantity}{tail}"


if __name__ == "__main__":
    sys.exit(main())
