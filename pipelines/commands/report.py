"""usage: hierarchos report RUN|SWEEP [--to FILE]

Writes report.html into the directory of a run or a sweep (or FILE): one page that loads nothing, with curves, evaluation, texts, time by
stage and kernel (kernels where the run had run.profile=true), memory, settings and warnings; for a sweep its table, parallel coordinates,
heat maps and all losses. Open it in any browser.
"""
from __future__ import annotations

from pathlib import Path

from hierarchos.errors import UserError
from pipelines.commands.words import take


def run(words: list[str]) -> int:
    """Writes the page and says where it is."""
    words, target = target_of(words)
    _, names = take(words, names=True)
    if len(names) != 1:
        raise UserError("which run or sweep?" if not names else "a report is about one run or one sweep", where="command line",
                        command="hierarchos report outputs/train/DATE_TIME_ID", outcome=None)
    from pipelines.files import write_text
    from pipelines.reading.runs import find_runs, is_run

    path, runs = Path(names[0]).expanduser(), find_runs(names)
    if not runs:
        raise UserError(f"{names[0]}: no job has ended yet", where="command line", outcome=None)
    target = target or path / "report.html"
    if not target.parent.is_dir() or target.is_dir():
        raise UserError(f"{target} cannot be written: " + ("it is a folder" if target.is_dir() else f"there is no folder {target.parent}"),
                        where="--to", outcome=None)
    write_text(target, page_of(path, runs) if not is_run(path) else one_page(runs[0]))
    print(target)
    return 0


def target_of(words: list[str]) -> tuple[list[str], Path | None]:
    """The words without --to FILE, and the file."""
    rest, target, pending = [], None, iter(words)
    for word in pending:
        if word.partition("=")[0] == "--to":
            given = word.partition("=")[2] or next(pending, "")
            if not given or given.startswith("-"):
                raise UserError("--to needs a file", where="command line", command="--to report.html", outcome=None)
            target = Path(given).expanduser()
        else:
            rest.append(word)
    return rest, target


def one_page(run: object) -> str:
    from pipelines.reading.report.run_page import run_page

    return run_page(run)


def page_of(path: Path, runs: list) -> str:
    """The page of a sweep or of a folder of runs."""
    from pipelines.reading.report.sweep_page import sweep_page
    from pipelines.reading.runs import is_sweep
    from pipelines.sweeping.rows import read_rows

    rows = read_rows(path) if is_sweep(path) else []
    refused = [f"job {row['job']}: {' '.join(row['overrides'])}: {row['status']}" for row in rows if not row.get("run")]
    return sweep_page(path.resolve().name, runs, refused)
