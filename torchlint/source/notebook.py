"""A notebook as one source: the texts of its code cells, one after the other, analysed as one module.

An editor passes the cells one by one; ``torchlint.source.ipynb`` reads and writes them in a file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from torchlint.source.ipynb import code_cells, with_cells
from torchlint.source.magics import Masked, blank, mask
from torchlint.source.parsing import ParseError, check_syntax, python_tree
from torchlint.source.ranges import Edit, apply
from torchlint.source.source import Cell, Source, SourceError

#: The text between two cells.
_BORDER = "\n"


@dataclass(frozen=True)
class Notebook(Source):
    """The code cells of a notebook, joined by newlines."""

    document: str | None = None  #: the file as it was read; None if the cells did not come from a file

    @classmethod
    def from_cells(cls, path: str, cells: Iterable[tuple[int, str]]) -> Notebook:
        """A notebook of code cells, each with its number, counted from 1 over all cells of the notebook."""
        texts = list(cells)
        return cls(path, _BORDER.join(text for _, text in texts), cells=_layout(texts))

    @classmethod
    def from_file(cls, source: Source) -> Notebook:
        """The notebook in the text of its file. Raises SourceError."""
        notebook = cls.from_cells(source.path, code_cells(source.text))
        return replace(notebook, bom=source.bom, document=source.text)

    def cell_text(self, cell: Cell) -> str:
        """The content of a cell."""
        return self.text[cell.start : cell.end]

    # -- what is analysed

    @cached_property
    def code(self) -> str:
        """The text with magics masked, and cells that contain no Python blank."""
        broken = self._errors
        return _BORDER.join(
            blank(unit) if cell.index in broken else unit for cell, unit in zip(self.cells, self.units, strict=True)
        )

    @property
    def units(self) -> tuple[str, ...]:
        """The cells with magics masked."""
        return tuple(masked.code for masked in self._masked)

    @cached_property
    def broken(self) -> tuple[ParseError, ...]:
        """Why cells cannot be parsed. The others are analysed without them."""
        errors = []
        for index, error in self._errors.items():
            first, last = self.rows_at(self.cell(index).start)
            errors.append(ParseError(error.reason, min(error.row + first - 1, last), error.column))
        return tuple(errors)

    @cached_property
    def _masked(self) -> tuple[Masked, ...]:
        return tuple(mask(self.cell_text(cell)) for cell in self.cells)

    @cached_property
    def _errors(self) -> dict[int, ParseError]:
        errors = {}
        for cell, masked in zip(self.cells, self._masked, strict=True):
            try:
                check_syntax(masked.code)
            except ParseError as error:
                errors[cell.index] = error
        return errors

    # -- fixes

    def fitted(self, edits: Sequence[Edit]) -> Sequence[Edit] | None:
        """The edits of one fix, each within one cell; None where that is not possible.

        It is not if one would change a magic or a cell that is not analysed, or if a cell would no longer show the
        value of its last expression.
        """
        fitted = []
        for edit in edits:
            cell = self.cell_at(edit.start)
            if cell is None or not 0 <= edit.start <= edit.end <= cell.end + len(_BORDER):
                return None
            fitted.append(self._trimmed(edit, cell, edits))
        fitted.sort(key=lambda edit: (edit.start, edit.end))
        for index, own in groupby(dict.fromkeys(fitted), key=lambda edit: self._position_of_cell(edit.start)):
            cell = self.cells[index]
            changed = [Edit(edit.start - cell.start, edit.end - cell.start, edit.content) for edit in own]
            before, after = self._masked[index], mask(apply(self.cell_text(cell), changed))
            if before.foreign or cell.index in self._errors or before.magics != after.magics:
                return None
            if not _shows_the_same(before.code, after.code):
                return None
        return tuple(fitted)

    def edited(self, edits: Sequence[Edit]) -> Notebook:
        """The same notebook with sorted edits, each within one cell, made in it."""
        texts = []
        for cell in self.cells:
            own = [
                Edit(edit.start - cell.start, edit.end - cell.start, edit.content)
                for edit in edits
                if cell.start <= edit.start <= cell.end
            ]
            if any(edit.end > cell.end - cell.start for edit in own):
                raise ValueError(f"an edit crosses the end of cell {cell.index}")
            texts.append((cell.index, apply(self.cell_text(cell), own)))
        return replace(self, text=_BORDER.join(text for _, text in texts), cells=_layout(texts))

    def to_bytes(self) -> bytes:
        """The notebook file, the lines of changed cells apart as it was read. Raises SourceError."""
        if self.document is None:
            raise SourceError("the cells did not come from a file")
        return self.encode(with_cells(self.document, {cell.index: self.cell_text(cell) for cell in self.cells}))

    def _position_of_cell(self, offset: int) -> int:
        cell = self.cell_at(offset)
        return self.cells.index(cell) if cell else -1

    def _trimmed(self, edit: Edit, cell: Cell, edits: Sequence[Edit]) -> Edit:
        """The edit without the newline behind the cell's last row, in place of which that before the row goes."""
        start, end, content = edit.start, min(edit.end, cell.end), edit.content
        if edit.end > cell.end:
            content = re.sub(r"(?:\r\n|\r|\n)\Z", "", content)
        if content or end < cell.end or edit.start == edit.end:
            return Edit(start, end, content)
        newline = re.search(r"(?:\r\n|\r|\n)\Z", self.text[cell.start : start])
        if newline and not any(other != edit and other.start <= start <= other.end + 2 for other in edits):
            start -= len(newline[0])
        return Edit(start, end, content)


def _shows_the_same(before: str, after: str) -> bool:
    """Whether an expression that ends a cell, so that its value is shown below, is at the end still."""
    if before.rstrip().endswith(";"):
        return True
    try:
        was, now = python_tree(before).body, python_tree(after).body
    except ParseError:
        return True
    if not was or not isinstance(was[-1], ast.Expr) or _is_silent(was[-1].value):
        return True
    return bool(now) and (
        ast.dump(was[-1]) == ast.dump(now[-1]) or (len(was) == len(now) and isinstance(now[-1], ast.Expr))
    )


def _is_silent(value: ast.expr) -> bool:
    """Whether an expression is one that shows nothing by its value: a call of ``print``, or a magic."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "print"
    return isinstance(value, ast.Name) and not value.id.strip("_")


def _layout(texts: Sequence[tuple[int, str]]) -> tuple[Cell, ...]:
    """Where the cells lie once they are joined."""
    cells = []
    start = 0
    for index, text in texts:
        cells.append(Cell(index, start, start + len(text)))
        start += len(text) + len(_BORDER)
    return tuple(cells)
