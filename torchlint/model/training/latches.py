"""Code that runs once for each object: it sets the flag that keeps it from running again."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self, last_name
from torchlint.model.syntax.tree import Tree


def is_latched(tree: Tree, branch: cst.If | cst.IfExp) -> bool:
    """Whether the body of ``branch`` sets the flag for which it runs: ``if not self.ready: ...; self.ready = True``.

    It may also call a method of the object that sets it.
    """
    return _sets(tree, branch.test, runs_if_true=True, block=(branch.body,))


def is_latched_exit(tree: Tree, block: cst.IndentedBlock, exit_: cst.If) -> bool:
    """Whether the rest of ``block`` sets the flag for which ``exit_`` leaves it: ``if self.ready: return``."""
    rest = block.body[block.body.index(exit_) + 1 :]
    return _sets(tree, exit_.test, runs_if_true=False, block=rest)


def _sets(tree: Tree, test: cst.BaseExpression, *, runs_if_true: bool, block: Sequence[cst.CSTNode]) -> bool:
    """Whether ``block``, which runs if ``test`` has this value, gives the flag of an object in it the other one."""
    asked = runs_if_true
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, asked = test.expression, not asked
    method = tree.function_of(test) if is_attribute_of_self(test) else None
    owner = tree.class_of(method) if method is not None else None
    if owner is None:
        return False
    last = "False" if asked else "True"
    stores = [item.node for item in tree.scopes[owner].attributes.get(last_name(test), ()) if _is(item.value, last)]
    functions = [tree.function_of(item) for item in stores]
    methods = {function.name.value for function in functions if isinstance(function, cst.FunctionDef)}
    return any(
        any(tree.within(store, statement) for store in stores)
        or any(is_attribute_of_self(call.func) and last_name(call.func) in methods for call in tree.calls_in(statement))
        for statement in (block if stores else ())
    )


def _is(value: cst.BaseExpression | None, name: str) -> bool:
    return value is not None and dotted_name(value) == name
