"""Pictures of a sweep: parallel coordinates, and heat maps of two settings each."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from html import escape
from itertools import combinations

from pipelines.reading.comparison import setting
from pipelines.reading.report.scale import Scale, label
from pipelines.reading.report.svg import figure, shortened
from pipelines.reading.runs import FIGURES, Run

WIDTH, HEIGHT, TOP, BOTTOM, SIDE = 1140, 340, 62, 24, 90
PAIRS, CELLS = 3, 144          # heat maps at most; cells of one at most
SHADES = 9                     # classes shade0 (best) to shade8 (worst) of the style sheet


class Axis:
    """A vertical axis: numbers at their places, words one below the other."""

    def __init__(self, name: str, values: Sequence[object], x: float):
        self.name, self.x = name, x
        self.numeric = all(is_number(value) for value in values)
        self.names = sorted({str(value) for value in values})
        numbers = [float(value) for value in values] if self.numeric else [0.0, max(1.0, len(self.names) - 1.0)]
        self.scale = Scale.of(numbers, HEIGHT - BOTTOM, TOP, log=None if self.numeric else False)
        if self.numeric and min(numbers) > 0 and max(numbers) / min(numbers) >= 8 and len(set(numbers)) <= 12:
            self.scale = Scale.of(numbers, HEIGHT - BOTTOM, TOP, log=True)
        few = self.numeric and len(set(numbers)) <= 8
        self.marks = sorted(set(numbers)) if few else self.scale.ticks() if self.numeric else list(range(len(self.names)))

    def y(self, value: object) -> float:
        return self.scale.place(float(value) if self.numeric else self.names.index(str(value)))

    def svg(self, number: int) -> str:
        """The line, its name and its marks; names of neighbours stand at two heights."""
        marks = "".join(f'<text class="halo" x="{self.x + 6:.1f}" y="{self.scale.place(mark) + 4:.1f}">'
                        f"{escape(label(mark) if self.numeric else shortened(self.names[int(mark)], 20))}</text>" for mark in self.marks)
        return (f'<line class="axis" x1="{self.x:.1f}" x2="{self.x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
                f'<text class="middle strong" x="{self.x:.1f}" y="{TOP - (10 if number % 2 else 24)}">{escape(self.name)}</text>{marks}')


def is_number(text: object) -> bool:
    try:
        return float(str(text)) == float(str(text)) and str(text).lower() not in ("inf", "-inf")
    except ValueError:
        return False


def shade_of(value: float, values: Sequence[float], figure_name: str) -> int:
    """Which shade a value has: 0 for the best."""
    low, high = min(values), max(values)
    share = 0.0 if low == high else (value - low) / (high - low)
    return round((share if FIGURES[figure_name] != "most" else 1 - share) * (SHADES - 1))


def parallel(runs: Sequence[Run], keys: Sequence[str], name: str) -> str:
    """A line for each run through its settings to its figure; the best is thick. "" where too little is known."""
    drawn = [run for run in runs if name in run.figures]
    if len(drawn) < 2 or not keys:
        return ""
    values = [run.figures[name] for run in drawn]
    step = (WIDTH - 2 * SIDE) / len(keys)
    axes = [Axis(key, [setting(run, key) for run in drawn], SIDE + number * step) for number, key in enumerate(keys)]
    axes.append(Axis(name.replace("_", " "), values, WIDTH - SIDE))
    order = sorted(drawn, key=lambda run: -shade_of(run.figures[name], values, name))        # the best is drawn last
    lines = "".join(run_line(run, axes, keys, name, shade_of(run.figures[name], values, name), run is order[-1]) for run in order)
    return figure(f"Parallel coordinates: each line is a run, the thick one is the best ({name.replace('_', ' ')})",
                  lines + "".join(axis.svg(number) for number, axis in enumerate(axes)), WIDTH, HEIGHT)


def run_line(run: Run, axes: Sequence[Axis], keys: Sequence[str], name: str, shade: int, best: bool) -> str:
    """The line of one run; its settings where the pointer is."""
    told = [setting(run, key) for key in keys]
    places = " ".join(f"{axis.x:.1f},{axis.y(value):.1f}" for axis, value in zip(axes, [*told, run.figures[name]], strict=True))
    said = ", ".join(f"{key}={value}" for key, value in zip(keys, told, strict=True))
    return (f'<polyline class="shade{shade}{" best" if best else ""}" points="{places}"><title>'
            f"{escape(said)}: {label(run.figures[name])}</title></polyline>")


def heat_maps(runs: Sequence[Run], keys: Sequence[str], name: str) -> list[str]:
    """A map for each pair of settings (at most PAIRS): means over the runs of each cell."""
    drawn = [run for run in runs if name in run.figures]
    found = [heat_map(drawn, pair, name) for pair in combinations(keys, 2)]
    return [picture for picture in found if picture][:PAIRS]


def heat_map(runs: Sequence[Run], pair: tuple[str, str], name: str) -> str:
    """One map; "" where it would be a line or too large."""
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        cells[setting(run, pair[0]), setting(run, pair[1])].append(run.figures[name])
    rows, columns = (in_order({place[side] for place in cells}) for side in (0, 1))
    if min(len(rows), len(columns)) < 2 or len(rows) * len(columns) > CELLS:
        return ""
    means = {place: sum(values) / len(values) for place, values in cells.items()}
    left = max(90, 7 * max(len(shortened(row, 20)) for row in rows) + 16)
    width, height = max(64, min(110, (560 - left - 10) // len(columns))), 34
    parts = [cell(left + across * width, 56 + down * height, width, height, means.get((row, column)), list(means.values()), name)
             for down, row in enumerate(rows) for across, column in enumerate(columns)]
    names = [f'<text class="right" x="{left - 6}" y="{56 + down * height + 21}">{escape(shortened(row, 20))}</text>'
             for down, row in enumerate(rows)]
    names += [f'<text class="middle" x="{left + across * width + width / 2:.1f}" y="50">{escape(shortened(column, width // 7))}</text>'
              for across, column in enumerate(columns)]
    names.append(f'<text class="strong" x="8" y="36">{escape(pair[0])} (down), {escape(pair[1])} (across)</text>')
    return figure(f"{name.replace('_', ' ')}: mean of each pair", "".join(parts + names), max(560, left + width * len(columns) + 10),
                  56 + height * len(rows) + 8)


def cell(x: float, y: float, width: float, height: float, value: float | None, values: list[float], name: str) -> str:
    """One cell with its number."""
    if value is None:
        return f'<rect class="none" x="{x}" y="{y}" width="{width - 2}" height="{height - 2}"/>'
    shade = shade_of(value, values, name)
    ink = "onlight" if shade > SHADES // 2 else "ondark"
    return (f'<rect class="shade{shade}" x="{x}" y="{y}" width="{width - 2}" height="{height - 2}"/>'
            f'<text class="middle {ink}" x="{x + width / 2 - 1:.1f}" y="{y + 21}">{value:.4g}</text>')


def in_order(values: set[str]) -> list[str]:
    """Numbers by size, words by letter."""
    return sorted(values, key=float) if all(is_number(value) for value in values) else sorted(values)
