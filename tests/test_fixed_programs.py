"""Programs for which a fix may go too far: each runs, and prints the same after all fixes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from torch_forks import printed

import torchlint
from torchlint.engine.results import Mode
from torchlint.engine.runner import run
from torchlint.settings.files import File

PROGRAMS = Path(__file__).resolve().parent / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if not path.stem.startswith("helper_"))
#: What an unsafe fix may break, as its caution says, because the file does not show it.
TOLD = {"tl204_own_batch", "tl206_expand", "tl206_not_a_device", "tl303_isinstance"}


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By kind of fixes a folder with all programs after these."""
    folders = {}
    for kind in ("safe", "unsafe"):
        folder = folders[kind] = tmp_path_factory.mktemp(kind) / "programs"
        shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("__pycache__"))
        settings = torchlint.load_settings(None, {"select": ["ALL"], "unsafe-fixes": kind == "unsafe"})
        files = [File(str(path), settings, named=True) for path in sorted(folder.glob("*.py"))]
        assert not [error for result in run(files, Mode.FIX) for error in result.errors]
    return folders


def test_there_are_programs_for_each_family() -> None:
    assert len(NAMES) >= 30
    assert {name[2] for name in NAMES if name.startswith("tl")} >= {"1", "2", "3", "4", "5"}


@pytest.mark.parametrize("name", NAMES)
def test_a_fixed_program_prints_the_same(name: str, fixed: dict[str, Path]) -> None:
    text = (PROGRAMS / f"{name}.py").read_text()
    parts = [path for path in PROGRAMS.glob("*.py") if path.stem == name or f"from {path.stem} import" in text]
    changed = [
        kind
        for kind, folder in fixed.items()
        if any((folder / path.name).read_bytes() != path.read_bytes() for path in parts)
        if kind == "safe" or name not in TOLD
    ]
    if not changed:
        return  # no fix is offered, or it is told that it may go too far
    before = printed(PROGRAMS, name)
    assert "status 0" in before
    for kind in changed:
        assert printed(fixed[kind], name) == before, kind
