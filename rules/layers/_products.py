"""Matrix products, as operators, functions of torch and methods."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module

Factors = tuple[cst.BaseExpression, cst.BaseExpression]
#: The names of the functions of torch, and of the methods, that multiply two matrices; those for batches of matrices.
PRODUCTS = frozenset({"matmul", "mm", "bmm"})
BATCHED = PRODUCTS - {"mm"}


def factors_of(module: Module, node: cst.BaseExpression, names: frozenset[str] = PRODUCTS) -> Factors | None:
    """The two factors of ``a @ b``, ``torch.mm(a, b)`` or ``a.mm(b)``; ``names``: the functions and methods to take."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
        return node.left, node.right
    if not isinstance(node, cst.Call) or any(item.star or item.keyword is not None for item in node.args):
        return None
    name, given = module.name_of(node.func), [item.value for item in node.args]
    if name is None and isinstance(node.func, cst.Attribute) and node.func.attr.value in names:
        return (node.func.value, given[0]) if len(given) == 1 else None
    is_product = name is not None and name.removeprefix("torch.") in names
    return (given[0], given[1]) if is_product and len(given) == 2 else None
