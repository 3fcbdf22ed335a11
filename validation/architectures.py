"""Writes docs/architectures.md from the registry and from what the harnesses recorded.

    python -m validation.architectures [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hierarchos.models.aliases import aliases_of
from hierarchos.models.records import KINDS, SHOWN, Verdict, verdicts
from hierarchos.models.registry import FAMILIES, family
from validation.command import exit_with

TARGET = Path(__file__).parents[1] / "docs" / "architectures.md"
COLUMNS = {kind: SHOWN.get(kind, kind) for kind in KINDS}
INTRODUCTION = """# Architectures

Written by `python -m validation.architectures` from the registry and from what the harnesses recorded (hierarchos/models/records.json);
not edited by hand. `hierarchos architectures` prints the same in short.

{architectures} architectures, which compute {aliases} other model types too: text models under other names, and the text model of models
that see or hear. A cell says how many comparisons passed, of those made over all small variants of an architecture. Where all passed,

{legend}

An empty cell: not run, or nothing to compare (encoders generate nothing). The tolerances stand in [parity.md](parity.md).

Devices: {devices}.
"""


def page() -> str:
    """The whole page."""
    found = verdicts()
    legend = "\n".join(f"- **{COLUMNS[kind]}**: {meaning}" for kind, meaning in KINDS.items())
    devices = "; ".join(sorted({f"{letter} = {driver}" for letter, driver in lettered(found).items()})) or "none yet"
    names = sorted(FAMILIES)
    aliases = sum(len(aliases_of(name)) for name in names)
    head = INTRODUCTION.format(architectures=len(names), aliases=aliases, legend=legend, devices=devices)
    rows = [f"| {name} | {family(name).task} | " + " | ".join(cells(found, name)) + f" | {', '.join(aliases_of(name))} |" for name in names]
    columns = ["model_type", "task", *COLUMNS.values(), "computes also"]
    return "\n".join([head, "| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns), *rows]) + "\n"


def lettered(found: list[Verdict]) -> dict[str, str]:
    """A letter for each device -> device and driver."""
    devices = dict(sorted({verdict.device: verdict.driver for verdict in found}.items()))
    return {chr(ord("A") + number): f"{device}, {driver}" for number, (device, driver) in enumerate(devices.items())}


def cells(found: list[Verdict], name: str) -> list[str]:
    """For each kind: letter and counts of each device."""
    letters = {device: chr(ord("A") + number) for number, device in enumerate(sorted({verdict.device for verdict in found}))}
    return [", ".join(f"{letters[v.device]} {shown(v)}" for v in found if (v.model_type, v.kind) == (name, kind)) for kind in KINDS]


def shown(verdict: Verdict) -> str:
    text = f"{verdict.passed} of {verdict.total}"
    return text if verdict.complete else f"**{text}**"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--check", action="store_true", help="write nothing; status 1 where the page is not what would be written")
    check, text = arguments.parse_args().check, page()
    if not check:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        print("docs/architectures.md is not what the records give; run  python -m validation.architectures", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    exit_with(main)
