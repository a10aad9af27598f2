"""Which methods a project may call with gradients disabled, by their names alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from torchlint.project.project import Project
from torchlint.source.ast_names import called_name, dotted_name
from torchlint.source.parsing import ParseError, fresh_tree
from torchlint.source.reading import is_notebook
from torchlint.source.testing import is_test

#: Context managers and decorators that disable gradients.
_DISABLING = frozenset({"no_grad", "inference_mode"})
#: How many functions are followed from a call to the `with` statement around it.
_MAX_DEPTH = 4
#: A name in more files is not followed: many classes have a method of that name.
_MAX_FILES = 50


@dataclass(frozen=True)
class _Calls:
    """The calls in one file, by the name of what is called."""

    guarded: set[str] = field(default_factory=set)  #: those with gradients disabled
    callers: dict[str, set[str]] = field(default_factory=dict)  #: of the others the names of the functions around them


class GuardedCalls:
    """Answers for one version of a project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._calls: dict[str, _Calls] = {}
        self._known: dict[str, frozenset[str]] = {}
        self._asked: dict[str, set[str]] = {}  #: by file the names that were asked for

    def has(self, file: str, name: str) -> bool:
        """Whether code other than tests may call methods called ``name`` of classes of a file without gradients.

        It is under `no_grad` or `inference_mode`, or a function that is called so contains it. The class of the object
        is not asked for.
        """
        self._asked.setdefault(file, set()).add(name)
        if name not in self._known:
            self._known[name] = frozenset(self._chain(name, set()))
        return bool(self._known[name])

    def consulted(self, file: str) -> frozenset[str]:
        """The files on which the answers about a file depended so far."""
        asked = self._asked.get(file, ())
        if not all(self._known[name] for name in asked):
            return frozenset(self._project.places)
        return frozenset(item for name in asked for item in self._known[name]) - {file}

    def _chain(self, name: str, seen: set[str]) -> set[str]:
        """The files with the calls that lead from a `with` statement to a call of ``name``; none if there are none."""
        seen.add(name)
        if name.startswith("__"):
            return set()
        project = self._project
        files = [file for file in project.places if name in project.vocabulary(file) and not self._is_test(file)]
        if len(files) > _MAX_FILES:
            return set()
        for file in files:
            if name in self._in(file).guarded:
                return {file}
        for file in files if len(seen) < _MAX_DEPTH else ():
            for caller in sorted(self._in(file).callers.get(name, set()) - seen):
                found = self._chain(caller, seen)
                if found:
                    return found | {file}
        return set()

    def _is_test(self, file: str) -> bool:
        return is_notebook(file) or is_test(file, self._project.text_of(file) or "")

    def _in(self, file: str) -> _Calls:
        """The calls in a file."""
        if file not in self._calls:
            self._calls[file] = found = _Calls()
            try:
                tree = fresh_tree(self._project.text_of(file) or "")
            except ParseError:
                return found
            waiting: list[tuple[ast.AST, bool, str]] = [(tree, False, "")]
            while waiting:
                node, is_guarded, function = waiting.pop()
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    is_guarded, function = any(map(_disables, node.decorator_list)), node.name
                elif isinstance(node, (ast.With, ast.AsyncWith)):
                    is_guarded = is_guarded or any(_disables(item.context_expr) for item in node.items)
                elif isinstance(node, ast.Call) and is_guarded:
                    found.guarded.add(_run_by(node))
                elif isinstance(node, ast.Call) and function:
                    found.callers.setdefault(_run_by(node), set()).add(function)
                waiting += [(child, is_guarded, function) for child in ast.iter_child_nodes(node)]
        return self._calls[file]


def _run_by(node: ast.Call) -> str:
    """The name of what a call runs, or takes from an object to run it: ``getattr(model, "infer")``."""
    name = called_name(node)
    taken = node.args[1] if name == "getattr" and len(node.args) > 1 else None
    return taken.value if isinstance(taken, ast.Constant) and isinstance(taken.value, str) else name


def _disables(node: ast.expr) -> bool:
    """Whether a context manager or decorator disables gradients."""
    name = dotted_name(node.func if isinstance(node, ast.Call) else node) or ""
    return name.rpartition(".")[2] in _DISABLING
