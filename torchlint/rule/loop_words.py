"""Which places of a text are in a loop, by the indentation of its lines, for the screens of rules; no heavy imports."""

from __future__ import annotations

import re

from torchlint.source.lexemes import places

_LINES = 1000  #: lines before a place that are looked at
_CALLS = 20  #: calls of a function; one that is called more often counts as repeated
_HEAD = re.compile(r"(?:async[ \t]+)?(for|while|def|class)\b")
_NAME = re.compile(r"[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)")


def loop_around(text: str, at: int) -> int | None:
    """Where the line begins that is the head of the loop around a place in the same function; None without a loop.

    Where it is too far, the first line that was looked at.
    """
    head = _head_around(text, at, loops=True)
    return head[0] if head is not None and head[1] in ("for", "while", "") else None


def is_repeated(text: str, at: int) -> bool:
    """Whether a place is in a loop, or in a function that the text calls in a loop, as far as lines tell."""
    if loop_around(text, at) is not None:
        return True
    head = _head_around(text, at, loops=False)
    if head is None or head[1] == "class":
        return False
    name = _NAME.match(text, head[0])
    if name is None or name[1].startswith("__"):
        return True  # an object is called
    called = list(places(text, f"{name[1]}("))
    return len(called) > _CALLS or any(loop_around(text, place) is not None for place in called)


def _head_around(text: str, at: int, *, loops: bool) -> tuple[int, str] | None:
    """Where the line begins, and the keyword, of the function, class or, with ``loops``, loop around a place."""
    start = text.rfind("\n", 0, at) + 1
    indent = indentation(text[start:at] + "x")
    for _ in range(_LINES):
        if start == 0 or indent == 0:
            return None
        before = text.rfind("\n", 0, start - 1) + 1
        line, start = text[before:start], before
        if line.isspace() or indentation(line) >= indent:
            continue
        indent = indentation(line)
        bare = line[indent:]
        if bare.startswith((")", "]", "}")):
            indent += 1  # the statement that ends here begins above, with the same indentation
        head = _HEAD.match(bare)
        if head is not None and (loops or head[1] in ("def", "class")):
            return before, head[1]
    return start, ""


def indentation(line: str) -> int:
    """The number of blanks that a line begins with."""
    return len(line) - len(line.lstrip())
