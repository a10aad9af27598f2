"""Modules that a program imports by computed names, ``import_module(f"nets.{name}")``, or loads by their paths."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import libcst as cst

from torchlint.model.semantics.knowledge import IMPORT_MODULE
from torchlint.model.semantics.links import Links
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.name_patterns import pattern_of
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding, Scope
from torchlint.model.syntax.tree import Tree
from torchlint.source.module_patterns import PATH_LOADERS

#: What a relative name is relative to.
_OWN_PACKAGE = ("__package__", "__name__")


class Naming(Protocol):
    """What is asked of names."""

    def bindings(self, name: cst.Name) -> list[Binding]:
        """Everything in the file that may bind this name where it is used."""

    def members(self, node: cst.CSTNode) -> list[Binding] | None:
        """For ``data.name`` what binds ``name`` in the module ``data`` of the project; None for other nodes."""

    def parameter(self, node: cst.CSTNode | None) -> cst.Param | None:
        """The parameter that ``node`` is."""

    def resolve(self, node: cst.CSTNode | None) -> str | None:
        """The canonical dotted name of what ``node`` refers to, if it comes from an import or is a builtin."""


class LoadedModules:
    """Answers for one forest."""

    def __init__(self, tree: Tree, links: Links, names: Naming) -> None:
        self._tree = tree
        self._links = links
        self._names = names
        self._found: CyclicMemo[cst.Call, list[Scope]] = CyclicMemo([])

    def modules(self, call: cst.Call) -> list[Scope]:
        """The modules of the project that a call may give by a computed name or a path."""
        if not self._links.has_context:
            return []
        name = last_name(call.func)
        if name not in ("import_module", "module_from_spec") and name not in self._path_loaders:
            return []
        return self._found.get(call, self._find)

    def _find(self, call: cst.Call) -> list[Scope]:
        return self._imported(call) or self._loaded(call)

    def _imported(self, call: cst.Call) -> list[Scope]:
        """What `import_module` gives."""
        if not 0 < len(call.args) < 3 or self._names.resolve(call.func) != IMPORT_MODULE:
            return []
        bound = self._given(call.args[0].value)
        pattern = pattern_of(bound[0] if len(bound) == 1 and bound[0] is not None else call.args[0].value)
        package = call.args[1].value if len(call.args) > 1 else None
        if pattern.startswith(".") != (isinstance(package, cst.Name) and package.value in _OWN_PACKAGE):
            return []
        return self._links.modules_like(pattern, self._tree.root_of(call))

    def _loaded(self, call: cst.Call) -> list[Scope]:
        """What a function that loads a module by its path gives."""
        path: cst.BaseExpression | None = None
        if last_name(call.func) == "module_from_spec":
            spec = self._given(call.args[0].value) if len(call.args) == 1 else []
            made = spec[0] if len(spec) == 1 else None
            if isinstance(made, cst.Call) and last_name(made.func) in PATH_LOADERS:
                path = _path_argument(made)
        else:
            loaders = self._path_loaders.get(last_name(call.func), {})
            for binding in self._names.members(call.func) or self._bindings(call.func):
                param = loaders.get(binding.node)
                path = path or (_argument(call, binding.node, param) if param is not None else None)
        patterns = dict.fromkeys(self._paths(path)) if path is not None else ()
        found = [scope for item in patterns for scope in self._links.modules_at(item)]
        return [scope for scope in dict.fromkeys(found) if scope.node is not self._tree.root_of(call)]

    @cached_property
    def _path_loaders(self) -> dict[str, dict[cst.CSTNode, cst.Param]]:
        """The functions around what loads a module by its path, by name, with their parameters for the path."""
        found: dict[str, dict[cst.CSTNode, cst.Param]] = {}
        for call in self._tree.calls_named(*PATH_LOADERS):
            param = self._names.parameter(_path_argument(call))
            function = owner_of(self._tree, param) if param is not None else None
            if param is not None and function is not None:
                found.setdefault(function.name.value, {})[function] = param
        return found

    def _bindings(self, node: cst.BaseExpression) -> list[Binding]:
        return self._names.bindings(node) if isinstance(node, cst.Name) else []

    def _given(self, node: cst.BaseExpression) -> list[cst.BaseExpression | None]:
        """What a variable is given; None for what is not an assignment."""
        return [
            item.value if item.kind is BindingKind.ASSIGN and not item.path else None for item in self._bindings(node)
        ]

    def _paths(self, node: cst.BaseExpression) -> Iterator[str]:
        """The patterns of the paths that ``node`` may be, as far as they are known."""
        if isinstance(node, cst.Call) and node.args and last_name(node.func) in ("join", "str", "Path", "abspath"):
            yield from self._paths(node.args[-1].value)
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
            yield from self._paths(node.right)
        elif isinstance(node, (cst.Name, cst.Attribute)):
            yield from self._links.paths_of(last_name(node))
        else:
            pattern = pattern_of(node)
            if pattern.endswith(".py"):
                yield pattern


def _path_argument(call: cst.Call) -> cst.BaseExpression | None:
    """What a call of a loader is given as the path."""
    named = [
        item.value for item in call.args if item.keyword is not None and item.keyword.value in ("location", "path")
    ]
    positional = [item.value for item in call.args if item.keyword is None and not item.star]
    return named[0] if named else positional[1] if len(positional) > 1 else None


def _argument(call: cst.Call, function: cst.CSTNode, param: cst.Param) -> cst.BaseExpression | None:
    """What a call of a function, not of a method, passes for a parameter."""
    if not isinstance(function, cst.FunctionDef) or any(item.star for item in call.args):
        return None
    named = [item.value for item in call.args if item.keyword is not None and item.keyword.value == param.name.value]
    place = function.params.params.index(param) if param in function.params.params else len(call.args)
    positional = [item.value for item in call.args if item.keyword is None]
    return named[0] if named else positional[place] if place < len(positional) else None
