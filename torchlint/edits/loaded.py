"""Which modules are loaded, and which names are bound, where an import is to be added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.model.semantics.links import imported_modules
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.literals import is_true

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.scopes import Binding

#: Packages that import torch themselves, at once.
_LOAD_TORCH = frozenset(
    {
        "accelerate",
        "lightning",
        "pytorch_lightning",
        "timm",
        "torch_geometric",
        "torchaudio",
        "torchmetrics",
        "torchvision",
    }
)
#: Context managers that neither suppress errors nor skip their body.
_TRANSPARENT = frozenset({"warnings.catch_warnings", "contextlib.redirect_stdout", "contextlib.redirect_stderr"})


def imported_root(statement: cst.CSTNode) -> str:
    """The top-level module that an import statement names first; "" if it is relative, or not an import."""
    if isinstance(statement, cst.Import):
        return (dotted_name(statement.names[0].name) or "").partition(".")[0]
    if isinstance(statement, cst.ImportFrom) and not statement.relative:
        return (dotted_name(statement.module) or "").partition(".")[0]
    return ""


def loads(module: Module, statement: cst.CSTNode, name: str) -> bool:
    """Whether a statement is an import after which the top-level module ``name`` is certainly loaded."""
    if not isinstance(statement, (cst.Import, cst.ImportFrom)):
        return False
    names = list(imported_modules(statement))
    roots = {dotted.partition(".")[0] for dotted in names}
    if name in roots or (name == "torch" and not roots.isdisjoint(_LOAD_TORCH)):
        return True
    scopes = [module.links.module(dotted, module.root) for dotted in names]
    return any(
        binding.imported.partition(".")[0] == name and is_unconditional(module, binding.node)
        for scope in scopes
        if scope is not None and scope is not module.scope
        for bindings in scope.bindings.values()
        for binding in bindings
        if binding.kind is BindingKind.IMPORT and module.tree.root_of(binding.node) is scope.node
    )


def is_unconditional(module: Module, statement: cst.CSTNode) -> bool:
    """Whether a statement always runs when its file is imported, and to its end if the import succeeds."""
    for above, child in climb(module.tree, statement):
        if isinstance(above, cst.Module):
            return True
        if isinstance(above, cst.If):
            if child is not above.body or not is_true(above.test):
                return False
        elif isinstance(above, cst.With):
            managers = (module.name_of(module.callee(item.item)) for item in above.items)
            if not all(manager in _TRANSPARENT for manager in managers):
                return False
        elif not isinstance(above, (cst.SimpleStatementLine, cst.IndentedBlock, cst.SimpleStatementSuite)):
            return False
    return False


def is_bound_with(module: Module, bindings: Sequence[Binding], at: cst.CSTNode) -> bool:
    """Whether what ``at`` evaluates first is a name that is only bound behind one of ``bindings``, in the same block.

    Wherever that name is bound, such as `DataLoader` in a `try` that imports torch before it, the module is too.
    """
    first = _first_name(at)
    scope = module.names.home_of(first) if first is not None else None
    if first is None or scope is None:
        return False
    return all(
        any(
            own.order <= binding.order and _block(module, own.node) is _block(module, binding.node) is not None
            for own in bindings
        )
        for binding in scope.bindings[first.value]
    )


def _first_name(node: cst.CSTNode) -> cst.Name | None:
    """The name that an expression, or the header of a loop or `with`, evaluates before anything else."""
    while not isinstance(node, cst.Name):
        if isinstance(node, cst.Call):
            node = node.func
        elif isinstance(node, cst.Attribute):
            node = node.value
        elif isinstance(node, cst.Decorator):
            node = node.decorator
        elif isinstance(node, cst.For):
            node = node.iter
        elif isinstance(node, cst.With):
            node = node.items[0].item
        else:
            return None
    return node


def _block(module: Module, statement: cst.CSTNode) -> cst.CSTNode | None:
    """The block that contains a simple statement."""
    row = module.tree.parent(statement)
    return module.tree.parent(row) if isinstance(row, cst.SimpleStatementLine) else None
