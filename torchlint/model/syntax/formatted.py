"""f-strings -> libcst's nodes, where the expressions in them are simple; libcst parses the others."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst

from torchlint.model.syntax import nodes

_LITERAL = re.compile(r"(?P<start>[A-Za-z]{1,2}(?:\"\"\"|'''|\"|'))(?P<content>.*)", re.DOTALL)
_TEXT = r"(?:[^{}\\]|\\[^N{}]|\{\{|\}\})+"
_STRING = r"'[^'\"{}\\\n]*'|\"[^'\"{}\\\n]*\""
_PART = rf"[^'\"{{}}\[\]!=:#\\\n]|{_STRING}"
#: What is behind the opening brace: no other braces, no operators with `=`, no index within an index.
_EXPRESSION = rf"(?:{_PART}|\[(?:{_PART}|:)*\])+"
_PIECE = re.compile(
    rf"(?P<text>{_TEXT})|\{{(?P<expression>{_EXPRESSION})(?:!(?P<conversion>[rsa]))?(?::(?P<format>[^{{}}\\]+))?\}}",
    re.DOTALL,
)


def formatted_string(literal: str, convert: Callable[[str], cst.CSTNode]) -> cst.CSTNode | None:
    """The node of one f-string; None if its expressions are not simple.

    ``convert`` gives the node of an expression, and raises SyntaxError where the text is not one: in ``{f(a[1:])}`` the
    first colon is not that of the format.
    """
    found = _LITERAL.match(literal)
    if found is None:
        return None
    start = found["start"]
    end = start.lstrip("rRfF")
    content = found["content"][: -len(end)]
    parts: list[cst.CSTNode] = []
    offset = 0
    while offset < len(content):
        piece = _PIECE.match(content, offset)
        if piece is None:
            return None
        offset = piece.end()
        if piece["text"] is not None:
            parts.append(nodes.new_formatted_text(piece["text"]))
            continue
        format_spec = None if piece["format"] is None else (nodes.new_formatted_text(piece["format"]),)
        try:
            expression = convert(piece["expression"].strip())
        except SyntaxError:
            return None
        parts.append(nodes.new_formatted_expression(expression, piece["conversion"], format_spec, None))
    return nodes.new_formatted(start, tuple(parts), end)
