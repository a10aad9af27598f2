"""Two charts as SVG: bars on a logarithmic axis, and a line on two of them. Colours follow the reader's scheme."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

_WIDTH, _MARGIN, _LEFT, _ROW = 680, 16, 250, 26
_STYLE = """
  .paper { fill: #ffffff }
  text { font: 15px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-size: 18px; font-weight: 600 }
  .heading { font-weight: 600 }
  .tick { font-size: 14px; fill: #59636e }
  .grid { stroke: #c8d1da; stroke-width: 1 }
  .own { fill: #1a7f37 }
  .other { fill: #8c959f }
  .line { fill: none; stroke: #1a7f37; stroke-width: 2 }
  .proportional { fill: none; stroke: #59636e; stroke-width: 1; stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 }
    text { fill: #f0f6fc }
    .tick { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .own { fill: #3fb950 }
    .other { fill: #656c76 }
    .line { stroke: #3fb950 }
    .proportional { stroke: #9198a1 }
  }
"""

#: Name, value, and whether it is torchlint's.
Row = tuple[str, float, bool]


def bars(title: str, groups: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """Groups of bars under headings, on one logarithmic axis."""
    values = [row[1] for _, rows in groups for row in rows] or [1.0]
    low, high = 10 ** math.floor(math.log10(min(values))), max(values)
    width = _WIDTH - _LEFT - 70

    def x(value: float) -> float:
        return _LEFT + width * max(0.0, math.log(value / low) / math.log(high / low or 2))

    body: list[str] = []
    y = 56.0
    for heading, rows in groups:
        body.append(f'<text x="{_MARGIN}" y="{y + 14:.0f}" class="heading">{escape(heading)}</text>')
        y += _ROW
        for name, value, is_own in rows:
            kind = "own" if is_own else "other"
            body.append(f'<text x="{_MARGIN}" y="{y + 14:.0f}">{escape(name)}</text>')
            body.append(f'<rect x="{_LEFT}" y="{y:.0f}" width="{x(value) - _LEFT:.1f}" height="18" class="{kind}"/>')
            body.append(f'<text x="{x(value) + 6:.1f}" y="{y + 14:.0f}" class="tick">{_figure(value)}</text>')
            y += _ROW
        y += 14
    return _svg(title, body, y)


def lines(title: str, points: Sequence[tuple[float, float]]) -> str:
    """CPU seconds by lines of code, on logarithmic axes; dashed, what is in proportion to the last point."""
    left, top, right, bottom = 90, 60, _WIDTH - 40, 340
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    last = points[-1]
    steady = [(value, last[1] * value / last[0]) for value in (xs[0], xs[-1])]
    low, high = min(*ys, steady[0][1]), max(ys)

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = math.log(point[0] / xs[0]) / math.log(xs[-1] / xs[0])
        up = math.log(point[1] / low) / math.log(high / low)
        return left + across * (right - left), bottom - up * (bottom - top)

    def path(some: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in map(place, some))

    body = [f'<path d="M{left} {bottom}H{right}" class="grid"/>', f'<path d="{path(steady)}" class="proportional"/>']
    body.append(f'<path d="{path(points)}" class="line"/>')
    body += _marks(points, [place(point) for point in points], bottom)
    body.append(
        f'<text x="{_MARGIN}" y="{bottom + 52}" class="tick">lines of code; dashed: in proportion to them</text>'
    )
    return _svg(f"{title}: CPU seconds", body, bottom + 68)


def _marks(
    points: Sequence[tuple[float, float]], places: Sequence[tuple[float, float]], bottom: float
) -> Iterator[str]:
    for (count, seconds), (x, y) in zip(points, places, strict=True):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="own"/>'
        yield f'<text x="{x:.1f}" y="{y - 10:.1f}" text-anchor="middle" class="tick">{_figure(seconds)}</text>'
        yield f'<text x="{x:.1f}" y="{bottom + 20:.0f}" text-anchor="middle" class="tick">{count:,.0f}</text>'


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _svg(title: str, body: Sequence[str], height: float) -> str:
    size = f'width="{_WIDTH}" height="{height:.0f}" viewBox="0 0 {_WIDTH} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height:.0f}" rx="8" class="paper"/>',
            f'<text x="{_MARGIN}" y="32" class="title">{escape(title)}</text>',
            *body,
            "</svg>\n",
        ]
    )
