"""Scales by the width of a tensor, which is a size of the network: ``x.shape[-1] ** 0.5``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import called_name, dotted_name, index_of

#: Functions that give a root of a number, or of a tensor of one.
_ROOTS = frozenset({"math.sqrt", "numpy.sqrt", "torch.sqrt", "torch.rsqrt"})
_FLOAT = "builtins.float"
_DEPTH = 4


class Widths:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def is_scaled(self, factory: cst.Call, data: cst.BaseExpression) -> bool:
        """Whether a tensor is made of the root of a width, or of a width of which a root is taken at once."""
        argument = self._tree.parent(factory)
        call = self._tree.parent(argument) if isinstance(argument, cst.Arg) else None
        if isinstance(argument, cst.Attribute) and argument.attr.value in ("sqrt", "rsqrt"):
            call = self._tree.parent(argument)
        elif not isinstance(call, cst.Call) or self._module.name_of(call.func) not in _ROOTS:
            call = None
        return self._is_width(data, _DEPTH) if isinstance(call, cst.Call) else self._is_root(data, _DEPTH)

    def _is_root(self, node: cst.BaseExpression | None, depth: int) -> bool:
        """``width ** -0.5``, ``1 / math.sqrt(width)``, or a variable that is assigned one."""
        if node is None or depth <= 0:
            return False
        if isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.Power):
                power = node.right.expression if isinstance(node.right, cst.UnaryOperation) else node.right
                return isinstance(power, cst.Float) and self._is_width(node.left, depth - 1)
            numbers = [side for side in (node.left, node.right) if isinstance(side, (cst.Integer, cst.Float))]
            others = [side for side in (node.left, node.right) if side not in numbers]
            return len(others) == 1 and self._is_root(others[0], depth - 1)
        if isinstance(node, cst.Call):
            name = self._module.name_of(node.func)
            given = node.args[0].value if len(node.args) == 1 else None
            return (
                self._is_width(given, depth - 1) if name in _ROOTS else name == _FLOAT and self._is_root(given, depth)
            )
        return isinstance(node, cst.Name) and self._is_root(self._module.values.reaching.assigned(node), depth - 1)

    def _is_width(self, node: cst.BaseExpression | None, depth: int) -> bool:
        """``x.shape[-1]``, ``x.size(-1)``, ``width`` of ``batch, length, width = x.shape``."""
        if node is None or depth <= 0:
            return False
        if isinstance(node, cst.Name):
            bound = self._module.values.reaching.only(node)
            value = bound.value if bound is not None else None
            if bound is None or value is None or not bound.path:
                return self._is_width(self._module.values.reaching.assigned(node), depth - 1)
            return bound.path == ((bound.targets or 0) - 1,) and self._are_sizes(value)
        if isinstance(node, cst.Subscript):
            return _is_last(index_of(node)) and self._are_sizes(node.value)
        if not isinstance(node, cst.Call) or len(node.args) != 1:
            return False
        given = node.args[0].value
        if self._module.name_of(node.func) == _FLOAT:
            return self._is_width(given, depth - 1)
        return isinstance(node.func, cst.Attribute) and called_name(node) == "size" and _is_last(given)

    def _are_sizes(self, node: cst.BaseExpression) -> bool:
        """``x.shape`` or ``x.size()`` of one tensor."""
        sizes, method = (node.func, "size") if isinstance(node, cst.Call) and not node.args else (node, "shape")
        return isinstance(sizes, cst.Attribute) and sizes.attr.value == method and dotted_name(sizes) is not None


def _is_last(index: cst.BaseExpression | None) -> bool:
    """Whether an index is ``-1``."""
    return (
        isinstance(index, cst.UnaryOperation)
        and isinstance(index.operator, cst.Minus)
        and isinstance(index.expression, cst.Integer)
        and index.expression.value == "1"
    )
