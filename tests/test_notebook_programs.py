"""Notebooks that run modules of their project are known as their callers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import RunTorchlint
from notebook_files import document
from whole_program import DATA, ENGINE, codes, found, write

from torchlint import check_text
from torchlint.project import notebooks
from torchlint.project.context import forget
from torchlint.source import reading
from torchlint.source.source import Position

IMPORTS = "%matplotlib inline\nimport torch\nfrom data import build_loader\nfrom engine import train_one_epoch"
SETUP = """\
device = torch.device("cuda")
model = torch.nn.Linear(4096, 4096).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = build_loader(Photos(){more})"""
LOOP = "!nvidia-smi\nfor epoch in range(10):\n    train_one_epoch(model, loader, optimizer, device)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two modules, which only a notebook in another folder runs."""
    write(tmp_path, data=DATA, engine=ENGINE)
    _write_notebook(tmp_path)
    return tmp_path


def _write_notebook(folder: Path, imports: str = IMPORTS, more: str = "") -> Path:
    path = folder / "notebooks" / "training.ipynb"
    path.parent.mkdir(exist_ok=True)
    path.write_text(document(imports, SETUP.format(more=more), LOOP), encoding="utf-8")
    return path


def test_a_module_has_the_findings_of_the_program_of_a_notebook(folder: Path) -> None:
    (respawned,) = [one for one in found(folder / "data.py") if one.code == "TL103"]
    (note,) = respawned.notes
    assert note.place is not None
    assert reading.read(note.place.path).position(note.place.start) == Position(cell=4, row=2, column=1)
    assert "TL301" in codes(folder / "engine.py")


@pytest.mark.parametrize(
    ("imports", "count"),
    [
        (
            "import torch\nfrom data import *\nfrom engine import *",
            2,
        ),
        ("import torch\nfrom other import build_loader, train_one_epoch", 0),
    ],
    ids=["modules", "modules of others"],
)
def test_only_what_a_notebook_imports_matters(folder: Path, imports: str, count: int) -> None:
    _write_notebook(folder, imports)
    assert len(codes(folder / "data.py")) == count


def test_reports_name_the_cell_and_are_the_same_however_a_file_is_checked(
    folder: Path, torchlint_in: RunTorchlint
) -> None:
    def report(*arguments: str, text: str | None = None) -> list[dict[str, Any]]:
        done = torchlint_in(folder, "--output-format", "json", "--select", "TL103", *arguments, stdin=text)
        return [item for item in json.loads(done.stdout) if os.path.basename(item["filename"]) == "data.py"]

    whole = report()
    ((note,),) = (item["notes"] for item in whole)
    assert (note["cell"], note["location"]) == (4, {"row": 2, "column": 1})
    assert report("data.py") == whole
    assert report("notebooks", "data.py") == whole
    assert report("--stdin-filename", "data.py", text=DATA) == whole
    shown = torchlint_in(folder, "--select", "TL103", "data.py").stdout
    assert f"at {os.path.join('notebooks', 'training.ipynb')}:cell 4:2" in shown


def test_a_changed_notebook_changes_the_findings_of_a_module(folder: Path, torchlint_in: RunTorchlint) -> None:
    def lines(*arguments: str) -> list[str]:
        done = torchlint_in(folder, "--select", "TL101", "--output-format", "concise", "data.py", *arguments)
        assert not done.stderr
        return done.stdout.splitlines()[:-1]

    assert lines() == lines("--no-cache") == []
    _write_notebook(folder, more=", 0")
    assert len(lines()) == len(lines("--no-cache")) == 1
    _write_notebook(folder, imports="import torch")
    assert lines() == lines("--no-cache") == []


def test_an_unsaved_notebook_is_checked_with_its_modules(folder: Path) -> None:
    path = _write_notebook(folder, IMPORTS.replace("from data import build_loader", f"# changed soon\n{DATA}"))
    content = path.read_text(encoding="utf-8").replace("changed soon", "changed")
    unsaved = check_text(content, str(path))
    assert "TL102" in [one.code for one in unsaved]
    path.write_text(content, encoding="utf-8")
    forget()
    assert check_text(content, str(path)) == unsaved


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"from data import build_loader",
        b'{"cells": [{"cell_type": "code", "source": 3}], "text": "import data"}',
        b'{"cells": ' + b"[" * 100_000 + b'"import data"',
        b'\xff\xfe{"cells": "import data"}',
        b'{"cells": [{"cell_type": "code", "source": "import data\\ndef f(:"}]}',
        b'{"cells": [{"cell_type": "code", "source": "import data"}], "output": "' + b"A" * notebooks.MAX_BYTES + b'"}',
    ],
    ids=["empty", "no JSON", "no source", "deep", "undecodable", "no Python", "huge"],
)
def test_a_notebook_that_cannot_be_read_is_as_if_it_were_not_there(folder: Path, content: bytes) -> None:
    path = folder / "notebooks" / "training.ipynb"
    path.unlink()
    alone = found(folder / "data.py")
    path.write_bytes(content)
    forget()
    assert found(folder / "data.py") == alone


def test_many_notebooks_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = codes(folder / "data.py")
    shutil.rmtree(folder / "notebooks")
    forget()
    alone = codes(folder / "data.py")
    assert alone != whole
    path = _write_notebook(folder)
    monkeypatch.setattr(notebooks, "MAX_TOTAL", path.stat().st_size - 1)
    forget()
    assert codes(folder / "data.py") == alone
