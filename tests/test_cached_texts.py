"""Kept results of files whose text is passed in: standard input prints the same bytes with and without a cache."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_cache import CACHE, DATA, EDITS, FILES, MODEL, analysed, edit, make, printed

SOURCE = "import torch\n\nfor i in range(9):\n    x = torch.zeros(3, 3).cuda()\n"
CELL: dict[str, object] = {
    "cell_type": "code",
    "metadata": {},
    "outputs": [],
    "execution_count": None,
    "source": SOURCE,
}
NOTEBOOK = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Piped:
    """Checks a text on standard input, and returns everything that is printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, name: str, text: str, *arguments: str) -> str:
        content = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
        self._monkeypatch.setattr(sys, "stdin", content)
        return printed(self._capsys, "--stdin-filename", name, *arguments, "-")


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Piped:
    return Piped(monkeypatch, capsys)


def test_a_saved_text_is_taken_from_the_run_over_its_folder(
    project: Path, capsys: pytest.CaptureFixture[str], piped: Piped, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed(capsys)
    checked = analysed(monkeypatch)
    with_cache = piped("data.py", DATA)
    assert "TL101" in with_cache
    assert not checked
    assert with_cache == piped("data.py", DATA, "--no-cache")
    assert checked == ["data.py"]


def test_a_saved_text_is_kept_for_the_next_time(piped: Piped, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FILES:
        os.utime(project / name, (1, 1))  # times of files that have just changed are not trusted
    path = str(project / "data.py")  # editors pass absolute paths
    checked = analysed(monkeypatch)
    first = piped(path, DATA)
    assert checked == [path]
    assert piped(path, DATA) == first
    assert checked == [path]
    (project / "options.py").write_text("WORKERS = 4\n")
    assert piped(path, DATA) == piped(path, DATA, "--no-cache") != first


def test_a_path_may_be_written_in_several_ways(
    project: Path, capsys: pytest.CaptureFixture[str], piped: Piped, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "torchlint.toml").write_text("")
    (project / "sub").mkdir()
    printed(capsys)
    checked = analysed(monkeypatch)
    paths = [str(project / "data.py"), "./data.py", "sub/../data.py"]
    found = [piped(path, DATA) for path in paths]
    monkeypatch.chdir(project / "sub")
    found.append(piped("../data.py", DATA))
    assert not checked
    monkeypatch.chdir(project)
    assert found[:3] == [piped(path, DATA, "--no-cache") for path in paths]
    monkeypatch.chdir(project / "sub")
    assert found[3] == piped("../data.py", DATA, "--no-cache")
    assert "train.py:12" in found[3]


def test_a_text_that_is_not_saved_is_never_kept(
    project: Path, capsys: pytest.CaptureFixture[str], piped: Piped
) -> None:
    printed(capsys)
    typed = DATA.replace("shuffle=True", "shuffle=True, pin_memory=True")
    assert piped("data.py", typed) == piped("data.py", typed, "--no-cache") != piped("data.py", DATA)
    assert printed(capsys) == printed(capsys, "--no-cache")
    (project / "data.py").write_text(typed)
    assert printed(capsys) == printed(capsys, "--no-cache")
    assert piped("data.py", DATA) == piped("data.py", DATA, "--no-cache")


def test_a_text_without_a_file_is_not_cached(project: Path, piped: Piped) -> None:
    piped("new.py", DATA)
    assert not list(project.glob(f"{CACHE}/*/[!s]*.json"))
    assert piped("new.py", DATA) == piped("new.py", DATA, "--no-cache")


@pytest.mark.parametrize("arguments", [["--fix"], ["--diff"], ["--fix", "--unsafe-fixes"], ["--output-format", "json"]])
@pytest.mark.parametrize(("name", "text"), [("data.py", DATA), ("model.py", MODEL), ("trial.ipynb", NOTEBOOK)])
def test_other_uses_print_the_same(
    project: Path, capsys: pytest.CaptureFixture[str], piped: Piped, name: str, text: str, arguments: list[str]
) -> None:
    (project / name).write_text(text)
    printed(capsys)
    expected = piped(name, text, *arguments, "--no-cache")
    assert piped(name, text, *arguments) == expected
    assert piped(name, text, *arguments) == expected


def test_a_text_that_is_not_python_prints_the_same(
    project: Path, capsys: pytest.CaptureFixture[str], piped: Piped
) -> None:
    (project / "broken.py").write_text("def f(:\n")
    printed(capsys)
    for _ in range(2):
        assert "TL002" in piped("broken.py", "def f(:\n")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(EDITS), st.booleans()), min_size=1, max_size=6))
def test_whatever_is_edited_standard_input_prints_the_same_as_without_a_cache(
    steps: list[tuple[tuple[str, str | None, str], bool]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An edit is saved, or only typed: then standard input has it and the disk has not."""
    folder = tmp_path_factory.mktemp("project")
    make(folder)
    monkeypatch.chdir(folder)
    piped = Piped(monkeypatch, capsys)
    for change, is_saved in steps:
        before = {name: (folder / name).read_text() for name in FILES if (folder / name).exists()}
        edit(folder, *change)
        texts = {name: (folder / name).read_text() for name in before if (folder / name).exists()}
        if not is_saved:
            for name, text in before.items():
                if texts.get(name, "") != text:
                    (folder / name).write_text(text)
        for name in ("data.py", "train.py", change[0]):
            if name in texts:
                assert piped(name, texts[name]) == piped(name, texts[name], "--no-cache")
        path = os.path.join(folder, "data.py")
        assert piped(path, texts["data.py"]) == piped(path, texts["data.py"], "--no-cache")
    shutil.rmtree(folder)
