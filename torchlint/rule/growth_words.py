"""Which loops of a text append to a tensor by ``cat``, for the screens of rules; no heavy imports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from torchlint.rule.loop_words import indentation, loop_around
from torchlint.source.lexemes import behind, closing_bracket, is_in_name

#: `cat([x, ...`, `cat([x[beams], ...` and `cat(tensors=(x, ...`: the first of several tensors
_CALLS = ("cat(", "concatenate(", "vstack(", "hstack(")
_FIRST_OF_SEVERAL = re.compile(r"\s*(?:tensors\s*=\s*)?[\[(]\s*([\w.]+)(?:\[[\w.]+\])?\s*,\s*[^\s\])]")
_ASSIGNED = re.compile(r"\s*=(?!=)")
_BEFORE = 200  #: characters between the target of an assignment and the call
_NEAR = 160  #: characters before the call with a test of the first iteration
#: A test of the first iteration.
_FIRST = re.compile(r"\belse\b|\bNone\b|== ?0|\bnot \w|\blen\(|first|empty|numel|size\(")
_LOOP = 10_000  #: characters of a loop
_ARGUMENTS = 1000  #: characters of the arguments of a call
#: A line that may test for the first iteration.
_TEST = re.compile(r"[ \t]*(?:if|elif|while)\b")


class _Growth(NamedTuple):
    """A call of several tensors in a loop, whose result is assigned to the first of them."""

    call: int  #: where it begins
    name: str  #: the first tensor
    target: int  #: where the statement begins
    loop: int  #: where the line begins that is the head of the loop


def grows_by_cat(text: str) -> bool:
    """Whether a call such as ``torch.cat`` in a loop appends to its target, which the loop does not read."""
    return any(_is_write_only(text, found) for found in _growths(text))


def growing_loops(text: str) -> Iterator[str]:
    """The texts of the loops in which a call such as ``torch.cat`` appends to the variable it is assigned to."""
    for found in _growths(text):
        if "." not in found.name:
            yield text[found.loop : _end(text, found.loop)]


@lru_cache(maxsize=1)  # several rules ask about one text after the other
def _growths(text: str) -> list[_Growth]:
    found = []
    for function in _CALLS:
        for at, first in behind(text, function, _FIRST_OF_SEVERAL):
            target = _target(text, at, first[1])
            loop = loop_around(text, at) if target is not None else None
            if target is not None and loop is not None:
                found.append(_Growth(at, first[1], target, loop))
    return found


def _target(text: str, start: int, name: str) -> int | None:
    """Where the statement begins that assigns a call to a name; None if it assigns something else."""
    first = max(0, start - _BEFORE)
    before = text[first:start]
    found = (at for at, _ in behind(before, name, _ASSIGNED))
    targets = [at for at in found if not is_in_name(before, at) and before[at - 1 : at] != "."]
    if not targets:
        return None
    at = first + targets[-1]
    line = text[text.rfind("\n", 0, at) + 1 : at].strip()
    return at if not line or line.endswith((":", ";")) else None


def _is_write_only(text: str, found: _Growth) -> bool:
    """Whether a loop does not use a name outside of the statement that adds to it, and does not bind it before."""
    if _is_bound_in(text[found.loop : found.call], found.name):
        return False
    closed = closing_bracket(text, text.index("(", found.call) + 1, _ARGUMENTS)
    if closed is None:
        return True
    return not _is_read(text, found.name, found.loop, (found.target, text.find("\n", closed) % (len(text) + 1)))


def _is_read(text: str, name: str, loop: int, statement: tuple[int, int]) -> bool:
    """Whether a loop uses a name outside of the statement that adds to it, and not to test for the first iteration."""
    for use in re.finditer(rf"(?<![\w.]){re.escape(name)}\b(?!\s*=(?!=))", text[loop : _end(text, loop)]):
        at = loop + use.start()
        line = text.rfind("\n", 0, at) + 1
        if statement[0] <= at <= statement[1] or _TEST.match(text, line):
            continue
        if not any(text.count(quote, line, at) % 2 for quote in "\"'"):  # it may be a word of a message
            return True
    return False


def _end(text: str, loop: int) -> int:
    """Where the loop ends that begins in a line, by the indentation of lines, or an earlier place in a long loop."""
    indent = indentation(text[loop : loop + _BEFORE])
    at = text.find("\n", loop)
    while 0 <= at < loop + _LOOP:
        line = text[at + 1 : text.find("\n", at + 1) % (len(text) + 1)]
        if line.strip() and indentation(line) <= indent and not line.lstrip().startswith((")", "]", "}", "else", "#")):
            return at
        at = text.find("\n", at + 1)
    return len(text) if at < 0 else at


def _is_bound_in(body: str, name: str) -> bool:
    """Whether a loop binds a name before it adds to it, not only in its first iteration."""
    statement = body.rfind("\n") + 1
    bound = re.search(rf"(?m)^\s*{re.escape(name)}\s*(?::[^=\n]*)?=(?!=)", body[:statement])
    return bound is not None and _FIRST.search(body[-_NEAR:]) is None
