"""Pictures as inline SVG: curves and bars. Colours are classes of the page's style sheet, so that they follow light and dark."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pipelines.reading.report.scale import Scale, label

WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 30, 34
POINTS = 600              # of a curve at most; of several that fall together the lowest and the highest are kept


@dataclass(frozen=True)
class Curve:
    """Values over steps. kind: a class of the style sheet; dots: whether each value has a mark."""

    name: str
    points: Sequence[tuple[float, float]]
    kind: str = "one"
    dots: bool = False


def line_chart(title: str, curves: Sequence[Curve], x_name: str = "step", log: bool | None = None, legends: bool = True) -> str:
    """A picture with axes; "" where there is nothing finite to draw."""
    curves = [Curve(one.name, thinned([p for p in one.points if math.isfinite(p[1])]), one.kind, one.dots) for one in curves]
    points = [point for curve in curves for point in curve.points]
    if not points:
        return ""
    across = Scale.of([x for x, _ in points], LEFT, WIDTH - RIGHT, log=False)
    up = Scale.of([y for _, y in points], HEIGHT - BOTTOM, TOP, log)
    drawn = [curve_svg(curve, across, up) for curve in curves]
    inside = axes(across, up, x_name) + "".join(drawn) + (legend(curves) if legends else "")
    return figure(title + (" (logarithmic)" if up.log else ""), inside, WIDTH, HEIGHT)


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most POINTS points that still show every peak."""
    if len(points) <= POINTS:
        return list(points)
    size = math.ceil(len(points) / (POINTS // 2))
    parts = [points[start:start + size] for start in range(0, len(points), size)]
    return [point for part in parts for point in sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})]


def curve_svg(curve: Curve, across: Scale, up: Scale) -> str:
    """One curve, named where the pointer is."""
    places = [(across.place(x), up.place(y), x, y) for x, y in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in places)
    last = curve.points[-1:] and f"{curve.name}: {label(curve.points[-1][1])} at the end"
    dots = "".join(f'<circle class="{curve.kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(curve.name)}, step {label(a)}: {label(b)}'
                   "</title></circle>" for x, y, a, b in places) if curve.dots or len(places) == 1 else ""
    return f'<polyline class="{curve.kind}" points="{line}"><title>{escape(str(last))}</title></polyline>{dots}'


def axes(across: Scale, up: Scale, x_name: str) -> str:
    """Lines and numbers on both axes."""
    parts = []
    for value in up.ticks():
        y = up.place(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text class="right" x="{LEFT - 6}" y="{y + 4:.1f}">{label(value)}</text>')
    for value in across.ticks(7):
        parts.append(f'<text class="middle" x="{across.place(value):.1f}" y="{HEIGHT - BOTTOM + 16}">{label(value)}</text>')
    parts.append(f'<text class="right" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}">{escape(x_name)}</text>')
    return "".join(parts)


def legend(curves: Sequence[Curve]) -> str:
    """Names of several curves, in one line above the picture."""
    if len(curves) < 2 or len({curve.kind for curve in curves}) < 2:
        return ""
    parts, right = [], WIDTH - RIGHT
    for curve in reversed(curves):
        right -= 7 * len(curve.name) + 26
        parts.append(f'<line class="{curve.kind}" x1="{right}" x2="{right + 16}" y1="14" y2="14"/><text x="{right + 20}" y="18">'
                     f"{escape(curve.name)}</text>")
    return "".join(parts)


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars: a name, a length, and what is written beside it."""
    rows = [row for row in rows if math.isfinite(row[1])]
    if not rows:
        return ""
    height, name_width = 22, max(80, min(270, 7.6 * max(len(shortened(name)) for name, _, _ in rows) + 14))
    room = WIDTH - name_width - 10 - max(7 * len(text) for _, _, text in rows)
    largest = max(size for _, size, _ in rows) or 1.0
    parts = []
    for number, (name, size, text) in enumerate(rows):
        y, width = TOP + number * height, max(1.0, size / largest * room)
        parts.append(f'<text class="right" x="{name_width - 6}" y="{y + 14}"><title>{escape(name)}</title>{escape(shortened(name))}</text>'
                     f'<rect class="one" x="{name_width}" y="{y + 3}" width="{width:.1f}" height="14" rx="2"/>'
                     f'<text x="{name_width + width + 6:.1f}" y="{y + 14}">{escape(text)}</text>')
    return figure(title, "".join(parts), WIDTH, TOP + height * len(rows) + 8)


def shortened(name: str, most: int = 34) -> str:
    return name if len(name) <= most else f"{name[:most - 1]}…"


def figure(title: str, inside: str, width: int, height: int) -> str:
    """A picture with its title, which also says what it is where it cannot be seen."""
    return (f'<svg viewBox="0 0 {width} {height}" style="max-width: {round(width * 1.1)}px" role="img" aria-label="{escape(title)}">'
            f'<text class="title" x="8" y="18">{escape(title)}'
            f"</text>{inside}</svg>")
