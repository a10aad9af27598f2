"""Words without which a text tests no tensor; no heavy imports."""

from __future__ import annotations

import re
from functools import lru_cache

from torchlint.source.lexemes import behind, is_in_name

_REACH = 200  #: characters between the word that begins a test and what it tests
_TEST = re.compile(r"\b(?:if|elif|while|assert|and|or|not)\b")
#: What only tensors and arrays are asked, and the names of losses.
_ASKED = re.compile(
    r"\.(?:any|all|sum|max|min|mean|norm|item|nonzero|eq|ne|gt|lt|ge|le)\(|\babs\(|is(?:nan|inf|finite)|allclose|"
    r"equal\(|loss|\.data\b"
)
#: A part of a test that is a name, and what it is given, if that is the answer to a question.
_NAME = re.compile(r"\b(?:if|elif|while|assert|and|or|not) (\w+)(?=:|,| and\b| or\b|\)|\s*\n)")
_ANSWER = re.compile(
    r" ?=(?!=)[^\n]{0,200}?(?:[<>]|[=!]=|is(?:nan|inf|finite)\(|"
    r"\.(?:any|all|sum|max|min|mean|norm|prod|eq|ne|gt|lt|ge|le)\()"
)
#: An order, what is behind it, and before it: a name, or an item of one.
_ORDER = re.compile(r"(?<![<>=!-])(?:[<>]=?|[=!]=)(?![<>=])\s*(?:(?:\w+\.)*(\w+)(\[[^\]\n]{1,60}\])?)?")
_BEFORE = re.compile(r"(\w+)(\[[^\]\n]{1,60}\])?\s*$")
#: What is assigned to a name or iterated over, if it may be a tensor by what gives it: a function, a method, columns.
_VALUE = re.compile(
    r" in \w+\s{0,60}[:)\]]|(?:\s{0,3}[-+*/]?=(?!=)| in )[^\n]{0,200}?(?:\btorch\.|\bF\.|\bth\.|"
    r"\b(?:abs|max|min|sum)\(|\[(?::|\.{3}),|\.(?:all|any|sum|max|min|mean|norm|prod|abs|float|masked_fill|"
    r"clamp|sqrt|topk|sort|softmax|sigmoid|squeeze|view|reshape|gather|detach)\()"
)
#: A buffer by its name, and an attribute that is tested.
_BUFFER = re.compile(r"register_buffer\(\s*(?:name\s*=\s*)?[\"'](\w+)")
_ATTRIBUTE = re.compile(r"\b(?:if|elif|while|assert|and|or|not) self\.(\w+)")


@lru_cache(maxsize=8)
def buffers_in(text: str) -> frozenset[str]:
    """The names of the buffers that a text registers."""
    return frozenset(_BUFFER.findall(text)) if "register_buffer(" in text else frozenset()


def tests_tensor(text: str) -> bool:
    """Whether a row tests what may be a tensor: by what it asks, or because a name that it compares is given one.

    The norm of a gradient, or of all, may give a factor, and that is tested.
    """
    if "clip_grad_norm" in text or (".grad" in text and "norm(" in text):
        return True
    buffers = buffers_in(text)
    if buffers and not buffers.isdisjoint(_ATTRIBUTE.findall(text)):
        return True
    if any(_is_tested(text, found.start()) for found in _ASKED.finditer(text)):
        return True
    answers = (at for name in set(_NAME.findall(text)) for at, _ in behind(text, name, _ANSWER))
    if any(not is_in_name(text, at) for at in answers):
        return True
    seen: set[str] = set()
    for found in _ORDER.finditer(text):
        before = _BEFORE.search(text, max(0, found.start() - _REACH), found.start())
        for name, index in (found.groups(), before.groups() if before is not None else (None, None)):
            if name is None or name.isdigit() or name in seen or not _is_tested(text, found.start()):
                continue
            if index is not None and "," in index:
                return True
            seen.add(name)
            if any(not is_in_name(text, at) for at, _ in behind(text, name, _VALUE)):
                return True
    return False


def _is_tested(text: str, at: int) -> bool:
    reach = max(0, at - _REACH)
    row = text.rfind("\n", reach, at) + 1 or reach
    is_end = text[row:at].lstrip()[:1] == ")"  # of a test in several rows
    return _TEST.search(text, reach if is_end else row, at) is not None
