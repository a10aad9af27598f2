"""Uses of the deprecated classes other than calls: other code that reads a name that a fix would change or remove."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.syntax.scopes import Binding
from torchlint.model.syntax.tree import Tree

_TYPE_TESTS = ("builtins.isinstance", "builtins.issubclass")
#: Modules that compare objects with the classes in annotations.
_RUNTIME_TYPES = ("beartype", "pydantic", "typeguard")


def is_named_elsewhere(module: Module, binding: Binding, covered: set[cst.CSTNode]) -> bool:
    """Whether anything but ``covered`` uses the imported name: code, or an annotation in a string."""
    if any(name not in covered for name in module.names.uses(binding)):
        return True
    word = re.compile(rf"\b{re.escape(binding.name)}\b")
    return any(
        isinstance(node, (cst.SimpleString, cst.FormattedStringText))
        and word.search(node.value)
        and not isinstance(module.tree.parent(node), cst.Expr)
        for node in module.tree.nodes_in(module.root)
    )


def is_compared(module: Module, name: str) -> bool:
    """Whether objects may be compared with the deprecated class ``name``; the new objects are not instances of it.

    A class that is stored or passed on may be compared later. ``autocast`` is passed on to be called.
    """
    short = last_part(name)
    if short not in ("autocast", "GradScaler"):
        return False
    tree = module.tree
    for node in _named(tree, short):
        if module.name_of(node) != name:
            continue
        above = tree.parent(node)
        if isinstance(above, cst.Attribute) and above.attr is node:
            continue
        if nearest(tree, node, cst.Annotation) is not None:
            if any(module.imports(package) for package in _RUNTIME_TYPES):
                return True
            continue
        called = isinstance(above, cst.Call) and above.func is node
        if called or isinstance(above, (cst.ImportFrom, cst.ImportAlias, cst.Decorator)):
            continue
        if isinstance(above, cst.Arg) and isinstance(tree.parent(above), cst.ClassDef):
            continue  # a class derived from it: neither the old nor the new objects are instances of that class
        if _is_type_test(module, node) or (short == "GradScaler" and not _is_prepared_call(module, above)):
            return True
    return False


def _named(tree: Tree, short: str) -> Iterator[cst.Name | cst.Attribute]:
    """The names and attributes that may refer to a class of this name, under an alias too."""
    names, known = {short}, 0
    while len(names) > known:
        known = len(names)
        for scope in tree.scopes.values():
            for name, bindings in scope.bindings.items():
                if name not in names and any(_leads_to(binding, names) for binding in bindings):
                    names.add(name)
    for name in names:
        yield from tree.names.get(name, ())
    yield from tree.attributes_named(*names)


def _leads_to(binding: Binding, names: Set[str]) -> bool:
    if binding.kind is BindingKind.IMPORT:
        return last_part(binding.imported) in names
    return last_part(dotted_name(binding.value) or "") in names if binding.value is not None else False


def _is_prepared_call(module: Module, above: cst.CSTNode | None) -> bool:
    """Whether a class is passed to ``functools.partial``, which only calls it."""
    call = module.tree.parent(above) if isinstance(above, cst.Arg) else None
    return isinstance(call, cst.Call) and module.name_of(call.func) == "functools.partial"


def _is_type_test(module: Module, node: cst.CSTNode) -> bool:
    """Whether an expression is part of a type test or a comparison."""
    for above in module.tree.ancestors(node):
        if isinstance(above, (cst.Comparison, cst.MatchClass)):
            return True
        if isinstance(above, cst.Call) and module.name_of(above.func) in _TYPE_TESTS:
            return True
        if isinstance(above, cst.BaseStatement):
            return False
    return False
