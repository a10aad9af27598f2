"""Which expressions in a loop are the same at every iteration, and which are computed from one row of tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.dotted import called_name

from ._row_words import CONVERTING, ROWWISE, ROWWISE_METHODS


class Level(IntEnum):
    """What an expression depends on; an operation depends on the least of its operands that are not fixed."""

    OTHER = 1  #: an item of what may be a list
    NUMBER = 2  #: the number of the iteration
    ROW = 3  #: a row of a tensor
    FIXED = 4  #: nothing in the loop


#: The level of each name that a loop binds; None before it is bound in the iteration.
Levels = Mapping[str, "Level | None"]
#: Names of lists.
_LISTS = re.compile(r"(^|_)lists?$")
_CONVERTING = frozenset(f"builtins.{name}" for name in CONVERTING)
_SPLITTING = frozenset({"split", "chunk", "unbind", "tensor_split", "split_with_sizes"})
#: Attributes that give another form of a tensor.
_FORMS = frozenset({"data", "T", "mT"})
#: Dimensions before those of space and time; the second one may be of channels.
_BEFORE_SPACE = 2
#: What an item is taken from where the items are not rows.
_NO_ROWS = frozenset({Kind.MODULE, Kind.LOADER, Kind.STRING, Kind.DATASET, Kind.FUNCTION, Kind.CLASS})


class RowValues:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def variables(self, target: cst.BaseExpression, over: cst.BaseExpression) -> dict[str, Level]:
        """The level of each variable of a loop: elements of tensors are rows, also through ``zip``."""
        parts = [item.value for item in target.elements] if isinstance(target, cst.Tuple) else [target]
        found: dict[str, Level] = {}
        number = counter(self._module, target, over)
        for place, part in enumerate(parts):
            path = (place,) if isinstance(target, cst.Tuple) else ()
            sources = [*iterables(self._module.names, over, path)]
            is_row = len(sources) == 1 and sources[0][1] == () and self.is_tensor(sources[0][0])
            for node in self._tree.nodes_in(part):
                if isinstance(node, cst.Name):
                    row = Level.ROW if is_row and node is part else Level.OTHER
                    found[node.value] = row if node.value != number else Level.NUMBER
        return found

    def level(self, node: cst.CSTNode, names: Levels) -> Level | None:
        """What an expression depends on; None if iterations may depend on each other, or call something unknown."""
        if isinstance(node, cst.Name):
            return names.get(node.value, Level.FIXED)
        if isinstance(node, (cst.Integer, cst.Float, cst.SimpleString, cst.Ellipsis)):
            return Level.FIXED
        if isinstance(node, cst.Attribute):
            owner = self.level(node.value, names)
            return owner if owner is Level.FIXED or node.attr.value in _FORMS else None
        if isinstance(node, cst.Subscript):
            return self._item(node, names)
        if isinstance(node, cst.Call):
            return self._call(node, names)
        parts: Iterable[cst.BaseExpression]
        if isinstance(node, cst.BinaryOperation):
            return self._arithmetic(node, names)
        if isinstance(node, cst.BooleanOperation):
            parts = (node.left, node.right)
        elif isinstance(node, cst.UnaryOperation):
            parts = (node.expression,)
        elif isinstance(node, cst.Comparison):
            return self._comparison(node, names)
        elif isinstance(node, cst.IfExp):
            parts = (node.test, node.body, node.orelse)
        elif isinstance(node, (cst.List, cst.Tuple)):
            parts = [item.value for item in node.elements]
        else:
            return None
        return self._least(parts, names)

    def _arithmetic(self, node: cst.BinaryOperation, names: Levels) -> Level | None:
        """The level of the operands; ``x[i] * (i / n)`` is computed from a row, as ``torch.arange(n) / n`` is."""
        levels = {self.level(node.left, names), self.level(node.right, names)}
        return Level.ROW if levels == {Level.ROW, Level.NUMBER} else self._least((node.left, node.right), names)

    def _comparison(self, node: cst.Comparison, names: Levels) -> Level | None:
        if any(isinstance(item.operator, (cst.In, cst.NotIn)) for item in node.comparisons):
            return None
        level = self._least([node.left, *(item.comparator for item in node.comparisons)], names)
        return Level.OTHER if level is Level.NUMBER else level  # `labels == i` is a mask

    def _least(self, parts: Iterable[cst.CSTNode], names: Levels) -> Level | None:
        least = Level.FIXED
        for part in parts:
            level = self.level(part, names)
            if level is None:
                return None
            least = min(least, level)
        return least

    def index_level(self, part: cst.BaseSlice, names: Levels) -> Level | None:
        """What an index or a slice depends on."""
        if isinstance(part, cst.Index):
            return None if part.star else self.level(part.value, names)
        assert isinstance(part, cst.Slice)
        return self._least([bound for bound in (part.lower, part.upper, part.step) if bound is not None], names)

    def _item(self, node: cst.Subscript, names: Levels) -> Level | None:
        """``x[i]``, ``x[n, i, 0]``, ``x[i, places[i]]``, ``x[i, start:end]``, ``x[:, :, i]``; not ``x[:, i]``."""
        base, indices = flattened(node)
        owner = self.level(base, names)
        levels = [self.index_level(part, names) for part in indices]
        if owner is None or None in levels:
            return None
        varying = [place for place, level in enumerate(levels) if level is not Level.FIXED]
        if any(not _has_both_ends(indices[place]) for place in varying):
            return None  # each row has a length of its own
        if owner is not Level.FIXED or not varying:
            return owner
        if may_be_channels(indices[: varying[0]]):
            return None
        if self.is_tensor(base) and levels[varying[0]] is not Level.OTHER:
            return Level.ROW
        return None if self._module.value(base).kind in _NO_ROWS else Level.OTHER

    def _call(self, call: cst.Call, names: Levels) -> Level | None:
        if any(item.star for item in call.args):
            return None
        given: list[cst.CSTNode] = [item.value for item in call.args]
        name = self._module.name_of(call.func)
        if name is not None:
            owner, _, last = name.rpartition(".")
            is_rowwise = owner in ("torch", "torch.nn.functional", "torch.linalg") and last in ROWWISE
            if name == "torch.where" and len(given) == 1:
                return None  # it gives as many places as there are
            return self._least(given, names) if is_rowwise or name in _CONVERTING else None
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ROWWISE_METHODS:
            return None
        owned = self.level(call.func.value, names)
        if owned is None or (owned is Level.FIXED and not self.is_tensor(call.func.value)):
            return None  # `self.norm(x[i])`
        return self._least([call.func.value, *given], names)

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is seen to be a tensor; parts of a batch must have been moved."""
        if isinstance(node, cst.Name) and any(
            isinstance(given.value, cst.Call) and called_name(given.value) in _SPLITTING and not given.path
            for given in self._module.values.reaching.of(node)
        ):
            return False  # a tuple of parts, which may be of different lengths
        if isinstance(node, cst.Name) and _LISTS.search(node.value):
            return False
        value = self._module.value(node)
        if value.kind is Kind.TENSOR and value.sure and (value.role is not Role.BATCH or value.device is Device.CUDA):
            return True
        return self._module.fact(TensorForms).is_tensor(node, self._is_used_as_tensor)

    def _is_used_as_tensor(self, name: cst.Name) -> bool:
        """Whether a variable is used as only tensors are, and is not part of a batch, unless that is on the GPU."""
        value = self._module.value(name)
        if value.role is Role.BATCH and value.device is not Device.CUDA:
            return False
        return self._module.fact(TensorForms).is_used_as_tensor(name)


def counter(module: Module, target: cst.BaseExpression, over: cst.BaseExpression) -> str | None:
    """``i`` of ``for i in range(n)``, also reversed, and of ``for i, x in enumerate(y)``."""
    over = unreversed(module, over)
    name = module.name_of(over.func) if isinstance(over, cst.Call) else None
    node: cst.BaseExpression | None = target if name == "builtins.range" else None
    if name == "builtins.enumerate" and isinstance(target, cst.Tuple):
        node = target.elements[0].value
    return node.value if isinstance(node, cst.Name) else None


def unreversed(module: Module, over: cst.BaseExpression) -> cst.BaseExpression:
    """``range(n)`` of ``reversed(range(n))``."""
    is_reversed = (
        isinstance(over, cst.Call) and module.name_of(over.func) == "builtins.reversed" and len(over.args) == 1
    )
    return over.args[0].value if isinstance(over, cst.Call) and is_reversed else over


def flattened(node: cst.BaseExpression) -> tuple[cst.BaseExpression, list[cst.BaseSlice]]:
    """What is indexed, and all indices: ``x`` and ``i``, ``0`` of ``x[i][0]`` or ``x[i, 0]``."""
    indices: list[cst.BaseSlice] = []
    while isinstance(node, cst.Subscript):
        indices[:0] = [item.slice for item in node.slice]
        node = node.value
    return node, indices


def may_be_channels(before: Iterable[cst.BaseSlice]) -> bool:
    """Whether an index with some parts before it may count channels: ``x[:, i]``, not ``x[:, :, i]``."""
    return 0 < sum(isinstance(part, cst.Slice) for part in before) < _BEFORE_SPACE


def _has_both_ends(part: cst.BaseSlice) -> bool:
    return isinstance(part, cst.Index) or (isinstance(part, cst.Slice) and bool(part.lower and part.upper))
