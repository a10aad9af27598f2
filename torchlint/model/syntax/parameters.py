"""Parameters: whose they are, and which one comes first."""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.syntax.tree import Tree

#: Methods that Python gives the class without a decorator.
_OF_THE_CLASS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})
_ACCESSORS = frozenset({"setter", "deleter"})
#: Decorators by which a function is called as it is written.
_TRANSPARENT = frozenset("staticmethod classmethod abstractmethod override no_grad inference_mode enable_grad".split())


def owner_of(tree: Tree, param: cst.CSTNode) -> cst.FunctionDef | None:
    """The function that has the parameter ``param``; None if a lambda has it."""
    owner = tree.parent(tree.parent(param) or param)
    return owner if isinstance(owner, cst.FunctionDef) else None


def parameters_of(function: cst.FunctionDef) -> tuple[cst.Param, ...]:
    """The parameters that can be distinguished by name: not ``*args`` and ``**kwargs``."""
    params = function.params
    return (*params.posonly_params, *params.params, *params.kwonly_params)


def positional_parameters(function: cst.FunctionDef) -> tuple[cst.Param, ...]:
    """The parameters that calls can pass by place, without ``*args``."""
    return (*function.params.posonly_params, *function.params.params)


def first_parameter(function: cst.FunctionDef) -> cst.Param | None:
    """The first positional parameter: ``self`` of a method."""
    return next(iter(positional_parameters(function)), None)


def is_static(function: cst.FunctionDef) -> bool:
    """Whether the first parameter of a method is a parameter like the others."""
    return _has_decorator(function, "staticmethod")


def is_run_as_called(function: cst.FunctionDef) -> bool:
    """Whether no decorator may call a function, or pass it other arguments than its callers give."""
    called = (item.decorator for item in function.decorators)
    names = (dotted_name(node.func if isinstance(node, cst.Call) else node) for node in called)
    return all(last_part(name or "") in _TRANSPARENT for name in names)


def class_parameter(tree: Tree, param: cst.CSTNode) -> cst.ClassDef | None:
    """The class that ``param`` is, or one derived from it: ``cls`` of a class method; None for other parameters."""
    function = owner_of(tree, param)
    if function is None or first_parameter(function) is not param:
        return None
    if function.name.value in _OF_THE_CLASS or _has_decorator(function, "classmethod"):
        return tree.class_of(function)
    return None


def is_property(node: cst.CSTNode) -> TypeGuard[cst.FunctionDef]:
    """Whether ``node`` is a method that runs when its name is read: ``@property``, ``@cached_property``."""
    return isinstance(node, cst.FunctionDef) and any(name.endswith("property") for name in _decorators(node))


def is_accessor(node: cst.CSTNode) -> bool:
    """Whether ``node`` is a method that sets or deletes a property."""
    return isinstance(node, cst.FunctionDef) and not _ACCESSORS.isdisjoint(_decorators(node))


def _has_decorator(function: cst.FunctionDef, name: str) -> bool:
    return name in _decorators(function)


def _decorators(function: cst.FunctionDef) -> list[str]:
    """The last parts of the names of a function's decorators."""
    return [last_part(dotted_name(item.decorator) or "") for item in function.decorators]
