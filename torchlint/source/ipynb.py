"""Notebook files (nbformat 4): JSON -> code cells, and changed cells -> the same JSON but for the changed lines."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from torchlint.source.source import SourceError

_WHITE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(r"[^,\]}\s]+")
# One character of a JSON string as it is written, but for surrogate pairs; newlines end a piece.
_PIECE = re.compile(r"(?:[^\\]|\\(?!n|u000[aA]).)*?(?:\\n|\\u000[aA])|(?:[^\\]|\\.)+\Z", re.DOTALL)
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])[0-9a-f]{4}", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


def code_cells(document: str) -> list[tuple[int, str]]:
    """The texts of the Python cells of a notebook file, with their numbers; none if its language is another.

    Raises SourceError.
    """
    return _code_cells(_parse(document))


def with_cells(document: str, texts: Mapping[int, str]) -> str:
    """``document`` with the sources of cells, by their numbers, replaced. Unchanged lines are kept as they are."""
    before = dict(code_cells(document))
    changed = {index: text for index, text in texts.items() if text != before[index]}
    if not changed:
        return document
    spans = _source_spans(document)
    ascii_only = document.isascii() and _ESCAPED.search(document) is not None
    parts: list[str] = []
    position = 0
    for index, text in sorted(changed.items()):
        start, end = spans[index]
        parts += document[position:start], _rewritten(document[start:end], text, ascii_only)
        position = end
    written = "".join([*parts, document[position:]])
    if dict(code_cells(written)) != {**before, **changed}:
        raise SourceError("the notebook cannot be written without changing more than its code")
    return written


def _parse(document: str) -> dict[str, Any]:
    try:
        parsed = json.loads(document)
    except json.JSONDecodeError as error:
        raise SourceError(f"the notebook is not JSON: {error.msg} on line {error.lineno}") from error
    except (RecursionError, ValueError) as error:  # ValueError: an integer of too many digits
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).partition(";")[0]
        raise SourceError(f"the notebook cannot be read: {reason}") from error
    if not isinstance(parsed, dict):
        raise SourceError("the file is not a notebook: its JSON is not an object")
    return parsed


def _code_cells(parsed: dict[str, Any]) -> list[tuple[int, str]]:
    """The texts of the Python cells with their numbers."""
    cells = parsed.get("cells")
    if cells is None and isinstance(parsed.get("worksheets"), list):
        return []  # nbformat 3, which no tool has written since 2015
    if not isinstance(cells, list):
        raise SourceError("the file is not a notebook: it has no list of `cells`")
    if not _is_python(parsed.get("metadata")):
        return []
    texts = []
    for index, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            raise SourceError(f"the file is not a notebook: cell {index} is not an object")
        if cell.get("cell_type") != "code" or not _is_python_cell(cell.get("metadata")):
            continue
        source = cell.get("source")
        if not isinstance(source, str) and not (
            isinstance(source, list) and all(isinstance(line, str) for line in source)
        ):
            raise SourceError(f"the file is not a notebook: the `source` of cell {index} is not text")
        texts.append((index, _joined(source)))
    return texts


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _is_python(metadata: object) -> bool:
    """Whether a notebook is written in Python, as it is if it does not say."""
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        described = metadata.get(key) if isinstance(metadata, dict) else None
        language = described.get(name) if isinstance(described, dict) else None
        if isinstance(language, str) and language:
            return language.lower() in ("python", "ipython")
    return True


def _is_python_cell(metadata: object) -> bool:
    """Whether a cell of a notebook in several languages is in Python, as it is if it does not say."""
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = editor.get("languageId") if isinstance(editor, dict) else None
    return language in (None, "python")


# -- where the sources are in the JSON, which is known to be well-formed


def _source_spans(document: str) -> dict[int, tuple[int, int]]:
    """The characters that each cell's ``source`` takes. Of keys that are there twice the last counts, as in JSON."""
    spans: dict[int, tuple[int, int]] = {}
    for key, start in _members(document, _skip_white(document, 0)):
        if key == "cells":
            spans = {}
            for index, cell in enumerate(_items(document, start), 1):
                for name, value in _members(document, cell):
                    if name == "source":
                        spans[index] = value, _skip_value(document, value)
    return spans


def _members(document: str, start: int) -> Iterator[tuple[str, int]]:
    """The keys of the object at ``start``, each with where its value begins."""
    position = _skip_white(document, start + 1)
    while document[position] != "}":
        key, position = scanstring(document, position + 1)
        position = _skip_white(document, _skip_white(document, position) + 1)  # the colon
        yield key, position
        position = _skip_comma(document, _skip_value(document, position))


def _items(document: str, start: int) -> Iterator[int]:
    """Where each item of the array at ``start`` begins."""
    position = _skip_white(document, start + 1)
    while document[position] != "]":
        yield position
        position = _skip_comma(document, _skip_value(document, position))


def _skip_value(document: str, position: int) -> int:
    if document[position] not in '"[{':
        return _SCALAR.match(document, position).end()  # type: ignore[union-attr]
    depth = 0
    while True:
        token = _TOKEN.search(document, position)
        assert token is not None  # the JSON is well-formed
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        position = token.end()
        if depth == 0:
            return position


def _skip_comma(document: str, position: int) -> int:
    position = _skip_white(document, position)
    return _skip_white(document, position + 1) if document[position] == "," else position


def _skip_white(document: str, position: int) -> int:
    return _WHITE.match(document, position).end()  # type: ignore[union-attr]


# -- one source rewritten


@dataclass
class _Line:
    """One line of a cell and how the file has it."""

    text: str
    raw: list[str]  #: more than one, where a string ends within the line
    ends: bool = False  #: whether a string ends with the line


def _rewritten(raw: str, text: str, ascii_only: bool) -> str:
    """The JSON of a source (a string, or an array of strings) whose text becomes ``text``."""
    spans = [(0, len(raw))] if raw.startswith('"') else [(at, _skip_value(raw, at)) for at in _items(raw, 0)]
    before = _lines([raw[start + 1 : end - 1] for start, end in spans])
    new = re.findall(r"[^\n]*\n|[^\n]+", text)
    after: list[_Line] = []
    matcher = difflib.SequenceMatcher(None, [line.text for line in before], new, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            after += before[first:last]
        else:
            after += [_Line(line, [_encoded(line, ascii_only)], ends=True) for line in new[start:end]]
    if raw.startswith('"'):
        return '"' + "".join(part for line in after for part in line.raw) + '"'
    strings = [""]
    for line in after:
        strings[-1] += line.raw[0]
        strings += line.raw[1:]
        if line.ends:
            strings.append("")
    if not strings[-1]:
        strings.pop()
    if not strings:
        return "[]"
    opening, closing = raw[: _skip_white(raw, 1)], raw[len(raw[:-1].rstrip(" \t\r\n")) :]
    between = raw[spans[0][1] : spans[1][0]] if len(spans) > 1 else "," + (opening[1:] or " ")
    return opening + between.join(f'"{string}"' for string in strings) + closing


def _lines(strings: list[str]) -> list[_Line]:
    """The lines of a cell, given as the insides of its JSON strings."""
    lines: list[_Line] = []
    text, raw = "", []
    for string in strings:
        for piece in _PIECE.findall(string):
            raw.append(piece)
            text += scanstring(f'{piece}"', 0)[0]
            if text.endswith("\n"):
                lines.append(_Line(text, raw))
                text, raw = "", []
        if lines and not raw:
            lines[-1].ends = True
    return [*lines, _Line(text, raw, ends=True)] if raw else lines


def _encoded(line: str, ascii_only: bool) -> str:
    """The characters of a line as a JSON string has them."""
    written = json.dumps(line, ensure_ascii=ascii_only)[1:-1]
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", written)
