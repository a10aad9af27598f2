"""Whether the sketch of a file shows a loop that may write a tensor row by row; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import bare, called_name, dotted_name, root_of

from ._row_words import (
    CONVERTING,
    COUNTING_IN,
    FEW,
    FILLING,
    FORMS,
    ROWWISE,
    ROWWISE_METHODS,
    SCATTERING,
    SCATTERING_AT_ONCE,
    SIZES,
    VIEWS,
)

_JOINING = frozenset({"stack", "cat", "concat", "vstack", "hstack"})
#: What computes each row of its arguments by itself.
_COMPUTING = ROWWISE | ROWWISE_METHODS | CONVERTING
#: What a loop over numbers iterates over.
_COUNTING = frozenset({"range", "enumerate", "zip", "reversed"})


def may_write_rows(sketch: Sketch) -> bool:
    """Whether the body of a loop only assigns to items that the variables of the loop name, and does not read them."""
    loops = (node for node in sketch.containing("for ") if isinstance(node, (ast.For, ast.AsyncFor)))
    return any(_may_write_rows(sketch, loop) for loop in loops)


def _may_write_rows(sketch: Sketch, loop: ast.For | ast.AsyncFor) -> bool:
    function = sketch.function_of(loop)
    if loop.orelse or (not any(sketch.loops_around(loop)) if function is None else function.name == "__init__"):
        return False
    if not _may_be_long(loop.target, loop.iter) or _iterates_over_dictionary(loop.iter):
        return False
    bound = _names_in(loop.target) | {name for statement in loop.body if (name := _name_of(statement)) is not None}
    written = [*_written(loop.body)]
    if not written or not all(target is not None and _is_of_loop(target, bound) for target in written):
        return False
    if any(_runs_other(sketch, value) for value in _computed(loop.body)):
        return False
    if not _counts(sketch, loop.iter) and len(bound) < 2 and not any(map(_may_need_no_number, loop.body)):
        return False
    return _reads_only_items(loop.body, [target for target in written if target is not None])


def _names_in(node: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _may_be_long(target: ast.expr, over: ast.expr) -> bool:
    """Whether the names of a loop allow many iterations, and it iterates over no list that is written there."""
    given = over.args if isinstance(over, ast.Call) else []
    if any(isinstance(item, (ast.List, ast.Tuple)) for item in (over, *given)):
        return False
    called = {part.func for part in ast.walk(over) if isinstance(part, ast.Call)}
    names = [part for part in ast.walk(over) if isinstance(part, (ast.Name, ast.Attribute)) and part not in called]
    words = (part.id if isinstance(part, ast.Name) else part.attr for part in names)
    return not any(map(FEW.search, (*_names_in(target), *words)))


def _counts(sketch: Sketch, over: ast.expr) -> bool:
    return isinstance(over, ast.Call) and sketch.may_be(over.func, _COUNTING)


def _may_need_no_number(statement: ast.stmt) -> bool:
    """Whether a statement of a loop over other things than numbers may write a row: ``mask[row, :size] = 1``."""
    if isinstance(statement, ast.If):
        return any(map(_may_need_no_number, (*statement.body, *statement.orelse)))
    if not isinstance(statement, ast.Assign):
        return True
    return any(isinstance(part, ast.Slice) for part in ast.walk(statement.targets[0]))


def _computed(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """What the assignments of a body give, and the conditions around them."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield statement.test
            yield from _computed(statement.body)
            yield from _computed(statement.orelse)
        elif isinstance(statement, (ast.Assign, ast.AugAssign)):
            yield statement.value
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield from statement.value.args


def _iterates_over_dictionary(over: ast.expr) -> bool:
    """``weights.items()``."""
    return isinstance(over, ast.Call) and called_name(over) in ("items", "keys", "values")


def _reads_only_items(body: list[ast.stmt], written: list[ast.expr]) -> bool:
    """Whether a body reads of what it writes only the items that it writes, and its size."""
    items = {ast.unparse(target) for target in written}
    bases = {_base_of(target) for target in written}
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Subscript) and _base_of(node) in bases and ast.unparse(node) in items:
            waiting.append(node.slice)
            continue
        if isinstance(node, ast.Attribute) and node.attr in FORMS:
            continue
        if isinstance(node, (ast.Name, ast.Attribute)) and dotted_name(node) in bases:
            if node in written:
                continue
            return False
        waiting.extend(ast.iter_child_nodes(node))
    return True


def _base_of(node: ast.expr) -> str | None:
    """``out`` of ``out[i][0]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return dotted_name(node)


def _written(body: list[ast.stmt]) -> Iterator[ast.expr | None]:
    """The items that a body writes, and whole tensors that it scatters to; names and conditions do not count.

    None if it does something else.
    """
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _written(statement.body)
            yield from _written(statement.orelse)
        elif isinstance(statement, ast.AugAssign) or (
            isinstance(statement, ast.Assign) and len(statement.targets) == 1
        ):
            target = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
            if isinstance(target, ast.Subscript):
                yield target
            elif not isinstance(target, ast.Name):
                yield None
        elif _scatters(statement):
            assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            func = statement.value.func
            yield func.value if isinstance(func, ast.Attribute) else None
        elif not isinstance(statement, (ast.Continue, ast.Pass)):
            yield None


def _is_of_loop(target: ast.expr, bound: Collection[str]) -> bool:
    """Whether a name that the loop binds is in an index of ``out[i]`` or ``out[i][0]``; always of a whole tensor."""
    node = target
    if not isinstance(node, ast.Subscript):
        return True
    while isinstance(node, ast.Subscript):
        if any(isinstance(part, ast.Name) and part.id in bound for part in ast.walk(node.slice)):
            return True
        node = node.value
    return False


def _name_of(statement: ast.stmt) -> str | None:
    """``end`` of ``end = start + size``."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else None


def _scatters(statement: ast.stmt) -> bool:
    """``target[i].index_add_(0, index[i], source[i])``, ``mask[i, :length].fill_(1)``, ``mask.scatter_(1, j, 1)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if isinstance(call.func.value, ast.Subscript):
        return call.func.attr in SCATTERING | FILLING
    return call.func.attr in SCATTERING_AT_ONCE and isinstance(call.func.value, (ast.Name, ast.Attribute))


def may_join_rows(sketch: Sketch) -> bool:
    """Whether ``stack`` or ``cat`` may join a list of rows, made by a comprehension or by a loop that only appends."""
    for statement in sketch.containing("stack(", "cat("):
        function = sketch.function_of(statement)
        if not any(sketch.loops_around(statement)) if function is None else function.name == "__init__":
            continue
        for call in sketch.calls(statement):
            if called_name(call) not in _JOINING or not call.args:
                continue
            given = call.args[0]
            if isinstance(given, (ast.ListComp, ast.GeneratorExp)):
                is_plain = len(given.generators) == 1 and not given.generators[0].ifs
                if is_plain and _may_be_rows(sketch, given.generators[0]):
                    rows = [given.elt, *_lambdas(sketch, given.elt)]
                    if any(_computes(row) and not _runs_other(sketch, row) for row in rows):
                        return True
            elif isinstance(given, ast.Name) and _may_append_rows(sketch, given.id, statement):
                return True
    return False


def _lambdas(sketch: Sketch, row: ast.expr) -> Iterator[ast.expr]:
    """What a call may compute of a lambda: ``get(i)`` of ``get = lambda i: x[i][places[i]]``."""
    name = row.func.id if isinstance(row, ast.Call) and isinstance(row.func, ast.Name) else None
    for value in sketch.values(name) if name is not None else ():
        if isinstance(value, ast.Lambda):
            yield value.body


def _may_append_rows(sketch: Sketch, name: str, at: ast.stmt) -> bool:
    """Whether a loop only appends to lists, one of which is ``name``, and names what it appends."""
    made = [item.value for item in sketch.bindings(name, at)]
    made += [part for item in made if isinstance(item, ast.Tuple) for part in item.elts]  # `a, b = [], []`
    if not any(isinstance(item, ast.List) and not item.elts for item in made):
        return False
    for statement in sketch.containing(f"{name}.append("):
        loop = next(iter(sketch.loops_around(statement)), None)
        if isinstance(loop, ast.For) and statement in loop.body and _may_be_rows(sketch, loop):
            if all(_appends(sketch, item) for item in loop.body):
                return True
    return False


def _may_be_rows(sketch: Sketch, loop: ast.For | ast.comprehension) -> bool:
    """Whether a loop may iterate over numbers or a tensor, many times."""
    over = bare(loop.iter, COUNTING_IN)
    may_count = not isinstance(over, ast.Call) or _counts(sketch, over) or called_name(over) == "arange"
    return may_count and _may_be_long(loop.target, loop.iter)


def _appends(sketch: Sketch, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        named = all(isinstance(target, ast.Name) for target in statement.targets)
        return named and not _runs_other(sketch, statement.value)
    call = statement.value if isinstance(statement, ast.Expr) else None
    is_append = isinstance(call, ast.Call) and called_name(call) == "append"
    return isinstance(call, ast.Call) and is_append and not any(_runs_other(sketch, item) for item in call.args)


def _runs_other(sketch: Sketch, node: ast.AST) -> bool:
    """Whether a node calls what does not compute each row by itself: a network, a function of the program."""
    for part in ast.walk(node):
        if not isinstance(part, ast.Call):
            continue
        if called_name(part) in ("keys", "values"):
            continue  # `labels[i] in self.names.keys()`
        if _is_own_method(part.func) or not sketch.may_be(part.func, _COMPUTING):
            return True
        packages = sketch.packages(part.func.id) if isinstance(part.func, ast.Name) else None
        if packages and "torch" not in packages:
            return True
    return False


def _is_own_method(func: ast.expr) -> bool:
    """``self.norm``, ``self.net.norm``; not ``self.weight.view``, which gives the same tensor."""
    is_view = isinstance(func, ast.Attribute) and func.attr in VIEWS and isinstance(func.value, ast.Attribute)
    return root_of(func) == "self" and not is_view


def _computes(row: ast.expr) -> bool:
    """Whether an expression is more than an attribute or a view."""
    return any(
        isinstance(part, (ast.BinOp, ast.Compare, ast.Subscript))
        or (isinstance(part, ast.Call) and called_name(part) not in VIEWS | SIZES)
        for part in ast.walk(row)
    )
