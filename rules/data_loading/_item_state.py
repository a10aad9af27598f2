"""Attributes that a dataset changes while it creates an item: the main process does not see them in a worker."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.data.datasets import Datasets
from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import ADDING
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import PARTS_AND_RESULTS, called_name, prefixes
from torchlint.model.syntax.nodes import HANDLERS

#: Methods that change their object.
_CHANGING = ADDING | {"pop", "popleft", "remove", "discard", "clear"}
#: Methods that only set up or close an object.
_OF_THE_OBJECT = frozenset({"__init__", "__getstate__", "__setstate__", "__del__", "__exit__", "close"})


def lost_state(module: Module, loader: Call) -> cst.CSTNode | None:
    """The first statement that runs for every item of ``loader`` and stores something that other code reads."""
    value = module.value(module.fact(Loading).dataset(loader))
    made = [value, *(module.value(origin) for origin in value.origins)]
    classes = dict.fromkeys(item.definition for item in made if isinstance(item.definition, cst.ClassDef))
    for definition in classes:
        functions = _run_per_item(module, definition)
        for function in functions:
            for owner, statement in _stores(module, function):
                if not _is_cached(module, owner, statement, function) and _is_read(
                    module, owner, definition, functions
                ):
                    return statement
    return None


def _run_per_item(module: Module, definition: cst.ClassDef) -> list[cst.FunctionDef]:
    """The methods that create an item, and the methods of the object that they call."""
    found = list(module.fact(Datasets).item_functions(definition))
    lineage = set(module.definitions.lineage(definition))
    for function in found:  # grows during the iteration
        for call in module.tree.calls_in(function.body):
            for item in module.definitions.called(call, module.values):
                if isinstance(item, cst.FunctionDef) and item not in found and module.tree.class_of(item) in lineage:
                    found.append(item)
    return found


def _stores(
    module: Module, function: cst.FunctionDef
) -> Iterator[tuple[cst.Name | cst.Attribute, cst.BaseSmallStatement]]:
    """The attributes of the object and the global names that ``function`` changes, each with the statement."""
    for node in module.tree.nodes_in(function.body):
        changed: list[cst.BaseExpression] = []
        if isinstance(node, cst.Assign):
            changed = [item.target for item in node.targets]
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign)):
            changed = [node.target]
        elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            call = node.value
            changed = (
                [call.func.value] if isinstance(call.func, cst.Attribute) and called_name(call) in _CHANGING else []
            )
        for target in changed:
            owner = _owner(module, target)
            if owner is not None and isinstance(node, cst.BaseSmallStatement):
                yield owner, node


def _owner(module: Module, target: cst.BaseExpression) -> cst.Name | cst.Attribute | None:
    """``self.x`` of ``self.x[0].y``, or a global name; None for a local variable of the function."""
    inner, node = [target, target, *prefixes(target, PARTS_AND_RESULTS)][-2:]
    if not isinstance(node, cst.Name):
        return None
    if node.value == "self":
        return inner if isinstance(inner, cst.Attribute) else None
    home = module.names.home_of(node)
    if (
        home is None
        or not isinstance(home.node, cst.Module)
        or any(
            item.kind in (BindingKind.IMPORT, BindingKind.CLASS, BindingKind.FUNCTION)
            for item in home.bindings[node.value]
        )
    ):
        return None
    return node


def _name(owner: cst.Name | cst.Attribute) -> str:
    return owner.attr.value if isinstance(owner, cst.Attribute) else owner.value


def _is_cached(
    module: Module, owner: cst.Name | cst.Attribute, statement: cst.CSTNode, function: cst.FunctionDef
) -> bool:
    """Whether the function checks whether the value exists already: a cache, a file that is opened on demand."""
    if isinstance(statement, cst.AugAssign):
        return False
    if any(isinstance(above, HANDLERS) for above, _ in climb(module.tree, statement, function)):
        return True
    tests = [node.test for node in module.tree.nodes_in(function.body) if isinstance(node, (cst.If, cst.IfExp))]
    return any(_names(part) == _name(owner) for test in tests for part in module.tree.nodes_in(test))


def _names(node: cst.CSTNode) -> object:
    """The names in a part of a condition, including ``"x"`` of ``hasattr(self, "x")``."""
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value
    return _name(node) if isinstance(node, (cst.Name, cst.Attribute)) else None


def _is_read(
    module: Module, owner: cst.Name | cst.Attribute, definition: cst.ClassDef, functions: list[cst.FunctionDef]
) -> bool:
    """Whether code that does not create items reads an attribute of the object, or a global name."""
    tree = module.tree
    if isinstance(owner, cst.Name):
        home = module.names.home_of(owner)
        uses: list[cst.CSTNode] = [*module.names.uses_in(home, owner.value)] if home is not None else []
    else:
        uses = [node for node in tree.attributes_named(owner.attr.value) if _may_be_of(module, node.value, definition)]
    return any(
        not isinstance(tree.parent(use), (cst.AssignTarget, cst.AnnAssign))
        and not any(tree.within(use, function) for function in functions)
        and not _is_set_up(module, use)
        for use in uses
    )


def _is_set_up(module: Module, node: cst.CSTNode) -> bool:
    function = module.function_of(node)
    return function is not None and function.name.value in _OF_THE_OBJECT and module.tree.class_of(function) is not None


def _may_be_of(module: Module, node: cst.BaseExpression, definition: cst.ClassDef) -> bool:
    """Whether ``node`` may be an object of the class: ``self`` in one of its methods, or of an unknown class."""
    lineage = module.definitions.lineage(definition)
    if isinstance(node, cst.Name) and node.value == "self":
        function = module.function_of(node)
        return function is not None and module.tree.class_of(function) in lineage
    known = module.value(node).definition
    return module.name_of(node) is None and (not isinstance(known, cst.ClassDef) or known in lineage)
