"""usage: hierarchos compare RUN RUN ... | SWEEP | FOLDER [--csv | --json]

Puts runs side by side as a Markdown table: only the settings that differ, the figures, the best of each in bold. Runs that differ in
nothing but run.seed are one line with mean ± sample standard deviation. A sweep or a folder stands for all runs in it. --csv has a row for
each run with all digits, --json both.
"""
from __future__ import annotations

import sys

from hierarchos.errors import UserError
from pipelines.commands.words import take


def run(words: list[str]) -> int:
    """Prints the comparison."""
    flags, names = take(words, "--csv", "--json", names=True)
    if len(flags) > 1:
        raise UserError("--csv and --json exclude each other", where="command line", outcome=None)
    if not names:
        raise UserError("which runs?", where="command line", hint="two runs or more, a sweep, or a folder of runs",
                        command="hierarchos compare outputs/sweeps/DATE_TIME_ID", outcome=None)
    from pipelines.reading import tables
    from pipelines.reading.comparison import compare_runs
    from pipelines.reading.runs import find_runs

    runs = find_runs(names)
    if len(runs) < 2:
        raise UserError(f"{names[0]} is one run; a comparison needs two" if runs else f"{names[0]}: no job has ended yet",
                        where="command line", outcome=None)
    form = {"--csv": tables.as_csv, "--json": tables.as_json}.get(next(iter(flags), ""), tables.markdown)
    sys.stdout.write(form(compare_runs(runs)))
    return 0
