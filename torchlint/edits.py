"""The edits that rules share: arguments, imports, decorators, inserted lines, statements wrapped in a ``with``.

Every function gives the edits for one place, or None where the source does not allow the change without touching
more than it should. An edit covers no character that it does not change.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint.rule import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Argument

Edits = tuple[Edit, ...]


def replace(module: Module, node: cst.CSTNode, text: str) -> Edits:
    """Put ``text`` in the place of ``node`` (parentheses around it stay)."""
    start, end = module.span(node)
    return (Edit(start, end, text),)


def add_keyword(module: Module, call: cst.Call, name: str, value: str) -> Edits | None:
    """Pass ``name=value`` as the last argument of ``call``, in the style of the arguments already there."""
    import libcst as cst

    text = f"{name}={value}"
    close = module.span(call)[1] - 1
    if not call.args:
        return (Edit(close, close, text),)
    last = call.args[-1]
    if last.star == "**" or (isinstance(last.value, cst.GeneratorExp) and not last.value.lpar):
        return None
    end = _argument_end(module, last)
    tail = module.text[end:close]
    comma = isinstance(last.comma, cst.Comma)
    after = end + tail.index(",") + 1 if comma else end
    own_row = module.row_at(_argument_start(module, last)) != module.row_at(
        _argument_start(module, call.args[-2]) if len(call.args) > 1 else module.span(call)[0]
    )
    if not own_row or ("\n" not in tail and "\r" not in tail):
        return (Edit(after, after, f" {text}" if comma else f", {text}"),)
    newline = newline_of(module)
    indent = indentation_at(module, _argument_start(module, last))
    row_end = _row_end(module, after)
    line = f"{newline}{indent}{text}{',' if comma else ''}"
    if module.text[after:row_end].strip():  # a comment follows: it stays with its argument
        return (*(() if comma else (Edit(end, end, ","),)), Edit(row_end, row_end, line))
    return (Edit(after, after, line if comma else "," + line),)


def prepend_argument(module: Module, call: cst.Call, text: str) -> Edits:
    """Pass ``text`` as the first argument of ``call``, on a row of its own if the first one has that."""
    if not call.args:
        opening = module.text.index("(", module.span(call.func)[1]) + 1
        return (Edit(opening, opening, text),)
    first = _argument_start(module, call.args[0])
    begin = module.line_start(first)
    own_row = not module.text[begin:first].strip() and begin > module.span(call)[0]
    behind = f",{newline_of(module)}{module.text[begin:first]}" if own_row else ", "
    return (Edit(first, first, text + behind),)


def name_argument(module: Module, argument: cst.Arg, name: str) -> Edits:
    """Pass a positional argument by keyword."""
    start = _argument_start(module, argument)
    return (Edit(start, start, f"{name}="),)


def remove_imported_name(module: Module, statement: cst.ImportFrom, name: str) -> Edits | None:
    """Drop what ``from ... import`` binds as ``name``; None if it is all of the statement, or a comment would go."""
    import libcst as cst

    aliases = [] if isinstance(statement.names, cst.ImportStar) else list(statement.names)
    bound = [alias.evaluated_alias or alias.evaluated_name for alias in aliases]
    if len(aliases) < 2 or bound.count(name) != 1:
        return None
    position = bound.index(name)
    if position + 1 < len(aliases):
        start, end = module.span(aliases[position])[0], module.span(aliases[position + 1])[0]
    else:
        start, end = module.span(aliases[position - 1].name)[0], module.span(aliases[position])[1]
        previous = aliases[position - 1].asname
        start = module.span(aliases[position - 1].name if previous is None else previous.name)[1]
    return None if "#" in module.text[start:end] else (Edit(start, end, ""),)


def set_argument(module: Module, call: cst.Call, name: str, argument: Argument, value: str) -> Edits | None:
    """Give an argument a new value where it is passed, or add it as a keyword where it is absent."""
    if argument.node is not None:
        return replace(module, argument.node.value, value)
    return add_keyword(module, call, name, value) if argument.absent else None


def remove_argument(module: Module, call: cst.Call, argument: cst.Arg) -> Edits | None:
    """Drop one argument with its comma; None where a comment would go with it."""
    position = next((i for i, item in enumerate(call.args) if item is argument), -1)
    if position < 0:
        return None
    if position + 1 < len(call.args):
        start, end = _argument_start(module, argument), _argument_start(module, call.args[position + 1])
    elif position > 0:
        start, end = _argument_end(module, call.args[position - 1]), _argument_end(module, argument)
    else:
        start, end = _argument_start(module, argument), module.span(call)[1] - 1
    if "#" in module.text[start:end].replace(module.code(argument.value), ""):
        return None
    return (Edit(start, end, ""),)


def remove_method_call(module: Module, call: cst.Call) -> Edits | None:
    """Leave ``x`` of ``x.method(...)``; None where a comment would go with the rest."""
    import libcst as cst

    if not isinstance(call.func, cst.Attribute):
        return None
    start, end = _behind(module, call.func.value), module.span(call)[1]
    return None if "#" in module.text[start:end] else (Edit(start, end, ""),)


def import_module(module: Module, name: str, at: cst.CSTNode) -> Edits | None:
    """Edits after which ``name`` (a top-level module such as ``os``) can be used at ``at``; empty if it already can."""
    import libcst as cst

    scope = module.names.scope_with(name, module.tree.scope_of(at))
    if scope is not None:
        bindings = scope.bindings[name]
        if any(binding.kind != "import" or binding.imported != name for binding in bindings):
            return None
        if scope is not module.scope:
            return () if any(module.tree.dominates(binding.node, at) for binding in bindings) else None
        if all(
            isinstance(module.tree.parent(module.tree.parent(binding.node) or binding.node), cst.Module)
            for binding in bindings
        ):
            first = min(binding.order for binding in bindings)
            bound = module.tree.function_of(at) is not None or first < module.tree.index(at)
            return () if bound else None  # a second import above the one that is there would be odd
    return _insert_import(module, name, at)


def _insert_import(module: Module, name: str, at: cst.CSTNode) -> Edits:
    """Before the first import that is not from ``__future__`` (in a group of its own, as isort has it)."""
    import libcst as cst

    newline = newline_of(module)
    behind = module.begin  # where it goes if there is no import before ``at``: behind the docstring
    for position, statement in enumerate(module.root.body):
        start, end = module.span(statement)
        if start > module.span(at)[0]:
            break
        first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(first, (cst.Import, cst.ImportFrom)):
            source = _imported_root(first)
            if source != "__future__":
                start = module.line_start(start)
                gap = newline if name in sys.stdlib_module_names and source not in sys.stdlib_module_names else ""
                return (Edit(start, start, f"import {name}{newline}{gap}"),)
            behind = _next_row(module, end)
        elif position == 0 and isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString):
            behind = _next_row(module, end)
    behind = behind or _behind_opening_comments(module)
    return (Edit(behind, behind, f"import {name}{newline}"),)


def _imported_root(statement: cst.Import | cst.ImportFrom) -> str:
    """The top-level module that an import statement names; "" if it is relative."""
    import libcst as cst

    from torchlint.model.syntax.tree import dotted_name

    if isinstance(statement, cst.Import):
        return (dotted_name(statement.names[0].name) or "").partition(".")[0]
    return "" if statement.relative else (dotted_name(statement.module) or "").partition(".")[0]


def decorate(module: Module, function: cst.FunctionDef, decorator: str) -> Edits | None:
    """Put ``@decorator`` directly above ``def``, below the decorators already there."""
    start = module.text.index("def", _definition_start(module, function))
    start = module.line_start(start)
    row = module.text[start : module.span(function)[1]]
    if not re.match(r"[ \t\f]*(async[ \t]+)?def\b", row):
        return None
    indent = indentation_at(module, start)
    return (Edit(start, start, f"{indent}@{decorator}{newline_of(module)}"),)


def insert_before(module: Module, statement: cst.CSTNode, *lines: str) -> Edits | None:
    """Put each of ``lines`` on a row of its own before ``statement``, at its indentation."""
    start = module.span(statement)[0]
    begin = module.line_start(start)
    indent = module.text[begin:start]
    if indent.strip():
        return None
    return (Edit(begin, begin, "".join(f"{indent}{line}{newline_of(module)}" for line in lines)),)


def insert_behind_imports(module: Module, name: str, line: str) -> Edits | None:
    """Put ``line`` behind the import of ``name`` at the top level and those that follow it, a blank row between."""
    import libcst as cst

    scope = module.scope
    imported = {binding.node for binding in scope.bindings.get(name, ()) if binding.imported == name}
    last = None
    for statement in module.root.body:
        first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if first in imported or (last is not None and isinstance(first, (cst.Import, cst.ImportFrom))):
            last = statement
        elif last is not None:
            break
    if last is None:
        return None
    newline = newline_of(module)
    end = _row_end(module, statement_end(module, last))
    return (Edit(end, end, f"{newline}{newline}{line}"),)


def insert_after(module: Module, statement: cst.CSTNode, line: str) -> Edits | None:
    """Put ``line`` on a row of its own after ``statement`` and its comment, at its indentation."""
    start = module.span(statement)[0]
    indent = module.text[module.line_start(start) : start]
    if indent.strip():
        return None
    end = _row_end(module, statement_end(module, statement))
    return (Edit(end, end, f"{newline_of(module)}{indent}{line}"),)


def wrap_in_with(module: Module, statements: Sequence[cst.CSTNode], header: str) -> Edits | None:
    """Put neighbouring statements of one block under ``with header:``, re-indenting exactly their rows."""
    return indent_under(module, statements, f"with {header}:")


def indent_under(module: Module, statements: Sequence[cst.CSTNode], header: str) -> Edits | None:
    """Put neighbouring statements of one block under the line ``header``, re-indenting exactly their rows."""
    first, last = module.span(statements[0])[0], statement_end(module, statements[-1])
    begin = module.line_start(first)
    indent = module.text[begin:first]
    if indent.strip() or module.text[last : _row_end(module, last)].split("#")[0].strip():
        return None
    inside = _rows_inside_strings(module, statements)
    edits = [Edit(begin, begin, f"{indent}{header}{newline_of(module)}{module.root.default_indent}")]
    row = module.row_at(first) + 1
    while row <= module.row_at(max(first, last - 1)):
        start = module.row_start(row)
        line = module.text[start : _row_end(module, start)]
        if line.strip() and row not in inside:
            edits.append(Edit(start, start, module.root.default_indent))
        row += 1
    return tuple(edits)


def drop_method_call(module: Module, call: cst.Call) -> Edits | None:
    """Leave ``x`` of ``x.method(...)``; an assignment that would read ``x = x`` goes with it."""
    import libcst as cst

    func = call.func
    if not isinstance(func, cst.Attribute):
        return None
    statement = module.tree.parent(call)
    if isinstance(statement, cst.Assign) and [module.code(item.target) for item in statement.targets] == [
        module.code(func.value)
    ]:
        deleted = delete_statement(module, statement)
        if deleted is not None:
            return deleted
    return remove_method_call(module, call)


def delete_statement(module: Module, statement: cst.CSTNode) -> Edits | None:
    """Delete a small statement with its row; None where it shares the row, holds a comment, or is all of its block."""
    import libcst as cst

    line = module.tree.parent(statement)
    block = module.tree.parent(line) if line is not None else None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or block is None:
        return None
    if len(getattr(block, "body", ())) < 2:
        return None
    start, end = module.span(statement)
    begin, stop = module.line_start(start), _row_end(module, end)
    if module.text[end:stop].strip() or "#" in module.text[start:end]:
        return None
    return (Edit(begin, _next_row(module, end), ""),)


def delete_with_block(module: Module, statement: cst.CSTNode) -> Edits | None:
    """Delete a statement, and the ``if`` or ``for`` that holds nothing else; None where that cannot be."""
    import libcst as cst

    found: cst.CSTNode = statement
    while True:
        line = module.tree.parent(found)
        block = module.tree.parent(line) if isinstance(line, cst.SimpleStatementLine) else line
        if isinstance(line, cst.SimpleStatementSuite):
            block = line
        if len(getattr(block, "body", ())) != 1 or isinstance(block, cst.Module) or block is None:
            break
        above = module.tree.parent(block)
        if not isinstance(above, (cst.If, cst.For)) or above.orelse is not None:
            return None
        if isinstance(module.tree.parent(above), cst.If):  # an elif
            return None
        found = above
    if found is statement:
        return delete_statement(module, statement)
    start, end = module.span(found)[0], statement_end(module, statement)
    begin, stop = module.line_start(start), _row_end(module, end)
    if module.text[begin:start].strip() or module.text[end:stop].strip() or "#" in module.text[start:end]:
        return None
    return (Edit(begin, _next_row(module, end), ""),)


def remove_decorator(module: Module, decorator: cst.Decorator) -> Edits | None:
    """Delete a decorator with its rows; None where a comment would go with it."""
    start, end = module.span(decorator)
    begin, stop = module.line_start(start), _row_end(module, module.span(decorator.decorator)[1])
    if module.text[begin:start].strip() or "#" in module.text[begin:stop]:
        return None
    return (Edit(begin, _next_row(module, max(end - 1, stop)), ""),)


def unwrap(module: Module, call: cst.Call, argument: cst.BaseExpression) -> Edits | None:
    """Put an argument of ``call`` in the place of the call; None where a comment would go with the rest."""
    import libcst as cst

    item = module.tree.parent(argument)
    if not isinstance(item, cst.Arg):
        return None
    start, end = module.span(call)
    first, last = module.span(argument)[0], module.span(argument)[1]
    before, after = "", ""
    if not isinstance(argument, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        before, after = "(", ")"
    if "#" in module.text[start:first] or "#" in module.text[last:end]:
        return None
    return Edit(start, first, before), Edit(last, end, after)


# -- text


def newline_of(module: Module) -> str:
    """The newline the file uses (that of its first row)."""
    match = re.search(r"\r\n|\n|\r", module.own_text)
    return match.group() if match else "\n"


def indentation_at(module: Module, offset: int) -> str:
    """The white space at the beginning of the row of ``offset``."""
    begin = module.line_start(offset)
    match = re.compile(r"[ \t\f]*").match(module.text, begin)
    return match.group() if match else ""


def statement_end(module: Module, statement: cst.CSTNode) -> int:
    """The offset behind the last character of ``statement``, without a comment or newline that follows."""
    import libcst as cst

    nodes = module.tree.nodes_in(statement)
    end = module.span(statement)[1]
    if isinstance(statement, cst.BaseCompoundStatement):
        small = [node for node in nodes if isinstance(node, cst.BaseSmallStatement)]
        end = max(module.span(node)[1] for node in small)
        end += (
            len(module.text[end : _row_end(module, end)].split("#")[0].rstrip(" \t"))
            if ";" in module.text[end : _row_end(module, end)].split("#")[0]
            else 0
        )
    return end


def _argument_start(module: Module, argument: cst.Arg) -> int:
    if argument.keyword is not None:
        return module.span(argument.keyword)[0]
    start = module.span(argument.value)[0]
    for _ in range(len(argument.value.lpar)):
        start = module.text.rindex("(", 0, start)
    while argument.star and start > 0 and module.text[start - 1] in "* ":
        start -= 1
    return start


def _argument_end(module: Module, argument: cst.Arg) -> int:
    return _behind(module, argument.value)


def _behind(module: Module, node: cst.BaseExpression) -> int:
    """The offset behind ``node`` and the parentheses around it."""
    end = module.span(node)[1]
    for _ in range(len(node.rpar)):
        end = module.text.index(")", end) + 1
    return end


def _row_end(module: Module, offset: int) -> int:
    match = re.compile(r"[\r\n]").search(module.text, offset)
    return match.start() if match else len(module.text)


def _next_row(module: Module, offset: int) -> int:
    match = re.compile(r"\r\n|\n|\r").search(module.text, offset)
    return match.end() if match else len(module.text)


def _behind_opening_comments(module: Module) -> int:
    """Behind a shebang and the comments of a file's first rows."""
    match = re.compile(r"(?:[ \t]*#[^\r\n]*(?:\r\n|\n|\r))*").match(module.text, module.begin)
    return match.end() if match else module.begin


def _definition_start(module: Module, function: cst.FunctionDef) -> int:
    if function.decorators:
        return _next_row(module, module.span(function.decorators[-1])[1] - 1)
    return module.span(function)[0]


def _rows_inside_strings(module: Module, statements: Sequence[cst.CSTNode]) -> set[int]:
    """Rows that begin inside a string: indenting them would change the string."""
    import libcst as cst

    rows: set[int] = set()
    for statement in statements:
        for node in module.tree.nodes_in(statement):
            if isinstance(node, (cst.SimpleString, cst.FormattedString)):
                start, end = module.span(node)
                rows.update(range(module.row_at(start) + 1, module.row_at(max(start, end - 1)) + 1))
    return rows
