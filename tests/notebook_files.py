"""Notebook files for the tests, and what Jupyter reads in them."""

# mypy: allow-untyped-calls

from __future__ import annotations

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from torchlint.engine.fixer import fix
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.notebook import Notebook
from torchlint.source.source import Source

OUTPUT = new_output("stream", text="LOUD \u2603\n")
PYTHON = {"language_info": {"name": "python"}, "kernelspec": {"name": "python3", "display_name": "é"}}


def document(*texts: str, prose: str = "# LOUD prose") -> str:
    """A notebook file: a cell of prose, then cells of code with output."""
    cells = [new_markdown_cell(prose), *(new_code_cell(text, outputs=[OUTPUT], execution_count=3) for text in texts)]
    notebook = new_notebook(cells=cells, metadata=PYTHON)
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook)) + "\n"


def cells(*texts: str) -> Notebook:
    """A notebook with a cell of prose before those of code."""
    return Notebook.from_cells("n.ipynb", enumerate(texts, 2))


def read(content: str) -> Source:
    """The source of a notebook file."""
    return reading.from_content(content, "n.ipynb")


def texts_in(content: str) -> list[str]:
    """The texts of the code cells, as Jupyter reads them."""
    return [cell.source for cell in nbformat.reads(content, as_version=4).cells if cell.cell_type == "code"]


def fixed(content: str, settings: Settings) -> str:
    """What fixing makes of a notebook file; it is a valid one, and a second run changes nothing."""
    result = fix(read(content), settings).source.to_bytes().decode()
    nbformat.validate(nbformat.reads(result, as_version=4))
    assert fix(read(result), settings).source.to_bytes().decode() == result
    return result
