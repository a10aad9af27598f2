"""Which loops of a text append to a tensor by ``cat``, for the screens of rules; no heavy imports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchlint.rule.loop_words import indentation, loop_around
from torchlint.source.lexemes import behind, closing_bracket

#: `cat([x, ...` and `cat(tensors=(x, ...`: the first of several tensors
_CALLS = ("cat(", "concatenate(", "vstack(", "hstack(")
_FIRST_OF_SEVERAL = re.compile(r"\s*(?:tensors\s*=\s*)?[\[(]\s*([\w.]+)\s*,\s*[^\s\])]")
_BEFORE = 200  #: characters between the target of an assignment and the call
_NEAR = 160  #: characters before the call with a test of the first iteration
#: A test of the first iteration.
_FIRST = re.compile(r"\belse\b|\bNone\b|== ?0|\bnot \w|\blen\(|first|empty|numel|size\(")
_LOOP = 10_000  #: characters of a loop
_ARGUMENTS = 1000  #: characters of the arguments of a call
#: A line that may test for the first iteration.
_TEST = re.compile(r"[ \t]*(?:if|elif|while)\b")


def grows_by_cat(text: str) -> bool:
    """Whether a call such as ``torch.cat`` in a loop appends to its target, which the loop does not read."""
    return any(_grows(text, at, name) for at, name in _calls(text))


def growing_loops(text: str) -> Iterator[str]:
    """The texts of the loops in which a call such as ``torch.cat`` appends to the variable it is assigned to."""
    for at, name in _calls(text):
        target = _target(text, at, name) if "." not in name else None
        loop = loop_around(text, at) if target is not None else None
        if loop is not None:
            yield text[loop : _end(text, loop)]


def _calls(text: str) -> Iterator[tuple[int, str]]:
    """Where a call of several tensors begins, and the first of them."""
    for function in _CALLS:
        for at, found in behind(text, function, _FIRST_OF_SEVERAL):
            yield at, found[1]


def _grows(text: str, start: int, name: str) -> bool:
    target = _target(text, start, name)
    loop = loop_around(text, start) if target is not None else None
    if loop is None or target is None or _is_bound_in(text[loop:start], name):
        return False
    closed = closing_bracket(text, text.index("(", start) + 1, _ARGUMENTS)
    return closed is None or not _is_read(text, name, loop, (target, text.find("\n", closed) % (len(text) + 1)))


def _target(text: str, start: int, name: str) -> int | None:
    """Where the statement begins that assigns a call to a name; None if it assigns something else."""
    before = max(0, start - _BEFORE)
    found = list(re.finditer(rf"(?<![\w.]){re.escape(name)}\s*=(?!=)", text[before:start]))
    if not found:
        return None
    at = before + found[-1].start()
    line = text[text.rfind("\n", 0, at) + 1 : at].strip()
    return at if not line or line.endswith((":", ";")) else None


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
