"""Writes docs/errors.md from the table of wrong inputs in tests/bad_input/.

    python -m validation.errors_table            rewrites the page
    python -m validation.errors_table --check    status 1 when the page is not what would be written
"""
from __future__ import annotations

import argparse
import re
import shlex
from importlib import import_module
from pathlib import Path

from validation.command import exit_with

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/errors.md"
KINDS = {"config": "Command lines and configuration files", "rows": "Rows", "packages": "Packages", "adapters": "Adapters",
         "generation": "Generation", "devices": "Devices",
         "faults": "Faults while a run goes on", "coherent": "coherent-v9"}
HEAD = """# What is said about wrong input

Written by `python -m validation.errors_table` from tests/bad_input/; each row is a test of the whole message, of the exit status and of
what is on disk afterwards. Status 2: nothing was created, unless the message says in which stage the run stopped. Status 3: a run failed.
Status 4: the device was lost or has too little memory. All mistakes of a command line and its files are told at once, and there is never
a traceback on the screen: those of stages are in their logs.
"""
SHOWN = 12                                            # lines of a message; lists of devices and tensors go on in the tests


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for kind, title in KINDS.items():
        rows = import_module(f"tests.bad_input.test_{kind}").ROWS
        parts += [f"\n## {title} ({len(rows)})\n", *(section(row) for row in rows)]
    return "".join(parts)


def section(row: object) -> str:
    """One row: what is wrong, what was typed, what is answered."""
    lines = re.sub(r"there is: [^\n]*_tiny[^\n]*", "there is: ...", row.message).splitlines()        # presets come and go
    lines = lines if len(lines) <= SHOWN else [*lines[:SHOWN - 1], "  ..."]
    fence = "```" if "```" not in row.message else "````"
    return f"\n**{row.what}** (status {row.status})\n{fence}text\n$ {typed(row)}\n{chr(10).join(lines)}\n{fence}\n"


def typed(row: object) -> str:
    """The command line, without the settings that only make the model small."""
    from tests.bad_input.table import SHORT, SIZE

    words = [word for word in row.words if word not in (*SIZE, *SHORT)]
    return " ".join(["hierarchos", *(word if word.isprintable() and word and not set(word) & set(" *?#{}()<>|&;'\"") else shlex.quote(word)
                                     for word in words)])


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--check", action="store_true", help="write nothing; status 1 where the page is not what would be written")
    check, text = arguments.parse_args().check, page()
    if check:
        return 0 if PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    exit_with(main)
