"""Packages that import their modules only when a name is asked for, and for type checkers."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint.project.choice import Choice
from torchlint.project.project import Project

LAZY = """\
from typing import TYPE_CHECKING

if {condition}:
    from .models import (
        UNet,
    )

    from .data import load
else:
    import sys
    sys.modules[__name__] = make_lazy()

from .version import VERSION
"""


def reached(root: Path, init: str) -> list[str]:
    """The files of a lazy package that its command line runs."""
    files = {"main.py": "import pkg\npkg.run()\n", "pkg/__init__.py": init, "pkg/models.py": "", "pkg/data.py": ""}
    for name, text in {**files, "pkg/version.py": ""}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(text.encode())
    project = Project.around(root, root)
    return sorted(path.relative_to(root).as_posix() for path in project.reachable(root / "main.py"))


@pytest.mark.parametrize("condition", ["TYPE_CHECKING", "typing.TYPE_CHECKING", "TYPE_CHECKING or SLOW_IMPORT"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_only_a_type_checker_imports_is_not_run(condition: str, newline: str, tmp_path: Path) -> None:
    init = LAZY.format(condition=condition).replace("\n", newline)
    assert reached(tmp_path, init) == ["main.py", "pkg/__init__.py", "pkg/version.py"]


@pytest.mark.parametrize("condition", ["not TYPE_CHECKING", "SLOW_IMPORT"])
def test_what_another_condition_guards_may_run(condition: str, tmp_path: Path) -> None:
    everything = ["main.py", "pkg/__init__.py", "pkg/data.py", "pkg/models.py", "pkg/version.py"]
    assert reached(tmp_path, LAZY.format(condition=condition)) == everything


@pytest.mark.parametrize(
    ("model", "is_chosen"),
    [
        ('__all__ = ["build"]\n', False),
        ('__all__ = [\n    "build",  # (no others)\n    "train",\n]\n', True),
        ('__all__ = ["build"] + others\n', True),
        ('__all__ = ["build"]\n__all__ += ["train"]\n', True),
        ("", True),
    ],
)
def test_a_star_import_takes_what_a_module_lists(model: str, is_chosen: bool, tmp_path: Path) -> None:
    files = {
        "main.py": "from pkg import *\n\nif __name__ == '__main__':\n    train()\n",
        "pkg/__init__.py": "from .model import *\n",
        "pkg/model.py": f"import torch\n\n{model}\ndef build():\n    pass\n\ndef train():\n    torch.ones(2)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    chosen = Choice(Project.around(tmp_path, tmp_path), ["main.py"]).run()
    assert bool(chosen.get("pkg/model.py")) is is_chosen


def test_a_star_import_gives_no_name_that_the_file_binds_itself(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("from other import *\n\ndef train():\n    pass\n\nif __name__: train()\n")
    (tmp_path / "other.py").write_text("def train():\n    pass\n")
    assert not Choice(Project.around(tmp_path, tmp_path), ["main.py"]).run().get("other.py")
