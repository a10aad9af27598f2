"""Numbers: sizes and settings, with which a tensor may be made or computed."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.guesses import SETTINGS
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.scopes import Binding
from torchlint.model.tensors.creation import FACTORIES

#: Methods that give a number of a tensor.
_COUNTING = frozenset({"size", "dim", "numel", "item"})
#: Numbers of libraries.
_CONSTANTS = frozenset({"math.pi", "math.e", "math.tau", "math.inf", "numpy.pi", "numpy.e", "numpy.inf"})
#: Functions of NumPy that give a number for a number.
_OF_NUMPY = frozenset(
    f"numpy.{name}" for name in ("cos", "exp", "float32", "float64", "log", "log2", "log10", "sin", "sqrt")
)
#: Functions that draw a number.
_DRAWING = tuple(f"random.{name}" for name in ("random", "uniform", "randint", "randrange", "gauss", "betavariate"))
#: Of a parameter of a function with more calls, nothing is found out.
_MANY_CALLS = 8


class Numbers(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._settings: CyclicMemo[cst.BaseExpression, bool] = CyclicMemo(False)

    def is_number(self, node: cst.BaseExpression, depth: int = 6) -> bool:
        """Whether ``node`` is a number: also a variable of a loop that is not known to be something else."""
        if isinstance(node, cst.Call) and len(node.args) == 1 and self._forest.name_of(node.func) in _OF_NUMPY:
            return self._is_plain(node.args[0].value)
        value = self._forest.value(node)
        if (value and value.kind is not Kind.OTHER) or depth <= 0:
            return value.kind is Kind.NUMBER and (value.sure or isinstance(node, (cst.Name, cst.Attribute)))
        if isinstance(node, cst.UnaryOperation):
            return self.is_number(node.expression, depth - 1)
        if isinstance(node, cst.Attribute):
            return self._forest.name_of(node) in _CONSTANTS
        if isinstance(node, cst.BinaryOperation):
            return self.is_number(node.left, depth - 1) and self.is_number(node.right, depth - 1)
        if isinstance(node, cst.Subscript):
            sizes = node.value.func if isinstance(node.value, cst.Call) else node.value  # `x.size()[0]`, `x.shape[0]`
            method = "size" if isinstance(node.value, cst.Call) else "shape"
            return isinstance(sizes, cst.Attribute) and sizes.attr.value == method
        if isinstance(node, cst.Call):
            if isinstance(node.func, cst.Attribute) and node.func.attr.value in _COUNTING:
                return bool(node.args) or node.func.attr.value != "size"
            return (self._forest.name_of(node.func) or "").startswith(("math.", "builtins.len", *_DRAWING))
        if not isinstance(node, cst.Name):
            return False
        reached = self._forest.values.reaching.of(node)
        if not reached or self._is_size(node):
            return bool(reached)
        return all(
            item.kind is BindingKind.FOR
            or _is_of_shape(item)
            or (isinstance(item.node, cst.Param) and _is_promised(item.node))
            or (
                item.kind is BindingKind.ASSIGN
                and not item.path
                and item.value is not None
                and self.is_number(item.value, depth - 1)
            )
            for item in reached
        )

    def is_setting(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is an attribute of ``self`` that is only set to parameters and to settings, none known.

        Or a setting itself, ``args.width``; a parameter that every call gives one, or a number; or computed from such.
        """
        return self._settings.get(node, self._is_of_settings)

    def _is_of_settings(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Attribute):
            if not SETTINGS.isdisjoint((dotted_name(node.value) or "").split(".")):
                return not self._forest.value(node)
            stored = self._forest.values.stored(dotted_name(node) or "")
            return bool(stored) and all(
                value is not None and not self._forest.value(value) and self._is_given(value) for value in stored
            )
        if self._forest.value(node).kind is Kind.TENSOR:
            return False
        if isinstance(node, cst.Subscript):  # `self.ratios[1]`
            index = node.slice[0].slice if len(node.slice) == 1 else None
            is_item = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer)
            return is_item and isinstance(node.value, cst.Attribute) and self.is_setting(node.value)
        if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
            return all(map(self._is_plain, (node.left, node.right)))
        if isinstance(node, cst.IfExp):
            return all(map(self._is_plain, (node.body, node.orelse)))
        reached = self._forest.values.reaching.of(node) if isinstance(node, cst.Name) else []
        return bool(reached) and all(
            self._is_passed(item.node)
            if isinstance(item.node, cst.Param)
            else item.kind is BindingKind.ASSIGN
            and not item.path
            and item.value is not None
            and self._is_plain(item.value)
            for item in reached
        )

    def _is_passed(self, param: cst.Param) -> bool:
        """Whether every call of a function gives a parameter a setting or a number."""
        given = [] if param.star else self._forest.passed_by_all(param, at_most=_MANY_CALLS)
        values = [param.default if item is None else item for item in given]
        return bool(values) and all(item is not None and self._is_plain(item) for item in values)

    def _is_plain(self, node: cst.BaseExpression) -> bool:
        return self.is_number(node) or self.is_setting(node)

    def _is_given(self, value: cst.BaseExpression) -> bool:
        """``width``, a parameter, or ``options["width"]`` or ``config.width``."""
        if isinstance(value, cst.Attribute):
            return self.is_setting(value)
        if isinstance(value, cst.Subscript) and isinstance(value.slice[0].slice, cst.Index):
            return isinstance(value.slice[0].slice.value, cst.SimpleString)
        return isinstance(value, cst.Name) and all(
            item.kind is BindingKind.PARAM for item in self._forest.values.reaching.of(value)
        )

    def _is_size(self, node: cst.Name) -> bool:
        """Whether a factory is given the name, too, as the size of a tensor: ``torch.arange(half)``."""
        tree = self._forest.tree
        bindings = self._forest.names.bindings(node)
        for use in tree.names.get(node.value, ()):
            argument = tree.parent(use)
            if isinstance(argument, cst.Element):  # `torch.ones((rows, columns))`
                sizes = tree.parent(argument)
                argument = tree.parent(sizes) if sizes is not None else None
            call = tree.parent(argument) if isinstance(argument, cst.Arg) else None
            if isinstance(call, cst.Call) and self._forest.names.bindings(use) == bindings:
                name = self._forest.name_of(call.func) or ""
                if name.startswith("torch.") and name[6:] in FACTORIES:
                    return True
        return False


def _is_of_shape(binding: Binding) -> bool:
    """Whether a name is one of the sizes of a tensor: ``rows, columns = x.shape``."""
    value = binding.value.func if isinstance(binding.value, cst.Call) else binding.value
    return bool(binding.path) and isinstance(value, cst.Attribute) and value.attr.value in ("shape", "size")


def _is_promised(param: cst.Param) -> bool:
    """Whether the annotation of a parameter is ``int`` or ``float``."""
    written = param.annotation.annotation if param.annotation is not None else None
    return isinstance(written, cst.Name) and written.value in ("int", "float")
