"""The command: `python -m validation.parity [NAMES] [OPTIONS]`. Ends with 1 when anything fails."""

from __future__ import annotations

import argparse
import json
import sys
import time

from validation.command import exit_with
from validation.parity.cases import ANY_SEED, CASES, cases_of, checked, names


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    from validation.parity.jobs import Plan, run
    from validation.parity.report import line

    cases = [case for name in options.names or names() for case in cases_of(name) if not options.case or options.case in case.name]
    started, records = time.monotonic(), []
    for found in run(cases, Plan(options.device, options.cached, options.split, options.gpu_kernels), options.jobs):
        records += found
        print(line(found), file=sys.stderr if options.json else sys.stdout, flush=True)
        if options.write_records:
            keep([record for record in records if record.model_type == found[0].model_type])
    if options.json:
        print(json.dumps([record.as_dict() for record in records], indent=1))
    write(options, records)
    print_verdict(records, f"{(time.monotonic() - started) / 60:.1f} minutes, {options.jobs} at a time")
    return 0 if records and all(record.passed for record in records) else 1


def print_verdict(records: list, how_long: str) -> None:
    """Names every miss, then counts."""
    missed = [record for record in records if not record.passed]
    for record in missed:
        print(f"missed: {record.model_type}: {record.variant}: {record.quantity}: error {record.error:.2e}, gate {record.gate:.2e}",
              file=sys.stderr)
    where = f" on {records[0].device} ({records[0].driver})" if records else ""
    misses = f", {len(missed)} miss" if missed else ""
    variants = len({(record.model_type, record.variant) for record in records})
    passed = len(records) - len(missed)
    print(f"{passed} of {len(records)} comparisons in {variants} variants pass{misses}{where}; {how_long}", file=sys.stderr)


def keep(records: list) -> None:
    """Writes what an architecture passed, once all its variants were run: a long run that ends early has said something."""
    from validation.records import of_parity, remember

    remember(of_parity(records))


def write(options, records: list) -> None:
    """The page that was asked for."""
    if options.write_docs:
        from validation.parity.report import DOCS, markdown
        from validation.parity.spread import evidence

        command = " ".join(["python -m validation.parity", *options.names, "--write-docs"])
        families = [name for name in options.names or CASES if name in CASES]
        unchosen, selected = (evidence(families, seed) for seed in (ANY_SEED, None))
        DOCS.write_text(markdown(records, command, families, unchosen, selected), encoding="utf-8")


def multiprocessors(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of multiprocessors: 1 or more")
    return int(text)


def parse(arguments: list[str] | None):
    parser = argparse.ArgumentParser(prog="python -m validation.parity", description="Compares with Transformers in float64 and float32.")
    parser.add_argument("names", nargs="*", help="model types; all by default")
    parser.add_argument("--device", default="auto", help="auto, a number, part of a name, or numpy for the NumPy twins")
    parser.add_argument("--case", help="only variants whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that share the variants")
    parser.add_argument("--cached", metavar="FOLDER", help="compare with what validation.parity.portable wrote there; needs no torch")
    parser.add_argument("--split", action="store_true", help="every product as halves on matrix units, however small")
    parser.add_argument("--gpu-kernels", type=multiprocessors, default=0, metavar="UNITS",
                        help="the kernels for a GPU of so many multiprocessors (H200: 132), on a CPU driver too; writes no page or records")
    parser.add_argument("--json", action="store_true", help="print the records as a JSON list")
    parser.add_argument("--write-docs", action="store_true", help="write docs/parity.md")
    parser.add_argument("--write-records", action="store_true", help="write what passed into hierarchos/models/records.json")
    options = parser.parse_args(arguments)
    checked(options.names)
    if options.gpu_kernels and (options.write_docs or options.write_records):
        parser.error("--gpu-kernels says nothing about what a device runs: leave --write-docs and --write-records out")
    return options


if __name__ == "__main__":
    exit_with(main)
