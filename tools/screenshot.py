"""The picture of a terminal in the README and on the start page: the real output of a command, as SVG."""

from __future__ import annotations

import io
import re
from html import unescape

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from .terminal import ROOT, output_of

COMMAND = "torchlint --select TL101,TL201 examples/"
PATH = ROOT / "docs" / "assets" / "screenshot.svg"
WIDTH = 100

#: Rich's own picture loads a font from another host. This one takes the reader's monospaced font.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>Output of `{command}`</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
line-height: {line_height}px; }}
.{unique_id}-title {{ font: 600 16px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

_DARK = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (227, 179, 65),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)


def svg() -> str:
    """The picture of what the command prints today."""
    shown = Text.assemble(("$ ", "bold"), COMMAND, "\n", Text.from_ansi(output_of(COMMAND, ROOT, WIDTH, color=True)))
    longest = max(map(len, shown.plain.splitlines()))  # a headline is longer than the width: it is never wrapped
    console = Console(
        record=True, width=longest, file=io.StringIO(), force_terminal=True, color_system="truecolor", highlight=False
    )
    console.print(shown)
    picture = _FORMAT.replace("{command}", COMMAND)
    return console.export_svg(title="", theme=_DARK, code_format=picture, unique_id="screenshot")


def text_of(picture: str) -> str:
    """The text in a picture, row by row."""
    rows: dict[str, list[tuple[float, str]]] = {}
    for attributes, text in re.findall(r"<text ([^>]*clip-path[^>]*)>(.*?)</text>", picture, re.DOTALL):
        place = dict(re.findall(r'(\S+)="([^"]*)"', attributes))
        rows.setdefault(place["clip-path"], []).append((float(place["x"]), unescape(text)))
    lines = ("".join(text for _, text in sorted(row)).replace("\xa0", " ").rstrip() for row in rows.values())
    return "\n".join(lines).rstrip()


def expected_text() -> str:
    """What the picture should show."""
    return f"$ {COMMAND}\n{output_of(COMMAND, ROOT, WIDTH)}"
