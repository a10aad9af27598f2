"""The project of a file: its root and files, what imports resolve to, where names are defined and mentioned."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchlint.model.syntax.pieces import parse_pieces
from torchlint.project import Definition, DefinitionKind, Project
from torchlint.settings.resolver import Resolver


def make(root: Path, files: dict[str, str]) -> Project:
    """A project with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Project.around(root, root)


def names(project: Project, paths: tuple[Path, ...] | frozenset[Path]) -> list[str]:
    """Paths relative to the project's root."""
    return sorted(path.relative_to(project.root).as_posix() for path in paths)


def resolved(project: Project, module: str, importer: str) -> str | None:
    """What a module is for an importer, relative to the root."""
    found = project.resolve(module, project.root / importer)
    return found.relative_to(project.root).as_posix() if found is not None else None


def defined(project: Project, file: str, name: str) -> list[tuple[str, int, str]]:
    """The definitions of a name, as text."""
    found = project.definition(project.root / file, name)
    return [(item.path.relative_to(project.root).as_posix(), item.row, item.kind.value) for item in found]


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
    monkeypatch.setattr("torchlint.project.tree.MAX_FILES", 2)
    project = make(tmp_path, {"b.py": "", "a.py": "", "deep/er/c.py": ""})
    assert (project.complete, names(project, project.files)) == (False, ["a.py", "b.py"])
    monkeypatch.setattr("torchlint.project.tree.MAX_FOLDER_ENTRIES", 2)
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
    assert project.mentions("x") == ((tmp_path / "a.py", 2),)


def test_other_texts_make_another_project(tmp_path: Path) -> None:
    project = make(tmp_path, {"a.py": "from b import f\n", "b.py": "def f(): ...\n"})
    changed = project.with_text({tmp_path / "b.py": "\n\ndef f(): ...\n", tmp_path / "new.py": "import b\n"})
    assert defined(project, "a.py", "f") == [("b.py", 1, "function")]
    assert defined(changed, "a.py", "f") == [("b.py", 3, "function")]
    assert names(changed, changed.importers(tmp_path / "b.py")) == ["a.py", "new.py"]
    assert names(project, project.importers(tmp_path / "b.py")) == ["a.py"]
    again = project.with_text({tmp_path / "a.py": "import os\n"})
    assert names(again, again.importers(tmp_path / "b.py")) == []


def test_a_notebook_that_is_asked_for_sees_the_project(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["from data import f\n", "f()"]}
    book = {"cells": [{**cell, "execution_count": None}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    make(tmp_path, {"n.ipynb": json.dumps(book), "data.py": "def f(): ...\n"})
    project = Project.around(tmp_path / "n.ipynb", tmp_path)
    assert defined(project, "n.ipynb", "f") == [("data.py", 1, "function")]
    assert names(project, project.programs(tmp_path / "data.py")) == ["n.ipynb"]


# -- modules


@pytest.mark.parametrize(
    ("files", "importer", "module", "expected"),
    [
        (["train.py", "data.py"], "train.py", "data", "data.py"),
        (["train.py", "pkg/__init__.py", "pkg/a.py"], "train.py", "pkg.a", "pkg/a.py"),
        (["train.py", "pkg/__init__.py"], "train.py", "pkg", "pkg/__init__.py"),
        (["train.py", "space/a.py"], "train.py", "space.a", "space/a.py"),
        (["train.py", "space/a.py"], "train.py", "space", None),
        (["train.py", "pkg.py", "pkg/__init__.py"], "train.py", "pkg", "pkg/__init__.py"),
        (["src/pkg/__init__.py", "src/pkg/a.py", "tests/test_a.py"], "tests/test_a.py", "pkg.a", "src/pkg/a.py"),
        (["lib/models.py", "tools/run.py"], "tools/run.py", "models", "lib/models.py"),
        (["pkg/__init__.py", "pkg/a.py", "pkg/b.py"], "pkg/a.py", ".b", "pkg/b.py"),
        (["pkg/__init__.py", "pkg/s/__init__.py", "pkg/s/a.py", "pkg/b.py"], "pkg/s/a.py", "..b", "pkg/b.py"),
        (["pkg/__init__.py", "pkg/a.py"], "pkg/a.py", ".", "pkg/__init__.py"),
        (["pkg/__init__.py", "pkg/a.py"], "pkg/a.py", "...x", None),
        (["train.py"], "train.py", "torch", None),
        (["x/train.py", "x/logging.py", "a.py"], "a.py", "logging", None),
        (["tools/a.py", "elsewhere/helpers.py"], "tools/a.py", "helpers", None),
        (["project/tools/a.py", "project/helpers.py"], "project/tools/a.py", "helpers", "project/helpers.py"),
        (["a.py"], "a.py", "", None),
        (["a.py", "b/c.py"], "a.py", "b/c", None),
        (["a.py", "b/c.py"], "a.py", "b..c", None),
    ],
)
def test_modules_are_found_as_python_would(
    tmp_path: Path, files: list[str], importer: str, module: str, expected: str | None
) -> None:
    assert resolved(make(tmp_path, dict.fromkeys(files, "")), module, importer) == expected


GUARD = "if __name__ == '__main__':\n    main()\n"


def test_the_folder_of_the_script_comes_first(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "utils.py": "",
            "one/train.py": f"import utils, model\n{GUARD}",
            "one/utils.py": "",
            "one/model.py": "import utils\n",
            "main.py": f"import utils\n{GUARD}",
        },
    )
    assert resolved(project, "utils", "one/train.py") == "one/utils.py"
    assert resolved(project, "utils", "one/model.py") == "one/utils.py"
    assert resolved(project, "utils", "main.py") == "utils.py"


def test_what_differs_between_programs_is_unknown(tmp_path: Path) -> None:
    files = dict.fromkeys(("one/utils.py", "two/utils.py"), "")
    files |= {f"{folder}/train.py": f"import utils\nfrom shared import f\n{GUARD}" for folder in ("one", "two")}
    project = make(tmp_path, {**files, "shared.py": "import utils\n"})
    assert resolved(project, "utils", "shared.py") is None
    assert resolved(project, "utils", "two/train.py") == "two/utils.py"


def test_a_self_test_of_a_module_counts_less_than_a_script(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "train.py": f"from models.net import Net\n{GUARD}",
            "utils.py": "",
            "models/utils.py": "",
            "models/net.py": f"import utils\n{GUARD}",
        },
    )
    assert resolved(project, "utils", "models/net.py") == "utils.py"


def test_names_of_installed_packages_are_the_projects_own_only_on_its_path(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "main.py": f"import datasets\nimport lib.models\n{GUARD}",
            "datasets/__init__.py": "",
            "inner/nets/torch.py": "",
            "inner/nets/net.py": "import torch\n",
            "types.py": "",
            "other/a.py": "import types\n",
        },
    )
    assert resolved(project, "datasets", "main.py") == "datasets/__init__.py"
    assert resolved(project, "torch", "inner/nets/net.py") is None
    assert resolved(project, "types", "main.py") == "types.py"
    assert resolved(project, "types", "other/a.py") is None


@pytest.mark.parametrize(
    "statement",
    [
        "sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))",
        "sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))",
        "sys.path.append('..')",
        "here = os.path.dirname(__file__)\nsys.path.insert(0, os.path.join(here, os.pardir))",
        "sys.path.append(str(Path(__file__).resolve().parent.parent))",
        "sys.path.append(str(Path(__file__).parents[1]))",
        "sys.path += []\nsys.path.extend([os.path.split(os.path.dirname(__file__))[0]])",
        "def add(path):\n    sys.path.insert(0, path)\nadd(os.path.join(os.path.dirname(__file__), '..'))",
    ],
)
def test_folders_added_to_the_path_count(tmp_path: Path, statement: str) -> None:
    project = make(
        tmp_path,
        {
            "work/tools/train.py": f"import os, sys\n{statement}\nimport core.net\n{GUARD}",
            "work/core/net.py": "import helper\n",
            "work/helper.py": "",
            "helper.py": "",
        },
    )
    assert resolved(project, "core.net", "work/tools/train.py") == "work/core/net.py"
    assert resolved(project, "helper", "work/core/net.py") == "work/helper.py"


def test_a_path_that_an_imported_file_adds_counts(tmp_path: Path) -> None:
    added = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'code'))\n"
    project = make(
        tmp_path, {"tools/_init.py": added, "tools/run.py": f"import _init\nimport net\n{GUARD}", "code/net.py": ""}
    )
    assert resolved(project, "net", "tools/run.py") == "code/net.py"
    assert names(project, project.programs(tmp_path / "code/net.py")) == ["tools/run.py"]


def test_further_sources_are_given_by_settings(tmp_path: Path) -> None:
    make(tmp_path, {"python/net.py": "", "a/b/t.py": "", "packages/x/src/y.py": "", "packages/z/src/w.py": ""})
    (tmp_path / "torchlint.toml").write_text('src = ["python", "packages/*/src"]\n')
    src = Resolver().for_folder(str(tmp_path / "a")).src
    assert src == tuple(str(tmp_path / name) for name in ("python", "packages/x/src", "packages/z/src"))
    project = Project.around(tmp_path / "a/b/t.py", sources=src)
    assert resolved(project, "net", "a/b/t.py") == "python/net.py"
    assert resolved(project, "w", "a/b/t.py") == "packages/z/src/w.py"
    assert project.module_names(tmp_path / "packages/z/src/w.py")[0] == "w"


def test_a_file_has_a_name_for_each_folder_it_can_be_imported_from(tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "src/pkg/__init__.py": "",
            "src/pkg/sub/__init__.py": "",
            "src/pkg/sub/a.py": "",
            "src/pkg/main.py": f"import sub.a\n{GUARD}",
            "data.py": "",
        },
    )
    assert project.module_names(tmp_path / "src/pkg/sub/a.py") == ("pkg.sub.a", "sub.a", "src.pkg.sub.a")
    assert project.module_names(tmp_path / "src/pkg/__init__.py")[0] == "pkg"
    assert project.module_names(tmp_path / "data.py") == ("data",)


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


# -- definitions


@pytest.mark.parametrize(
    ("files", "name", "expected"),
    [
        ({"a.py": "from b import f\n", "b.py": "x = 1\n@deco\ndef f(): ...\n"}, "f", [("b.py", 2, "function")]),
        ({"a.py": "from b import C as D\n", "b.py": "class C: ...\n"}, "D", [("b.py", 1, "class")]),
        ({"a.py": "import b\n", "b.py": "def f(): ...\n"}, "b.f", [("b.py", 1, "function")]),
        ({"a.py": "import p.b as c\n", "p/b.py": "x = 1\n"}, "c.x", [("p/b.py", 1, "assignment")]),
        ({"a.py": "import p.b\n", "p/b.py": "x = 1\n"}, "p.b.x", [("p/b.py", 1, "assignment")]),
        ({"a.py": "from p import b\n", "p/b.py": ""}, "b", [("p/b.py", 1, "module")]),
        (
            {"a.py": "from p import f\n", "p/__init__.py": "from .b import f\n", "p/b.py": "def f(): ...\n"},
            "f",
            [("p/b.py", 1, "function")],
        ),
        ({"a.py": "from b import *\n", "b.py": "def f(): ...\n"}, "f", [("b.py", 1, "function")]),
        ({"a.py": "from b import *\n", "b.py": "__all__ = ['g']\ndef f(): ...\n"}, "f", []),
        ({"a.py": "from b import *\n", "b.py": "def _f(): ...\n"}, "_f", []),
        (
            {"a.py": "from b import *\n", "b.py": "__all__ = ['g']\n__all__ += ['_f']\ndef _f(): ...\n"},
            "_f",
            [("b.py", 3, "function")],
        ),
        ({"a.py": "def f(): ...\ng = f\n"}, "g", [("a.py", 1, "function")]),
        ({"a.py": "import b\ng = b.f\n", "b.py": "def f(): ...\n"}, "g", [("b.py", 1, "function")]),
        ({"a.py": "def f(): ...\nf = wrap(f)\n"}, "f", [("a.py", 2, "assignment")]),
        (
            {"a.py": "try:\n    from b import f\nexcept ImportError:\n    def f(): ...\n", "b.py": "f = 1\n"},
            "f",
            [("b.py", 1, "assignment"), ("a.py", 1, "function")],
        ),
        (
            {"a.py": "try:\n    from apex import f\nexcept ImportError:\n    from b import f\n", "b.py": "f = 1\n"},
            "f",
            [("a.py", 1, "import"), ("b.py", 1, "assignment")],
        ),
        (
            {
                "a.py": "if new:\n    from b import f\nelse:\n    from c import f\n",
                "b.py": "f = 1\n",
                "c.py": "f = 2\n",
            },
            "f",
            [("b.py", 1, "assignment"), ("c.py", 1, "assignment")],
        ),
        ({"a.py": "from torch import nn\n"}, "nn", []),
        ({"a.py": "from b import f\n", "b.py": "from a import f\n"}, "f", []),
        ({"a.py": "from b import *\n", "b.py": "from a import *\ndef f(): ...\n"}, "f", [("b.py", 2, "function")]),
        (
            {"a.py": "if TYPE_CHECKING:\n    from b import T\nT = 1\n", "b.py": "class T: ...\n"},
            "T",
            [("a.py", 3, "assignment")],
        ),
        ({"a.py": "if TYPE_CHECKING:\n    from b import T\n", "b.py": "class T: ...\n"}, "T", [("b.py", 1, "class")]),
        ({"a.py": "a = 1; b = 2\n"}, "b", [("a.py", 1, "assignment")]),
        ({"a.py": "(x, [y, *z]) = v\n"}, "z", [("a.py", 1, "assignment")]),
        ({"a.py": "a = b\nb = a\n"}, "a", [("a.py", 2, "assignment")]),
        ({"a.py": "x = \n"}, "x", []),
    ],
)
def test_definitions_are_followed_to_their_statement(
    tmp_path: Path, files: dict[str, str], name: str, expected: list[tuple[str, int, str]]
) -> None:
    assert defined(make(tmp_path, files), "a.py", name) == expected


def test_long_chains_of_names_end(tmp_path: Path) -> None:
    files = {f"m{i}.py": f"from m{i + 1} import f\n" for i in range(300)}
    project = make(tmp_path, {**files, "m300.py": "def f(): ...\n"})
    assert defined(project, "m295.py", "f") == [("m300.py", 1, "function")]
    assert defined(project, "m0.py", "f") == []


# -- mentions


def test_identifiers_lead_to_their_statements(tmp_path: Path) -> None:
    text = (
        "import b\n\n@deco\ndef f():\n    '''build'''\n    return b.build(1)\n\nx = f'{build}'  # build\ny = 'build'\n"
    )
    project = make(tmp_path, {"a.py": text, "vendor/c.py": "build()\n", "d.pyi": "build: int\n", "e.py": "rebuild()\n"})
    assert project.mentions("build") == ((tmp_path / "a.py", 3), (tmp_path / "a.py", 8))
    assert project.mentions("deco") == ((tmp_path / "a.py", 3),)
    assert project.mentions("nowhere") == ()


def test_pieces_are_those_of_the_parser(tmp_path: Path) -> None:
    text = "# first\nimport a\n\n\n@deco\n# between\ndef f(): ...\nx = 1; y = 2\n\n# last\nclass C:\n    z = 1\n"
    project = make(tmp_path, {"a.py": text})
    pieces = project.pieces(tmp_path / "a.py")
    assert list(pieces.starts) == [piece.start for piece in parse_pieces(text)]
    assert pieces.rows == (2, 5, 8, 11)
    assert [pieces.row_at(text.index(word)) for word in ("first", "between", "y =", "z =")] == [2, 5, 8, 11]


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
    assert project.complete and not project.knows_programs
    assert names(project, project.programs(tmp_path / "data.py")) == ["s0.py"]
    assert names(project, project.programs(tmp_path / "s2.py")) == ["s2.py"]


# -- records


def test_what_was_consulted_is_recorded(tmp_path: Path) -> None:
    project = make(tmp_path, {"a.py": "from b import f\nimport torch\n", "b.py": "def f(): ...\n"})
    with project.recording() as first:
        project.definition(tmp_path / "a.py", "f")
        project.resolve("torch", tmp_path / "a.py")
        project.mentions("f")
    with project.recording() as second:
        project.text(tmp_path / "b.py")
    assert (names(project, tuple(first.texts)), first.identifiers) == (["a.py", "b.py"], {"f"})
    assert first.missing == {("torch", tmp_path / "a.py")}
    assert (names(project, tuple(second.texts)), second.missing) == (["b.py"], set())


# -- no input makes it fail


WORDS = st.sampled_from(["a", "b", "pkg", "pkg.a", "pkg.b", "pkg.c.d", "utils", "torch", "os"])
NAMES = st.sampled_from(["f", "a", "b", "c", "*"])
LEVELS = st.sampled_from(["", "", ".", "..", "..."])
STATEMENTS = st.one_of(
    st.builds("import {}\n".format, WORDS),
    st.builds("import {} as f\n".format, WORDS),
    st.builds("from {}{} import {}\n".format, LEVELS, WORDS, NAMES),
    st.builds("from {} import {}\n".format, st.sampled_from([".", "..", "..."]), NAMES),
    st.builds("try:\n    from {} import f\nexcept ImportError:\n    f = {}\n".format, WORDS, NAMES),
    st.sampled_from(["def f(): ...\n", "f = a\n", "a = b.f\n", GUARD, "__all__ = ['f']\n", "sys.path.append('..')\n"]),
    st.sampled_from(["(", "'''", "\\\n", "\f\n", "f(\n", "\0"]),
)
PATHS = st.sampled_from(
    ["a.py", "b.py", "pkg/__init__.py", "pkg/a.py", "pkg/b.py", "pkg/c/d.py", "src/pkg/a.py", "t/a.py", "t/utils.py"]
)


@given(st.dictionaries(PATHS, st.lists(STATEMENTS, max_size=6).map("".join), min_size=1))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_imports_have_one_answer(tmp_path: Path, texts: dict[str, str]) -> None:
    def answers() -> list[object]:
        empty = Project.around(tmp_path, tmp_path)
        project = empty.with_text({tmp_path / name: text for name, text in texts.items()})
        found: list[object] = [project.entries(), project.mentions("f")]
        for path in project.files:
            for item in project.imports(path):
                found.append(project.resolve(item.module, path))
            found += [project.definition(path, name) for name in ("f", "a", "a.f", "pkg.a.f")]
            found += [project.importers(path), project.programs(path), sorted(project.reachable(path))]
            found.append(project.module_names(path))
        return found

    assert answers() == answers()


@pytest.mark.parametrize(
    "text",
    [
        "if a: pass\n" + "elif a: pass\n" * 3000,
        "x = " + "(" * 500,
        "x = " + "a." * 5000 + "b\n",
        "x = " + "-" * 5000 + "1\n",
        "import " + "a." * 5000 + "b\n",
        "from a import " + "b, " * 5000 + "c\n",
        "from a import (" * 5000,
        "'''" * 5001,
        "x = '" * 3000,
        "\\\n" * 5000,
        "import sys\nsys.path.append(" + "a(" * 150 + ")" * 151 + "\n",
        "import sys\na = a + '/'\nsys.path.append(a)\n",
    ],
    ids=lambda text: text[:20],
)
def test_hostile_texts_have_answers(tmp_path: Path, text: str) -> None:
    project = make(tmp_path, {"a.py": text, "b.py": "import a\n"})
    assert project.definition(tmp_path / "b.py", "a") == (Definition(tmp_path / "a.py", 1, DefinitionKind.MODULE),)
    project.imports(tmp_path / "a.py")
    project.mentions("a")
    assert project.importers(tmp_path / "a.py") == (tmp_path / "b.py",)
    assert project.programs(tmp_path / "a.py") == project.programs(tmp_path / "a.py")
