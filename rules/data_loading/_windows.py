"""Windows: parts of one size of an image, a volume or a sound: ``image[top : top + 512, left : left + 512]``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import last_name


class Windows:
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def among(self, sources: Iterable[cst.CSTNode], body: cst.CSTNode) -> cst.Subscript | None:
        """An index in ``sources`` that takes a part of the same size whenever ``body`` runs."""
        parts = [node for source in sources for node in self._tree.nodes_in(source)]
        padded = {
            self._forest.code(item.value)
            for call in parts
            if isinstance(call, cst.Call) and "pad" in last_name(call.func).lower()
            for item in call.args
        }
        windows = (node for node in parts if isinstance(node, cst.Subscript))
        return next((node for node in windows if self._is_of_one_size(node, padded, body)), None)

    def are_cut(self, sources: Iterable[cst.CSTNode]) -> bool:
        """Whether an index in ``sources`` takes a part by bounds, which may be others each time."""
        return any(
            isinstance(item.slice, cst.Slice) and (item.slice.lower is not None or item.slice.upper is not None)
            for source in sources
            for node in self._tree.nodes_in(source)
            if isinstance(node, cst.Subscript)
            for item in node.slice
        )

    def _is_of_one_size(self, node: cst.Subscript, padded: set[str], body: cst.CSTNode) -> bool:
        """Whether all slices with bounds have a fixed length; ``padded`` are the arguments of functions that pad."""
        parts = [item.slice for item in node.slice if isinstance(item.slice, cst.Slice)]
        bounded = [part for part in parts if part.lower is not None or part.upper is not None]
        return bool(bounded) and all(
            any(self._is_fixed(length, body) for length in self._lengths(part, node.value, padded)) for part in bounded
        )

    def _lengths(self, part: cst.Slice, whole: cst.BaseExpression, padded: set[str]) -> Iterator[cst.BaseExpression]:
        """The length of ``a : a + n``; also where a name is bound to ``a + n``, or ``a`` to ``end - n``."""
        if part.lower is None or part.upper is None or part.step is not None:
            return
        begin, end = self._forest.code(part.lower), self._forest.code(part.upper)
        for upper in (part.upper, self._forest.values.reaching.assigned(part.upper)):
            inner = self._first_argument(upper, "min")
            length = self._operand(inner, cst.Add, begin)
            if length is not None and (not self._may_be_cut(part.lower) or self._is_padded(whole)):
                base = length.value if isinstance(length, cst.Subscript) else length
                if inner is upper or self._forest.code(base) in padded:
                    yield length
        lower = self._first_argument(
            self._first_argument(self._forest.values.reaching.assigned(part.lower), "max"), "int"
        )
        length = self._operand(lower, cst.Subtract, end)
        if length is not None:
            yield length

    def _first_argument(self, node: cst.BaseExpression | None, function: str) -> cst.BaseExpression | None:
        """``x`` of ``max(x, 0)`` or ``int(x)``, if that is the function; else the expression itself."""
        is_call = isinstance(node, cst.Call) and bool(node.args) and last_name(node.func) == function
        return node.args[0].value if is_call and isinstance(node, cst.Call) else node

    def _operand(
        self, node: cst.BaseExpression | None, operator: type[cst.BaseBinaryOp], left: str
    ) -> cst.BaseExpression | None:
        """``n`` of ``left + n``, or of ``left - n``."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, operator):
            return None
        return node.right if self._forest.code(node.left) == left else None

    def _may_be_cut(self, lower: cst.BaseExpression) -> bool:
        """Whether the last window may be shorter: ``for a in range(0, total, n)``."""
        bindings = self._forest.names.bindings(lower) if isinstance(lower, cst.Name) else []
        return any(
            binding.kind is BindingKind.FOR
            and isinstance(binding.value, cst.Call)
            and len(binding.value.args) > 2
            and not isinstance(binding.value.args[1].value, cst.BinaryOperation)
            for binding in bindings
        )

    def _is_padded(self, whole: cst.BaseExpression) -> bool:
        """Whether windows are taken of something that was padded, so that none is shorter."""
        reached = self._forest.values.reaching.of(whole) if isinstance(whole, cst.Name) else []
        return any(
            isinstance(binding.value, cst.Call) and "pad" in last_name(binding.value.func).lower()
            for binding in reached
        )

    def _is_fixed(self, length: cst.BaseExpression, body: cst.CSTNode) -> bool:
        """Whether ``length`` is the same each time: it does not use a name that ``body``, or its loop, binds."""
        above = self._tree.parent(body)
        changing = above if isinstance(above, cst.For) else body
        return not any(
            self._tree.within(binding.node, changing)
            for name in self._tree.nodes_in(length)
            if isinstance(name, cst.Name)
            for binding in self._forest.names.bindings(name)
        )
