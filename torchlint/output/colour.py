"""When output is coloured: by ``--color``, by NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE, or on a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

#: The values of ``--color``.
CHOICES = ("auto", "always", "never")

_choice = "auto"


def choose(value: str) -> None:
    """Set what ``--color`` says, for this process."""
    global _choice
    _choice = value


def is_coloured(stream: TextIO) -> bool:
    """Whether text for ``stream`` is coloured. A report that goes to a file never is."""
    if _choice != "auto" or getattr(stream, "is_report_file", False):
        return _choice == "always" and not getattr(stream, "is_report_file", False)
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO) -> str:
    """``text`` in a style of ``_CODES``, if text for ``stream`` is coloured."""
    return f"\033[{_CODES[style]}m{text}\033[0m" if is_coloured(stream) else text


_CODES = {"bold": "1", "error": "1;31", "warning": "1;33", "info": "1;36", "heading": "1;32", "name": "1;36"}


def console(stream: TextIO) -> Console:
    """A console of rich that follows the same choice."""
    from rich.console import Console

    if not is_coloured(stream):
        return Console(file=stream, highlight=False, markup=False, emoji=False, color_system=None)
    return Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=True,
        no_color=False,
        color_system="auto" if sys.platform == "win32" and stream.isatty() else "standard",
    )


def terminal_width() -> int:
    """The width of the terminal, as `shutil.get_terminal_size` finds it."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # it is closed, or not a terminal
        return 80
