"""Edits of import statements."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from torchlint.edits.text import Edits, end_of_row, newline_of, start_of_next_row, statement_end
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.source.ranges import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

_OPENING_COMMENTS = re.compile(r"(?:[ \t\f]*(?:\r\n|\n|\r)(?=[ \t\f]*#))?(?:[ \t\f]*#[^\r\n]*(?:\r\n|\n|\r))*")


def _import_module(module: Module, name: str, at: cst.CSTNode) -> Edits | None:
    """Edits after which ``name`` (a top-level module such as ``os``) can be used at ``at``; empty if it already can.

    None where an import might change what the program does: it would load a module that the program does not load
    there, or load it earlier. Modules of the standard library may be loaded at any time.
    """
    from torchlint.edits.loaded import is_bound_with, is_unconditional

    scope = module.names.scope_with(name, module.tree.scope_of(at))
    if scope is not None:
        bindings = scope.bindings[name]
        if any(binding.kind is not BindingKind.IMPORT or binding.imported != name for binding in bindings):
            return None
        if scope is not module.scope:
            return () if any(module.tree.dominates(binding.node, at) for binding in bindings) else None
        always = [binding.order for binding in bindings if is_unconditional(module, binding.node)]
        if always:
            bound = module.tree.function_of(at) is not None or min(always) < module.tree.index(at)
            return () if bound else None  # a second import above the one that is there would be odd
        if is_bound_with(module, bindings, at) or any(module.tree.dominates(item.node, at) for item in bindings):
            return ()
        if name not in sys.stdlib_module_names:
            return None
    if name in sys.stdlib_module_names:
        return _insert_import(module, name, at)
    return _insert_where_loaded(module, name, at)


def name_module(module: Module, name: str, at: cst.CSTNode) -> tuple[str, Edits] | None:
    """The name under which a top-level module can be used at ``at``, an alias if it has one, and the edits for that."""
    from torchlint.edits.loaded import is_unconditional

    edited = _import_module(module, name, at)
    if edited == ():
        return name, ()
    imported = (item.name for item in module.lookups.imports[module.root] if item.imported == name)
    for alias in dict.fromkeys(imported):
        bindings = module.scope.bindings.get(alias, [])
        if not bindings or any(item.kind is not BindingKind.IMPORT or item.imported != name for item in bindings):
            continue
        always = [item.order for item in bindings if is_unconditional(module, item.node)]
        bound = always and (module.tree.function_of(at) is not None or min(always) < module.tree.index(at))
        if bound and module.names.scope_with(alias, module.tree.scope_of(at)) is module.scope:
            return alias, ()
    return None if edited is None else (name, edited)


def name_functional(module: Module, at: cst.CSTNode) -> tuple[str, Edits] | None:
    """How ``torch.nn.functional`` can be written at ``at``, and the edits for that; none, if a name for it is bound."""
    owners = (("torch.nn.functional", ""), ("torch", ".nn.functional"), ("torch.nn", ".functional"))
    named = [(name_module(module, name, at), rest) for name, rest in owners]
    found = [(name[0] + rest, name[1]) for name, rest in named if name is not None]
    return min(found, key=lambda item: bool(item[1]), default=None)


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
        previous = aliases[position - 1]
        start = module.span(previous.name if previous.asname is None else previous.asname.name)[1]
        end = module.span(aliases[position])[1]
    return None if "#" in module.text[start:end] else (Edit(start, end, ""),)


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
    end = end_of_row(module, statement_end(module, last))
    return (Edit(end, end, f"{newline}{newline}{line}"),)


def _insert_import(module: Module, name: str, at: cst.CSTNode) -> Edits:
    """Where isort has an ``import`` of the standard library among those before ``at``: by name, above ``from``.

    If there are none, before the first import that is not from ``__future__``, in a group of its own.
    """
    import libcst as cst

    from torchlint.edits.loaded import imported_root

    newline = newline_of(module)
    line = f"import {name}{newline}"
    behind = module.begin  # where it goes if there is no import before ``at``: behind the docstring
    found: list[tuple[cst.SimpleStatementLine, str]] = []  # with the module that each names
    for position, statement in enumerate(module.root.body):
        first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        is_import = isinstance(first, (cst.Import, cst.ImportFrom))
        if module.span(statement)[1] > module.span(at)[0] or (found and not is_import):
            break
        if is_import and isinstance(statement, cst.SimpleStatementLine):
            source = imported_root(statement.body[0])
            if source != "__future__":
                found.append((statement, source))
                continue
            behind = start_of_next_row(module, module.span(statement)[1])
        elif position == 0 and isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString):
            behind = start_of_next_row(module, module.span(statement)[1])
    own = [(statement, source) for statement, source in found if source in sys.stdlib_module_names]
    plain = [(statement, source) for statement, source in own if isinstance(statement.body[0], cst.Import)]
    later = [statement for statement, source in plain if source > name]
    if plain and not later:
        behind = start_of_next_row(module, module.span(plain[-1][0])[1])
        return (Edit(behind, behind, line),)
    if found:
        goal = next(iter(later or [statement for statement, _ in own or found]))
        start = module.line_start(module.span(goal)[0])
        return (Edit(start, start, line if own else line + newline),)
    behind = behind or _behind_opening_comments(module)
    return (Edit(behind, behind, line),)


def _insert_where_loaded(module: Module, name: str, at: cst.CSTNode) -> Edits | None:
    """Next to the first statement of the top level that loads ``name``, so that nothing is loaded earlier than before.

    None if no such statement precedes ``at``.
    """
    import libcst as cst

    from torchlint.edits.loaded import imported_root, loads

    newline = newline_of(module)
    for statement in module.root.body:
        start, end = module.span(statement)
        if start > module.span(at)[0]:
            return None
        if not isinstance(statement, cst.SimpleStatementLine) or not any(
            loads(module, part, name) for part in statement.body
        ):
            continue
        if imported_root(statement.body[0]) == name:
            start = module.line_start(start)
            return (Edit(start, start, f"import {name}{newline}"),)
        behind = start_of_next_row(module, end)
        ended = module.text[behind - 1 : behind] in ("\n", "\r")
        return (Edit(behind, behind, f"import {name}{newline}"),) if ended else None
    return None


def _behind_opening_comments(module: Module) -> int:
    """Behind a shebang and the comments of a file's first rows, before which the first row may be blank.

    One of them may name the encoding of the file, which counts in the first two rows alone (PEP 263).
    """
    match = _OPENING_COMMENTS.match(module.text, module.begin)
    return match.end() if match else module.begin
