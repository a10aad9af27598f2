"""The files that state which torch a project needs -> its torch requirements, as they are written. Nothing is run."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torchlint.source.parsing import ParseError, python_tree

#: Files that others include, and bytes of a file: beyond them, nothing is read.
_MOST_INCLUDES = 20
_LARGEST = 1_000_000
#: The address of a built torch: ``https://download.pytorch.org/whl/cu80/torch-0.1.11.post5-cp35-cp35m-linux_x86_64.whl``.
_WHEEL = re.compile(r"(?:torch\s*@\s*)?(?:https?|file):\S*/torch-(\d[\w.]*)(?:(?:\+|%2B)[\w.]+)?-\S*\.whl")
#: The version that conda requires, whose `=2.1` is any 2.1, maybe with its build: ``=2.1=py3.11_0``.
_OF_CONDA = r"\s*=\s*(\d[\d.]*?)(?:\.?\*|\.)?(?:=.*)?\s*$"
#: The package of conda in a list of requirements, as ``conda list --export`` writes it: ``pytorch=1.4.0=py3.7_cuda10``.
_EXPORTED = re.compile(rf"^\s*pytorch{_OF_CONDA}")


def of_torch(requirements: Iterable[object]) -> tuple[str, ...]:
    """Those of some requirements that are about torch; the address of a wheel requires its version."""
    texts = (_WHEEL.sub(r"torch==\1", item) for item in requirements if isinstance(item, str))
    return tuple(text for text in (_EXPORTED.sub(r"torch==\1.*", item) for item in texts) if _is_of_torch(text))


def _is_of_torch(text: str) -> bool:
    name = re.match(r"\s*([A-Za-z0-9][\w.-]*)", text)
    return name is not None and name[1].lower().rstrip(".-_") == "torch"


def declared_in(table: Mapping[str, Any]) -> tuple[str, ...]:
    """What the dependencies in a pyproject.toml say of torch: those of the project, or Poetry's; else optional ones."""
    project = _table(table, "project")
    main = of_torch(_list(project.get("dependencies")))
    main = main or tuple(_of_poetry(_table(table, "tool", "poetry", "dependencies").get("torch")))
    return main or of_torch(_alternatives(_lists(project.get("optional-dependencies"))))


def developed_with(table: Mapping[str, Any]) -> tuple[str, ...]:
    """What the dependency groups of a pyproject.toml say of torch: PEP 735, and those of Poetry."""
    groups = of_torch(_alternatives(_lists(table.get("dependency-groups"))))
    poetry = _table(table, "tool", "poetry", "group")
    return groups or tuple(
        requirement
        for group in poetry.values()
        for requirement in _of_poetry(_table({"group": group}, "group", "dependencies").get("torch"))
    )


def stated_in(folder: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    """The torch requirements in the files of a folder.

    Those of its pyproject.toml, which is ``table``, say what the project supports. Of other files, those of the first
    one that names a version, if one does.
    """
    if declared := declared_in(table):
        return declared
    without: tuple[str, ...] = ()
    for found in _stated(folder, table):
        if any(_VERSION.search(item.partition(";")[0]) for item in found):
            return found
        without = without or found
    return without


#: What a requirement with a version contains: `torch>=2.1`, `torch @ https://...`.
_VERSION = re.compile(r"[<>=~!@]")


def _stated(folder: str, table: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The torch requirements of each of the other files, the first one first."""
    for name, read in _FILES:
        text = _text(os.path.join(folder, name))
        yield read(text) if "torch" in text.lower() else ()
    dynamic = _table(table, "tool", "setuptools", "dynamic", "dependencies").get("file", ())
    named = [dynamic] if isinstance(dynamic, str) else [name for name in dynamic if isinstance(name, str)]
    for path in (*named, "requirements.txt", "requirement.txt"):
        yield of_torch(_lines(os.path.join(folder, path), []))
    files = _names(os.path.join(folder, "requirements"), ".txt")
    yield of_torch(_alternatives(_lines(path, []) for path in files))
    yield _of_conda_files(folder)
    yield developed_with(table)


def _table(table: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The table inside of others, empty if there is none."""
    for key in keys:
        inner = table.get(key)
        table = inner if isinstance(inner, dict) else {}
    return table


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _lists(value: object) -> list[list[object]]:
    """The lists in a table."""
    return [item for item in value.values() if isinstance(item, list)] if isinstance(value, dict) else []


def _alternatives(lists: Iterable[Iterable[object]]) -> Iterator[str]:
    """Requirements of alternative lists: each gets a marker, as those for a platform have one."""
    for items in lists:
        for item in items:
            if isinstance(item, str):
                yield item if ";" in item else f"{item}; extra == 'one'"


_POETRY = re.compile(r"(\^|~(?!=))\s*v?(\d+(?:\.\d+)*)")


def _of_poetry(value: object) -> Iterator[str]:
    """Poetry's constraints of torch as requirements of PEP 508."""
    if isinstance(value, list):
        for item in value:
            yield from (text if ";" in text else f"{text}; extra == 'one'" for text in _of_poetry(item))
    elif isinstance(value, dict):
        marker = f"; {value['markers']}" if isinstance(value.get("markers"), str) else ""
        yield from (f"{text}{marker}" if ";" not in text else text for text in _of_poetry(value.get("version", "*")))
    elif isinstance(value, str):
        choices = value.split("||")
        for choice in choices:
            text = _POETRY.sub(_caret, choice.strip()).replace(" ", "")
            text = "" if text == "*" else f"=={text}" if text[:1].isdigit() else text
            yield f"torch{text}" + ("; extra == 'one'" if len(choices) > 1 else "")


def _caret(match: re.Match[str]) -> str:
    numbers = [int(number) for number in match[2].split(".")]
    kept = 1 if match[1] == "^" and numbers[0] else min(2, len(numbers))
    above = [*numbers[: kept - 1], numbers[kept - 1] + 1]
    return f">={match[2]},<{'.'.join(map(str, above))}"


def _text(path: str) -> str:
    """The text of a file; empty if it cannot be read, or is not a file of a usual size."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST:
            return ""
        with open(path, encoding="utf-8-sig", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _names(folder: str, ending: str | tuple[str, ...]) -> list[str]:
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(ending))
    except OSError:
        return []


def _lines(path: str, seen: list[str]) -> list[str]:
    """The requirements in a file in the format of pip, and in those that it includes."""
    seen.append(os.path.normpath(path))
    found = []
    for row in _text(path).replace("\\\n", " ").splitlines():
        line = re.split(r"(?:^|\s)#", row)[0].strip()
        included = re.match(r"(?:-r|--requirement)[\s=]*(\S+)", line)
        if included is not None:
            inner = os.path.normpath(os.path.join(os.path.dirname(path), included[1]))
            if inner not in seen and len(seen) < _MOST_INCLUDES:
                found += _lines(inner, seen)
        elif line and not line.startswith("-"):
            found.append(re.split(r"\s--", line)[0])
    return found


def _of_setup_cfg(text: str) -> tuple[str, ...]:
    import configparser  # only for projects with a setup.cfg

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return ()
    main = of_torch(parser.get("options", "install_requires", fallback="").splitlines())
    extras = parser["options.extras_require"].values() if parser.has_section("options.extras_require") else ()
    return main or of_torch(_alternatives(extra.splitlines() for extra in extras))


def _of_setup_py(text: str) -> tuple[str, ...]:
    """The strings of ``install_requires`` and ``extras_require``: as far as they are written out in the file."""
    try:
        tree = python_tree(text)
    except ParseError:
        return ()
    names = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    given = {
        node.arg: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg in ("install_requires", "extras_require")
    }
    main = of_torch(_strings(given.get("install_requires"), names))
    extras = _resolved(given.get("extras_require"), names)
    values = extras.values if isinstance(extras, ast.Dict) else []
    return main or of_torch(_alternatives(_strings(value, names) for value in values))


def _resolved(node: ast.expr | None, names: Mapping[str, ast.expr]) -> ast.expr | None:
    """What a name of the top level is assigned."""
    return names.get(node.id) if isinstance(node, ast.Name) else node


def _strings(node: ast.expr | None, names: Mapping[str, ast.expr]) -> list[str]:
    """The strings in a list, or in a sum of lists."""
    node = _resolved(node, names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [text for side in (node.left, node.right) for text in _strings(side, names)]
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [item.value for item in node.elts if isinstance(item, ast.Constant)]
        return [item for item in items if isinstance(item, str)]
    return []


_CONDA = ("environment.yml", "environment.yaml")
#: Other names of such files: `env.yml`, `conda_env.yml`, `environment_gpu.yml`.
_CONDA_NAME = re.compile(r"(?:conda[_-])?env(?:ironment)?(?:[_-][\w.-]*|\d[\w.-]*)?\.ya?ml")
#: A dependency of conda, or one of pip below it: `- pytorch::pytorch=2.1=py3.11_0`.
_CONDA_LINE = re.compile(
    r"""^[ \t]*-[ \t]*["']?(?:[\w./-]+::)?(pytorch|torch)[ \t]*(\[[^\]\n]*\])?([^"'#\n]*)""", re.MULTILINE
)
#: Where conda looks for packages: one channel is called pytorch.
_CHANNELS = re.compile(r"^channels:[^\n]*\n(?:(?:[ \t-][^\n]*)?\n)*", re.MULTILINE)


def _of_conda_files(folder: str) -> tuple[str, ...]:
    """The torch requirements of the environments of conda in a folder: of the main one, else of all."""
    for name in _CONDA:
        found = _of_conda(_text(os.path.join(folder, name)))
        if found:
            return found
    paths = [path for path in _names(folder, (".yml", ".yaml")) if _CONDA_NAME.fullmatch(os.path.basename(path))]
    return of_torch(_alternatives(_of_conda(_text(path)) for path in paths))


def _of_conda(text: str) -> tuple[str, ...]:
    """The torch requirements of an environment of conda, whose `=2.1` is any 2.1."""
    found = []
    for name, _, rest in _CONDA_LINE.findall(_CHANNELS.sub("", text)):
        if not rest or rest[0] in " =<>~!\t":
            fuzzy = re.match(_OF_CONDA, rest)
            bounds = f"=={fuzzy[1]}.*" if fuzzy else re.split(r"\s(?=\w)", rest.strip())[0]
            found.append(f"torch{bounds}" if name == "pytorch" else f"torch{rest.strip()}")
    return tuple(found)


_FILES: tuple[tuple[str, Callable[[str], tuple[str, ...]]], ...] = (
    ("setup.cfg", _of_setup_cfg),
    ("setup.py", _of_setup_py),
)
