"""Which torch a project asks for: the lower bound among its requirements. Nothing of the project is run."""

from __future__ import annotations

import ast
import configparser
import os
import re
from collections.abc import Sequence

from torchlint.source.parsing import ParseError, python_tree

_TORCH = re.compile(r"\s*torch\s*(?:\[[^\]]*\])?\s*(?=[~=<>!(;#]|$)([^;#]*)")
_BOUND = re.compile(r"(?:>=|~=|===?|>)\s*(\d+)\.(\d+)")


def lower_bound(requirements: Sequence[object]) -> tuple[int, int] | None:
    """The lower bound of the torch requirement among ``requirements``, None if there is none."""
    bounds = []
    for requirement in requirements:
        match = _TORCH.match(str(requirement))
        if match:
            bounds += [(int(major), int(minor)) for major, minor in _BOUND.findall(match[1])]
    return max(bounds, default=None)


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
