"""What literals, displays, operators and other compound expressions give."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import NONE, STRING, TENSOR, UNKNOWN, Device, Role, Value, join, join_items
from torchlint.model.syntax.literals import value_of

#: What a text such as ``f"cuda:{index}"`` names.
CUDA = Value(Kind.DEVICE, device=Device.CUDA)
#: Comparisons that give a bool, also of tensors.
_GIVING_BOOL = (cst.Is, cst.IsNot, cst.In, cst.NotIn)


def augmented_value(node: cst.AugAssign, values: Evaluator) -> Value:
    """What ``loss += part`` and ``ranks += 1`` give their target; `NONE` if it stays of the same kind."""
    added = values.of(node.value)
    if added.kind is Kind.TENSOR and added.role is not Role.BATCH:
        return Value(Kind.TENSOR, device=added.device, role=added.role, sure=added.sure)
    before = values.of(node.target) if isinstance(node.target, cst.Name) else NONE
    return before if before.kind is Kind.TENSOR else NONE


def _names_cuda(node: cst.FormattedString, values: Evaluator) -> bool:
    """Whether a text is the name of a GPU: ``f"cuda:{rank}"``, ``f"{backend}:{rank}"``."""
    first, second = (*node.parts[:2], None, None)[:2]
    if isinstance(first, cst.FormattedStringText):
        return first.value.startswith("cuda")
    if not isinstance(first, cst.FormattedStringExpression) or not isinstance(second, cst.FormattedStringText):
        return False
    named = values.of(first.expression)
    return second.value == ":" and (named.constant == "cuda" or named.device is Device.CUDA)


def compound_value(node: cst.CSTNode, values: Evaluator) -> Value:
    """The value of an expression that is neither a name, an attribute, a call nor a subscript."""
    if type(node) is cst.SimpleString:
        text = value_of(node)
        return Value(Kind.STRING, constant=text if isinstance(text, str) else None)
    if type(node) is cst.Integer or type(node) is cst.Float:
        return Value(Kind.NUMBER, constant=_number(node))
    if type(node) is cst.FormattedString:
        return CUDA if _names_cuda(node, values) else STRING
    if type(node) is cst.ConcatenatedString:
        return STRING
    if type(node) is cst.IfExp:
        return join([values.of(node.body), values.of(node.orelse)])
    if type(node) is cst.Tuple or type(node) is cst.List or type(node) is cst.Set:
        starred = any(isinstance(element, cst.StarredElement) for element in node.elements)
        elements = tuple(values.of(element.value) for element in node.elements)
        return Value(Kind.SEQUENCE, elements=() if starred else elements, each=join(elements) if elements else None)
    if type(node) is cst.Dict:
        items = [values.of(element.value) for element in node.elements]
        return Value(Kind.SEQUENCE, each=join_items(items) if items else None)
    if type(node) is cst.ListComp or type(node) is cst.SetComp or type(node) is cst.GeneratorExp:
        return Value(Kind.SEQUENCE, each=values.of(node.elt))
    if type(node) is cst.DictComp:
        return Value(Kind.SEQUENCE, each=values.of(node.value))
    if type(node) is cst.BooleanOperation:
        return join([values.of(node.left), values.of(node.right)])
    if type(node) is cst.BinaryOperation:
        left, right = values.of(node.left), values.of(node.right)
        if isinstance(left.constant, int) and isinstance(right.constant, int):
            return Value(Kind.NUMBER, constant=_whole(node.operator, left.constant, right.constant))
        repeated = next((side for side in (left, right) if side.kind is Kind.SEQUENCE), None)
        if isinstance(node.operator, cst.Multiply) and repeated is not None and repeated.each is not None:
            if repeated.each.kind is Kind.TENSOR:  # others may be placeholders: ``[None] * n``
                return Value(Kind.SEQUENCE, each=repeated.each)
        return _arithmetic(left, right)
    if type(node) is cst.UnaryOperation:
        inner = values.of(node.expression)
        if isinstance(node.operator, cst.Not):
            return Value(Kind.OTHER)
        return replace(inner, constant=None) if inner.kind in (Kind.TENSOR, Kind.NUMBER) else UNKNOWN
    if type(node) is cst.Comparison:
        if any(isinstance(item.operator, _GIVING_BOOL) for item in node.comparisons):
            return Value(Kind.OTHER)
        sides = [values.of(node.left), *(values.of(item.comparator) for item in node.comparisons)]
        return TENSOR if any(side.kind is Kind.TENSOR for side in sides) else Value(Kind.OTHER)
    if type(node) is cst.NamedExpr:
        return values.of(node.value)
    if type(node) is cst.Await:
        return values.of(node.expression)
    if type(node) is cst.Lambda:
        return Value(Kind.FUNCTION)
    return UNKNOWN


def _arithmetic(left: Value, right: Value) -> Value:
    for side in (left, right):
        if side.kind in (Kind.TENSOR, Kind.BATCH):
            roles = {left.role, right.role}
            role = Role.LOSS if Role.LOSS in roles else Role.OUTPUT if Role.OUTPUT in roles else side.role
            return Value(
                Kind.TENSOR,
                left.origins | right.origins if role is Role.BATCH else frozenset(),
                Device.CUDA if Device.CUDA in (left.device, right.device) else side.device,
                role=role,
            )
    if begins_with_cuda(left):
        return CUDA  # `"cuda:" + str(index)`, `"cuda:%d" % index`
    if left.kind is right.kind and left.kind in (Kind.NUMBER, Kind.STRING, Kind.ARRAY, Kind.SEQUENCE):
        return Value(left.kind, sure=left.sure and right.sure, each=left.each)
    if Kind.ARRAY in (left.kind, right.kind):
        return Value(Kind.ARRAY)
    return UNKNOWN


def begins_with_cuda(value: Value) -> bool:
    """Whether a text names a CUDA device, whatever is put into it or after it: ``"cuda:{}"``."""
    return value.kind is Kind.STRING and isinstance(value.constant, str) and value.constant.startswith("cuda:")


def _number(node: cst.Integer | cst.Float) -> float | int | None:
    try:
        value: float | int = value_of(node)
    except (ValueError, OverflowError):
        return None
    return value


def _whole(operator: cst.BaseBinaryOp, left: int, right: int) -> int | None:
    """The result of `28 * 28`, `width + 1` or `width // 2`."""
    if isinstance(operator, cst.Multiply):
        return left * right
    if isinstance(operator, cst.Add):
        return left + right
    return left // right if isinstance(operator, cst.FloorDivide) and right else None


def integer(node: cst.BaseExpression) -> int | None:
    """The whole number that a literal means, with or without a sign."""
    sign = 1
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        sign, node = -1, node.expression
    if isinstance(node, cst.Integer):
        value = _number(node)
        return None if value is None else sign * int(value)
    return None
