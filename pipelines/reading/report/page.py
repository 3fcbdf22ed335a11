"""The frame of a report: style, sections, tables."""
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from pipelines.reading.report.sweep_pictures import SHADES

STYLE = """
:root { --ink: #1c2430; --soft: #5c6675; --paper: #ffffff; --card: #f5f7fa; --rule: #d9dfe7;
  --one: #1f5fbf; --two: #c2410c; --three: #94a3b8; --strongest: #ffffff; --weakest: #1c2430 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa5b4; --paper: #12161c; --card: #1b212a; --rule: #333c48;
  --one: #6ea8ff; --two: #ff9b5e; --three: #64748b;
  --strongest: #10151c; --weakest: #e6eaf0 } }
body { font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: var(--paper); max-width: 1180px; 
  margin: 24px auto; padding: 0 20px } h1 { font-size: 24px; margin: 0 } h2 { font-size: 17px; margin: 28px 0 8px }
.soft { color: var(--soft) } 
.grid2 { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr));
  gap: 14px; align-items: start }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0 } .tile { background: var(--card); border-radius: 8px;
  padding: 8px 14px } .tile b { display: block; font-size: 19px } .wide { overflow-x: auto } .wide td { overflow-wrap: anywhere }
.even td, .even th { white-space: nowrap }
svg { background: var(--card); border-radius: 8px; width: 100%; height: auto; font-size: 12px } svg text { fill: var(--soft) }
svg .title { fill: var(--ink); font-size: 13px; font-weight: 600 } svg .strong { fill: var(--ink); font-weight: 600 }
svg .right { text-anchor: end } svg .middle { text-anchor: middle } svg .grid { stroke: var(--rule) } svg .axis { stroke: var(--soft) }
polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round } polyline.one, line.one { stroke: var(--one) }
polyline.two, line.two { stroke: var(--two); stroke-width: 2 } polyline.three { stroke: var(--three); stroke-width: 1; opacity: .8 }
circle.one, rect.one { fill: var(--one) } circle.two { fill: var(--two) } rect.none { fill: var(--rule) }
polyline.best { stroke-width: 4 } polyline:hover { stroke-width: 5 }
svg .halo { paint-order: stroke; stroke: var(--card); stroke-width: 4px }
svg .ondark { fill: var(--strongest) } svg .onlight { fill: var(--weakest) }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--rule);
  vertical-align: top } th { color: var(--soft); font-weight: 500 } td.best { font-weight: 700; color: var(--one) }
pre { background: var(--card); border-radius: 8px; padding: 10px 14px; white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0 }
"""
NOT_IN_PAGES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
LIGHT, DARK = ((16, 62, 140), (208, 224, 245)), ((160, 202, 255), (46, 64, 94))          # best and worst on light and on dark paper


def all_shades() -> str:
    """The classes for both kinds of paper."""
    return f"{shades(*LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{shades(*DARK)}\n}}"


def shades(best: tuple[int, int, int], worst: tuple[int, int, int]) -> str:
    """Classes from the best to the worst."""
    lines = []
    for number in range(SHADES):
        mixed = [round(one + (other - one) * number / (SHADES - 1)) for one, other in zip(best, worst, strict=True)]
        colour = "#" + "".join(f"{part:02x}" for part in mixed)
        lines.append(f"polyline.shade{number} {{ stroke: {colour} }} rect.shade{number} {{ fill: {colour} }}")
    return "\n".join(lines)


def page(title: str, under: str, parts: Iterable[str]) -> str:
    """The whole file."""
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{STYLE}{all_shades()}</style></head><body>\n<h1>{escape(title)}</h1>"
            f'<div class="soft">{escape(under)}</div>\n' + "\n".join(part for part in parts if part) + "\n</body></html>\n")


def section(title: str, *parts: str, side_by_side: bool = False) -> str:
    """A heading with what is below it; "" where there is nothing."""
    inside = "\n".join(part for part in parts if part)
    if not inside:
        return ""
    return f"<h2>{escape(title)}</h2>\n" + (f'<div class="grid2">{inside}</div>' if side_by_side else inside)


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    """A few large numbers."""
    return '<div class="tiles">' + "".join(f'<div class="tile"><b>{escape(value)}</b><span class="soft">{escape(name)}</span></div>'
                                           for name, value in figures) + "</div>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], best: Iterable[tuple[int, int]] = (), even: bool = False) -> str:
    """A table; best: (row, column) of cells that are marked; even: no cell is broken into lines."""
    if not rows:
        return ""
    marked = set(best)
    top = "".join(f"<th>{escape(text)}</th>" for text in headings)
    lines = ["<tr>" + "".join(f"<td{' class=best' if (number, column) in marked else ''}>{escape(text)}</td>"
                              for column, text in enumerate(row)) + "</tr>" for number, row in enumerate(rows)]
    return f'<div class="wide{" even" if even else ""}"><table><tr>{top}</tr>{"".join(lines)}</table></div>'


def texts(found: Iterable[str]) -> str:
    """Texts as they are, each in a box; control characters, which a page cannot hold, as \N{REPLACEMENT CHARACTER}."""
    return "".join(f"<pre>{escape(NOT_IN_PAGES.sub(chr(0xFFFD), text))}</pre>" for text in found)
