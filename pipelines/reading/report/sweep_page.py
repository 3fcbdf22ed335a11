"""The report of a sweep: the table, pictures of what its settings do, and all loss curves together."""
from __future__ import annotations

from collections.abc import Sequence

from pipelines.reading.comparison import SEED, Comparison, compare_runs
from pipelines.reading.report.page import page, section, table, tiles
from pipelines.reading.report.run_page import metrics_of
from pipelines.reading.report.svg import Curve, line_chart
from pipelines.reading.report.sweep_pictures import heat_maps, parallel
from pipelines.reading.runs import Run
from pipelines.reading.tables import heading, text_of

MOST = 60          # curves in one picture
JUDGED = ("validation_loss", "evaluation_loss", "loss", "accuracy")          # the first that runs have colours the pictures


def sweep_page(name: str, runs: Sequence[Run], refused: Sequence[str] = ()) -> str:
    """Everything about the runs of a sweep. refused: jobs that have no run, in words."""
    found = compare_runs(runs)
    figure = next((one for one in JUDGED if one in found.figures), None)
    keys = found.keys or ([SEED] if found.has_seeds else [])
    pictures = heat_maps(runs, keys, figure) if figure else []
    return page(f"sweep {name}", f"{len(runs)} runs; lines that differ in the seed alone are one: mean ± sample standard deviation", [
        tiles(counts(found, runs, figure)), section("Jobs without a run", table(["job"], [[text] for text in refused])),
        section("Settings and results", parallel(runs, keys, figure) if figure else ""),
        section("Pairs of settings", *pictures, side_by_side=True),
        section("Loss", loss_curves(runs, found, figure)), section("Runs", lines_table(found))])


def counts(found: Comparison, runs: Sequence[Run], figure: str | None) -> list[tuple[str, str]]:
    """How many ended how, and the best value."""
    states = [run.status for run in runs]
    shown = [(state, str(states.count(state))) for state in dict.fromkeys(states)]
    if figure in found.best:
        line = found.lines[found.best[figure]]
        best = ", ".join(f"{key}={value}" for key, value in line.settings.items())
        shown.append((f"best {heading(figure)}: {best}", text_of(figure, line.figures[figure])))
    return shown


def loss_curves(runs: Sequence[Run], found: Comparison, figure: str | None) -> str:
    """Training losses of all runs, those of the best line on top."""
    best = found.lines[found.best[figure]].runs if figure in found.best else ()
    order = sorted(runs, key=lambda run: run in best)
    curves = [Curve(run.path.name, [(row["step"], row["loss"]) for row in metrics_of(run.path) if "loss" in row],
                    "two" if run in best else "three") for run in order]
    return line_chart("Training loss of all runs; the best in colour", [one for one in curves if one.points][-MOST:], legends=False)


def lines_table(found: Comparison) -> str:
    """The comparison as a table."""
    headings = [*found.keys, *(["seeds"] if found.has_seeds else []), "status", *map(heading, found.figures), "run"]
    first = len(found.keys) + (1 if found.has_seeds else 0) + 1
    rows = [[*line.settings.values(), *([", ".join(map(str, line.seeds))] if found.has_seeds else []), line.status,
             *(text_of(name, line.figures.get(name)) for name in found.figures), line.runs[0].path.name
             + (f" and {len(line.runs) - 1} more" if len(line.runs) > 1 else "")] for line in found.lines]
    return table(headings, rows, [(place, first + found.figures.index(name)) for name, place in found.best.items()], even=True)
