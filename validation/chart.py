"""The evidence as one picture: every pair's speed-up with its interval, on a logarithmic axis, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from .table import ratio

WIDTH, LEFT, RIGHT, ROW, TOP = 780, 268, 204, 25, 86
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

#: Legible on white and on black; verdicts differ in shape too, not in colour alone.
STYLE = """
  .paper { fill: #ffffff }
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .muted { fill: #59636e }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .one { stroke: #59636e; stroke-width: 1.5 }
  .confirmed { stroke: #1a7f37; fill: #1a7f37 }
  .none { stroke: #7d6608; fill: #ffffff }
  .slower { stroke: #cf222e; fill: #cf222e }
  .bar { stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 }
    text { fill: #f0f6fc }
    .muted { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .one { stroke: #9198a1 }
    .confirmed { stroke: #3fb950; fill: #3fb950 }
    .none { stroke: #d29922; fill: #0d1117 }
    .slower { stroke: #f85149; fill: #f85149 }
  }
"""
CLASSES = {"confirmed": "confirmed", "no effect": "none", "slower": "slower"}


@dataclass(frozen=True)
class Bar:
    """One row of the chart; without a figure, only its verdict is told."""

    name: str
    size: str
    verdict: str
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    change: str = ""  #: what the pair is judged by, where that is not time


def svg(title: str, groups: Sequence[tuple[str, Sequence[Bar]]], note: str = "") -> str:
    """The chart: groups of rows under headings, a note below. Colours follow the reader's light or dark scheme."""
    bars = [bar for _, group in groups for bar in group]
    figures = [value for bar in bars for value in (bar.speedup, bar.low, bar.high) if value]
    low, high = _range(figures)

    def x(value: float) -> float:
        part = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    body, y = [], float(TOP)
    for heading, group in groups:
        if not group:
            continue
        body.append(f'<text x="16" y="{y + 4:.0f}" class="muted">{escape(heading)}</text>')
        y += ROW
        for bar in group:
            body += _row(bar, x, y)
            y += ROW
    bottom = y - ROW / 2
    axis = []
    # Over more than two decades, only the powers of ten have room for a label.
    ticks = TICKS if high / low <= 100 else [tick for tick in TICKS if math.log10(tick).is_integer()]
    for tick in ticks:
        if low <= tick <= high:
            kind = "one" if tick == 1 else "grid"
            axis.append(
                f'<line x1="{x(tick):.1f}" y1="{TOP - 14}" x2="{x(tick):.1f}" y2="{bottom:.0f}" class="{kind}"/>'
            )
            axis.append(f'<text x="{x(tick):.1f}" y="{TOP - 22}" text-anchor="middle" class="muted">{tick:g}x</text>')
    legend = ["dot: time before the fix over time after it; bar: 95 % interval; right of the line is quicker"]
    legend += [note] if note else []
    height = bottom + 16 + 20 * len(legend)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height:.0f}" rx="8" class="paper"/>',
            f'<text x="16" y="28" class="title">{escape(title)}</text>',
            *axis,
            *body,
            *(
                f'<text x="16" y="{bottom + 8 + 20 * row:.0f}" class="muted">{escape(line)}</text>'
                for row, line in enumerate(legend, 1)
            ),
            "</svg>\n",
        ]
    )


def _range(figures: Sequence[float]) -> tuple[float, float]:
    """The axis: from the tick below the smallest figure to the one above the largest, 0.5 to 2 at least."""
    smallest, largest = min([0.5, *figures]), max([2.0, *figures])
    below = max([tick for tick in TICKS if tick <= smallest], default=smallest)
    above = min([tick for tick in TICKS if tick >= largest], default=largest)
    return below, above


def _row(bar: Bar, x: Callable[[float], float], y: float) -> list[str]:
    name = f'<text x="32" y="{y + 4:.0f}">{escape(bar.name)}<title>{escape(bar.size)}</title></text>'
    right = WIDTH - RIGHT + 12
    kind = CLASSES.get(bar.verdict)
    if kind is None or bar.speedup is None or bar.low is None or bar.high is None:
        return [name, f'<text x="{right}" y="{y + 4:.0f}" class="muted">{escape(bar.verdict)}</text>']
    start, end = x(bar.low), max(x(bar.high), x(bar.low) + 1)
    figure = escape(bar.change) or f'{ratio(bar.speedup)} <tspan class="muted">{bar.verdict}</tspan>'
    return [
        name,
        f'<line x1="{start:.1f}" y1="{y:.0f}" x2="{end:.1f}" y2="{y:.0f}" class="bar {kind}"/>',
        f'<circle cx="{x(bar.speedup):.1f}" cy="{y:.0f}" r="5" class="bar {kind}"/>',
        f'<text x="{right}" y="{y + 4:.0f}">{figure}</text>',
    ]
