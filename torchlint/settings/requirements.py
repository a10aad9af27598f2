"""The oldest torch that a project's requirements can install today. Nothing of the project is run."""

from __future__ import annotations

import ast
import configparser
import os
import re
from collections.abc import Sequence

from torchlint.source.parsing import ParseError, python_tree

_TORCH = re.compile(r"\s*torch(?:\s*\[[^\]]*\])?\s*(?=[~=<>!(;#]|$)([^;#]*)")
_BOUND = re.compile(r"(~=|===?|>=|<=|[<>])\s*v?(\d{1,9})(?:\.(\d{1,9}))?(\.\d+)?")
#: The oldest release for Python 3.10, the oldest Python with support: an open bound below says nothing.
_OLDEST = (1, 11)
#: Newer than every release.
_NEWEST = (999, 0)


def oldest_torch(requirements: Sequence[object]) -> tuple[int, int] | None:
    """The oldest torch that the torch requirement among ``requirements`` installs, None if any will do.

    A lower bound counts as `_OLDEST` at least, unless the requirement allows only older releases: a pin, or an upper
    bound.
    """
    matches = (_TORCH.match(str(requirement)) for requirement in requirements)
    return max(filter(None, (_oldest(match[1]) for match in matches if match)), default=None)


def _oldest(specifiers: str) -> tuple[int, int] | None:
    lower: tuple[int, int] | None = None
    newest = _NEWEST
    for operator, major, minor, patch in _BOUND.findall(specifiers):
        version = int(major), int(minor or 0)
        if operator in ("==", "==="):
            return version
        if operator == "<=":
            newest = min(newest, version)
        elif operator == "<":  # before 1.8 is 1.7, and before 2.0 the last of 1
            before = version if patch.strip(".0") else (version[0], version[1] - 1)
            newest = min(newest, before if before[1] >= 0 else (version[0] - 1, 999))
        else:
            lower = max(lower or version, version)
            if operator == "~=":
                newest = min(newest, version if patch else (version[0], 999))
    if newest < _OLDEST:
        return lower or newest
    return lower and max(lower, _OLDEST)


def listed_in(folder: str) -> list[str]:
    """The requirements that the setup.cfg, setup.py or requirements.txt of ``folder`` lists; the first with torch."""
    for name, read in (("setup.cfg", _of_setup_cfg), ("setup.py", _of_setup_py), ("requirements.txt", str.splitlines)):
        try:
            with open(os.path.join(folder, name), encoding="utf-8-sig", errors="replace") as stream:
                text = stream.read()
        except OSError:
            continue
        found = read(text) if "torch" in text else []
        if any(_TORCH.match(line) for line in found):
            return found
    return []


def _of_setup_cfg(text: str) -> list[str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return []
    return parser.get("options", "install_requires", fallback="").splitlines()


def _of_setup_py(text: str) -> list[str]:
    """The strings of ``setup(install_requires=[...])``; a list that is computed is not looked at."""
    try:
        tree = python_tree(text)
    except ParseError:
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "install_requires" and isinstance(node.value, ast.List):
            values = [item.value for item in node.value.elts if isinstance(item, ast.Constant)]
            return [value for value in values if isinstance(value, str)]
    return []
