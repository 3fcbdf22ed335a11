"""A comparison as Markdown, CSV or JSON."""
from __future__ import annotations

import csv
import io
import json

from pipelines.progress import shown
from pipelines.reading.comparison import Comparison, Figure, Line


def heading(name: str) -> str:
    """A figure as people call it."""
    return {"peak_bytes": "peak MiB", "tokens_per_second": "tokens/s"}.get(name, name.replace("_", " "))


def text_of(name: str, figure: Figure | None) -> str:
    """"3.142", or "3.142 ± 0.02" over several seeds; "" without a figure."""
    if figure is None:
        return ""
    scale = 2**20 if name == "peak_bytes" else 1
    mean = shown(float(figure.mean / scale))
    if figure.spread is None:
        return mean
    spread = figure.spread / scale
    return f"{mean} ± {spread:.0f}" if spread >= 100 else f"{mean} ± {spread:.2g}"


def markdown(found: Comparison) -> str:
    """A table whose columns are aligned, the best of each figure in bold."""
    headings = [*found.keys, *(["seeds"] if found.has_seeds else []), "status", *map(heading, found.figures), "run"]
    rows = [cells(found, number, line) for number, line in enumerate(found.lines)]
    escaped = [[text.replace("|", "\\|").replace("\n", " ") for text in row] for row in [headings, *rows]]
    widths = [max(3, *(len(row[column]) for row in escaped)) for column in range(len(headings))]
    lines = ["| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in escaped]
    rule = "| " + " | ".join("-" * width for width in widths) + " |"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def cells(found: Comparison, number: int, line: Line) -> list[str]:
    """One row of the Markdown table."""
    figures = [text_of(name, line.figures.get(name)) for name in found.figures]
    marked = [f"**{text}**" if found.best.get(name) == number else text for name, text in zip(found.figures, figures, strict=True)]
    seeds = [", ".join(map(str, line.seeds))] if found.has_seeds else []
    first = line.runs[0].path
    more = f" and {len(line.runs) - 1} more" if len(line.runs) > 1 else ""
    return [*line.settings.values(), *seeds, line.status, *marked, f"{first}{more}"]


def as_csv(found: Comparison) -> str:
    """A row for each run, numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*found.keys, "run.seed", "status", *found.figures, "best", "run"])
    for number, line in enumerate(found.lines):
        best = " ".join(name for name, place in found.best.items() if place == number)
        for run in line.runs:
            figures = [run.figures.get(name, "") for name in found.figures]
            writer.writerow([*line.settings.values(), run.seed, run.status, *figures, best, run.path])
    return out.getvalue()


def as_json(found: Comparison) -> str:
    """Everything: lines with means and spreads, and the runs of each."""
    lines = [{"settings": line.settings, "seeds": line.seeds,
              "figures": {name: {"mean": one.mean, "spread": one.spread, "count": one.count} for name, one in line.figures.items()},
              "best": [name for name, place in found.best.items() if place == number],
              "runs": [{"run": str(run.path), "seed": run.seed, "status": run.status, "figures": run.figures} for run in line.runs]}
             for number, line in enumerate(found.lines)]
    return json.dumps({"keys": found.keys, "figures": found.figures, "lines": lines}, indent=1, ensure_ascii=False) + "\n"
