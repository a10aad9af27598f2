"""The project of a file: its root and files, their texts, where words are mentioned."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from project_files import make, names, resolved

from torchlint.model.syntax.pieces import parse_pieces
from torchlint.project.project import Project

# -- roots and files


def test_the_nearest_settings_file_is_the_root(tmp_path: Path) -> None:
    make(tmp_path, {"a/b/c.py": "", "a/torchlint.toml": "", "pyproject.toml": "[tool.torchlint]\n"})
    (tmp_path / ".git").mkdir()
    assert Project.around(tmp_path / "a/b/c.py").root == tmp_path / "a"
    (tmp_path / "a/torchlint.toml").unlink()
    (tmp_path / "a/pyproject.toml").write_text("[tool.ruff]\n")
    assert Project.around(tmp_path / "a/b/c.py").root == tmp_path
    assert Project.around(tmp_path / "a/b/c.py", tmp_path / "a/b").root == tmp_path / "a/b"


def test_a_repository_is_the_root_where_there_are_no_settings(tmp_path: Path) -> None:
    make(tmp_path, {"a/b/c.py": "", "a/pyproject.toml": "[project]\n"})
    (tmp_path / ".git").mkdir()
    assert Project.around(tmp_path / "a/b/c.py").root == tmp_path


def test_else_the_folder_above_the_package_is_the_root(tmp_path: Path) -> None:
    make(tmp_path, {"x/pkg/__init__.py": "", "x/pkg/sub/__init__.py": "", "x/pkg/sub/a.py": "", "x/s.py": ""})
    assert Project.around(tmp_path / "x/pkg/sub/a.py").root == tmp_path / "x"
    assert Project.around(tmp_path / "x/s.py").root == tmp_path / "x"


def test_the_home_folder_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, {"s.py": "", "other/a.py": "", "pkg/__init__.py": "", "pkg/a.py": ""})
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    project = Project.around(tmp_path / "s.py")
    assert (project.root, names(project, project.files)) == (tmp_path, ["s.py"])
    assert Project.around(tmp_path / "pkg/a.py").root == tmp_path / "pkg"


def test_the_folder_of_temporary_files_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, {"s.py": "", "other/a.py": "", "work/x/b.py": ""})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    project = Project.around(tmp_path / "s.py")
    assert (project.root, names(project, project.files)) == (tmp_path, ["s.py"])
    assert Project.around(tmp_path / "work/x/b.py").root == tmp_path / "work/x"


def test_files_of_tools_and_ignored_files_are_left_out(tmp_path: Path) -> None:
    files = [
        "a.py",
        "src/b.py",
        ".venv/c.py",
        "env/lib/d.py",
        "node_modules/e.py",
        "build/lib/f.py",
        "out/g.py",
        "h.pyi",
    ]
    project = make(tmp_path, {**dict.fromkeys(files, ""), "env/pyvenv.cfg": "", ".gitignore": "out/\n"})
    assert names(project, project.files) == ["a.py", "src/b.py"]
    assert project.complete


def test_a_file_that_is_asked_for_belongs_to_the_project(tmp_path: Path) -> None:
    make(tmp_path, {"out/g.py": "x = 1\n", ".gitignore": "out/\n"})
    assert Project.around(tmp_path / "out/g.py", tmp_path).text(tmp_path / "out/g.py") == "x = 1\n"


def test_links_do_not_leave_the_tree(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.py").touch()
    make(tmp_path / "in", {"b.py": ""})
    os.symlink(tmp_path / "outside", tmp_path / "in/folder")
    os.symlink(tmp_path / "outside/a.py", tmp_path / "in/a.py")
    os.symlink(tmp_path / "in", tmp_path / "in/loop")
    os.symlink(tmp_path / "in/self.py", tmp_path / "in/self.py")
    os.symlink(tmp_path / "in/b.py", tmp_path / "in/c.py")
    project = Project.around(tmp_path / "in", tmp_path / "in")
    assert names(project, project.files) == ["b.py", "c.py"]


def test_bounds_make_a_project_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.project.folder_scan.MAX_FILES", 2)
    project = make(tmp_path, {"b.py": "", "a.py": "", "deep/er/c.py": ""})
    assert (project.complete, names(project, project.files)) == (False, ["a.py", "b.py"])
    monkeypatch.setattr("torchlint.project.folder_scan.MAX_FOLDER_ENTRIES", 2)
    assert not Project.around(tmp_path, tmp_path).complete


# -- texts


def test_texts_are_decoded_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes("# coding: latin-1\nx = 'é'\n".encode("latin-1"))
    (tmp_path / "b.py").write_bytes(b"x = '\xe9'\n")
    (tmp_path / "c.py").write_bytes(b"x = 1  # " + b"x" * 2_000_000)
    project = Project.around(tmp_path, tmp_path)
    assert project.text(tmp_path / "a.py") == "# coding: latin-1\nx = 'é'\n"
    assert project.text(tmp_path / "b.py") is None
    assert project.text(tmp_path / "c.py") is None
    assert project.text(tmp_path / "nowhere.py") is None


def test_other_texts_make_another_project(tmp_path: Path) -> None:
    project = make(tmp_path, {"a.py": "from b import f\n", "b.py": "def f(): ...\n"})
    changed = project.with_text({tmp_path / "b.py": "\n\ndef f(): ...\n", tmp_path / "new.py": "import b\n"})
    assert project.pieces(tmp_path / "b.py").rows == (1,)
    assert changed.pieces(tmp_path / "b.py").rows == (3,)
    assert names(changed, changed.importers(tmp_path / "b.py")) == ["a.py", "new.py"]
    assert names(project, project.importers(tmp_path / "b.py")) == ["a.py"]
    again = project.with_text({tmp_path / "a.py": "import os\n"})
    assert names(again, again.importers(tmp_path / "b.py")) == []


def test_a_notebook_that_is_asked_for_sees_the_project(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["from data import f\n", "f()"]}
    book = {"cells": [{**cell, "execution_count": None}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    make(tmp_path, {"n.ipynb": json.dumps(book), "data.py": "def f(): ...\n"})
    project = Project.around(tmp_path / "n.ipynb", tmp_path)
    assert resolved(project, "data", "n.ipynb") == "data.py"
    assert names(project, project.programs(tmp_path / "data.py")) == ["n.ipynb"]


# -- pieces


def test_pieces_are_those_of_the_parser(tmp_path: Path) -> None:
    text = "# first\nimport a\n\n\n@deco\n# between\ndef f(): ...\nx = 1; y = 2\n\n# last\nclass C:\n    z = 1\n"
    project = make(tmp_path, {"a.py": text})
    pieces = project.pieces(tmp_path / "a.py")
    assert list(pieces.starts) == [piece.start for piece in parse_pieces(text)]
    assert pieces.rows == (2, 5, 8, 11)
    assert [pieces.row_at(text.index(word)) for word in ("first", "between", "y =", "z =")] == [2, 5, 8, 11]
