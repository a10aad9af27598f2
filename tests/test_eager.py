"""Pieces on demand give the findings of whole files; `benchmarks/eager.py` asks it of real programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import DATA, ENGINE, MAIN, write

from benchmarks.eager import differences, everything_loaded
from torchlint.project.context import project_file

MAIN = MAIN.format(data="data", engine="engine")
GLOBAL = """\
WORKERS = 0


def setup():
    global WORKERS
    WORKERS = 4


def unused(): ...


setup()
"""
BASE = """\
class Base:
    def make(self):
        self.loader = build_loader(Photos())


class Unused: ...
"""
#: By what is special about it: modules of a program in which a piece depends on another one.
PROGRAMS = {
    "a function": {},
    "a constant": {
        "config": "WORKERS = 4\nUNUSED = 5\n",
        "main": "import config\n" + MAIN.replace("Photos()", "Photos(), config.WORKERS"),
    },
    "a global": {
        "config": GLOBAL,
        "main": MAIN.replace("Photos()", "Photos(), WORKERS").replace(
            "import torch\n", "from config import WORKERS\n", 1
        ),
    },
    "a base class": {
        "base": BASE,
        "main": MAIN.replace("def main():", "from base import Base\n\n\ndef main():\n    Base().make()"),
    },
    "an assignment elsewhere": {
        "config": "class Config:\n    workers = 0\n\n\ncfg = Config()\n",
        "setup": "from config import cfg\n\ncfg.workers = 4\n",
        "main": "import setup\nfrom config import cfg\n" + MAIN.replace("Photos()", "Photos(), cfg.workers"),
    },
}


@pytest.mark.parametrize("files", PROGRAMS.values(), ids=PROGRAMS)
def test_pieces_on_demand_give_the_same_findings(files: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {"data": DATA, "engine": ENGINE, "main": MAIN, **files})
    count, lines = differences(tmp_path)
    assert lines == []
    assert count > 0


def test_everything_is_loaded(tmp_path: Path) -> None:
    """Else the comparison would say nothing."""
    folder = write(tmp_path, {"data": DATA, "engine": ENGINE, "main": MAIN, **PROGRAMS["a base class"]})
    path = folder / "engine.py"

    def loaded() -> str:
        found = project_file(str(path), path.read_text(), concerns=lambda place, text: place == "engine.py")
        assert found is not None
        return found.context.code

    assert "class Unused" not in loaded()
    with everything_loaded():
        assert "class Unused" in loaded()
    assert "class Unused" not in loaded()
