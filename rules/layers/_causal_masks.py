"""Masks that are causal for certain: square, and nothing but the part below the diagonal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.buffers import Buffers
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import called_name, is_attribute_of_self
from torchlint.model.syntax.parameters import parameters_of

#: How many names, methods and functions a mask is followed through.
_DEPTH = 16
#: Methods that change neither the last two dimensions nor the values.
_SAME = frozenset(
    {"unsqueeze", "cuda", "cpu", "contiguous", "detach", "clone", "requires_grad_", "expand", "expand_as"}
)
_DTYPES = frozenset({"torch.bool", "builtins.bool"})
#: Scores that become 0 in the softmax.
_LOWEST = -1e4
_GENERATE = "torch.nn.Transformer.generate_square_subsequent_mask"


class Part(Enum):
    """Which entries of a square matrix are not 0."""

    ALL = "all"
    LOWER = "lower"  #: the diagonal and everything below it
    UPPER = "upper"  #: everything above the diagonal
    NONE = "none"
    ANY = "any"  #: not known, before something is written there


@dataclass(frozen=True)
class Square:
    """What is known of a square matrix, or of several equal ones."""

    part: Part
    lowest: bool = False  #: the entries are minus infinity, or as good as that; otherwise 1
    boolean: bool = False


#: What functions of torch make of a size.
_MADE = {"torch.ones": Part.ALL, "torch.zeros": Part.NONE, "torch.empty": Part.ANY}
_TURNED = {Part.LOWER: Part.UPPER, Part.UPPER: Part.LOWER, Part.ALL: Part.NONE, Part.NONE: Part.ALL, Part.ANY: Part.ANY}


class CausalMasks:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def is_causal(self, node: cst.BaseExpression, part: Part) -> bool:
        """Whether ``node`` is a square causal mask, of booleans or of numbers that are added to the scores.

        Booleans are true in ``part``: that differs between functions.
        """
        found = self._square(node, _DEPTH)
        if found is None:
            return False
        return (found.boolean and found.part is part) or (found.lowest and found.part is Part.UPPER)

    def _square(self, node: cst.BaseExpression, depth: int) -> Square | None:
        if depth <= 0:
            return None
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self._named(node, depth)
        if isinstance(node, cst.Subscript):
            return self._square(node.value, depth - 1) if self._is_square_part(node) else None
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
            return self._inverted(self._square(node.expression, depth - 1))
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self._compared(node, depth)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            found = self._square(node.left, depth - 1)
            ones = found is not None and found.part is Part.ALL and self._is_lowest(node.right)
            return Square(Part.ALL, lowest=True) if ones else None
        return self._call(node, depth) if isinstance(node, cst.Call) else None

    # -- names

    def _named(self, node: cst.Name | cst.Attribute, depth: int) -> Square | None:
        made = self._module.values.reaching.assigned(node)
        if isinstance(node, cst.Name) and isinstance(made, cst.Call):
            changes = self._changes(node, made)
            return self._changed(made, changes, depth) if changes is not None else None
        buffer = self._buffer(node) if isinstance(node, cst.Attribute) else None
        values = [buffer] if buffer is not None else self._passed_to_network(node)
        if not values:
            found = self._module.written.sources(node)
            if found is None or (not found.complete and not self._is_local(node)):
                return None
            values = list(found.values)
        squares = {self._square(value, depth - 1) for value in values if value is not node}
        return squares.pop() if len(squares) == 1 else None

    def _changes(self, name: cst.Name, made: cst.Call) -> list[cst.Call] | None:
        """The methods that change ``made`` in place, in order, before ``name`` reads it; None if more may change it.

        So for ``mask.triu_(1)``, in a statement of its own next to the one that assigns ``made``.
        """
        tree = self._tree
        home = self._module.names.home_of(name)
        given = self._module.values.reaching.only(name)
        found: list[cst.Call] = []
        for use in self._module.values.reaching.uses_of(given, home) if given is not None and home is not None else ():
            above = tree.parent(use)
            if isinstance(above, cst.Subscript) and above.value is use and tree.is_target(above):
                return None
            call = tree.parent(above) if isinstance(above, cst.Attribute) and above.value is use else None
            if not isinstance(call, cst.Call) or call.func is not above or not called_name(call).endswith("_"):
                continue
            lines = tree.line_of(tree.statement_of(made)), tree.line_of(tree.statement_of(call))
            is_next = lines[0] is not None and lines[1] is not None and lines[0][0] is lines[1][0]
            if not is_next or not isinstance(tree.parent(call), cst.Expr) or tree.index(call) > tree.index(name):
                return None
            found.append(call)
        return found

    def _changed(self, made: cst.Call, changes: list[cst.Call], depth: int) -> Square | None:
        found = self._square(made, depth - 1)
        for call in changes:
            found = None if found is None else self._method(call, called_name(call), found, depth)
        return found

    def _passed_to_network(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """What all calls of a network, at least one, pass for a parameter of its ``forward``."""
        param = self._module.values.reaching.parameter(node)
        function = self._module.function_of(node)
        if param is None or function is None or function.name.value != "forward":
            return []
        dispatch = self._module.fact(Dispatch)
        given = dispatch.arguments_for(function, param)
        return given if len(given) == len(dispatch.callers(function)) else []

    def _is_local(self, node: cst.CSTNode) -> bool:
        """Whether a name is only assigned in its function, or an attribute only in its class."""
        if isinstance(node, cst.Name):
            return all(item.kind is BindingKind.ASSIGN for item in self._module.names.bindings(node))
        return is_attribute_of_self(node)

    def _buffer(self, node: cst.Attribute) -> cst.BaseExpression | None:
        """The value of ``self.mask`` after ``self.register_buffer("mask", value)``, unless it is set again."""
        owner = self._owner(node)
        if owner is None or not isinstance(node.value, cst.Name) or node.value.value != "self":
            return None
        calls = self._module.fact(Buffers).of(owner, node.attr.value)
        found = [tensor for call in calls if (tensor := call.argument("tensor").value) is not None]
        stored = any(
            isinstance(target, cst.Attribute) and target.attr.value == node.attr.value
            for target, _, _ in self._tree.stores
        )
        return found[0] if len(found) == 1 and not stored else None

    def _owner(self, node: cst.CSTNode) -> cst.ClassDef | None:
        function = self._module.function_of(node)
        return self._tree.class_of(function) if function is not None else None

    def _is_square_part(self, node: cst.Subscript) -> bool:
        """Whether ``mask[:, :, :n, :n]``, ``mask[None]`` or the like takes the same rows as columns."""
        ends: list[str] = []
        for element in node.slice:
            item = element.slice
            if isinstance(item, cst.Slice):
                if item.lower is not None or item.step is not None:
                    return False
                ends.append("" if item.upper is None else self._module.code(item.upper))
            elif not isinstance(item, cst.Index) or self._module.code(item.value) not in ("None", "..."):
                return False
        taken = [end for end in ends if end]
        return not taken or (len(taken) == 2 and taken[0] == taken[1] and ends[-2:] == taken)

    # -- operators

    def _inverted(self, found: Square | None) -> Square | None:
        if found is None or not found.boolean:
            return None
        return Square(_TURNED[found.part], boolean=True)

    def _compared(self, node: cst.Comparison, depth: int) -> Square | None:
        """``mask == 0``, ``mask != 0``, ``mask == 1``, ``mask > 0``."""
        found = self._square(node.left, depth - 1)
        constant = self._module.value(node.comparisons[0].comparator).constant
        operator = node.comparisons[0].operator
        if found is None or found.lowest or not isinstance(constant, (int, float)):
            return None
        if (isinstance(operator, cst.Equal) and constant == 0) or (
            isinstance(operator, cst.NotEqual) and constant == 1
        ):
            return Square(_TURNED[found.part], boolean=True)
        same = (isinstance(operator, cst.Equal) and constant == 1) or (
            isinstance(operator, (cst.NotEqual, cst.GreaterThan)) and constant == 0
        )
        return Square(found.part, boolean=True) if same else None

    # -- calls

    def _call(self, node: cst.Call, depth: int) -> Square | None:
        if any(item.star for item in node.args):
            return None
        name = self._module.name_of(node.func)
        if name is not None:
            return self._function(self._module.call(node, name), depth)
        if not isinstance(node.func, cst.Attribute):
            return None
        method = node.func.attr.value
        if method == "generate_square_subsequent_mask" and self._module.value(node.func.value).kind is Kind.MODULE:
            owner = self._module.value(node.func.value)
            return Square(Part.UPPER, lowest=True) if owner.name == "torch.nn.Transformer" else None
        own = self._module.definitions.called(node, self._module.values)
        if own:
            return self._returned(own, depth)
        found = self._square(node.func.value, depth - 1)
        return None if found is None else self._method(node, method, found, depth)

    def _returned(self, own: list[cst.FunctionDef | cst.ClassDef], depth: int) -> Square | None:
        """What a method of the program returns, which takes no parameters but its object."""
        if len(own) != 1 or not isinstance(own[0], cst.FunctionDef) or len(parameters_of(own[0])) > 1:
            return None
        returned = self._module.definitions.returns(own[0])
        found = {self._square(value, depth - 1) if value is not None else None for value in returned}
        return found.pop() if len(found) == 1 else None

    def _function(self, call: Call, depth: int) -> Square | None:
        name, args = call.name, call.node.args
        first = next((item.value for item in args if item.keyword is None), None)
        if name == _GENERATE:
            return Square(Part.UPPER, lowest=True)
        if name in _MADE:
            if not self._is_square_size(call.node):
                return None
            boolean = self._module.name_of(call.argument("dtype").value) in _DTYPES
            return Square(_MADE[name], boolean=boolean)
        if name == "torch.full" and first is not None:
            second = next((item.value for item in args[1:] if item.keyword is None), call.argument("fill_value").value)
            if not self._is_square(first):
                return None
            if self._is_lowest(second):
                return Square(Part.ALL, lowest=True)
            return Square(Part.ALL, boolean=True) if self._module.value(second).constant is True else None
        if name in ("torch.tril", "torch.triu", "torch.logical_not") and first is not None:
            found = self._square(first, depth - 1)
            if found is None:
                return None
            return (
                self._inverted(found) if name.endswith("not") else self._cut(found, name[-4:], self._diagonal(call, 1))
            )
        return None

    def _method(self, node: cst.Call, method: str, found: Square, depth: int) -> Square | None:
        call = self._module.call(node, method)
        if method in _SAME:
            return found
        if method == "bool":
            return None if found.lowest else Square(found.part, boolean=True)
        if method in ("float", "half", "bfloat16", "int", "long"):
            return Square(found.part, lowest=found.lowest)
        if method in ("to", "type"):
            return self._converted(node, found)
        if method in ("view", "reshape"):
            sizes = [item.value for item in node.args if item.keyword is None]
            same = len(sizes) > 2 and self._module.code(sizes[-1]) == self._module.code(sizes[-2])
            return found if same and all(self._module.value(item).constant == 1 for item in sizes[:-2]) else None
        if method in ("tril", "triu", "tril_", "triu_"):
            return self._cut(found, method[:4], self._diagonal(call, 0))
        if method == "logical_not":
            return self._inverted(found)
        if method == "fill_" and len(node.args) == 1 and not found.boolean:
            return Square(Part.ALL, lowest=True) if self._is_lowest(node.args[0].value) else None
        if method in ("masked_fill", "masked_fill_") and found.part is Part.NONE and len(node.args) == 2:
            filled = self._square(node.args[0].value, depth - 1)
            if filled is not None and filled.boolean and self._is_lowest(node.args[1].value):
                return Square(filled.part, lowest=True)
        return None

    def _converted(self, node: cst.Call, found: Square) -> Square | None:
        """``mask.to(device)``, ``mask.to(torch.bool)``, ``mask.to(x.dtype)``."""
        named = [self._module.name_of(item.value) for item in node.args]
        if any(name in _DTYPES for name in named):
            return None if found.lowest else Square(found.part, boolean=True)
        numbers = any((name or "").startswith("torch.") for name in named) or any(
            self._module.code(item.value).endswith("dtype")
            or (item.keyword is not None and item.keyword.value == "dtype")
            for item in node.args
        )
        return Square(found.part, lowest=found.lowest) if numbers else found

    def _cut(self, found: Square, kept: str, diagonal: int | None) -> Square | None:
        if found.part is not Part.ALL or (kept, diagonal) not in (("tril", 0), ("triu", 1)):
            return None
        return Square(Part.LOWER if kept == "tril" else Part.UPPER, found.lowest, found.boolean)

    def _diagonal(self, call: Call, position: int) -> int | None:
        """The argument `diagonal`; None if it is unknown."""
        positional = [item.value for item in call.node.args if item.keyword is None]
        given = call.argument("diagonal").value or (positional[position] if position < len(positional) else None)
        if given is None:
            return 0
        constant = self._module.value(given).constant
        return constant if isinstance(constant, int) else None

    # -- sizes and values

    def _is_square_size(self, node: cst.Call) -> bool:
        sizes = [item.value for item in node.args if item.keyword is None]
        if len(sizes) == 1:
            return self._is_square(sizes[0])
        return self._is_square_of(sizes)

    def _is_square(self, size: cst.BaseExpression) -> bool:
        if not isinstance(size, (cst.Tuple, cst.List)):
            return False
        return self._is_square_of([element.value for element in size.elements])

    def _is_square_of(self, sizes: list[cst.BaseExpression]) -> bool:
        """Whether the last two of ``sizes`` are the same, and the others are 1."""
        if len(sizes) < 2 or self._module.code(sizes[-1]) != self._module.code(sizes[-2]):
            return False
        return all(self._module.value(item).constant == 1 for item in sizes[:-2])

    def _is_lowest(self, node: cst.BaseExpression | None) -> bool:
        """``float("-inf")``, ``-math.inf``, ``-1e9``, ``torch.finfo(x.dtype).min``."""
        if node is None:
            return False
        text = self._module.code(node).replace(" ", "").replace("'", '"')
        if text in ('float("-inf")', '-float("inf")') or (text.startswith("torch.finfo(") and text.endswith(").min")):
            return True
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            if self._module.name_of(node.expression) in ("math.inf", "torch.inf", "numpy.inf"):
                return True
        constant = self._module.value(node).constant
        if constant is None and isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            inner = self._module.value(node.expression).constant
            constant = -inner if isinstance(inner, (int, float)) else None
        return isinstance(constant, (int, float)) and not math.isnan(constant) and constant <= _LOWEST
