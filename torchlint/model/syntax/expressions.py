"""Python's expressions -> libcst's, without white space."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import libcst as cst

from torchlint.model.syntax import nodes
from torchlint.model.syntax.ast_places import BLANKS, AstPlaces
from torchlint.model.syntax.formatted import formatted_string

#: One string literal, and nothing else.
_LITERAL = re.compile(
    r"""[A-Za-z]{0,2}(?:\"\"\"(?:[^\\"]|\\.|"(?!""))*\"\"\"|'''(?:[^\\']|\\.|'(?!''))*'''"""
    r"""|"(?!"")(?:[^\\"]|\\.)*"|""(?!")|'(?!'')(?:[^\\']|\\.)*'|''(?!'))""",
    re.DOTALL,
)


#: Where a literal is an f-string.
_FORMATTED = re.compile(r"[rR]?[fF]")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


class UnconvertibleError(Exception):
    """The text has syntax that is not converted: libcst has to parse it."""


class Expressions(AstPlaces):
    """The conversion of the expressions of one text."""

    def _or_none(self, node: ast.expr | None) -> cst.CSTNode | None:
        return None if node is None else self._expression(node)

    def _identifier(self, name: str) -> cst.Name:
        if not name.isascii():  # Python's tree has another form of some letters
            raise UnconvertibleError("identifier")
        return nodes.new_name(name)

    def _parameters(self, node: ast.arguments) -> cst.CSTNode:
        positional = [*node.posonlyargs, *node.args]
        lacking = len(positional) - len(node.defaults)
        params = tuple(
            [
                self._param(item, node.defaults[position - lacking] if position >= lacking else None)
                for position, item in enumerate(positional)
            ]
        )
        count = len(node.posonlyargs)
        named = tuple(
            [self._param(item, default) for item, default in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
        )
        star: object = cst.MaybeSentinel.DEFAULT
        if node.vararg is not None:
            star = self._param(node.vararg, None, "*")
        elif named:
            star = nodes.bare(cst.ParamStar)  # a new one: traversals visit it
        return nodes.new_parameters(
            params[count:],
            star,
            named,
            None if node.kwarg is None else self._param(node.kwarg, None, "**"),
            params[:count],
            nodes.SLASH if count else cst.MaybeSentinel.DEFAULT,
        )

    def _param(self, node: ast.arg, default: ast.expr | None, star: str = "") -> cst.Param:
        annotation = None if node.annotation is None else nodes.new_annotation(self._expression(node.annotation))
        return nodes.new_param(self._identifier(node.arg), annotation, self._or_none(default), star)

    def _expression(self, node: ast.expr) -> cst.CSTNode:
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            raise UnconvertibleError(type(node).__name__)
        found = handler(self, node)
        if self._spans is not None:
            self._note(found, node)
        return found

    def _on_name(self, node: ast.Name) -> cst.CSTNode:
        return nodes.new_name(node.id) if node.id.isascii() else self._identifier(node.id)

    def _on_attribute(self, node: ast.Attribute) -> cst.CSTNode:
        attribute = nodes.new_attribute(self._expression(node.value), self._identifier(node.attr))
        if self._spans is not None:
            self._note_last(attribute.attr, node)
        return attribute

    def _on_call(self, node: ast.Call) -> cst.CSTNode:
        function = self._expression(node.func)
        if not node.keywords and self._spans is None:
            arguments = []
            for item in node.args:
                if type(item) is ast.Starred:
                    arguments.append(nodes.new_arg(self._expression(item.value), None, "*"))
                else:
                    arguments.append(nodes.new_arg(self._expression(item), None, ""))
            return nodes.new_call(function, tuple(arguments))
        made = self._arguments(node.args, node.keywords)
        if self._spans is not None:
            self._note_arguments(made, node)
        return nodes.new_call(function, made)

    def _arguments(self, positional: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> tuple[cst.Arg, ...]:
        items: Iterable[Any] = [*positional, *keywords]
        if any(type(item) is ast.Starred for item in positional):
            items = sorted(items, key=lambda item: (item.lineno, item.col_offset))
        found = []
        for item in items:
            if type(item) is ast.keyword:
                if item.arg is None:
                    found.append(nodes.new_arg(self._expression(item.value), None, "**"))
                else:
                    found.append(nodes.new_arg(self._expression(item.value), self._identifier(item.arg), ""))
            elif type(item) is ast.Starred:
                found.append(nodes.new_arg(self._expression(item.value), None, "*"))
            else:
                found.append(nodes.new_arg(self._expression(item), None, ""))
        return tuple(found)

    def _on_constant(self, node: ast.Constant) -> cst.CSTNode:
        value = node.value
        kind = type(value)
        if kind is str or kind is bytes:
            return self._string(node)
        if value is None or kind is bool:
            return nodes.new_name(str(value))
        if kind is int:
            return nodes.new_integer(self._code(node))
        if kind is float:
            return nodes.new_float(self._code(node))
        if kind is complex:
            return nodes.new_imaginary(self._code(node))
        return nodes.bare(cst.Ellipsis)

    def _string(self, node: ast.expr) -> cst.CSTNode:
        """A string, which may consist of several literals."""
        code = self._code(node)
        if _LITERAL.fullmatch(code):
            return nodes.new_string(code)
        parts = _literals(code)
        if parts is None:
            raise UnconvertibleError(code)
        return _concatenated([nodes.new_string(part) for part in parts])

    def _on_formatted(self, node: ast.JoinedStr) -> cst.CSTNode:
        code = self._code(node)
        parts = [
            formatted_string(part, self._replaced) if _FORMATTED.match(part) else nodes.new_string(part)
            for part in _literals(code) or ()
        ]
        if not parts or None in parts:
            return self._parsed(code)
        return _concatenated([part for part in parts if part is not None])

    def _replaced(self, code: str) -> cst.CSTNode:
        """The node of a replacement field of an f-string. Raises SyntaxError."""
        if _NAME.fullmatch(code):
            return self._dotted(code)
        try:
            return type(self)(code, None)._expression(ast.parse(code, mode="eval").body)
        except UnconvertibleError as error:
            raise SyntaxError(str(error)) from None

    def _dotted(self, name: str) -> cst.CSTNode:
        """The node of a dotted name."""
        first, *others = name.split(".")
        found: cst.CSTNode = self._identifier(first)
        for other in others:
            found = nodes.new_attribute(found, self._identifier(other))
        return found

    def _parsed(self, code: str) -> cst.CSTNode:
        """What libcst makes of an expression: of strings in parts, whose places Python's tree does not tell."""
        try:
            return cst.parse_expression(code if code.isprintable() else f"({code})")
        except cst.ParserSyntaxError:
            raise UnconvertibleError(code) from None

    def _elements(self, items: Sequence[ast.expr]) -> tuple[cst.CSTNode, ...]:
        found: list[cst.CSTNode] = []
        for item in items:
            if type(item) is ast.Starred:
                element = nodes.new_starred_element(self._expression(item.value))
                if self._spans is not None:
                    self._note(element, item)
                found.append(element)
            else:
                found.append(nodes.new_element(self._expression(item)))
        return tuple(found)

    def _on_tuple(self, node: ast.Tuple) -> cst.CSTNode:
        return nodes.new_tuple(self._elements(node.elts))

    def _on_list(self, node: ast.List) -> cst.CSTNode:
        return nodes.new_list(self._elements(node.elts))

    def _on_set(self, node: ast.Set) -> cst.CSTNode:
        return nodes.new_set(self._elements(node.elts))

    def _on_dict(self, node: ast.Dict) -> cst.CSTNode:
        elements = [
            nodes.new_starred_dict_element(self._expression(value))
            if key is None
            else nodes.new_dict_element(self._expression(key), self._expression(value))
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return nodes.new_dict(tuple(elements))

    def _on_subscript(self, node: ast.Subscript) -> cst.CSTNode:
        value = self._expression(node.value)
        inner = node.slice
        if type(inner) is ast.Tuple and inner.elts and not self._in_parentheses(inner):
            return nodes.new_subscript(value, tuple([self._subscript_element(item) for item in inner.elts]))
        return nodes.new_subscript(value, (self._subscript_element(inner),))

    def _subscript_element(self, node: ast.expr) -> cst.CSTNode:
        if type(node) is ast.Slice:
            part: cst.CSTNode = nodes.new_slice(
                self._or_none(node.lower), self._or_none(node.upper), self._or_none(node.step)
            )
        elif type(node) is ast.Starred:
            part = nodes.new_index(self._expression(node.value), "*")
        else:
            part = nodes.new_index(self._expression(node), None)
        element = nodes.new_subscript_element(part)
        if self._spans is not None and self._text.startswith(("]", ","), self._skip(self._end(node))):  # no parentheses
            self._spans[id(part)] = self._spans[id(element)] = (self._start(node), self._end(node))
        return element

    def _on_binary(self, node: ast.BinOp) -> cst.CSTNode:
        return nodes.new_binary(
            self._expression(node.left), nodes.OPERATORS[type(node.op)], self._expression(node.right)
        )

    def _on_boolean(self, node: ast.BoolOp) -> cst.CSTNode:
        operator = nodes.OPERATORS[type(node.op)]
        first, *others = node.values
        found = self._expression(first)
        for other in others:
            found = nodes.new_boolean(found, operator, self._expression(other))
        return found

    def _on_unary(self, node: ast.UnaryOp) -> cst.CSTNode:
        return nodes.new_unary(nodes.OPERATORS[type(node.op)], self._expression(node.operand))

    def _on_comparison(self, node: ast.Compare) -> cst.CSTNode:
        left = self._expression(node.left)
        targets = [
            nodes.new_comparison_target(nodes.OPERATORS[type(operator)], self._expression(other))
            for operator, other in zip(node.ops, node.comparators, strict=True)
        ]
        return nodes.new_comparison(left, tuple(targets))

    def _on_if_exp(self, node: ast.IfExp) -> cst.CSTNode:
        return nodes.new_if_exp(self._expression(node.test), self._expression(node.body), self._expression(node.orelse))

    def _on_lambda(self, node: ast.Lambda) -> cst.CSTNode:
        return nodes.new_lambda(self._parameters(node.args), self._expression(node.body))

    def _on_list_comp(self, node: ast.ListComp) -> cst.CSTNode:
        return nodes.new_list_comp(self._expression(node.elt), self._generators(node.generators))

    def _on_set_comp(self, node: ast.SetComp) -> cst.CSTNode:
        return nodes.new_set_comp(self._expression(node.elt), self._generators(node.generators))

    def _on_generator(self, node: ast.GeneratorExp) -> cst.CSTNode:
        return nodes.new_generator(self._expression(node.elt), self._generators(node.generators))

    def _on_dict_comp(self, node: ast.DictComp) -> cst.CSTNode:
        return nodes.new_dict_comp(
            self._expression(node.key), self._expression(node.value), self._generators(node.generators)
        )

    def _generators(self, generators: Sequence[ast.comprehension]) -> cst.CSTNode | None:
        found: cst.CSTNode | None = None
        for item in reversed(generators):
            found = nodes.new_comp_for(
                self._expression(item.target),
                self._expression(item.iter),
                tuple([nodes.new_comp_if(self._expression(test)) for test in item.ifs]),
                found,
                nodes.ASYNCHRONOUS if item.is_async else None,
            )
        return found

    def _on_named(self, node: ast.NamedExpr) -> cst.CSTNode:
        return nodes.new_named(self._expression(node.target), self._expression(node.value))

    def _on_await(self, node: ast.Await) -> cst.CSTNode:
        return nodes.new_await(self._expression(node.value))

    def _on_yield(self, node: ast.Yield) -> cst.CSTNode:
        return nodes.new_yield(self._or_none(node.value))

    def _on_yield_from(self, node: ast.YieldFrom) -> cst.CSTNode:
        return nodes.new_yield(nodes.new_from(self._expression(node.value)))


def _literals(code: str) -> list[str] | None:
    """The literals that a string consists of; None if they cannot be distinguished."""
    parts, offset = [], 0
    while offset < len(code):
        match = _LITERAL.match(code, offset)
        if match is None:
            return None
        parts.append(match.group())
        blanks = BLANKS.match(code, match.end())
        offset = blanks.end() if blanks else match.end()
    return parts


def _concatenated(parts: Sequence[cst.CSTNode]) -> cst.CSTNode:
    """A string of some literals."""
    *others, found = parts
    for part in reversed(others):
        found = nodes.new_concatenated(part, found)
    return found


_EXPRESSIONS: dict[type[ast.AST], Callable[[Expressions, Any], cst.CSTNode]] = {
    ast.Name: Expressions._on_name,
    ast.Attribute: Expressions._on_attribute,
    ast.Call: Expressions._on_call,
    ast.Constant: Expressions._on_constant,
    ast.JoinedStr: Expressions._on_formatted,
    ast.Tuple: Expressions._on_tuple,
    ast.List: Expressions._on_list,
    ast.Set: Expressions._on_set,
    ast.Dict: Expressions._on_dict,
    ast.Subscript: Expressions._on_subscript,
    ast.BinOp: Expressions._on_binary,
    ast.BoolOp: Expressions._on_boolean,
    ast.UnaryOp: Expressions._on_unary,
    ast.Compare: Expressions._on_comparison,
    ast.IfExp: Expressions._on_if_exp,
    ast.Lambda: Expressions._on_lambda,
    ast.ListComp: Expressions._on_list_comp,
    ast.SetComp: Expressions._on_set_comp,
    ast.GeneratorExp: Expressions._on_generator,
    ast.DictComp: Expressions._on_dict_comp,
    ast.NamedExpr: Expressions._on_named,
    ast.Await: Expressions._on_await,
    ast.Yield: Expressions._on_yield,
    ast.YieldFrom: Expressions._on_yield_from,
}
