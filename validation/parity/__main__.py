"""The command: `python -m validation.parity [NAMES] [--device D] [--json] [--write-docs]`. Ends with 1 when anything fails."""

from __future__ import annotations

import argparse
import json
import sys

from hierarchos.errors import UserError, nearest
from validation.parity.cases import ANY_SEED, CASES, cases_of, names


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    from validation.parity.compare import compare
    from validation.parity.engine import open_engine
    from validation.parity.oracle import ORDERS
    from validation.parity.report import DOCS, line, markdown

    engine, records = open_engine(options.device), []
    for name in options.names or names():
        for case in cases_of(name):
            if options.case and options.case not in case.name:
                continue
            found = compare(case, engine, options.orders or ORDERS)
            records += found
            print(line(found), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps([record.as_dict() for record in records], indent=1))
    if options.write_docs:
        from validation.parity.spread import evidence

        command = " ".join(["python -m validation.parity", *options.names, "--write-docs"])
        families = [name for name in options.names or CASES if name in CASES]
        DOCS.write_text(markdown(records, command, evidence(families, ANY_SEED), evidence(families, None)), encoding="utf-8")
    failed = sum(not record.passed for record in records)
    print(f"{len(records) - failed} of {len(records)} comparisons pass on {engine.device} ({engine.driver})", file=sys.stderr)
    return 1 if failed or not records else 0


def parse(arguments: list[str] | None):
    parser = argparse.ArgumentParser(prog="python -m validation.parity", description="Compares with Transformers in float64 and float32.")
    parser.add_argument("names", nargs="*", help="model types; all by default")
    parser.add_argument("--device", default="auto", help="auto, a number, part of a name, or numpy for the NumPy twins")
    parser.add_argument("--case", help="only variants whose name contains this")
    parser.add_argument("--orders", type=int, help="orders in which float32 PyTorch runs AdamW with eps 1e-8 (1: only its own)")
    parser.add_argument("--json", action="store_true", help="print the records as a JSON list")
    parser.add_argument("--write-docs", action="store_true", help="write docs/parity.md")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in names():
            raise UserError(f"no parity cases for {name!r}", nearest=nearest(name, names()), hint="there are: " + ", ".join(names()))
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
