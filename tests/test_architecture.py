"""Imports between modules form no circle, and go from a higher layer to a lower one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
PACKAGES = {"torchlint": REPOSITORY / "torchlint", "torchlint_rules": REPOSITORY / "rules"}

#: The folders and top-level files of `torchlint/` and of its model, the lowest first. Those of one layer do not import
#: each other.
LAYERS = (
    ("source", "injection"),
    ("cache", "measure"),
    ("model/syntax", "model/option"),
    ("model/semantics",),
    ("model/lookups",),
    ("model/forest",),
    ("model/program",),
    ("model/forests", "model/module"),
    ("model/tensors",),
    ("model/training",),
    ("model/data", "model/numerics"),
    ("findings",),
    ("rule", "edits"),
    ("torchlint_rules", "settings"),
    ("project",),
    ("engine",),
    ("profile",),
    ("torchlint",),
    ("output",),
    ("server", "flake8_plugin", "trial"),
    ("commands",),
    ("cli", "completions"),
    ("__main__",),
)
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}

#: Module -> the modules that it imports.
Graph = Mapping[str, frozenset[str]]


def modules_of(packages: Mapping[str, Path]) -> dict[str, Path]:
    """Dotted name -> file, of all modules of some packages."""
    found = {}
    for package, folder in packages.items():
        for file in folder.rglob("*.py"):
            parts = [package, *file.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def import_graph(packages: Mapping[str, Path]) -> Graph:
    """The imports between the modules of some packages: at any place, in functions and under TYPE_CHECKING too.

    An import of a module does not count as an import of the packages around it, although Python runs them as well.
    """
    modules = modules_of(packages)
    return {name: frozenset(imported_by(name, file, modules)) for name, file in modules.items()}


def imported_by(name: str, file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Those of ``modules`` that a module imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield from (target for target in (inner if inner in modules else base,) if target in modules)


def circle_in(graph: Graph) -> list[str]:
    """Modules of which each imports the next, the last one being the first one; empty if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]  # graphlib names the imported module first
    return []


def layer_of(module: str) -> str:
    """The folder or top-level file that a module is in, as in ``LAYERS``."""
    parts = module.split(".")
    if parts[0] != "torchlint" or len(parts) == 1:
        return parts[0]
    return "/".join(parts[1:3]) if parts[1] == "model" and len(parts) > 2 else parts[1]


def imports_upwards(graph: Graph) -> list[str]:
    """The imports that do not go to a lower layer, those within a folder aside."""
    return [
        f"{module} imports {imported}"
        for module, targets in sorted(graph.items())
        for imported in sorted(targets)
        if layer_of(module) != layer_of(imported) and LEVELS[layer_of(module)] <= LEVELS[layer_of(imported)]
    ]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return import_graph(PACKAGES)


def test_no_module_imports_itself_through_others(graph: Graph) -> None:
    assert circle_in(graph) == []


def test_imports_go_to_lower_layers(graph: Graph) -> None:
    assert {layer_of(module) for module in graph} - {"model"} == LEVELS.keys()  # the package itself is empty
    assert imports_upwards(graph) == []


@pytest.mark.parametrize("folder", PACKAGES.values(), ids=PACKAGES)
def test_no_file_is_longer_than_one_subject_needs(folder: Path) -> None:
    lengths = {str(file): file.read_text(encoding="utf-8").count("\n") for file in folder.rglob("*.py")}
    assert len(lengths) > 100
    assert [name for name, length in lengths.items() if length > 400] == []


def test_the_picture_in_the_docs_shows_the_same_layers() -> None:
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = re.search(r"^## Layers\n.*?^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert picture is not None
    rows = [re.split(r" {2,}", row)[0] for row in picture[1].splitlines()]
    shown = [tuple(name.strip("/") for name in row.split(", ")) for row in rows]
    names = {"rules": "torchlint_rules", "__init__.py": "torchlint"}
    assert tuple(tuple(names.get(name, name.removesuffix(".py")) for name in row) for row in shown[::-1]) == LAYERS


def files_in_table(text: str, folder: str) -> set[str]:
    """The files that the tables of the page name for a folder: in its row and in those below, up to the next folder."""
    named: set[str] = set()
    is_own = False
    for row in text.splitlines():
        subject = re.match(r"\| (?:\*\*|file of )`([^`]+?)/?`", row)
        if subject is not None or not row.startswith("|"):
            is_own = subject is not None and subject[1] == folder
        if is_own:
            named.update(re.findall(r"`([\w/]+\.py)`", row))
    return named


def folders_with_tables(text: str) -> list[str]:
    """The folders whose files the tables of the page name."""
    found = re.findall(r"^\| (?:\*\*|file of )`((?:torchlint|validation)[^`.]*)/`", text, re.MULTILINE)
    return sorted({folder for folder in found if files_in_table(text, folder)})


PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", folders_with_tables(PAGE))
def test_tables_name_every_file_of_their_folder(folder: str) -> None:
    path = REPOSITORY / folder
    files = path.glob("*.py") if folder == "validation" else path.rglob("*.py")
    there = {file.relative_to(path).as_posix() for file in files if not file.stem.startswith("__")}
    named = files_in_table(PAGE, folder) - {"before.py", "after.py"}  # of pairs, which are elsewhere
    assert sorted(there ^ named) == []


def test_nearly_all_folders_have_tables() -> None:
    folders = {file.parent.name for file in (REPOSITORY / "torchlint").glob("*/__init__.py")}
    assert folders - {folder.split("/")[-1] for folder in folders_with_tables(PAGE)} == {"completions"}


def classes_of(folder: Path) -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes in the files of a folder, each with the path of its file."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield file.as_posix(), node


def first_parameter(item: ast.ClassDef) -> str:
    """What the constructor of a class gets first, by its annotation."""
    for node in item.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__" and len(node.args.args) > 1:
            annotation = node.args.args[1].annotation
            return "" if annotation is None else ast.unparse(annotation)
    return ""


def test_facts_say_whether_they_are_about_a_file_or_a_forest() -> None:
    wrong = []
    for folder in PACKAGES.values():
        for path, item in classes_of(folder):
            is_of_forest = any(isinstance(base, ast.Name) and base.id == "ForestFact" for base in item.bases)
            text = ast.get_docstring(item) or ""
            if (is_of_forest and "one file" in text) or (first_parameter(item) == "Module" and "one forest" in text):
                wrong.append((path, item.name))
    assert wrong == []


def placeholders_in(tree: ast.AST) -> list[str]:
    """The entries of memos that get two values in one block: what is found between the two may be made of the first."""
    found = []
    for node in ast.walk(tree):
        for block in (value for _, value in ast.iter_fields(node) if isinstance(value, list)):
            assigned = [item.targets[-1] for item in block if isinstance(item, ast.Assign)]
            entries = [ast.unparse(target) for target in assigned if isinstance(target, ast.Subscript)]
            found += sorted({entry for entry in entries if entry.startswith("self._") and entries.count(entry) > 1})
    return found


def test_answers_that_need_each_other_are_in_a_memo_for_cycles() -> None:
    folders = (PACKAGES["torchlint"] / "model", PACKAGES["torchlint_rules"])
    files = [file for folder in folders for file in folder.rglob("*.py")]
    found = {str(file.relative_to(REPOSITORY)): placeholders_in(ast.parse(file.read_bytes())) for file in files}
    assert {name: entries for name, entries in found.items() if entries} == {}, (
        "use CyclicMemo (model/semantics/memo.py)"
    )


def test_a_placeholder_in_a_memo_is_found() -> None:
    text = "if key not in self._known:\n    self._known[key] = False\n    self._known[key] = self._find(key)\n"
    assert placeholders_in(ast.parse(text)) == ["self._known[key]"]
    assert placeholders_in(ast.parse("self._known[key] = self._find(key)\nself._known[other] = 1\n")) == []


MADE_UP = {
    "__init__.py": "",
    "low.py": "import ast\n",
    "middle.py": "from . import low\nfrom made_up.inner import leaf\n",
    "high.py": "import made_up.middle\nfrom .inner.leaf import VALUE\n",
    "inner/__init__.py": "",
    "inner/leaf.py": "VALUE = 1\n",
}


def made_up(folder: Path, changes: Mapping[str, str]) -> Graph:
    """The imports of a small package."""
    for name, text in {**MADE_UP, **changes}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return import_graph({"made_up": folder})


def test_imports_are_found(tmp_path: Path) -> None:
    graph = made_up(tmp_path, {})
    assert {name: sorted(targets) for name, targets in graph.items() if targets} == {
        "made_up.middle": ["made_up.inner.leaf", "made_up.low"],
        "made_up.high": ["made_up.inner.leaf", "made_up.middle"],
    }
    assert circle_in(graph) == []


@pytest.mark.parametrize(
    "text",
    [
        "from made_up.high import x\n",
        "import made_up.high\n",
        "from ..high import x\n",
        "from .. import high\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made_up.high import x\n",
        "def f():\n    from made_up import high\n",
    ],
)
def test_a_circle_is_found(tmp_path: Path, text: str) -> None:
    circle = circle_in(made_up(tmp_path, {"inner/leaf.py": text}))
    assert circle[0] == circle[-1]
    assert {"made_up.inner.leaf", "made_up.high"} <= set(circle)


def test_an_import_upwards_is_found() -> None:
    graph = {
        "torchlint.source.a": frozenset({"torchlint.engine.b", "torchlint.source.c"}),
        "torchlint.cli": frozenset({"torchlint.completions", "torchlint.source.a"}),
    }
    assert imports_upwards(graph) == [
        "torchlint.cli imports torchlint.completions",
        "torchlint.source.a imports torchlint.engine.b",
    ]
