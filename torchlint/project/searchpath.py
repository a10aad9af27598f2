"""Folders that a file adds to ``sys.path``, as far as its text shows them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator

from torchlint.source.ast_names import called_name
from torchlint.source.parsing import ParseError, python_tree

_METHODS = ("append", "insert", "extend")
_MAX_DEPTH = 50


def added_folders(text: str, path: str, root: str) -> tuple[str, ...]:
    """The absolute folders under ``root`` that the file at ``path`` adds to ``sys.path``, in order."""
    try:
        tree = python_tree(text)
    except ParseError:
        return ()
    reader = _Reader(tree, path, root)
    found = []
    for value in reader.values():
        for folder in map(os.path.normpath, reader.folders(value)):
            if folder == root or folder.startswith(root.rstrip(os.sep) + os.sep):
                found.append(folder)
    return tuple(dict.fromkeys(found))


class _Reader:
    """Evaluates expressions of paths in one file."""

    def __init__(self, tree: ast.Module, path: str, root: str) -> None:
        self._nodes = list(ast.walk(tree))
        self._path = path
        self._root = root
        self._assigned: dict[str, ast.expr] = {}
        for node in self._nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._assigned.setdefault(node.targets[0].id, node.value)

    def values(self) -> Iterator[ast.expr]:
        """The expressions that are added to ``sys.path``, by the file itself or by a function of it."""
        adders: dict[str, int] = {}
        for node in self._nodes:
            if not isinstance(node, ast.FunctionDef):
                continue
            parameters = [argument.arg for argument in node.args.args]
            for value in _added(ast.walk(node)):
                if isinstance(value, ast.Name) and value.id in parameters:
                    adders[node.name] = parameters.index(value.id)
        yield from _added(self._nodes)
        for node in self._nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in adders:
                if len(node.args) > adders[node.func.id]:
                    yield node.args[adders[node.func.id]]

    def folders(self, value: ast.expr) -> tuple[str, ...]:
        """The folders that an expression may be. What is relative may be so to the file's folder or to the root."""
        if isinstance(value, (ast.List, ast.Tuple)):
            return tuple(folder for item in value.elts for folder in self.folders(item))
        path = self._path_of(value, 0)
        if path is None:
            return ()
        if os.path.isabs(path):
            return (path,)
        return tuple(os.path.join(base, path) for base in (os.path.dirname(self._path), self._root))

    def _path_of(self, node: ast.expr, depth: int) -> str | None:
        if depth > _MAX_DEPTH:
            return None
        depth += 1
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) and "\0" not in node.value else None
        if isinstance(node, ast.Name):
            if node.id == "__file__":
                return self._path
            value = self._assigned.get(node.id)
            return self._path_of(value, depth) if value is not None else None
        if isinstance(node, ast.Attribute):
            inner = self._path_of(node.value, depth)
            if node.attr == "parent" and inner is not None:
                return os.path.dirname(inner)
            if node.attr == "pardir":
                return ".."
            value = self._assigned.get(node.attr)  # `config.root`, an attribute of a class of the file
            return self._path_of(value, depth) if value is not None else None
        if isinstance(node, ast.Subscript):
            return self._ancestor(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Add)):
            left, right = self._path_of(node.left, depth), self._path_of(node.right, depth)
            if left is None or right is None:
                return None
            return os.path.join(left, right) if isinstance(node.op, ast.Div) else left + right
        return self._called(node, depth) if isinstance(node, ast.Call) else None

    def _ancestor(self, node: ast.Subscript, depth: int) -> str | None:
        """``Path(__file__).parents[1]``, ``os.path.split(path)[0]``."""
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(index, int) or not 0 <= index < _MAX_DEPTH:
            return None
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr == "parents":
            path = self._path_of(value.value, depth)
            for _ in range(index + 1 if path is not None else 0):
                path = os.path.dirname(path or "")
            return path
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "split":
            path = self._path_of(value.args[0], depth) if value.args else None
            return os.path.split(path)[min(index, 1)] if path is not None else None
        return None

    def _called(self, node: ast.Call, depth: int) -> str | None:
        name = called_name(node)
        if name in ("getcwd", "cwd"):
            return self._root
        if name in ("resolve", "absolute", "as_posix") and isinstance(node.func, ast.Attribute):
            return self._path_of(node.func.value, depth)
        parts = [self._path_of(argument, depth) for argument in node.args]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        if name == "dirname":
            return os.path.dirname(known[0])
        if name in ("join", "Path"):
            return os.path.join(*known)
        if name == "joinpath" and isinstance(node.func, ast.Attribute):
            base = self._path_of(node.func.value, depth)
            return os.path.join(base, *known) if base is not None else None
        return known[0] if name in ("abspath", "realpath", "normpath", "str", "expanduser") else None


def _added(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """The values that calls of ``sys.path``'s methods add."""
    for call in nodes:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            owner = call.func.value
            if isinstance(owner, ast.Attribute) and owner.attr == "path" and getattr(owner.value, "id", "") == "sys":
                if call.args and not isinstance(call.args[-1], ast.Starred):
                    yield call.args[-1]
