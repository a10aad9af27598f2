"""The imports of a project: what they bind, who imports a file, which programs reach it."""

from __future__ import annotations

from pathlib import Path

import pytest
from project_files import GUARD, make, names

from torchlint.project.imports import facts
from torchlint.project.loaded_paths import path_loads
from torchlint.project.outlines import outline
from torchlint.project.toplevel import top_level

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


@pytest.mark.parametrize(
    ("module", "reached"),
    [
        ("f'tasks.{name}.expert'", ["tasks/speakers/expert.py", "tasks/words/expert.py"]),
        ("'tasks.' + args.name + '.expert'", ["tasks/speakers/expert.py", "tasks/words/expert.py"]),
        ("'tasks.%s.expert' % name", ["tasks/speakers/expert.py", "tasks/words/expert.py"]),
        ("f'tasks.w{name}.expert'", ["tasks/words/expert.py"]),
        ("f'tasks.{name}.{part}'", []),
        ("f'tasks.{name}'", []),
        ("f'{name}.words.expert'", []),
        ("f'tasks.{name}.model'", []),
    ],
)
def test_a_module_in_a_package_that_a_string_picks(module: str, reached: list[str], tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "train.py": f"import importlib\nnet = importlib.import_module({module})\n{GUARD}",
            "tasks/words/expert.py": "",
            "tasks/words/data.py": "",
            "tasks/speakers/expert.py": "",
            "other/words/expert.py": "",
        },
    )
    assert names(project, project.reachable(tmp_path / "train.py") - {tmp_path / "train.py"}) == reached


@pytest.mark.parametrize(
    ("loaded", "reached"),
    [
        ("load_file('net', config.net_path)", ["nets/large.py", "nets/small.py"]),
        ("load_file('net', os.path.join(folder, 'data.py'))", ["sets/photos/data.py", "sets/sounds/data.py"]),
        ("load_file('net', f'sets/{name}/data.py')", ["sets/photos/data.py", "sets/sounds/data.py"]),
        ("load_file('net', f'{name}.py')", []),
        ("load_file('net', config.notes_path)", []),
        ("import_nothing('net', config.net_path)", []),
        ("print('nets/small.py')", []),
    ],
)
def test_a_module_that_is_loaded_by_its_path(loaded: str, reached: list[str], tmp_path: Path) -> None:
    project = make(
        tmp_path,
        {
            "train.py": f"from files import load_file\nnet = {loaded}\n{GUARD}",
            "files.py": "import importlib.util\n\n\ndef load_file(name, path):\n"
            "    spec = importlib.util.spec_from_file_location(name, path)\n"
            "    return importlib.util.module_from_spec(spec)\n",
            "config.py": "net_path = 'nets/{}.py'.format(name)\nnotes_path = 'notes/a.py'\n",
            "nets/small.py": "",
            "nets/large.py": "",
            "sets/photos/data.py": "",
            "sets/sounds/data.py": "",
        },
    )
    expected = sorted(["files.py", *reached])
    assert names(project, project.reachable(tmp_path / "train.py") - {tmp_path / "train.py"}) == expected


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


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("if checkpoint.ok:\n    while not run():\n        pass\n", ["main.py"]),
        ("try:\n    for epoch in range(9):\n        run()\nexcept KeyboardInterrupt:\n    pass\n", ["main.py"]),
        ("if sys.version_info > (3,):\n    from pkg import run\n", []),
        ("try:\n    import pkg.fast\nexcept ImportError:\n    pkg = None\n", []),
    ],
)
def test_a_script_may_do_all_under_a_condition(statement: str, expected: list[str], tmp_path: Path) -> None:
    project = make(tmp_path, {"main.py": f"from pkg import run\n{statement}", "pkg/__init__.py": ""})
    assert names(project, project.entries()) == expected


@pytest.mark.parametrize(("decorator", "expected"), [("automain", ["train.py"]), ("config", [])])
def test_a_script_of_sacred_has_no_main_guard(decorator: str, expected: list[str], tmp_path: Path) -> None:
    train = f"from pkg.engine import ex\n\n@ex.{decorator}\ndef main(_config):\n    pass\n"
    project = make(tmp_path, {"train.py": train, "pkg/engine.py": "from sacred import Experiment\n"})
    assert names(project, project.entries()) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("from pkg.eval import Scores", True),
        ("from .parts import eval", True),
        ("from torch.utils import eval", True),
        ("import eval", False),
        ("from pkg.parts import Part\nfrom eval import Scores", False),
        ("from .. import eval", False),
        ("from company.project.eval import Scores", False),
    ],
    ids=["another", "relative", "of torch", "itself", "from it", "of the root", "maybe it"],
)
def test_a_script_is_not_imported_by_a_module_of_its_name(statement: str, expected: bool, tmp_path: Path) -> None:
    files = {"eval.py": "run()\n", "pkg/eval.py": "class Scores: ...\n", "pkg/parts.py": "class Part: ...\n"}
    project = make(tmp_path, {**files, "pkg/train.py": f"{statement}\n"})
    assert (names(project, project.entries()) == ["eval.py"]) is expected


def test_programs_are_unknown_beyond_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.project.graph.MAX_STEPS", 2)
    project = make(tmp_path, {"data.py": "", **{f"s{i}.py": f"import data\n{GUARD}" for i in range(3)}})
    assert project.complete
    assert names(project, project.programs(tmp_path / "data.py")) == ["s0.py"]
    assert names(project, project.programs(tmp_path / "s2.py")) == ["s2.py"]


# -- facts


@pytest.mark.parametrize(
    "text",
    [
        'import a\n\n\nclass A(\n    B\n):\n    """Text\nimport no\n"""\n\n    x = 1\n# end\n\n\ny = A()\ny.z = 2\n',
        "@deco(\n    1,\n)\ndef f(\n    a,\n) -> int:\n    return a\n\n\nf()\n",
        "async def f():\n    if a: import b\n    global c\n    c = 1\n\n\ndef g(): from d import (  # e)\n e)\nx = 1\n",
        "def f():\n    return (1,\n2)\n\n\nclass A: pass\n",
        "def f():\n    return 1 + \\\n2\n\n\nclass A: pass\n",
        "def f():\n    return 'a\\\nclass B: pass'\n\n\nclass A: pass\n",
        "def f():\r\n    return 1\r\n\r\n\r\nclass A: pass\r\n",
        "def f(): return 1\n\x0cclass A: pass\n",
        "x = '''\ndef f():\n'''; y = f\"\"\"{x}\nclass A: pass\n\"\"\".z\ndef g(): return '# \"'\nh = 1\n",
        "if a:\n    def f():\n        import b\nelse:\n    class f: pass\ntry:\n    c = 1\nexcept E:\n    import c\n",
    ],
)
def test_facts_do_not_depend_on_what_is_left_out(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = facts(text)
    monkeypatch.setattr("torchlint.project.imports.top_level", lambda text: text)
    assert found.bindings
    assert found == facts(text)


def test_a_definition_begins_in_the_row_of_the_at_sign() -> None:
    found = facts("a = 1\n@(\n    b\n)\ndef f(): ...\nc = 1\n")
    assert found.pieces.rows == (1, 2, 6)
    assert [found.bindings[name][0].row for name in "afc"] == [1, 2, 6]


@pytest.mark.parametrize(
    ("test", "is_guard"),
    [
        ("__name__ == '__main__'", True),
        ("'__main__' == __name__", True),
        ("__name__ in ('__main__', '__mp_main__')", True),
        ("__name__ in {'__main__'}", True),
        ("__name__ != '__main__'", False),
        ("__name__ not in ['__main__']", False),
        ("__name__ == 'train'", False),
        ("__name__ in ('train', 'eval')", False),
        ("__name__ in names", False),
    ],
)
def test_what_a_main_guard_stores_is_not_stored_for_those_who_import_the_file(test: str, is_guard: bool) -> None:
    found = facts(f"import config\nif {test}:\n    config.workers = 4\n")
    assert ("config" not in found.uses) is is_guard
    if is_guard:
        assert outline(f"if {test}:\n    config.workers = 4\n").has_guard


def test_functions_and_classes_without_imports_are_not_parsed_for_facts() -> None:
    text = "import a\n\n\nclass A(B):\n    x = 1\n\n\ndef f():\n    import b\n\n\nc = A()\n"
    assert top_level(text) == "import a\n\n\nclass A(): pass\n\n\n\ndef f():\n    import b\n\n\nc = A()\n"


def test_loads_by_path_in_long_names_and_lines_are_found_once() -> None:
    name = "import_" * 20_000 + "module"
    line = "paths = [" + '"a.py", ' * 20_000 + "]"
    found = path_loads(f'{name}\n{name}("nets/{{}}.py".format(kind))\n{line}\nother = "{"{}x" * 30}.py"\n')
    assert found.calls == ((name, ("nets/*.py",), ()),)
    assert found.paths == (("paths", "a.py"),)
