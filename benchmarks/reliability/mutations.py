"""Mutations of files: what an editor, a merge or a broken disk makes of them."""

from __future__ import annotations

from random import Random

#: What is put somewhere: parts of Python, and characters that are read in unusual ways.
_PARTS = [
    part.encode()
    for part in (
        *(
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ":",
            ";",
            ",",
            ".",
            "=",
            "\\",
            '"',
            "'",
            "#",
            "@",
            "*",
            "**",
            "->",
            ":=",
            "...",
        ),
        *("\t", "\f", "\r", "\r\n", "\n", "\n\n", "\0", "\ufeff", "\u2028", "\x85", "é", "\u0301", "\U0001f525"),
        *("\u3000", "\x1b[31m", "\xa0", "await ", "async ", "yield ", "lambda: ", "not ", "del ", "global x\n"),
        *(
            "nonlocal x\n",
            "return ",
            "import torch\n",
            "if True:\n",
            "else:\n",
            "try:\n",
            "finally:\n",
            "with a as b: ",
        ),
        *(
            "for x in y: ",
            "class A: ",
            "def f(): ",
            "pass; ",
            "'''",
            '"""',
            "f'{",
            "}'",
            "rb'",
            "# noqa",
            "# noqa: TL101",
        ),
        *(
            "# coding: cp1252\n",
            "0x",
            "1_0",
            "1e999",
            "self.",
            "super().",
            "model(",
            ".cuda()",
            ".to(device)",
            "torch.",
        ),
        *("DataLoader(", "num_workers=", "loss.item()", ".detach()", "with torch.no_grad():\n", "@torch.compile\n"),
    )
]


def mutated(data: bytes, random: Random) -> bytes:
    """The content of a file with one to four changes."""
    for _ in range(random.randint(1, 4)):
        data = random.choice(_CHANGES)(data, random)
    return data


def _delete(data: bytes, random: Random) -> bytes:
    start, end = _range(data, random)
    return data[:start] + data[end:]


def _repeat(data: bytes, random: Random) -> bytes:
    start, end = _range(data, random)
    return data[:end] + data[start:end] + data[end:]


def _move(data: bytes, random: Random) -> bytes:
    start, end = _range(data, random)
    rest = data[:start] + data[end:]
    place = random.randint(0, len(rest))
    return rest[:place] + data[start:end] + rest[place:]


def _insert(data: bytes, random: Random) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + random.choice(_PARTS) + data[place:]


def _insert_at_word(data: bytes, random: Random) -> bytes:
    places = [index for index, byte in enumerate(data) if byte in b" (\n.,"] or [0]
    place = random.choice(places)
    return data[:place] + random.choice(_PARTS) + data[place:]


def _flip(data: bytes, random: Random) -> bytes:
    if not data:
        return data
    place = random.randrange(len(data))
    return data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]


def _swap_rows(data: bytes, random: Random) -> bytes:
    rows = data.splitlines(keepends=True)
    if len(rows) > 1:
        one, two = random.sample(range(len(rows)), 2)
        rows[one], rows[two] = rows[two], rows[one]
    return b"".join(rows)


def _drop_row(data: bytes, random: Random) -> bytes:
    rows = data.splitlines(keepends=True)
    if rows:
        del rows[random.randrange(len(rows))]
    return b"".join(rows)


def _indent(data: bytes, random: Random) -> bytes:
    rows = data.splitlines(keepends=True)
    start = random.randint(0, len(rows))
    end = min(len(rows), start + random.randint(1, 20))
    by = random.choice([b"    ", b"\t", b" "])
    return b"".join([*rows[:start], *(by + row for row in rows[start:end]), *rows[end:]])


def _join_rows(data: bytes, random: Random) -> bytes:
    return data.replace(b"\n", random.choice([b"\r\n", b"\r", b"; ", b"\\\n", b"\n\n"]), random.choice([1, 3, -1]))


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _range(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.choice([1, 2, 5, 20, 100, 1000]))


_CHANGES = [_delete, _repeat, _move, _insert, _insert, _insert_at_word, _insert_at_word, _flip, _swap_rows, _drop_row]
_CHANGES += [_indent, _join_rows, _cut]
