"""Nodes of libcst without white space: how they are made quickly, and how two trees of one text correspond."""

from __future__ import annotations

import ast
from abc import ABCMeta
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

import libcst as cst

_Node = TypeVar("_Node", bound=cst.CSTNode)

#: The handlers of exceptions: ``except`` and ``except*``.
HANDLERS = (cst.ExceptHandler, cst.ExceptStarHandler)
Handler: TypeAlias = cst.ExceptHandler | cst.ExceptStarHandler
#: The statements with handlers.
TRIES = (cst.Try, cst.TryStar)

#: The fields that are set in nodes of each class, but for names and operators.
_FIELDS: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Module: ("body",),
}


class _Plain(ABCMeta):
    """A class to which only instances of it and of its subclasses belong: none is registered."""

    __instancecheck__ = type.__instancecheck__


def _ask_in_c() -> None:
    """Let nodes be hashed, compared by identity and asked for their class in C instead of Python.

    libcst's own methods do the same, with `id`. Nodes are the keys of most tables: it is a twelfth of a run.
    """
    for kind in vars(cst).values():
        if isinstance(kind, type) and issubclass(kind, cst.CSTNode):
            kind.__hash__ = object.__hash__  # type: ignore[method-assign]
            kind.__eq__ = object.__eq__  # type: ignore[method-assign]
            kind.__class__ = _Plain  # type: ignore[assignment]


_ask_in_c()


def pairs(tree: cst.CSTNode, other: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The nodes that correspond to each other in two trees of one text, however they were made.

    Raises ValueError if the trees differ.
    """
    stack: list[tuple[cst.CSTNode, cst.CSTNode]] = [(tree, other)]
    while stack:
        mine, theirs = stack.pop()
        if type(mine) is not type(theirs):
            raise ValueError(f"{type(mine).__name__} is {type(theirs).__name__}")
        yield mine, theirs
        for field in _FIELDS.get(type(mine), ()):
            inner, twin = getattr(mine, field), getattr(theirs, field)
            if isinstance(inner, (list, tuple)):
                stack.extend(zip(inner, twin, strict=True))
            elif inner is not None and isinstance(inner, cst.CSTNode):
                stack.append((inner, twin))


def _constructor(kind: type[_Node], *fields: str) -> Callable[..., _Node]:
    """A function that makes a node from the values of some fields, in a tenth of the time of the constructor."""
    _FIELDS[kind] = fields
    new = object.__new__
    setters = [getattr(kind, field).__set__ for field in fields]
    if len(setters) == 1:
        (only,) = setters

        def make_one(value: object) -> _Node:
            node = new(kind)
            only(node, value)
            return node

        return make_one
    if len(setters) == 2:
        first, second = setters

        def make_two(value: object, other: object) -> _Node:
            node = new(kind)
            first(node, value)
            second(node, other)
            return node

        return make_two
    if len(setters) == 3:
        first, second, third = setters

        def make_three(value: object, other: object, last: object) -> _Node:
            node = new(kind)
            first(node, value)
            second(node, other)
            third(node, last)
            return node

        return make_three

    def make(*values: object) -> _Node:
        node = new(kind)
        for setter, value in zip(setters, values, strict=True):
            setter(node, value)
        return node

    return make


new_name = _constructor(cst.Name, "value")
new_attribute = _constructor(cst.Attribute, "value", "attr")
new_call = _constructor(cst.Call, "func", "args")
new_arg = _constructor(cst.Arg, "value", "keyword", "star")
new_line = _constructor(cst.SimpleStatementLine, "body")
new_suite = _constructor(cst.SimpleStatementSuite, "body")
new_block = _constructor(cst.IndentedBlock, "body")
new_expr = _constructor(cst.Expr, "value")
new_assign = _constructor(cst.Assign, "targets", "value")
new_assign_target = _constructor(cst.AssignTarget, "target")
new_aug_assign = _constructor(cst.AugAssign, "target", "operator", "value")
new_ann_assign = _constructor(cst.AnnAssign, "target", "annotation", "value")
new_annotation = _constructor(cst.Annotation, "annotation")
new_return = _constructor(cst.Return, "value")
new_raise = _constructor(cst.Raise, "exc", "cause")
new_from = _constructor(cst.From, "item")
new_assert = _constructor(cst.Assert, "test", "msg")
new_del = _constructor(cst.Del, "target")
new_import = _constructor(cst.Import, "names")
new_import_from = _constructor(cst.ImportFrom, "module", "names", "relative")
new_import_alias = _constructor(cst.ImportAlias, "name", "asname")
new_as_name = _constructor(cst.AsName, "name")
new_global = _constructor(cst.Global, "names")
new_nonlocal = _constructor(cst.Nonlocal, "names")
new_name_item = _constructor(cst.NameItem, "name")
new_if = _constructor(cst.If, "test", "body", "orelse")
new_else = _constructor(cst.Else, "body")
new_for = _constructor(cst.For, "target", "iter", "body", "orelse", "asynchronous")
new_while = _constructor(cst.While, "test", "body", "orelse")
new_with = _constructor(cst.With, "items", "body", "asynchronous")
new_with_item = _constructor(cst.WithItem, "item", "asname")
new_try = _constructor(cst.Try, "body", "handlers", "orelse", "finalbody")
new_handler = _constructor(cst.ExceptHandler, "type", "name", "body")
new_finally = _constructor(cst.Finally, "body")
new_function = _constructor(
    cst.FunctionDef, "name", "params", "body", "decorators", "returns", "asynchronous", "type_parameters"
)
new_class = _constructor(cst.ClassDef, "name", "body", "bases", "keywords", "decorators", "type_parameters")
new_decorator = _constructor(cst.Decorator, "decorator")
new_parameters = _constructor(
    cst.Parameters, "params", "star_arg", "kwonly_params", "star_kwarg", "posonly_params", "posonly_ind"
)
new_param = _constructor(cst.Param, "name", "annotation", "default", "star")
new_subscript = _constructor(cst.Subscript, "value", "slice")
new_subscript_element = _constructor(cst.SubscriptElement, "slice")
new_index = _constructor(cst.Index, "value", "star")
new_slice = _constructor(cst.Slice, "lower", "upper", "step")
new_binary = _constructor(cst.BinaryOperation, "left", "operator", "right")
new_boolean = _constructor(cst.BooleanOperation, "left", "operator", "right")
new_unary = _constructor(cst.UnaryOperation, "operator", "expression")
new_comparison = _constructor(cst.Comparison, "left", "comparisons")
new_comparison_target = _constructor(cst.ComparisonTarget, "operator", "comparator")
new_if_exp = _constructor(cst.IfExp, "test", "body", "orelse")
new_lambda = _constructor(cst.Lambda, "params", "body")
new_tuple = _constructor(cst.Tuple, "elements")
new_list = _constructor(cst.List, "elements")
new_set = _constructor(cst.Set, "elements")
new_element = _constructor(cst.Element, "value")
new_starred_element = _constructor(cst.StarredElement, "value")
new_dict = _constructor(cst.Dict, "elements")
new_dict_element = _constructor(cst.DictElement, "key", "value")
new_starred_dict_element = _constructor(cst.StarredDictElement, "value")
new_list_comp = _constructor(cst.ListComp, "elt", "for_in")
new_set_comp = _constructor(cst.SetComp, "elt", "for_in")
new_generator = _constructor(cst.GeneratorExp, "elt", "for_in")
new_dict_comp = _constructor(cst.DictComp, "key", "value", "for_in")
new_comp_for = _constructor(cst.CompFor, "target", "iter", "ifs", "inner_for_in", "asynchronous")
new_comp_if = _constructor(cst.CompIf, "test")
new_named = _constructor(cst.NamedExpr, "target", "value")
new_await = _constructor(cst.Await, "expression")
new_yield = _constructor(cst.Yield, "value")
new_string = _constructor(cst.SimpleString, "value")
new_concatenated = _constructor(cst.ConcatenatedString, "left", "right")
new_formatted = _constructor(cst.FormattedString, "start", "parts", "end")
new_formatted_text = _constructor(cst.FormattedStringText, "value")
new_formatted_expression = _constructor(
    cst.FormattedStringExpression, "expression", "conversion", "format_spec", "equal"
)
new_integer = _constructor(cst.Integer, "value")
new_float = _constructor(cst.Float, "value")
new_imaginary = _constructor(cst.Imaginary, "value")


def bare(kind: type[_Node]) -> _Node:
    """A node of a kind without fields that matter. A tree may contain it at many places if no traversal visits it."""
    return object.__new__(kind)


OPERATORS: dict[type[ast.AST], cst.CSTNode] = {
    ast.Add: bare(cst.Add),
    ast.Sub: bare(cst.Subtract),
    ast.Mult: bare(cst.Multiply),
    ast.Div: bare(cst.Divide),
    ast.FloorDiv: bare(cst.FloorDivide),
    ast.Mod: bare(cst.Modulo),
    ast.Pow: bare(cst.Power),
    ast.MatMult: bare(cst.MatrixMultiply),
    ast.LShift: bare(cst.LeftShift),
    ast.RShift: bare(cst.RightShift),
    ast.BitAnd: bare(cst.BitAnd),
    ast.BitOr: bare(cst.BitOr),
    ast.BitXor: bare(cst.BitXor),
    ast.And: bare(cst.And),
    ast.Or: bare(cst.Or),
    ast.Not: bare(cst.Not),
    ast.Invert: bare(cst.BitInvert),
    ast.UAdd: bare(cst.Plus),
    ast.USub: bare(cst.Minus),
    ast.Eq: bare(cst.Equal),
    ast.NotEq: _constructor(cst.NotEqual, "value")("!="),
    ast.Lt: bare(cst.LessThan),
    ast.LtE: bare(cst.LessThanEqual),
    ast.Gt: bare(cst.GreaterThan),
    ast.GtE: bare(cst.GreaterThanEqual),
    ast.Is: bare(cst.Is),
    ast.IsNot: bare(cst.IsNot),
    ast.In: bare(cst.In),
    ast.NotIn: bare(cst.NotIn),
}
ASSIGNMENTS: dict[type[ast.AST], cst.CSTNode] = {
    ast.Add: bare(cst.AddAssign),
    ast.Sub: bare(cst.SubtractAssign),
    ast.Mult: bare(cst.MultiplyAssign),
    ast.Div: bare(cst.DivideAssign),
    ast.FloorDiv: bare(cst.FloorDivideAssign),
    ast.Mod: bare(cst.ModuloAssign),
    ast.Pow: bare(cst.PowerAssign),
    ast.MatMult: bare(cst.MatrixMultiplyAssign),
    ast.LShift: bare(cst.LeftShiftAssign),
    ast.RShift: bare(cst.RightShiftAssign),
    ast.BitAnd: bare(cst.BitAndAssign),
    ast.BitOr: bare(cst.BitOrAssign),
    ast.BitXor: bare(cst.BitXorAssign),
}
ASYNCHRONOUS = bare(cst.Asynchronous)
DOT = bare(cst.Dot)
IMPORT_STAR = bare(cst.ImportStar)
SLASH = bare(cst.ParamSlash)
