"""The imports of a project: what they bind, who imports a file, which programs reach it."""

from __future__ import annotations

from pathlib import Path

import pytest
from project_files import GUARD, make, names

# -- imports


def test_imports_tell_what_they_bind_and_where(tmp_path: Path) -> None:
    text = (
        "import a.b\nimport a.b as c\nfrom a import d as e, f\nfrom x import *\n"
        "if TYPE_CHECKING:\n    from t import T\ntry:\n    import g\nexcept ImportError:\n    g = None\n"
        "def h():\n    from .sub import i\n    if i:\n        from .. import k\n"
    )
    project = make(
        tmp_path, {"pkg/__init__.py": "", "pkg/in/__init__.py": "", "pkg/in/m.py": text, "broken.py": "def\n"}
    )
    found = project.imports(tmp_path / "pkg/in/m.py")
    assert [(item.bound, item.module, item.name, item.row) for item in found] == [
        ("a", "a.b", "", 1),
        ("c", "a.b", "", 2),
        ("e", "a", "d", 3),
        ("f", "a", "f", 3),
        ("", "x", "*", 4),
        ("T", "t", "T", 6),
        ("g", "g", "", 8),
        ("i", "pkg.in.sub", "i", 12),
        ("k", "pkg", "k", 14),
    ]
    flags = [(item.conditional, item.type_checking, item.in_function) for item in found[5:]]
    assert flags == [(True, True, False), (True, False, False), (False, False, True), (True, False, True)]
    assert project.imports(tmp_path / "broken.py") == ()


def test_importers_are_found_through_packages(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "pkg/__init__.py": "from .net import Net\nfrom .data import load\n",
            "pkg/net.py": "",
            "pkg/data.py": "def load(): ...\n",
            "a.py": "from pkg import Net\n",
            "b.py": "from pkg import load\n",
            "c.py": "import pkg\n",
            "d.py": "from pkg import net\n",
            "e.py": "# from pkg import net\n'''\nfrom pkg import net\n'''\n",
            "f.py": "from pkg.net import (  # both\n    Net,\n    other)\n",
            "g.py": "import importlib\nimportlib.import_module('pkg.net')\n",
        },
    )
    found = names(project, project.importers(tmp_path / "pkg/net.py"))
    assert found == ["a.py", "c.py", "d.py", "f.py", "g.py", "pkg/__init__.py"]


@pytest.mark.parametrize(
    ("module", "reached"),
    [
        ("'nets.' + name + '_net'", True),
        ("'nets.%s' % name", True),
        ("'nets.{}'.format(name)", True),
        ("f'nets.{name}'", True),
        ("'net' + name", False),
        ("name + '.nets'", False),
        ("f'{name}.nets'", False),
    ],
)
def test_a_module_that_a_string_picks_may_be_any_of_its_package(module: str, reached: bool, tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "train.py": f"import nets\n{GUARD}",
            "nets/__init__.py": "import importlib\n\n\n"
            f"def find(name):\n    module = {module}\n    return importlib.import_module(module)\n",
            "nets/small_net.py": "",
            "nets/inner/large_net.py": "",
            "other.py": "",
        },
    )
    expected = ["train.py"] if reached else []
    assert names(project, project.programs(tmp_path / "nets/small_net.py")) == expected
    assert project.programs(tmp_path / "nets/inner/large_net.py") == ()
    assert project.programs(tmp_path / "other.py") == ()


def test_text_with_a_dot_imports_nothing_by_itself(tmp_path: Path) -> None:
    project = make(tmp_path, {"train.py": f"path = 'nets.' + name\n{GUARD}", "nets/__init__.py": "", "nets/a.py": ""})
    assert project.programs(tmp_path / "nets/a.py") == ()


# -- programs


def test_programs_are_the_scripts_that_reach_a_file(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "train.py": f"from pkg.engine import run\n{GUARD}",
            "demo.py": "import pkg.data\nrun()\n",
            "pkg/__init__.py": "from . import settings\n",
            "pkg/engine.py": "def run():\n    from .data import load\n",
            "pkg/data.py": "import pkg.engine\nregister()\n",
            "pkg/settings.py": "",
            "pkg/unused.py": "",
            "setup.py": "setup()\n",
        },
    )
    assert names(project, project.entries()) == ["demo.py", "train.py"]
    assert names(project, project.programs(tmp_path / "pkg/data.py")) == ["demo.py", "train.py"]
    assert names(project, project.programs(tmp_path / "pkg/settings.py")) == ["demo.py", "train.py"]
    assert project.programs(tmp_path / "pkg/unused.py") == ()
    reached = names(project, project.reachable(tmp_path / "train.py"))
    assert reached == ["pkg/__init__.py", "pkg/data.py", "pkg/engine.py", "pkg/settings.py", "train.py"]


def test_programs_are_unknown_beyond_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.project.graph.MAX_STEPS", 2)
    project = make(tmp_path, {"data.py": "", **{f"s{i}.py": f"import data\n{GUARD}" for i in range(3)}})
    assert project.complete
    assert names(project, project.programs(tmp_path / "data.py")) == ["s0.py"]
    assert names(project, project.programs(tmp_path / "s2.py")) == ["s2.py"]
