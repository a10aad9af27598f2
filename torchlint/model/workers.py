"""What stands against worker processes: code that runs on import, and objects that cannot be sent to a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.model.knowledge import Kind

if TYPE_CHECKING:
    from torchlint.model.calls import Call
    from torchlint.model.module import Module

#: How many callers up, and how many values deep, the answers are looked for.
_DEPTH = 6
#: Calls whose results cannot be pickled, or must not be shared by processes.
_HANDLES = frozenset({"builtins.open", "h5py.File", "lmdb.open", "sqlite3.connect", "zipfile.ZipFile", "tarfile.open"})


def runs_on_import(module: Module, node: cst.CSTNode, depth: int = _DEPTH) -> bool:
    """Whether importing the file runs ``node``: at module level without a main guard, or called from there."""
    if module.under_main_guard(node) and module.tree.function_of(node) is None:
        return False
    function = module.function_of(node)
    if function is None:
        return True
    return depth > 0 and any(runs_on_import(module, call, depth - 1) for call in module.callers(function).calls)


def can_be_sent(module: Module, loader: Call) -> bool:
    """Whether nothing that ``loader`` would send to a spawned worker is seen to be unpicklable."""
    return all(
        _can_be_pickled(module, argument.value, _DEPTH)
        for argument in loader.node.args
        if argument.keyword is None or argument.keyword.value in ("dataset", "collate_fn", "worker_init_fn")
    )


def _can_be_pickled(module: Module, node: cst.BaseExpression, depth: int) -> bool:
    if isinstance(node, (cst.Lambda, cst.GeneratorExp)):
        return False
    value = module.value(node)
    definition = value.definition
    if definition is not None and module.tree.function_of(definition) is not None:
        return False  # a local class or function
    if isinstance(definition, cst.ClassDef) and value.kind is not Kind.CLASS and not _pickles(module, definition):
        return False
    if depth <= 0:
        return True
    if isinstance(node, cst.Name):
        values = [item.value for item in module.names.bindings(node) if item.kind == "assign" and not item.path]
        return all(_can_be_pickled(module, item, depth - 1) for item in values if item is not None and item is not node)
    if isinstance(node, cst.Call):
        return all(_can_be_pickled(module, argument.value, depth - 1) for argument in node.args)
    if isinstance(node, (cst.List, cst.Tuple)):
        return all(_can_be_pickled(module, element.value, depth - 1) for element in node.elements)
    return True


def _pickles(module: Module, definition: cst.ClassDef) -> bool:
    """Whether instances of a class of the file hold no lambda, generator or open file."""
    for current in module.definitions.lineage(definition):
        for bindings in module.tree.scopes[current].attributes.values():
            for binding in bindings:
                value = binding.value
                if isinstance(value, (cst.Lambda, cst.GeneratorExp)):
                    return False
                if isinstance(value, cst.Call) and module.name_of(value.func) in _HANDLES:
                    return False
    return True
