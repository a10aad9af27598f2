"""Activation functions that are written as formulas, recognized by their values at a few points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import called_name, dotted_name, last_part

_POINTS = (-4.1, -2.3, -0.7, 0.4, 1.9, 3.3)
_CLOSE = 1e-6
_SIZE = 100  #: nodes of an expression


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def _relu6(x: float) -> float:
    return min(max(x, 0.0), 6.0)


#: Functions of one number, by their names in torch.
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sigmoid": _sigmoid,
    "expit": _sigmoid,
    "tanh": math.tanh,
    "erf": math.erf,
    "exp": math.exp,
    "softplus": _softplus,
    "relu6": _relu6,
    "hardsigmoid": lambda x: _relu6(x + 3) / 6,
}
_OF_NUMBERS: dict[str, Callable[[float], float]] = {
    "math.sqrt": math.sqrt,
    "numpy.sqrt": math.sqrt,
    "torch.sqrt": math.sqrt,
    "torch.tensor": float,
}
_CONSTANTS = {f"{owner}.pi": math.pi for owner in ("math", "numpy", "torch")}
_HOMES = ("torch.", "torch.nn.functional.", "torch.special.")
_NAMES = {home + name: function for home in _HOMES for name, function in _FUNCTIONS.items()}
#: The activations: what computes each at once, the oldest torch that has it, and its formula.
_ACTIVATIONS: tuple[tuple[str, tuple[int, int], Callable[[float], float]], ...] = (
    ("silu({})", (1, 7), lambda x: x * _sigmoid(x)),
    ("gelu({})", (1, 4), lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2)))),
    (
        'gelu({}, approximate="tanh")',
        (1, 12),
        lambda x: x * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    ("mish({})", (1, 9), lambda x: x * math.tanh(_softplus(x))),
    ("hardswish({})", (1, 6), lambda x: x * _relu6(x + 3) / 6),
)
_VALUES = [(name, since, [function(point) for point in _POINTS]) for name, since, function in _ACTIVATIONS]


@dataclass(frozen=True, eq=False)
class Formula:
    """An activation that several operations compute."""

    node: cst.BinaryOperation
    better: str  #: ``silu(x)``


class Activations:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[Formula]:
        """The formulas of the file, in order."""
        found: dict[cst.CSTNode, Formula] = {}
        for call in self._tree.calls_in(self._module.root):
            if self._function(call) is None:
                continue
            for above, _ in climb(self._tree, call):
                is_statement = isinstance(above, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
                if is_statement or self._tree.last(above) - self._tree.index(above) > _SIZE:
                    break
                formula = self._formula(above) if isinstance(above, cst.BinaryOperation) else None
                if formula is not None:
                    found[formula.node] = formula
                    break
        return iter(sorted(found.values(), key=lambda formula: self._tree.index(formula.node)))

    def _formula(self, node: cst.BinaryOperation) -> Formula | None:
        for variable in (_leaf(node.left), _leaf(node.right)):
            values = self._at_points(node, variable) if variable is not None else None
            for name, since, expected in _VALUES:
                if (
                    values
                    and since <= (self._module.target_torch or since)
                    and all(abs(a - b) < _CLOSE for a, b in zip(values, expected, strict=True))
                ):
                    return Formula(node, name.format(variable))
        return None

    def _function(self, call: cst.Call) -> Callable[[float], float] | None:
        """The function of one number that a call applies to each element of its argument."""
        name = self._module.name_of(call.func)
        if name is not None:
            return _NAMES.get(name)
        last = called_name(call)
        if isinstance(call.func, cst.Attribute) and last in _FUNCTIONS and not call.args:
            return _FUNCTIONS[last]
        if isinstance(call.func, cst.Attribute) and dotted_name(call.func) == f"self.{last}":
            layer = self._module.value(call.func).name
            return _FUNCTIONS.get(last_part(layer).lower()) if layer.startswith("torch.nn.") else None
        return None

    def _at_points(self, node: cst.CSTNode | None, variable: str) -> list[float] | None:
        """The values of an expression in one variable at the points; None if something else is needed for them."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return [float(node.evaluated_value)] * len(_POINTS)
        if isinstance(node, (cst.Name, cst.Attribute)):
            constant = _CONSTANTS.get(self._module.name_of(node) or "")
            is_variable = dotted_name(node) == variable
            return list(_POINTS) if is_variable else None if constant is None else [constant] * len(_POINTS)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return _each(lambda x: -x, self._at_points(node.expression, variable))
        operation, operands = None, []
        if isinstance(node, cst.BinaryOperation):
            operation, operands = _OPERATORS.get(type(node.operator)), [node.left, node.right]
        elif isinstance(node, cst.Call):
            operation, operands = self._called(node)
        if operation is None:
            return None
        return _each(operation, *(self._at_points(operand, variable) for operand in operands))

    def _called(self, node: cst.Call) -> tuple[Callable[..., float] | None, list[cst.BaseExpression]]:
        """The function of numbers that a call applies to each element, and what it is applied to."""
        name, last = self._module.name_of(node.func), called_name(node)
        is_power = name == "torch.pow" or (name is None and last == "pow")
        one: Callable[..., float] | None = self._function(node) or _OF_NUMBERS.get(name or "")
        operation = math.pow if is_power else one
        given = [item.value for item in node.args if item.keyword is None and not item.star]
        if one is _relu6:
            given = given[:1]  # the other one is `inplace`
        elif len(given) != len(node.args):
            return None, []
        is_method = name is None and last in (*_FUNCTIONS, "pow") and len(given) == (last == "pow")
        operands = [node.func.value, *given] if is_method and isinstance(node.func, cst.Attribute) else given
        return operation if len(operands) == (2 if is_power else 1) else None, operands


_OPERATORS: dict[type[cst.BaseBinaryOp], Callable[..., float]] = {
    cst.Add: lambda x, y: x + y,
    cst.Subtract: lambda x, y: x - y,
    cst.Multiply: lambda x, y: x * y,
    cst.Divide: lambda x, y: x / y,
    cst.Power: math.pow,
}


def _each(function: Callable[..., float], *operands: list[float] | None) -> list[float] | None:
    """The results of a function for each point; None where an operand is unknown, or there is no result."""
    if any(operand is None for operand in operands):
        return None
    try:
        return [function(*values) for values in zip(*(operand or () for operand in operands), strict=True)]
    except (ValueError, ArithmeticError):
        return None


def _leaf(node: cst.BaseExpression) -> str | None:
    """``x`` of ``0.5 * x``."""
    while isinstance(node, cst.BinaryOperation):
        node = node.right if isinstance(node.left, (cst.Integer, cst.Float)) else node.left
    return dotted_name(node)
