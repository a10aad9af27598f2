"""Objects of classes with an `__iter__`: the loops that run it."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.training.loops import Loops

#: How many calls such as ``enumerate`` and ``tqdm`` may wrap an object.
_DEPTH = 3


def loops_over(module: Module, method: cst.FunctionDef) -> list[cst.For]:
    """The loops whose object runs ``method``, the ``__iter__`` of its class: ``for batch in tqdm(batches)``."""
    owner = module.tree.class_of(method) if method.name.value == "__iter__" else None
    if owner is None:
        return []
    loops = (loop.node for loop in module.fact(Loops).all())
    return [loop for loop in loops if isinstance(loop, cst.For) and _is_object(module, loop.iter, owner, _DEPTH)]


def _is_object(module: Module, node: cst.BaseExpression, owner: cst.ClassDef, depth: int) -> bool:
    """Whether ``node`` is an object of a class, or a call that is given one: ``enumerate(batches)``."""
    value = module.value(node)
    if value.definition is not None and value.kind is not Kind.CLASS:
        return isinstance(value.definition, cst.ClassDef) and owner in module.definitions.lineage(value.definition)
    given = node.args if isinstance(node, cst.Call) and depth > 0 else ()
    return any(_is_object(module, item.value, owner, depth - 1) for item in given)
