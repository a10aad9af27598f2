"""Imports that a deletion leaves unused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint.edits.imports import remove_imported_name
from torchlint.edits.statements import delete_statement
from torchlint.edits.text import Edits, end_of_row
from torchlint.source.ranges import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

#: Submodules that torch loads when they are first used: no other file needs `import torch._dynamo` here.
_LOADED_LATER = ("torch._dynamo", "torch._inductor")


def with_unused_imports(module: Module, deleted: Edits, used: cst.CSTNode, others: Sequence[cst.CSTNode]) -> Edits:
    """``deleted``, and the import of what the dotted expression ``used`` names, if nothing else uses that import.

    ``others`` are the nodes that fixes of the same rule may delete. While they use the import as well, these fixes
    wait for this one, and the last one deletes the import. An import stays if it is not at the top level of its file,
    if other files may use it, or if there is a comment on its rows; so does that of a whole package, such as `os`,
    which another fix may use at the same time.
    """
    import libcst as cst

    from torchlint.model.syntax.dotted import base_of

    root = base_of(used, {cst.Attribute})
    found = _import_of(module, root) if isinstance(root, cst.Name) else None
    if found is None:
        return deleted
    removed, uses = found
    left = [use for use in uses if not any(edit.start <= use < edit.end for edit in deleted)]
    spans = [module.span(other) for other in others]
    if not all(any(start <= use < end for start, end in spans) for use in left):
        return deleted
    return (*deleted, *(Edit(use, use, "") for use in left)) if left else (*removed, *deleted)


def _import_of(module: Module, name: cst.Name) -> tuple[Edits, list[int]] | None:
    """The edits that delete the import that ``name`` needs, and where it is used; None if it has to stay."""
    import libcst as cst

    bindings = module.names.imports_of(name) or []
    if {binding.imported for binding in bindings} == {"torch"} and name.value == "torch":
        return _submodule(module)
    if len(bindings) != 1 or "." not in bindings[0].imported:
        return None
    binding = bindings[0]
    if module.is_exported(binding) or module.is_taken(binding.name) or not _is_plain(module, binding.node):
        return None
    if _is_in_a_string(module, binding.name):
        return None
    removed = None
    if isinstance(binding.node, cst.ImportFrom):
        removed = remove_imported_name(module, binding.node, binding.name)
    if removed is None and len(_aliases(binding.node)) == 1:
        removed = delete_statement(module, binding.node)
    return None if removed is None else (removed, [module.span(use)[0] for use in module.names.uses(binding)])


def _submodule(module: Module) -> tuple[Edits, list[int]] | None:
    """The same of `import torch._dynamo` or `import torch._dynamo.config` next to an `import torch`."""
    bindings = module.scope.bindings.get("torch", [])
    imported = {module.code(alias.name): item.node for item in bindings for alias in _aliases(item.node)}
    plain = imported.get("torch")
    if plain is None or not _is_plain(module, plain) or module.is_exported(bindings[0]):
        return None
    for written, statement in imported.items():
        parts = written.split(".")
        if ".".join(parts[:2]) in _LOADED_LATER and len(_aliases(statement)) == 1 and _is_plain(module, statement):
            removed, (start, end) = delete_statement(module, statement), module.span(statement)
            words = re.finditer(rf"\b{parts[1]}\b", module.text)
            uses = [word.start() for word in words if not start <= word.start() < end]
            return None if removed is None else (removed, uses)
    return None


def _aliases(statement: cst.CSTNode) -> Sequence[cst.ImportAlias]:
    import libcst as cst

    if not isinstance(statement, (cst.Import, cst.ImportFrom)) or isinstance(statement.names, cst.ImportStar):
        return ()
    return statement.names


def _is_in_a_string(module: Module, name: str) -> bool:
    """Whether a string other than a documentation names it: an annotation, or code."""
    import libcst as cst

    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(
        isinstance(node, cst.SimpleString) and word.search(node.value)
        for node in module.tree.nodes_in(module.root)
        if not isinstance(module.tree.parent(node), cst.Expr)
    )


def _is_plain(module: Module, statement: cst.CSTNode) -> bool:
    """Whether an import is at the top level of its file, without a comment."""
    start, end = module.span(statement)
    row = module.tree.parent(statement)
    return (
        row is not None
        and module.tree.parent(row) is module.root
        and "#" not in module.text[module.line_start(start) : end_of_row(module, end)]
    )
