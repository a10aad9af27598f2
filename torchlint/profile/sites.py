"""Which statement of a function an event belongs to, where a trace has no line of the call: by names and order."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence

from torchlint.profile.code import Frame

Sites = dict[str, frozenset[int]]

#: `<built-in method item of Tensor object>`, `<built-in function print>`
_BUILT_IN = re.compile(r"<built-in (?:method|function) (\w+)")
_PYTHON = re.compile(r".*\(\d+\): (.+)")
#: An event of a module that is called, and its name among the names of a function.
_NETWORK = "nn.Module"
#: Functions that only call another one, which is what the code names.
_WRAPPERS = frozenset({"wrapper", "inner", "_fn", "decorate_context", "wrapped", "decorated", "fn"})

#: What the names of operators begin with. Only those that Python's own notation runs are not in the event of a call.
_ATEN = "aten::"
_OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub", "rsub"),
    ast.Mult: ("mul",),
    ast.Div: ("div",),
    ast.FloorDiv: ("floor_divide",),
    ast.Mod: ("remainder",),
    ast.Pow: ("pow",),
    ast.MatMult: ("matmul",),
    ast.BitAnd: ("bitwise_and", "__and__"),
    ast.BitOr: ("bitwise_or", "__or__"),
    ast.Lt: ("lt",),
    ast.LtE: ("le",),
    ast.Gt: ("gt",),
    ast.GtE: ("ge",),
    ast.Eq: ("eq",),
    ast.NotEq: ("ne",),
    ast.USub: ("neg",),
    ast.Invert: ("bitwise_not",),
}
_READS = ("item", "is_nonzero", "_local_scalar_dense")
_ITEMS = ("select", "slice", "index", "unsqueeze", "copy", "index_put", "fill", *_READS)
#: Types that read a tensor which they are called with.
_READERS = frozenset({"float", "int", "bool", "complex", "range", "slice"})


def sites_of(frame: Frame) -> Sites:
    """By name of what may run there, the statements of a function by their first rows."""
    found: dict[str, set[int]] = {}
    local = _defined(frame.file.tree)
    for statement in _statements(getattr(frame.node, "body", ())):
        for node in _own_nodes(statement):
            for name in _names(node, local):
                found.setdefault(name, set()).add(statement.lineno)
    return {name: frozenset(rows) for name, rows in found.items()}


def name_of(event: str, inner: Sequence[str]) -> str:
    """What the code calls that an event is named after; ``inner`` are the calls in it, outermost first."""
    if event.startswith(_ATEN):
        return event.rstrip("_")
    if event.startswith("nn.Module: "):
        return _NETWORK
    match = _BUILT_IN.match(event) or _PYTHON.fullmatch(event)
    name = match[1].rpartition(".")[2] if match else event
    if name in _WRAPPERS:
        return next((found for found in map(_plain, inner) if found not in _WRAPPERS and found[0] != "_"), name)
    return name


def rows_of_calls(sites: Sites, calls: Sequence[tuple[str, int]]) -> list[int]:
    """The row of each call in one run of a function, 0 where it is not certain.

    ``calls`` have the name of what is called and the row, where that is known, in the order in which they run. A name
    is certain that only one statement has, or only one between the statements that are known to run before and after.
    """
    rows = [row or _only(sites.get(name, frozenset())) for name, row in calls]
    after = [0] * len(rows)
    known = 0
    for index in range(len(rows) - 1, -1, -1):
        after[index] = known
        known = rows[index] or known
    before = 0
    for index, (name, _) in enumerate(calls):
        if not rows[index] and name in sites:
            rows[index] = _only({row for row in sites[name] if _is_between(row, before, after[index])})
        before = rows[index] or before
    return rows


def _only(rows: frozenset[int] | set[int]) -> int:
    return next(iter(rows)) if len(rows) == 1 else 0


def _is_between(row: int, before: int, after: int) -> bool:
    """Whether a statement may run after one and before another; if the other one is above, a loop begins again."""
    if after and after < before:
        return row >= before or row <= after
    return row >= before and (not after or row <= after)


def _plain(event: str) -> str:
    match = _BUILT_IN.match(event) or _PYTHON.fullmatch(event)
    return match[1].rpartition(".")[2] if match else event


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function, without those of functions and classes in it."""
    waiting = list(body)
    while waiting:
        statement = waiting.pop()
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for _, value in ast.iter_fields(statement):
                for part in value if isinstance(value, list) else ():
                    if isinstance(part, ast.stmt):
                        waiting.append(part)
                    elif isinstance(part, ast.ExceptHandler | ast.match_case):
                        waiting += part.body


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without other statements and lambdas in it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.Lambda)]


def _defined(tree: ast.Module) -> frozenset[str]:
    """The names of functions, classes and imports of a file, and of what Python has: none of them is a network."""
    found = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return frozenset(found)


def _names(node: ast.AST, defined: frozenset[str]) -> Iterator[str]:
    """What may run for a node."""
    operators: tuple[str, ...] = ()
    if isinstance(node, ast.Call):
        yield from _called(node.func, defined)
        if isinstance(node.func, ast.Name) and node.func.id in _READERS:
            operators = _READS
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield from ("__iter__", "__next__")
        operators = ("unbind",)
    elif isinstance(node, ast.withitem):
        yield from ("__enter__", "__exit__")
    elif isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp | ast.BoolOp | ast.Not):
        operators = _READS
    elif isinstance(node, ast.Subscript):
        yield from ("__getitem__", "__setitem__")
        operators = _ITEMS
    else:
        operators = _OPERATORS.get(type(node), ())
    yield from (_ATEN + name for name in operators)


def _called(function: ast.expr, defined: frozenset[str]) -> Iterator[str]:
    """The names of the events of a call: of a function, of a class, or of a network in an attribute or a variable."""
    root = function
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    name = getattr(function, "id", "") or getattr(function, "attr", "")
    if name:
        yield name
    if name[:1].isupper():
        yield "__init__"
    known = name in defined if isinstance(function, ast.Name) else getattr(root, "id", "self") != "self"
    if not known:
        yield _NETWORK
