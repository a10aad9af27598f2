"""Python's own syntax tree of a text -> the tree that libcst would make of it, without white space and punctuation.

`libcst.parse_module` takes about ten times as long as `ast.parse`, and nearly all of what it adds is never asked for:
the white space around each token. The trees made here consist of libcst's node classes. They have the fields that carry
meaning; a field for white space, parentheses, commas or comments is unset, and reading it raises AttributeError.
"""

from __future__ import annotations

import ast
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import libcst as cst

_Node = TypeVar("_Node", bound=cst.CSTNode)

#: One string literal, and nothing else.
_LITERAL = re.compile(
    r"""[A-Za-z]{0,2}(?:\"\"\"(?:[^\\"]|\\.|"(?!""))*\"\"\"|'''(?:[^\\']|\\.|'(?!''))*'''"""
    r"""|"(?!"")(?:[^\\"]|\\.)*"|""(?!")|'(?!'')(?:[^\\']|\\.)*'|''(?!'))""",
    re.DOTALL,
)
#: What may stand between two tokens.
_BLANKS = re.compile(r"(?:[ \t\f]|\\?(?:\r\n|\r|\n)|#[^\r\n]*)*")
_ROW_END = re.compile(r"\r\n|\r|\n")


class UnconvertibleError(Exception):
    """The text has syntax that is not converted: libcst has to parse it."""


def converted(text: str, spans: dict[int, tuple[int, int]] | None = None) -> cst.Module:
    """The tree of a text that has no syntax error.

    With ``spans``, the offsets of each node that Python's tree has too are stored in it, by the `id` of the node.
    Raises UnconvertibleError, SyntaxError, ValueError and RecursionError.
    """
    tree = ast.parse(text)
    return _Conversion(text, spans).module(tree.body, 0, len(text))


def converted_pieces(text: str, tree: ast.Module, spans: Sequence[tuple[int, int]]) -> list[cst.Module | None]:
    """The trees of parts of a text: of the top-level statements within offsets; None if libcst has to parse one.

    ``tree`` is Python's tree of the text. Raises RecursionError.
    """
    conversion = _Conversion(text, None)
    starts = [conversion.first_offset(statement) for statement in tree.body]
    found: list[cst.Module | None] = []
    for start, end in spans:
        body = tree.body[bisect_left(starts, start) : bisect_left(starts, end)]
        try:
            found.append(conversion.module(body, start, end))
        except UnconvertibleError:
            found.append(None)
    return found


#: The fields that are set in nodes of each class, but for names and operators.
_FIELDS: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Module: ("body",),
    cst.FormattedString: ("parts",),
    cst.FormattedStringExpression: ("expression", "format_spec"),
}


def _hash_in_c() -> None:
    """Let nodes be hashed and compared by identity in C instead of Python.

    libcst's own methods do the same, with `id`. Nodes are the keys of most tables: it is a twelfth of a run.
    """
    for kind in vars(cst).values():
        if isinstance(kind, type) and issubclass(kind, cst.CSTNode):
            kind.__hash__ = object.__hash__  # type: ignore[method-assign]
            kind.__eq__ = object.__eq__  # type: ignore[method-assign]


_hash_in_c()


def pairs(tree: cst.Module, other: cst.Module) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The nodes that correspond to each other in two trees of one text, whoever made them.

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
            if isinstance(inner, cst.CSTNode):
                stack.append((inner, twin))
            elif isinstance(inner, (list, tuple)):
                stack.extend(zip(inner, twin, strict=True))


def _maker(kind: type[_Node], *fields: str) -> Callable[..., _Node]:
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

    def make(*values: object) -> _Node:
        node = new(kind)
        for setter, value in zip(setters, values, strict=True):
            setter(node, value)
        return node

    return make


_name = _maker(cst.Name, "value")
_attribute = _maker(cst.Attribute, "value", "attr")
_call = _maker(cst.Call, "func", "args")
_arg = _maker(cst.Arg, "value", "keyword", "star")
_line = _maker(cst.SimpleStatementLine, "body")
_suite = _maker(cst.SimpleStatementSuite, "body")
_block = _maker(cst.IndentedBlock, "body")
_expr = _maker(cst.Expr, "value")
_assign = _maker(cst.Assign, "targets", "value")
_assign_target = _maker(cst.AssignTarget, "target")
_aug_assign = _maker(cst.AugAssign, "target", "operator", "value")
_ann_assign = _maker(cst.AnnAssign, "target", "annotation", "value")
_annotation = _maker(cst.Annotation, "annotation")
_return = _maker(cst.Return, "value")
_raise = _maker(cst.Raise, "exc", "cause")
_from = _maker(cst.From, "item")
_assert = _maker(cst.Assert, "test", "msg")
_del = _maker(cst.Del, "target")
_import = _maker(cst.Import, "names")
_import_from = _maker(cst.ImportFrom, "module", "names", "relative")
_import_alias = _maker(cst.ImportAlias, "name", "asname")
_as_name = _maker(cst.AsName, "name")
_global = _maker(cst.Global, "names")
_nonlocal = _maker(cst.Nonlocal, "names")
_name_item = _maker(cst.NameItem, "name")
_if = _maker(cst.If, "test", "body", "orelse")
_else = _maker(cst.Else, "body")
_for = _maker(cst.For, "target", "iter", "body", "orelse", "asynchronous")
_while = _maker(cst.While, "test", "body", "orelse")
_with = _maker(cst.With, "items", "body", "asynchronous")
_with_item = _maker(cst.WithItem, "item", "asname")
_try = _maker(cst.Try, "body", "handlers", "orelse", "finalbody")
_handler = _maker(cst.ExceptHandler, "type", "name", "body")
_finally = _maker(cst.Finally, "body")
_function = _maker(
    cst.FunctionDef, "name", "params", "body", "decorators", "returns", "asynchronous", "type_parameters"
)
_class = _maker(cst.ClassDef, "name", "body", "bases", "keywords", "decorators", "type_parameters")
_decorator = _maker(cst.Decorator, "decorator")
_parameters = _maker(
    cst.Parameters, "params", "star_arg", "kwonly_params", "star_kwarg", "posonly_params", "posonly_ind"
)
_param = _maker(cst.Param, "name", "annotation", "default", "star")
_subscript = _maker(cst.Subscript, "value", "slice")
_subscript_element = _maker(cst.SubscriptElement, "slice")
_index = _maker(cst.Index, "value", "star")
_slice = _maker(cst.Slice, "lower", "upper", "step")
_binary = _maker(cst.BinaryOperation, "left", "operator", "right")
_boolean = _maker(cst.BooleanOperation, "left", "operator", "right")
_unary = _maker(cst.UnaryOperation, "operator", "expression")
_comparison = _maker(cst.Comparison, "left", "comparisons")
_comparison_target = _maker(cst.ComparisonTarget, "operator", "comparator")
_if_exp = _maker(cst.IfExp, "test", "body", "orelse")
_lambda = _maker(cst.Lambda, "params", "body")
_tuple = _maker(cst.Tuple, "elements")
_list = _maker(cst.List, "elements")
_set = _maker(cst.Set, "elements")
_element = _maker(cst.Element, "value")
_starred_element = _maker(cst.StarredElement, "value")
_dict = _maker(cst.Dict, "elements")
_dict_element = _maker(cst.DictElement, "key", "value")
_starred_dict_element = _maker(cst.StarredDictElement, "value")
_list_comp = _maker(cst.ListComp, "elt", "for_in")
_set_comp = _maker(cst.SetComp, "elt", "for_in")
_generator = _maker(cst.GeneratorExp, "elt", "for_in")
_dict_comp = _maker(cst.DictComp, "key", "value", "for_in")
_comp_for = _maker(cst.CompFor, "target", "iter", "ifs", "inner_for_in", "asynchronous")
_comp_if = _maker(cst.CompIf, "test")
_named = _maker(cst.NamedExpr, "target", "value")
_await = _maker(cst.Await, "expression")
_yield = _maker(cst.Yield, "value")
_string = _maker(cst.SimpleString, "value")
_concatenated = _maker(cst.ConcatenatedString, "left", "right")
_integer = _maker(cst.Integer, "value")
_float = _maker(cst.Float, "value")
_imaginary = _maker(cst.Imaginary, "value")


def _bare(kind: type[_Node]) -> _Node:
    """A node of a kind without fields that matter. One serves all: a tree may hold it at many places."""
    return object.__new__(kind)


_OPERATORS: dict[type[ast.AST], cst.CSTNode] = {
    ast.Add: _bare(cst.Add),
    ast.Sub: _bare(cst.Subtract),
    ast.Mult: _bare(cst.Multiply),
    ast.Div: _bare(cst.Divide),
    ast.FloorDiv: _bare(cst.FloorDivide),
    ast.Mod: _bare(cst.Modulo),
    ast.Pow: _bare(cst.Power),
    ast.MatMult: _bare(cst.MatrixMultiply),
    ast.LShift: _bare(cst.LeftShift),
    ast.RShift: _bare(cst.RightShift),
    ast.BitAnd: _bare(cst.BitAnd),
    ast.BitOr: _bare(cst.BitOr),
    ast.BitXor: _bare(cst.BitXor),
    ast.And: _bare(cst.And),
    ast.Or: _bare(cst.Or),
    ast.Not: _bare(cst.Not),
    ast.Invert: _bare(cst.BitInvert),
    ast.UAdd: _bare(cst.Plus),
    ast.USub: _bare(cst.Minus),
    ast.Eq: _bare(cst.Equal),
    ast.NotEq: _maker(cst.NotEqual, "value")("!="),
    ast.Lt: _bare(cst.LessThan),
    ast.LtE: _bare(cst.LessThanEqual),
    ast.Gt: _bare(cst.GreaterThan),
    ast.GtE: _bare(cst.GreaterThanEqual),
    ast.Is: _bare(cst.Is),
    ast.IsNot: _bare(cst.IsNot),
    ast.In: _bare(cst.In),
    ast.NotIn: _bare(cst.NotIn),
}
_ASSIGNMENTS: dict[type[ast.AST], cst.CSTNode] = {
    ast.Add: _bare(cst.AddAssign),
    ast.Sub: _bare(cst.SubtractAssign),
    ast.Mult: _bare(cst.MultiplyAssign),
    ast.Div: _bare(cst.DivideAssign),
    ast.FloorDiv: _bare(cst.FloorDivideAssign),
    ast.Mod: _bare(cst.ModuloAssign),
    ast.Pow: _bare(cst.PowerAssign),
    ast.MatMult: _bare(cst.MatrixMultiplyAssign),
    ast.LShift: _bare(cst.LeftShiftAssign),
    ast.RShift: _bare(cst.RightShiftAssign),
    ast.BitAnd: _bare(cst.BitAndAssign),
    ast.BitOr: _bare(cst.BitOrAssign),
    ast.BitXor: _bare(cst.BitXorAssign),
}
_ASYNCHRONOUS = _bare(cst.Asynchronous)
_DOT = _bare(cst.Dot)
_STAR = _bare(cst.ParamStar)
_IMPORT_STAR = _bare(cst.ImportStar)
_SLASH = _bare(cst.ParamSlash)


class _Conversion:
    """The conversion of one text."""

    def __init__(self, text: str, spans: dict[int, tuple[int, int]] | None) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in _ROW_END.finditer(text))]
        self._plain = text.isascii()
        self._spans = spans
        self._indent: str | None = None
        #: by row, which is not ASCII, the column of the character to which each byte belongs; for other rows empty
        self._columns: dict[int, Sequence[int]] = {}

    def first_offset(self, statement: ast.stmt) -> int:
        """Where the row of a top-level statement begins, or that of its first decorator."""
        decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
        return self._starts[min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1]

    def module(self, statements: Sequence[ast.stmt], start: int, end: int) -> cst.Module:
        """The tree of a part of the text that consists of these statements."""
        self._indent = None
        body = self._statements(statements)
        newline = _ROW_END.search(self._text, start, end)
        return cst.Module(
            body=body,
            default_indent="    " if self._indent is None else self._indent,
            default_newline=newline.group() if newline else "\n",
        )

    # -- the text

    def _offset(self, row: int, column: int) -> int:
        """The offset of a place as Python's tree gives it: row from 1, column in bytes of UTF-8."""
        start = self._starts[row - 1]
        if self._plain or not column:
            return start + column
        columns = self._columns.get(row)
        if columns is None:
            line = self._text[start : self._starts[row] if row < len(self._starts) else len(self._text)]
            columns = self._columns[row] = () if line.isascii() else _columns(line)
        return start + (columns[column] if columns else column)

    def _start(self, node: Any) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: Any) -> int:
        return self._offset(node.end_lineno, node.end_col_offset)

    def _code(self, node: Any) -> str:
        return self._text[self._start(node) : self._end(node)]

    def _skip(self, offset: int) -> int:
        """Where the next token at an offset or behind it begins."""
        match = _BLANKS.match(self._text, offset)
        return match.end() if match else offset

    # -- statements

    def _statements(self, statements: Sequence[ast.stmt]) -> tuple[Any, ...]:
        """Statements of one block: the small ones of a row are one line."""
        found: list[cst.CSTNode] = []
        row: list[cst.CSTNode] = []
        previous: ast.stmt | None = None
        handlers = _STATEMENTS
        for statement in statements:
            handler = handlers.get(type(statement))
            if handler is None:
                raise UnconvertibleError(type(statement).__name__)
            node = handler(self, statement)
            if self._spans is not None:
                self._note(node, statement)
            is_compound = type(statement) in _COMPOUND
            if previous is not None and (is_compound or not self._same_row(previous, statement)):
                found.append(_line(tuple(row)))
                row = []
            if is_compound:
                found.append(node)
                previous = None
            else:
                row.append(node)
                previous = statement
        if row:
            found.append(_line(tuple(row)))
        return tuple(found)

    def _same_row(self, before: ast.stmt, statement: ast.stmt) -> bool:
        """Whether two small statements are parted by a semicolon only."""
        if statement.lineno == before.end_lineno:
            return True
        between = self._text[self._end(before) : self._start(statement)]
        return "\\" in between and not _ROW_END.search(re.sub(r"\\(?:\r\n|\r|\n)", "", between))

    def _is_continued(self, row: int) -> bool:
        """Whether a row belongs to the one before it, which ends with a backslash."""
        if row == 1:
            return False
        return self._text[self._starts[row - 2] : self._starts[row - 1]].rstrip("\r\n").endswith("\\")

    def _body(self, statements: Sequence[ast.stmt]) -> cst.CSTNode:
        """The body of a compound statement."""
        first = statements[0]
        if type(first) not in _COMPOUND:
            start = self._start(first)
            begin = self._starts[first.lineno - 1]
            indent = self._text[begin:start]
            if indent.strip() or self._is_continued(first.lineno):
                inner = self._statements(statements)
                if len(inner) != 1:
                    raise UnconvertibleError("body")
                assert isinstance(inner[0], cst.SimpleStatementLine)
                return _suite(inner[0].body)
        else:
            indent = None
        if self._indent is None:
            if indent is None:
                row = min([first.lineno, *(item.lineno for item in getattr(first, "decorator_list", ()))])
                found = re.compile(r"[ \t\f]*").match(self._text, self._starts[row - 1])
                indent = found.group() if found else ""
            self._indent = indent
        return _block(self._statements(statements))

    def _note(self, node: object, source: Any) -> None:
        """Store where a node is. libcst leaves out the parentheses of tuples and generators, Python includes them."""
        assert self._spans is not None
        start, end = self._start(source), self._end(source)
        if type(source) is ast.GeneratorExp:
            comprehension = source.generators[-1]
            last = comprehension.ifs[-1] if comprehension.ifs else comprehension.iter
            start, end = self._inner(start, end, last)
        elif type(source) is ast.Tuple and (not source.elts or self._in_parentheses(source)):
            if not source.elts:
                return
            start, end = self._inner(start, end, source.elts[-1])
        self._spans[id(node)] = (start, end)

    def _inner(self, start: int, end: int, last: ast.expr) -> tuple[int, int]:
        """The offsets of what is in the parentheses from `start` to `end`, which ends with a node."""
        behind = self._end(last)
        offset = self._skip(behind)
        while offset < end - 1:  # closing parentheses, and a comma
            behind = offset + 1
            offset = self._skip(behind)
        return self._skip(start + 1), behind

    def _or_none(self, node: ast.expr | None) -> cst.CSTNode | None:
        return None if node is None else self._expression(node)

    def _on_expr(self, node: ast.Expr) -> cst.CSTNode:
        return _expr(self._expression(node.value))

    def _on_assign(self, node: ast.Assign) -> cst.CSTNode:
        targets = [_assign_target(self._expression(target)) for target in node.targets]
        return _assign(tuple(targets), self._expression(node.value))

    def _on_aug_assign(self, node: ast.AugAssign) -> cst.CSTNode:
        return _aug_assign(self._expression(node.target), _ASSIGNMENTS[type(node.op)], self._expression(node.value))

    def _on_ann_assign(self, node: ast.AnnAssign) -> cst.CSTNode:
        target = self._expression(node.target)
        return _ann_assign(target, _annotation(self._expression(node.annotation)), self._or_none(node.value))

    def _on_return(self, node: ast.Return) -> cst.CSTNode:
        return _return(self._or_none(node.value))

    def _on_raise(self, node: ast.Raise) -> cst.CSTNode:
        cause = None if node.cause is None else _from(self._expression(node.cause))
        return _raise(self._or_none(node.exc), cause)

    def _on_assert(self, node: ast.Assert) -> cst.CSTNode:
        return _assert(self._expression(node.test), self._or_none(node.msg))

    def _on_del(self, node: ast.Delete) -> cst.CSTNode:
        if len(node.targets) == 1:
            if self._text.startswith(",", self._skip(self._end(node.targets[0]))):
                raise UnconvertibleError("del x,")
            return _del(self._expression(node.targets[0]))
        return _del(_tuple(self._elements(node.targets)))

    def _on_import(self, node: ast.Import) -> cst.CSTNode:
        return _import(tuple([self._alias(alias) for alias in node.names]))

    def _on_import_from(self, node: ast.ImportFrom) -> cst.CSTNode:
        module = None if node.module is None else self._dotted(node.module)
        if node.names[0].name == "*":
            names: object = _IMPORT_STAR
        else:
            names = tuple([self._alias(alias) for alias in node.names])
        return _import_from(module, names, (_DOT,) * node.level)

    def _alias(self, node: ast.alias) -> cst.CSTNode:
        name = self._dotted(node.name)
        return _import_alias(name, None if node.asname is None else _as_name(self._identifier(node.asname)))

    def _dotted(self, name: str) -> cst.CSTNode:
        first, *others = name.split(".")
        found: cst.CSTNode = self._identifier(first)
        for other in others:
            found = _attribute(found, self._identifier(other))
        return found

    def _identifier(self, name: str) -> cst.Name:
        if not name.isascii():  # Python's tree has another form of some letters
            raise UnconvertibleError("identifier")
        return _name(name)

    def _on_global(self, node: ast.Global) -> cst.CSTNode:
        return _global(tuple([_name_item(self._identifier(name)) for name in node.names]))

    def _on_nonlocal(self, node: ast.Nonlocal) -> cst.CSTNode:
        return _nonlocal(tuple([_name_item(self._identifier(name)) for name in node.names]))

    def _on_pass(self, node: ast.Pass) -> cst.CSTNode:
        return _bare(cst.Pass)

    def _on_break(self, node: ast.Break) -> cst.CSTNode:
        return _bare(cst.Break)

    def _on_continue(self, node: ast.Continue) -> cst.CSTNode:
        return _bare(cst.Continue)

    def _on_if(self, node: ast.If) -> cst.CSTNode:
        test = self._expression(node.test)
        body = self._body(node.body)
        orelse: cst.CSTNode | None = None
        if node.orelse:
            first = node.orelse[0]
            if len(node.orelse) == 1 and type(first) is ast.If and self._text.startswith("elif", self._start(first)):
                orelse = self._on_if(first)
                if self._spans is not None:
                    self._note(orelse, first)
            else:
                orelse = _else(self._body(node.orelse))
        return _if(test, body, orelse)

    def _else(self, statements: Sequence[ast.stmt]) -> cst.CSTNode | None:
        return _else(self._body(statements)) if statements else None

    def _on_for(self, node: ast.For | ast.AsyncFor) -> cst.CSTNode:
        asynchronous = _ASYNCHRONOUS if type(node) is ast.AsyncFor else None
        target, iterated = self._expression(node.target), self._expression(node.iter)
        return _for(target, iterated, self._body(node.body), self._else(node.orelse), asynchronous)

    def _on_while(self, node: ast.While) -> cst.CSTNode:
        return _while(self._expression(node.test), self._body(node.body), self._else(node.orelse))

    def _on_with(self, node: ast.With | ast.AsyncWith) -> cst.CSTNode:
        asynchronous = _ASYNCHRONOUS if type(node) is ast.AsyncWith else None
        items = [
            _with_item(
                self._expression(item.context_expr),
                None if item.optional_vars is None else _as_name(self._expression(item.optional_vars)),
            )
            for item in node.items
        ]
        return _with(tuple(items), self._body(node.body), asynchronous)

    def _on_try(self, node: ast.Try) -> cst.CSTNode:
        body = self._body(node.body)
        handlers = [
            _handler(
                self._or_none(item.type),
                None if item.name is None else _as_name(self._identifier(item.name)),
                self._body(item.body),
            )
            for item in node.handlers
        ]
        orelse = self._else(node.orelse)
        return _try(body, tuple(handlers), orelse, _finally(self._body(node.finalbody)) if node.finalbody else None)

    def _on_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> cst.CSTNode:
        if getattr(node, "type_params", None):
            raise UnconvertibleError("type parameters")
        decorators = [_decorator(self._expression(item)) for item in node.decorator_list]
        params = self._parameters(node.args)
        returns = None if node.returns is None else _annotation(self._expression(node.returns))
        asynchronous = _ASYNCHRONOUS if type(node) is ast.AsyncFunctionDef else None
        name = self._identifier(node.name)
        return _function(name, params, self._body(node.body), tuple(decorators), returns, asynchronous, None)

    def _on_class(self, node: ast.ClassDef) -> cst.CSTNode:
        if getattr(node, "type_params", None):
            raise UnconvertibleError("type parameters")
        decorators = [_decorator(self._expression(item)) for item in node.decorator_list]
        arguments = self._arguments(node.bases, node.keywords)
        named = [position for position, item in enumerate(arguments) if item.keyword is not None or item.star == "**"]
        parted = named[0] if named else len(arguments)
        name = self._identifier(node.name)
        return _class(name, self._body(node.body), arguments[:parted], arguments[parted:], tuple(decorators), None)

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
            star = _STAR
        return _parameters(
            params[count:],
            star,
            named,
            None if node.kwarg is None else self._param(node.kwarg, None, "**"),
            params[:count],
            _SLASH if count else cst.MaybeSentinel.DEFAULT,
        )

    def _param(self, node: ast.arg, default: ast.expr | None, star: str = "") -> cst.Param:
        annotation = None if node.annotation is None else _annotation(self._expression(node.annotation))
        return _param(self._identifier(node.arg), annotation, self._or_none(default), star)

    # -- expressions

    def _expression(self, node: ast.expr) -> cst.CSTNode:
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            raise UnconvertibleError(type(node).__name__)
        found = handler(self, node)
        if self._spans is not None:
            self._note(found, node)
        return found

    def _on_name(self, node: ast.Name) -> cst.CSTNode:
        return _name(node.id) if node.id.isascii() else self._identifier(node.id)

    def _on_attribute(self, node: ast.Attribute) -> cst.CSTNode:
        return _attribute(self._expression(node.value), self._identifier(node.attr))

    def _on_call(self, node: ast.Call) -> cst.CSTNode:
        function = self._expression(node.func)
        if not node.keywords:
            arguments = []
            for item in node.args:
                if type(item) is ast.Starred:
                    arguments.append(_arg(self._expression(item.value), None, "*"))
                else:
                    arguments.append(_arg(self._expression(item), None, ""))
            return _call(function, tuple(arguments))
        return _call(function, self._arguments(node.args, node.keywords))

    def _arguments(self, positional: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> tuple[cst.Arg, ...]:
        items: Iterable[Any] = [*positional, *keywords]
        if any(type(item) is ast.Starred for item in positional):
            items = sorted(items, key=lambda item: (item.lineno, item.col_offset))
        found = []
        for item in items:
            if type(item) is ast.keyword:
                if item.arg is None:
                    found.append(_arg(self._expression(item.value), None, "**"))
                else:
                    found.append(_arg(self._expression(item.value), self._identifier(item.arg), ""))
            elif type(item) is ast.Starred:
                found.append(_arg(self._expression(item.value), None, "*"))
            else:
                found.append(_arg(self._expression(item), None, ""))
        return tuple(found)

    def _on_constant(self, node: ast.Constant) -> cst.CSTNode:
        value = node.value
        kind = type(value)
        if kind is str or kind is bytes:
            return self._string(node)
        if value is None or kind is bool:
            return _name(str(value))
        if kind is int:
            return _integer(self._code(node))
        if kind is float:
            return _float(self._code(node))
        if kind is complex:
            return _imaginary(self._code(node))
        return _bare(cst.Ellipsis)

    def _string(self, node: ast.expr) -> cst.CSTNode:
        """A string, which may consist of several literals."""
        code = self._code(node)
        if _LITERAL.fullmatch(code):
            return _string(code)
        parts, offset = [], 0
        while offset < len(code):
            match = _LITERAL.match(code, offset)
            if match is None:
                raise UnconvertibleError(code)
            parts.append(match.group())
            blanks = _BLANKS.match(code, match.end())
            offset = blanks.end() if blanks else match.end()
        found: cst.CSTNode = _string(parts[-1])
        for part in reversed(parts[:-1]):
            found = _concatenated(_string(part), found)
        return found

    def _on_formatted(self, node: ast.JoinedStr) -> cst.CSTNode:
        return self._parsed(self._code(node))

    def _parsed(self, code: str) -> cst.CSTNode:
        """What libcst makes of an expression: of strings in parts, whose places Python's tree does not tell."""
        try:
            return cst.parse_expression(code if code.isprintable() else f"({code})")
        except cst.ParserSyntaxError:
            raise UnconvertibleError(code) from None

    def _elements(self, nodes: Sequence[ast.expr]) -> tuple[cst.CSTNode, ...]:
        found: list[cst.CSTNode] = []
        for item in nodes:
            if type(item) is ast.Starred:
                element = _starred_element(self._expression(item.value))
                if self._spans is not None:
                    self._note(element, item)
                found.append(element)
            else:
                found.append(_element(self._expression(item)))
        return tuple(found)

    def _on_tuple(self, node: ast.Tuple) -> cst.CSTNode:
        return _tuple(self._elements(node.elts))

    def _on_list(self, node: ast.List) -> cst.CSTNode:
        return _list(self._elements(node.elts))

    def _on_set(self, node: ast.Set) -> cst.CSTNode:
        return _set(self._elements(node.elts))

    def _on_dict(self, node: ast.Dict) -> cst.CSTNode:
        elements = [
            _starred_dict_element(self._expression(value))
            if key is None
            else _dict_element(self._expression(key), self._expression(value))
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return _dict(tuple(elements))

    def _on_subscript(self, node: ast.Subscript) -> cst.CSTNode:
        value = self._expression(node.value)
        inner = node.slice
        if type(inner) is ast.Tuple and inner.elts and not self._in_parentheses(inner):
            return _subscript(value, tuple([self._subscript_element(item) for item in inner.elts]))
        return _subscript(value, (self._subscript_element(inner),))

    def _subscript_element(self, node: ast.expr) -> cst.CSTNode:
        if type(node) is ast.Slice:
            part: cst.CSTNode = _slice(self._or_none(node.lower), self._or_none(node.upper), self._or_none(node.step))
        elif type(node) is ast.Starred:
            part = _index(self._expression(node.value), "*")
        else:
            part = _index(self._expression(node), None)
        return _subscript_element(part)

    def _in_parentheses(self, node: ast.Tuple) -> bool:
        """Whether a tuple with elements has parentheses of its own."""
        first = node.elts[0]
        between = self._text[self._start(node) : self._start(first)]
        opened = re.sub(r"#[^\r\n]*", "", between).count("(")
        closed, offset = 0, self._skip(self._end(first))
        while closed < opened and self._text.startswith(")", offset):
            closed, offset = closed + 1, self._skip(offset + 1)
        return closed < opened

    def _on_binary(self, node: ast.BinOp) -> cst.CSTNode:
        return _binary(self._expression(node.left), _OPERATORS[type(node.op)], self._expression(node.right))

    def _on_boolean(self, node: ast.BoolOp) -> cst.CSTNode:
        operator = _OPERATORS[type(node.op)]
        first, *others = node.values
        found = self._expression(first)
        for other in others:
            found = _boolean(found, operator, self._expression(other))
        return found

    def _on_unary(self, node: ast.UnaryOp) -> cst.CSTNode:
        return _unary(_OPERATORS[type(node.op)], self._expression(node.operand))

    def _on_comparison(self, node: ast.Compare) -> cst.CSTNode:
        left = self._expression(node.left)
        targets = [
            _comparison_target(_OPERATORS[type(operator)], self._expression(other))
            for operator, other in zip(node.ops, node.comparators, strict=True)
        ]
        return _comparison(left, tuple(targets))

    def _on_if_exp(self, node: ast.IfExp) -> cst.CSTNode:
        return _if_exp(self._expression(node.test), self._expression(node.body), self._expression(node.orelse))

    def _on_lambda(self, node: ast.Lambda) -> cst.CSTNode:
        return _lambda(self._parameters(node.args), self._expression(node.body))

    def _on_list_comp(self, node: ast.ListComp) -> cst.CSTNode:
        return _list_comp(self._expression(node.elt), self._generators(node.generators))

    def _on_set_comp(self, node: ast.SetComp) -> cst.CSTNode:
        return _set_comp(self._expression(node.elt), self._generators(node.generators))

    def _on_generator(self, node: ast.GeneratorExp) -> cst.CSTNode:
        return _generator(self._expression(node.elt), self._generators(node.generators))

    def _on_dict_comp(self, node: ast.DictComp) -> cst.CSTNode:
        return _dict_comp(self._expression(node.key), self._expression(node.value), self._generators(node.generators))

    def _generators(self, generators: Sequence[ast.comprehension]) -> cst.CSTNode | None:
        found: cst.CSTNode | None = None
        for item in reversed(generators):
            found = _comp_for(
                self._expression(item.target),
                self._expression(item.iter),
                tuple([_comp_if(self._expression(test)) for test in item.ifs]),
                found,
                _ASYNCHRONOUS if item.is_async else None,
            )
        return found

    def _on_named(self, node: ast.NamedExpr) -> cst.CSTNode:
        return _named(self._expression(node.target), self._expression(node.value))

    def _on_await(self, node: ast.Await) -> cst.CSTNode:
        return _await(self._expression(node.value))

    def _on_yield(self, node: ast.Yield) -> cst.CSTNode:
        return _yield(self._or_none(node.value))

    def _on_yield_from(self, node: ast.YieldFrom) -> cst.CSTNode:
        return _yield(_from(self._expression(node.value)))


def _columns(line: str) -> Sequence[int]:
    """For each byte of a line in UTF-8, and for its end, the column of its character."""
    found = array("I")
    for column, character in enumerate(line):
        found.extend([column] * len(character.encode("utf-8", "surrogatepass")))
    found.append(len(line))
    return found


_COMPOUND = frozenset(
    {
        ast.If,
        ast.For,
        ast.AsyncFor,
        ast.While,
        ast.With,
        ast.AsyncWith,
        ast.Try,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
    }
)
_STATEMENTS: dict[type[ast.AST], Callable[[_Conversion, Any], cst.CSTNode]] = {
    ast.Expr: _Conversion._on_expr,
    ast.Assign: _Conversion._on_assign,
    ast.AugAssign: _Conversion._on_aug_assign,
    ast.AnnAssign: _Conversion._on_ann_assign,
    ast.Return: _Conversion._on_return,
    ast.Raise: _Conversion._on_raise,
    ast.Assert: _Conversion._on_assert,
    ast.Delete: _Conversion._on_del,
    ast.Import: _Conversion._on_import,
    ast.ImportFrom: _Conversion._on_import_from,
    ast.Global: _Conversion._on_global,
    ast.Nonlocal: _Conversion._on_nonlocal,
    ast.Pass: _Conversion._on_pass,
    ast.Break: _Conversion._on_break,
    ast.Continue: _Conversion._on_continue,
    ast.If: _Conversion._on_if,
    ast.For: _Conversion._on_for,
    ast.AsyncFor: _Conversion._on_for,
    ast.While: _Conversion._on_while,
    ast.With: _Conversion._on_with,
    ast.AsyncWith: _Conversion._on_with,
    ast.Try: _Conversion._on_try,
    ast.FunctionDef: _Conversion._on_function,
    ast.AsyncFunctionDef: _Conversion._on_function,
    ast.ClassDef: _Conversion._on_class,
}
_EXPRESSIONS: dict[type[ast.AST], Callable[[_Conversion, Any], cst.CSTNode]] = {
    ast.Name: _Conversion._on_name,
    ast.Attribute: _Conversion._on_attribute,
    ast.Call: _Conversion._on_call,
    ast.Constant: _Conversion._on_constant,
    ast.JoinedStr: _Conversion._on_formatted,
    ast.Tuple: _Conversion._on_tuple,
    ast.List: _Conversion._on_list,
    ast.Set: _Conversion._on_set,
    ast.Dict: _Conversion._on_dict,
    ast.Subscript: _Conversion._on_subscript,
    ast.BinOp: _Conversion._on_binary,
    ast.BoolOp: _Conversion._on_boolean,
    ast.UnaryOp: _Conversion._on_unary,
    ast.Compare: _Conversion._on_comparison,
    ast.IfExp: _Conversion._on_if_exp,
    ast.Lambda: _Conversion._on_lambda,
    ast.ListComp: _Conversion._on_list_comp,
    ast.SetComp: _Conversion._on_set_comp,
    ast.GeneratorExp: _Conversion._on_generator,
    ast.DictComp: _Conversion._on_dict_comp,
    ast.NamedExpr: _Conversion._on_named,
    ast.Await: _Conversion._on_await,
    ast.Yield: _Conversion._on_yield,
    ast.YieldFrom: _Conversion._on_yield_from,
}
