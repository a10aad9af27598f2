"""Words without which a text grows no tensor by ``cat``; no heavy imports."""

from __future__ import annotations

import re

#: `cat([x, ...` and `cat(tensors=(x, ...`: the first of several tensors
_CAT = re.compile(r"(?:cat|concat|concatenate|vstack|hstack)\(\s*(?:tensors\s*=\s*)?[\[(]\s*([\w.]+)\s*,\s*[^\s\])]")
_BEFORE = 200  #: characters between the target of an assignment and the call
_NEAR = 160  #: characters before the call with a test of the first iteration
#: A test of the first iteration.
_FIRST = re.compile(r"\belse\b|\bNone\b|== ?0|\bnot \w|\blen\(|first|empty|numel|size\(")
_LINES = 1000  #: lines of a loop before the call


def grows_by_cat(text: str) -> bool:
    """Whether a call such as ``torch.cat`` in a loop adds to the name that its result is assigned to."""
    return any(_grows(text, call.start(), call[1]) for call in _CAT.finditer(text))


def _grows(text: str, start: int, name: str) -> bool:
    before = text[max(0, start - _BEFORE) : start]
    if not re.search(rf"(?<![\w.]){re.escape(name)}\s*=(?!=)", before):
        return False
    loop = _loop_around(text, start)
    return loop is not None and not _is_bound_in(text[loop:start], name)


def _is_bound_in(body: str, name: str) -> bool:
    """Whether a loop binds a name before it adds to it, not only in its first iteration."""
    statement = body.rfind("\n") + 1
    bound = re.search(rf"(?m)^\s*{re.escape(name)}\s*(?::[^=\n]*)?=(?!=)", body[:statement])
    return bound is not None and _FIRST.search(body[-_NEAR:]) is None


def _loop_around(text: str, at: int) -> int | None:
    """Where the loop around a place begins, by the indentation of lines; None without one."""
    start = text.rfind("\n", 0, at) + 1
    indent = _indent(text[start:at])
    for _ in range(_LINES):
        if start == 0 or indent == 0:
            return None
        before = text.rfind("\n", 0, start - 1) + 1
        line, start = text[before:start], before
        if line.isspace() or _indent(line) >= indent:
            continue
        indent, words = _indent(line), line.split(None, 2)
        if words[0] in ("for", "while") or words[:2] == ["async", "for"]:
            return before
        if words[0] in ("def", "class") or words[:2] == ["async", "def"]:
            return None
    return start


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
