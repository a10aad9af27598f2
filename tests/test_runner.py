"""Many files: the same results in the same order however the work is shared out, and a crash costs one file."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torchlint.engine.results import Mode, Result
from torchlint.engine.runner import run
from torchlint.settings.files import File
from torchlint.settings.settings import Settings

MakeSettings = Callable[..., Settings]
PADDING = "# " + "x" * 2000 + "\n"


def make(root: Path, texts: dict[str, str], settings: Settings) -> list[File]:
    """Write files and return them in order."""
    for name, text in texts.items():
        (root / name).write_text(text)
    return [File(str(root / name), settings, named=False) for name in sorted(texts)]


def summary(results: list[Result], root: Path) -> list[tuple[str, list[str]]]:
    """Name and codes of each result."""
    return [(os.path.relpath(result.path, root), [one.code for one in result.diagnostics]) for result in results]


def test_processes_threads_and_a_plain_loop_agree(tmp_path: Path, demo: MakeSettings) -> None:
    words = ["LOUD", "RISKY", "quiet"]
    texts = {f"{index:03}.py": f"x = {words[index % 3]}\n{PADDING}" for index in range(150)}
    files = make(tmp_path, texts, demo())
    expected = [(name, [["ZZ101"], ["ZZ102"], []][index % 3]) for index, name in enumerate(sorted(texts))]
    assert summary(run(files), tmp_path) == expected
    with ThreadPoolExecutor(3) as executor:
        assert summary(run(files, executor=executor), tmp_path) == expected
    assert [one for file in files[:3] for one in summary(run([file]), tmp_path)] == expected[:3]


def test_progress_counts_the_files_done(tmp_path: Path, demo: MakeSettings) -> None:
    files = make(tmp_path, {f"{index}.py": "LOUD = 1\n" for index in range(5)}, demo())
    counts: list[int] = []
    run(files, progress=counts.append)
    assert counts == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("deadly", [["070.py"], ["000.py", "001.py", "149.py"]])
def test_a_process_that_dies_costs_only_its_file(tmp_path: Path, demo: MakeSettings, deadly: list[str]) -> None:
    texts = {f"{index:03}.py": f"x = LOUD\n{PADDING}" for index in range(150)}
    texts.update(dict.fromkeys(deadly, "DEADLY = LOUD\n"))
    files = make(tmp_path, texts, demo(ignore=["TL001"]))
    results = run(files)
    assert [os.path.basename(result.path) for result in results] == sorted(texts)
    for result in results:
        if os.path.basename(result.path) in deadly:
            assert result.errors == (f"{result.path}: the process that checked this file died; the file was skipped",)
        else:
            assert [one.code for one in result.diagnostics] == ["ZZ101"] and not result.errors


def test_files_that_cannot_be_read_are_results_too(tmp_path: Path, demo: MakeSettings) -> None:
    (tmp_path / "binary.py").write_bytes(b"\0LOUD")
    (tmp_path / "latin.py").write_bytes(b"LOUD = '\xe9'\n")
    settings = demo()
    names = ["binary.py", "latin.py", "missing.py"]
    binary, latin, missing = run([File(str(tmp_path / name), settings, named=False) for name in names])
    assert [one.code for one in (*binary.diagnostics, *latin.diagnostics)] == ["TL002", "TL002"]
    assert "NUL" in binary.diagnostics[0].message and "0xe9 on line 1" in latin.diagnostics[0].message
    assert not missing.diagnostics and "cannot be read: No such file" in missing.errors[0]


def test_fixing_writes_the_files_and_reports_what_is_left(tmp_path: Path, demo: MakeSettings) -> None:
    files = make(tmp_path, {"a.py": "x = LOUD, RISKY\n", "b.py": "y = 1\n"}, demo())
    before = (tmp_path / "b.py").stat().st_mtime_ns
    first, second = run(files, Mode.FIX)
    assert (tmp_path / "a.py").read_text() == "x = loud, RISKY\n"
    assert [code for code, _ in first.applied] == ["ZZ101"]
    assert [one.code for one in first.diagnostics] == ["ZZ102"]
    assert second == Result(str(tmp_path / "b.py"))
    assert (tmp_path / "b.py").stat().st_mtime_ns == before


def test_a_diff_changes_nothing(tmp_path: Path, demo: MakeSettings) -> None:
    files = make(tmp_path, {"a.py": "x = LOUD\n"}, demo())
    (result,) = run(files, Mode.DIFF)
    assert "-x = LOUD\n+x = loud\n" in result.diff
    assert (tmp_path / "a.py").read_text() == "x = LOUD\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_may_not_be_written_is_reported(tmp_path: Path, demo: MakeSettings) -> None:
    files = make(tmp_path, {"a.py": "x = LOUD\n"}, demo())
    (tmp_path / "a.py").chmod(0o444)
    (result,) = run(files, Mode.FIX)
    assert "read-only" in result.errors[0]
    assert [one.code for one in result.diagnostics] == ["ZZ101"]
