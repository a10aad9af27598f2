"""Odd formatting: the same program as another hand, editor or generator would have written it.

Every change is kept only if the text is still Python, so that a program goes in and a program comes out.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Callable
from itertools import pairwise
from random import Random

_LAYOUT = {tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER}
_COMPOUND = re.compile(r"(async|class|def|elif|else|except|finally|for|if|match|case|try|while|with|@)\b|@")
#: Rows around a whole program.
_WRAPPERS = (
    *("if True:", "def main(*, n: int = 1):", "async def main():", "class Body:", "while True:", "for _ in range(3):"),
    *(
        "with open('a') as f, open('b') as g:",
        "if __name__ == '__main__':",
        "match mode:\n    case {'a': [1, *_]} | None:",
    ),
    *("if (n := 10) > 5:", "try:", "def outer():\n    def inner():", "@keep\n@(lambda f: f)\nclass A(B, metaclass=C):"),
)
_DECORATORS = ("@keep", "@keep(1)  # kept", "@functools.wraps(print)", "@(lambda f: f)")


def disguised(text: str, random: Random) -> bytes:
    """The content of a file with one to five changes of its formatting; ``text`` has newlines of one character."""
    for change in random.choices(_CHANGES, k=random.randint(1, 5)):
        text = _kept(change, text, random)
    text = _kept(random.choice(_NEWLINES), text, random)
    return random.choice([b"", b"", b"", b"\xef\xbb\xbf"]) + text.encode("utf-8", "surrogatepass")


def _kept(change: Callable[[str, Random], str], text: str, random: Random) -> str:
    """What a change makes of a text; the text, if that is no longer Python."""
    try:
        changed = change(text, random)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(changed, "<disguised>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError, MemoryError):
        return text
    return changed


class _Gap:
    """The characters between two tokens of one logical row."""

    def __init__(self, start: int, end: int, depth: int, number: int) -> None:
        self.start, self.end = start, end
        self.depth = depth  #: of brackets
        self.number = number


def _gaps(text: str) -> list[_Gap]:
    """The gaps between tokens, but for those inside an f-string."""
    starts = [0]
    for match in re.finditer("\n", text):
        starts.append(match.end())
    gaps: list[_Gap] = []
    depth = strings = 0
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for before, token in pairwise(tokens):
        name = tokenize.tok_name[before.type]
        strings += {"FSTRING_START": 1, "FSTRING_END": -1}.get(name, 0)
        if before.type == tokenize.OP and not strings:
            depth += (before.string in "([{") - (before.string in ")]}")
        if {before.type, token.type} & _LAYOUT or tokenize.COMMENT in (before.type, token.type) or strings:
            continue
        start = starts[before.end[0] - 1] + before.end[1]
        end = starts[token.start[0] - 1] + token.start[1]
        gaps.append(_Gap(start, end, depth, len(gaps)))
    return gaps


def _in_gaps(text: str, random: Random, share: float, made: Callable[[_Gap], str | None]) -> str:
    """The text with some gaps filled anew."""
    for gap in reversed(_gaps(text)):
        if random.random() < share:
            new = made(gap)
            if new is not None:
                text = text[: gap.start] + new + text[gap.end :]
    return text


def _comments_in_brackets(text: str, random: Random) -> str:
    share = random.choice([0.05, 0.3, 1.0])
    return _in_gaps(text, random, share, lambda gap: f"  # c{gap.number}\n   " if gap.depth else None)


def _rows_in_brackets(text: str, random: Random) -> str:
    return _in_gaps(text, random, random.choice([0.1, 0.5]), lambda gap: "\n\n" if gap.depth else None)


def _backslashes(text: str, random: Random) -> str:
    space = random.choice([" ", "", "\t", "        "])
    return _in_gaps(text, random, random.choice([0.05, 0.3]), lambda gap: f" \\\n{space}" if not gap.depth else None)


def _spaces(text: str, random: Random) -> str:
    space = random.choice(["  ", "\t", " \f ", "    "])
    return _in_gaps(text, random, random.choice([0.1, 1.0]), lambda gap: space)


def _no_spaces(text: str, random: Random) -> str:
    def made(gap: _Gap) -> str | None:
        around = text[gap.start - 1 : gap.start] + text[gap.end : gap.end + 1]
        return None if re.fullmatch(r"[\w'\".]{2}", around) else ""

    return _in_gaps(text, random, 1.0, made)


def _logical_rows(text: str) -> list[tuple[int, int]]:
    """The first and last row (from 0) of each logical row."""
    rows = []
    first = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            assert first is not None
            rows.append((first, token.start[0] - 1))
            first = None
        elif first is None and token.type not in _LAYOUT and token.type != tokenize.COMMENT:
            first = token.start[0] - 1
    return rows


def _indentation(row: str) -> str:
    return row[: len(row) - len(row.lstrip(" \t"))]


def _comments_between(text: str, random: Random) -> str:
    """Comments on rows of their own, at any indentation, and behind statements."""
    rows = text.split("\n")
    share = random.choice([0.1, 1.0])
    for first, last in reversed(_logical_rows(text)):
        if random.random() < share and "#" not in rows[last]:
            rows[last] += f"  # behind {last}"
        if random.random() < share:
            place = random.choice(["", _indentation(rows[first]), " " * random.randrange(12), "\t"])
            rows[first:first] = [f"{place}# above {first}"]
    return "\n".join(rows)


def _indented(text: str, random: Random) -> str:
    """Another unit of indentation, or one for each depth."""
    units = random.choice([["\t"], [" "], ["   "], ["        "], ["  ", " ", "    ", "\t", "   "]])
    rows = text.split("\n")
    inside = {row for first, last in _logical_rows(text) for row in range(first + 1, last + 1)}
    for number, row in enumerate(rows):
        depth = len(_indentation(row)) // 4
        if number not in inside and depth:
            rows[number] = "".join(units[level % len(units)] for level in range(depth)) + row.lstrip(" ")
    return "\n".join(rows)


def _joined(text: str, random: Random) -> str:
    """Simple statements on one row, and bodies on the row of their colon."""
    rows = text.split("\n")
    logical = _logical_rows(text)
    between = random.choice([";", "; ", " ;  "])
    share = random.choice([0.2, 0.6, 1.0])
    for (first, last), (start, end) in reversed(list(pairwise(logical))):
        one, two = rows[first], rows[start]
        if last + 1 != start or "#" in rows[last] or _COMPOUND.match(two.strip()) or random.random() > share:
            continue
        if rows[last].endswith(":"):
            inner, after = _indentation(two), rows[end + 1] if end + 1 < len(rows) else ""
            if after.strip() and _indentation(after) == inner:
                continue
            rows[last : start + 1] = [rows[last] + " " + two.strip()]
        elif _indentation(one) == _indentation(two) and not _COMPOUND.match(one.strip()):
            rows[last : start + 1] = [rows[last] + between + two.strip()]
    if random.random() < 0.3:
        rows = [row + ";" if row.endswith(")") and random.random() < 0.5 else row for row in rows]
    return "\n".join(rows)


def _wrapped(text: str, random: Random) -> str:
    """The program inside another statement. Rows inside strings stay."""
    wrapper = random.choice(_WRAPPERS)
    rows = text.split("\n")
    unit = random.choice(["    ", "\t", " "])
    deeper = unit * (2 if "\n    " in wrapper else 1)
    wrapper = wrapper.replace("    ", unit)
    for first, _ in _logical_rows(text):
        rows[first] = deeper + rows[first]
    behind = f"\nfinally:\n{unit}pass\n" if wrapper == "try:" else ""
    return f"{wrapper}\n" + "\n".join(rows) + behind


def _decorated(text: str, random: Random) -> str:
    """A decorator above each function and class, which may have others."""
    rows = text.split("\n")
    for number in range(len(rows) - 1, -1, -1):
        if re.match(r"\s*(async def|def|class)\b", rows[number]) and random.random() < 0.7:
            rows[number:number] = [_indentation(rows[number]) + random.choice(_DECORATORS)]
    return "\n".join(rows)


def _parenthesized(text: str, random: Random) -> str:
    """Parentheses around expressions, some over several rows."""
    data = text.encode()
    starts = [0]
    for match in re.finditer(b"\n", data):
        starts.append(match.end())
    spans = []
    for node in ast.walk(ast.parse(text)):
        loaded = isinstance(getattr(node, "ctx", None), ast.Load) or isinstance(node, (ast.Call, ast.BinOp))
        if loaded and isinstance(node, ast.expr) and not isinstance(node, ast.Starred) and random.random() < 0.15:
            assert node.end_lineno is not None and node.end_col_offset is not None
            spans.append((starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset))
    for start, end in sorted(spans, reverse=True)[:40]:
        opening, closing = random.choice(
            [(b"(", b")"), (b"( ", b" )"), (b"(\n", b"\n)"), (b"((", b"))"), (b"(# o\n", b")")]
        )
        changed = data[:start] + opening + data[start:end] + closing + data[end:]
        try:
            ast.parse(changed)
        except SyntaxError:
            continue
        data = changed  # nothing to the left has moved
    return data.decode()


def _edges(text: str, random: Random) -> str:
    """What is above, behind and at the end of rows."""
    above = random.choice(
        ["", "#!/usr/bin/python\n# -*- coding: utf-8 -*-\n", "\n\n\f\n", '"""Doc."""\n', "# noqa: TL101\n"]
    )
    text = re.sub(r"(?m)$", lambda _: random.choice(["", "", "", " ", "\t"]), text) if random.random() < 0.3 else text
    return above + (text.rstrip("\n") if random.random() < 0.5 else text + random.choice(["", "\n\n", "\f", "#"]))


def _suppressed(text: str, random: Random) -> str:
    rows = text.split("\n")
    words = ("# noqa", "# noqa: TL101,TL204", "# noqa:TL201 because", "# torchlint: noqa: TL407", "# NOQA : TL206 # x")
    for _, last in _logical_rows(text):
        if "#" not in rows[last] and random.random() < 0.2:
            rows[last] += "  " + random.choice(words)
    return "\n".join(rows)


def _shadowed(text: str, random: Random) -> str:
    """A name of the program bound by something else in addition."""
    names = sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}) or ["x"]
    name = random.choice(names)
    rows = text.split("\n")
    logical = _logical_rows(text)
    first = random.choice(logical)[0] if logical else 0
    statement = random.choice([f"{name} = {name}", f"def {name}(*a, **k): pass", f"import {name}", f"del {name}"])
    statement = random.choice([statement, statement, f"for {name} in (): pass", f"({name} := None)"])
    rows[first:first] = [_indentation(rows[first]) + statement]
    return "\n".join(rows)


_CHANGES = [
    *(_comments_in_brackets, _rows_in_brackets, _backslashes, _spaces, _no_spaces, _comments_between, _indented),
    *(_joined, _joined, _wrapped, _decorated, _parenthesized, _edges, _suppressed, _shadowed),
]
_NEWLINES: list[Callable[[str, Random], str]] = [
    *(lambda text, random: text, lambda text, random: text, lambda text, random: text.replace("\n", "\r\n")),
    *(lambda text, random: text.replace("\n", "\r"), lambda text, random: text.replace("\n", "\r\n", 20)),
]
