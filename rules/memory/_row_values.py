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
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import called_name

from ._row_words import CONVERTING, REDUCING_UP_TO, ROWWISE, ROWWISE_METHODS, VIEWS


class Level(IntEnum):
    """What an expression depends on; an operation depends on the least of its operands that are not fixed."""

    OTHER = 1  #: an item of what may be a list
    NUMBER = 2  #: the number of the iteration
    ROW = 3  #: a row of a tensor
    FIXED = 4  #: nothing in the loop


#: The level of each name that a loop binds; None before it is bound in the iteration.
Levels = Mapping[str, "Level | None"]
#: Names of lists, and of the lengths of rows that are padded.
_LISTS = re.compile(r"(^|_)lists?$")
_LENGTHS = re.compile(r"len(gth)?s?$")
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
            return Level.ROW if self._is_looked_for(node, names) else None
        level = self._least([node.left, *(item.comparator for item in node.comparisons)], names)
        return Level.OTHER if level is Level.NUMBER else level  # `labels == i` is a mask

    def _is_looked_for(self, node: cst.Comparison, names: Levels) -> bool:
        """``label in ids``, ``labels[i] in ids.values()``: whether a number of a tensor is in the same collection."""
        among: cst.BaseExpression = node.comparisons[0].comparator
        if isinstance(among, cst.Call) and not among.args and called_name(among) in ("keys", "values"):
            assert isinstance(among.func, cst.Attribute)
            among = among.func.value
        is_fixed = self.level(among, names) is Level.FIXED and not self.is_tensor(among)
        return len(node.comparisons) == 1 and is_fixed and self.level(node.left, names) is Level.ROW

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
        if may_be_channels(indices[: varying[0]]) and not self._is_window(indices[varying[0]], names):
            return None
        first, *others = varying
        if levels[first] is not Level.OTHER:
            by_row = any(levels[place] is Level.ROW and isinstance(indices[place], cst.Index) for place in others)
            if self.is_tensor(base) or (by_row and self._is_output(base)):
                return Level.ROW
        return None if self._module.value(base).kind in _NO_ROWS else Level.OTHER

    def _is_output(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is what a network gives, as far as its callers show one tensor."""
        value = self._module.value(node)
        return value.kind is Kind.TENSOR and value.role is Role.OUTPUT

    def inlined(self, call: cst.BaseExpression, names: Levels) -> tuple[cst.BaseExpression, Levels]:
        """What a call of a lambda computes, with the levels of its parameters: of ``get = lambda i: x[i][places[i]]``.

        Another expression, and a lambda that uses a variable of the loop, as it is.
        """
        made = self._module.values.reaching.assigned(call.func) if isinstance(call, cst.Call) else None
        given = call.args if isinstance(call, cst.Call) else ()
        if not isinstance(made, cst.Lambda) or any(item.star or item.keyword is not None for item in given):
            return call, names
        params = [param.name.value for param in made.params.params]
        if len(params) != len(given) or not (self._tree.names_in(made.body) - set(params)).isdisjoint(names):
            return call, names
        levels = [self.level(item.value, names) for item in given]
        return made.body, dict(zip(params, levels, strict=True))

    def _is_window(self, part: cst.BaseSlice, names: Levels) -> bool:
        """``i : i + size``, whose parts are not single channels."""
        upper = part.upper if isinstance(part, cst.Slice) else None
        if not isinstance(part, cst.Slice) or not isinstance(part.lower, cst.Name):
            return False
        if not isinstance(upper, cst.BinaryOperation) or not isinstance(upper.operator, cst.Add):
            return False
        is_one = isinstance(upper.right, cst.Integer) and upper.right.evaluated_value == 1
        begins = isinstance(upper.left, cst.Name) and upper.left.value == part.lower.value
        is_counted = self.level(part.lower, names) is Level.NUMBER
        return begins and is_counted and not is_one and self.level(upper.right, names) is Level.FIXED

    def _call(self, call: cst.Call, names: Levels) -> Level | None:
        if any(item.star for item in call.args):
            return None
        given: list[cst.CSTNode] = [item.value for item in call.args]
        name = self._module.name_of(call.func)
        if self._reduces_up_to_length(call, name, names):
            return Level.ROW
        if name is not None:
            owner, _, last = name.rpartition(".")
            is_rowwise = owner in ("torch", "torch.nn.functional", "torch.linalg") and last in ROWWISE
            if name == "torch.where" and len(given) == 1:
                return None  # it gives as many places as there are
            if name == "torch.nn.functional.pad" and given and self._least(given, names) is not None:
                return self.level(given[0], names)  # it only fills up what is read of the row, or written
            return self._least(given, names) if is_rowwise or name in _CONVERTING else None
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ROWWISE_METHODS:
            return None
        owned = self.level(call.func.value, names)
        if owned is None:
            return None
        level = self._least([call.func.value, *given], names)
        if owned is Level.FIXED and not self.is_tensor(call.func.value):  # `self.norm(x[i])`
            is_view = level is Level.FIXED and isinstance(call.func.value, cst.Attribute)
            return level if is_view and call.func.attr.value in VIEWS else None  # `self.weight.view(-1, 8)`
        return level

    def _reduces_up_to_length(self, call: cst.Call, name: str | None, names: Levels) -> bool:
        """``torch.mean(x[i, : lengths[i]], dim=0)``, ``x[i][: lengths[i]].sum(0)``: as of a row that is masked."""
        given = [item.value for item in call.args if item.keyword is None]
        if name is None and isinstance(call.func, cst.Attribute):
            given.insert(0, call.func.value)
        owner, _, method = (name or f"torch.{called_name(call)}").rpartition(".")
        if owner != "torch" or method not in REDUCING_UP_TO or not given or len(given) > 2:
            return False
        place = self._place_of_length(given[0], names, of_torch=name is not None)
        dim = keyword(call, "dim", "axis") or (given[1] if len(given) > 1 else None)
        return place is not None and (dim is None or (isinstance(dim, cst.Integer) and dim.evaluated_value == place))

    def _place_of_length(self, node: cst.BaseExpression, names: Levels, *, of_torch: bool) -> int | None:
        """The dimension of a row in which it has a length of its own: 1 of ``x[i, :, : lengths[i]]``.

        ``of_torch``: what uses it takes only tensors. Of those that are cut at lengths, all rows are padded.
        """
        if not isinstance(node, cst.Subscript):
            return None
        base, indices = flattened(node)
        levels = [self.index_level(part, names) for part in indices]
        varying = [place for place, level in enumerate(levels) if level is not Level.FIXED]
        if None in levels or not varying or isinstance(indices[varying[-1]], cst.Index):
            return None
        owner, last = self.level(base, names), varying.pop()
        is_padded = of_torch and self._is_up_to_length(indices[last]) and not self._is_called_list(base)
        is_row = not varying and (owner is Level.ROW or (owner is Level.OTHER and is_padded))
        if owner is Level.FIXED and len(varying) == 1 and isinstance(indices[varying[0]], cst.Index):
            is_row = (is_padded or self.is_tensor(base)) and not may_be_channels(indices[: varying[0]])
        return sum(isinstance(part, cst.Slice) for part in indices[:last]) if is_row else None

    def _is_up_to_length(self, part: cst.BaseSlice) -> bool:
        """``[: lengths[i]]``, ``[0:n]`` of a loop over lengths."""
        if not isinstance(part, cst.Slice) or part.upper is None:
            return False
        begins = part.lower is None or (isinstance(part.lower, cst.Integer) and part.lower.evaluated_value == 0)
        return begins and any(map(_LENGTHS.search, self._names_of(part.upper)))

    def _is_called_list(self, node: cst.BaseExpression) -> bool:
        """Whether a variable, or what a loop takes it from, has the name of a list."""
        return any(map(_LISTS.search, self._names_of(node)))

    def _names_of(self, node: cst.BaseExpression) -> set[str]:
        """The names in an expression, and in what a loop takes it from if it is a variable of one."""
        bound = self._module.values.reaching.only(node) if isinstance(node, cst.Name) else None
        found = self._tree.names_in(node)
        if bound is not None and bound.kind is BindingKind.FOR and bound.value is not None:
            found |= self._tree.names_in(*(over for over, _ in iterables(self._module.names, bound.value, bound.path)))
        return found

    def taken_from(self, variable: cst.Name) -> cst.BaseExpression | None:
        """What a loop takes a variable from, one by one: ``rows`` of ``for row, size in zip(rows, sizes)``."""
        bound = self._module.values.reaching.only(variable)
        if bound is None or bound.kind is not BindingKind.FOR or bound.value is None:
            return None
        sources = [*iterables(self._module.names, bound.value, bound.path)]
        return sources[0][0] if len(sources) == 1 and not sources[0][1] else None

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
        is_sure = value.sure or self._is_annotated(node)
        if value.kind is Kind.TENSOR and is_sure and (value.role is not Role.BATCH or value.device is Device.CUDA):
            return True
        return self._module.fact(TensorForms).is_tensor(node, self._is_used_as_tensor)

    def _is_annotated(self, node: cst.BaseExpression) -> bool:
        """Whether a parameter says that it is a tensor, where not all of its callers are known to give one."""
        param = self._module.values.reaching.parameter(node)
        return param is not None and self._module.values.annotated(param.annotation).kind is Kind.TENSOR

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
