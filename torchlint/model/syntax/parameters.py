"""Parameters: whose they are, and which one comes first."""

from __future__ import annotations

import libcst as cst

from torchlint.model.syntax.tree import Tree


def owner_of(tree: Tree, param: cst.CSTNode) -> cst.FunctionDef | None:
    """The function that has the parameter ``param``; None if a lambda has it."""
    owner = tree.parent(tree.parent(param) or param)
    return owner if isinstance(owner, cst.FunctionDef) else None


def parameters_of(function: cst.FunctionDef) -> tuple[cst.Param, ...]:
    """The parameters that can be told apart by name: not ``*args`` and ``**kwargs``."""
    params = function.params
    return (*params.posonly_params, *params.params, *params.kwonly_params)


def first_parameter(function: cst.FunctionDef) -> cst.Param | None:
    """The first positional parameter: ``self`` of a method."""
    return next(iter((*function.params.posonly_params, *function.params.params)), None)
