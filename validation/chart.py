"""The chart of one device as SVG: the speed-up and the 95 % interval of each pair, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from torchlint.measure.figures import interval, ratio

#: The same axis on every device. A value outside is drawn at the edge, with an arrow and its figure.
LOW, HIGH = 0.8, 5.0
TICKS = (0.8, 1, 1.25, 1.5, 2, 3, 4, 5)

#: The name of a pair is above its strip, not left of it: the plot is wide, and the text is large enough on a phone.
WIDTH, MARGIN, EDGE = 680, 16, 44
TEXT_ROW, STRIP, ROW, GROUP = 25, 18, 45, 22
DASH = "\u2013"
CAP = 7  #: half the height of an interval's end cap: larger than a marker, so that a short interval is visible

#: Legible on white and on black. Verdicts differ in shape and in colour.
STYLE = """
  .paper { fill: #ffffff }
  text { font: 15px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-size: 18px; font-weight: 600 }
  .heading { font-weight: 600 }
  .muted { fill: #59636e }
  .tick { font-size: 14px; fill: #59636e }
  .strip { fill: #f0f3f6 }
  .grid { stroke: #c8d1da; stroke-width: 1 }
  .one { stroke: #59636e; stroke-width: 2 }
  .interval { fill: none; stroke-width: 2 }
  .arrow { fill: none; stroke: #1f2328; stroke-width: 2 }
  .confirmed { stroke: #1a7f37; fill: #1a7f37; stroke-width: 2 }
  .none { stroke: #7d6608; fill: #ffffff; stroke-width: 2 }
  .slower { stroke: #cf222e; fill: #cf222e; stroke-width: 2 }
  .interval.confirmed, .interval.none, .interval.slower { fill: none }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 }
    text { fill: #f0f6fc }
    .muted, .tick { fill: #9198a1 }
    .strip { fill: #1b222b }
    .grid { stroke: #3d444d }
    .one { stroke: #9198a1 }
    .arrow { stroke: #f0f6fc }
    .confirmed { stroke: #3fb950; fill: #3fb950 }
    .none { stroke: #d29922; fill: #0d1117 }
    .slower { stroke: #f85149; fill: #f85149 }
  }
"""
CLASSES = {"confirmed": "confirmed", "no effect": "none", "slower": "slower"}


@dataclass(frozen=True)
class Bar:
    """One row of the chart. Without a figure, or with a count, it is text only."""

    name: str
    size: str
    verdict: str
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    count: str = ""  #: "graphs 9 → 1": the metric of the pair, if it is not time


def svg(title: str, groups: Sequence[tuple[str, Sequence[Bar]]], note: str = "") -> str:
    """The chart: groups of rows under headings, largest speed-up first. Its colours follow the reader's scheme."""
    body = [f'<text x="{MARGIN}" y="32" class="title">{escape(title)}</text>', *_legend(58)]
    y = 132.0
    for heading, bars in groups:
        if not bars:
            continue
        body.append(f'<text x="{MARGIN}" y="{y + 14:.0f}" class="heading">{escape(heading)}</text>')
        y += TEXT_ROW
        if any(_is_drawn(bar) for bar in bars):
            body += [
                f'<text x="{_x(tick):.1f}" y="{y + 10:.0f}" text-anchor="middle" class="tick">{tick:g}x</text>'
                for tick in TICKS
            ]
            y += TEXT_ROW - 6
        for bar in sorted(bars, key=lambda bar: (not _is_drawn(bar), -(bar.speedup or 0))):
            body += _row(bar, y)
            y += ROW if _is_drawn(bar) else TEXT_ROW
        y += GROUP
    if note:
        body.append(f'<text x="{MARGIN}" y="{y:.0f}" class="muted">{escape(note)}</text>')
        y += GROUP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" '
            f'viewBox="0 0 {WIDTH} {y:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<defs><g id="strip">{_strip()}</g></defs>',
            f'<rect width="{WIDTH}" height="{y:.0f}" rx="8" class="paper"/>',
            *body,
            "</svg>\n",
        ]
    )


def _x(value: float) -> float:
    """The place of a ratio on the axis; of one outside, the nearer edge."""
    part = math.log(min(max(value, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return EDGE + part * (WIDTH - 2 * EDGE)


def _is_drawn(bar: Bar) -> bool:
    """Whether the row has a place on the axis of time."""
    return bar.verdict in CLASSES and not bar.count and None not in (bar.speedup, bar.low, bar.high)


def _strip() -> str:
    """The background of a row: its part of the grid."""
    lines = (
        f'<line x1="{_x(tick):.1f}" y1="0" x2="{_x(tick):.1f}" y2="{STRIP}" class="{"one" if tick == 1 else "grid"}"/>'
        for tick in TICKS
    )
    return f'<rect x="{EDGE}" width="{WIDTH - 2 * EDGE}" height="{STRIP}" class="strip"/>{"".join(lines)}'


def _row(bar: Bar, y: float) -> Iterator[str]:
    """Name and figures as text and, below them, the strip."""
    yield f'<text x="{MARGIN}" y="{y + 15:.0f}">{escape(bar.name)}<title>{escape(bar.size)}</title></text>'
    right = f'<text x="{WIDTH - MARGIN}" y="{y + 15:.0f}" text-anchor="end"'
    speedup, low, high = bar.speedup, bar.low, bar.high
    if not _is_drawn(bar) or speedup is None or low is None or high is None:
        verdict = f"{DASH} {bar.verdict}" if bar.verdict not in CLASSES else bar.verdict
        yield f'{right}>{escape(bar.count)} <tspan class="muted">{escape(verdict)}</tspan></text>'
        return
    yield f'{right}>{ratio(speedup)} {interval(low, high)} <tspan class="muted">{bar.verdict}</tspan></text>'
    yield f'<use href="#strip" y="{y + 21:.0f}"/>'
    middle = y + 21 + STRIP / 2
    yield _interval(low, high, middle, CLASSES[bar.verdict])
    yield _marker(_x(speedup), middle, bar.verdict)
    if high > HIGH:
        yield _arrow(WIDTH - EDGE + 8, middle, 1)
    if low < LOW:
        yield _arrow(EDGE - 10, middle, -1)
    if not LOW <= speedup <= HIGH:
        place, anchor = (_x(low) - 14, "end") if speedup > HIGH else (_x(high) + 14, "start")
        yield f'<text x="{place:.0f}" y="{middle + 5:.0f}" text-anchor="{anchor}" class="tick">{ratio(speedup)}</text>'


def _interval(low: float, high: float, y: float, kind: str) -> str:
    """A thin line with an end cap at each end that is on the axis; nothing if all of it is outside."""
    if low > HIGH or high < LOW:
        return ""
    caps = [f"M{_x(end):.1f} {y - CAP:.1f}v{2 * CAP}" for end in (low, high) if LOW <= end <= HIGH]
    return f'<path d="M{_x(low):.1f} {y:.1f}H{_x(high):.1f}{"".join(caps)}" class="interval {kind}"/>'


def _marker(x: float, y: float, verdict: str) -> str:
    """A filled circle, an open circle, or a triangle that points to the left."""
    if verdict == "slower":
        return f'<path d="M{x - 6:.1f} {y:.1f}l9 -5v10z" class="marker slower"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="marker {CLASSES[verdict]}"/>'


def _arrow(x: float, y: float, direction: int) -> str:
    """A short arrow from ``x`` to the right (1) or to the left (-1)."""
    return (
        f'<path d="M{x:.1f} {y:.1f}h{18 * direction}m{-6 * direction} -5l{6 * direction} 5l{-6 * direction} 5" '
        'class="arrow"/>'
    )


def _legend(y: float) -> Iterator[str]:
    """What the shapes mean, in two lines, and what the axis is."""
    axis = "time before the fix / time after it; above 1x the fix is faster"
    yield f'<text x="{MARGIN}" y="{y:.0f}" class="muted">{axis}</text>'
    first, second = y + 24, y + 48
    entries = (
        (MARGIN, first, [_marker(MARGIN + 10, first - 5, "confirmed")], "confirmed"),
        (150, first, [_marker(160, first - 5, "no effect")], "no effect"),
        (280, first, [_marker(290, first - 5, "slower")], "slower"),
        (390, first, [f'<text x="395" y="{first:.0f}">{DASH}</text>'], "not measured, differs or stale"),
        (MARGIN, second, [_sample(MARGIN, second - 5)], "95 % interval"),
        (280, second, [_arrow(281, second - 5, 1)], f"outside the axis, {LOW:g}x to {HIGH:g}x"),
    )
    for x, baseline, shapes, text in entries:
        yield from shapes
        yield f'<text x="{x + 26:.0f}" y="{baseline:.0f}" class="muted">{escape(text)}</text>'


def _sample(x: float, y: float) -> str:
    """An interval, for the legend."""
    return f'<path d="M{x} {y}h20M{x + 1} {y - CAP}v{2 * CAP}m18 -{2 * CAP}v{2 * CAP}" class="arrow"/>'
