"""Running sums and lists: numbers that a loop adds up or collects, and where else they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.value import Role
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.nodes import TRIES
from torchlint.model.syntax.scopes import Binding, Scope, unpacked
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.loops import Loops

from ._host_reads import HostRead
from ._step_tensors import StepTensors

_COMPARING = frozenset({"eq", "ne", "lt", "gt", "le", "ge"})
_RESHAPING = frozenset({"view_as", "view", "squeeze", "flatten", "reshape", "data", "detach", "cpu"})


@dataclass(frozen=True, eq=False)
class Running:
    """A local variable that a loop adds numbers to, or a local list that it appends them to."""

    name: str
    loop: cst.For | cst.While  #: the loop after which it can be converted to numbers
    is_list: bool
    kind: Literal["int", "float"]  #: the builtin that creates such a number
    reads: tuple[cst.Name, ...]  #: where the loop reads it at some iterations


def running(module: Module, read: HostRead) -> Running | None:
    """The variable that ``read`` goes into, if it can contain tensors while the loop runs; None if that is uncertain.

    Its other uses must be outside of the loop, or (for a sum) run only at some iterations.
    """
    if (
        not isinstance(read.call, cst.Call)
        or read.is_array
        or not isinstance(read.step, (cst.For, cst.While))
        or read.step.orelse is not None
    ):
        return None
    parent = module.tree.parent(read.call)
    if isinstance(parent, cst.Arg):
        return _list_of(module, read, read.step, parent)
    statement = module.tree.statement_of(read.call)
    if not isinstance(statement, cst.AugAssign) or not isinstance(statement.operator, cst.AddAssign):
        return None
    return _sum_of(module, read, read.step, statement)


def _sum_of(module: Module, read: HostRead, loop: cst.For | cst.While, statement: cst.AugAssign) -> Running | None:
    kind = _number_kind(module, read)
    if statement.value is not read.call:
        product = statement.value
        if not isinstance(product, cst.BinaryOperation) or read.call not in (product.left, product.right):
            return None
        divided = isinstance(product.operator, cst.Divide) and product.left is read.call
        if not (divided or isinstance(product.operator, cst.Multiply)) or kind != "float":
            return None
    found = _local(module, statement.target, loop)
    if found is None or not kind:
        return None
    target, scope = found
    bindings = scope.bindings[target.value]
    for binding in bindings:
        start = unpacked(binding.value, binding.path)
        starts = binding.kind is BindingKind.ASSIGN and isinstance(start, (cst.Integer, cst.Float))
        if not starts and binding.node is not statement:
            return None
    inside: list[cst.Name] = []
    for use in module.names.uses_in(scope, target.value):
        if module.tree.within(use, loop) and not module.tree.within(use, statement) and not _binds(use, bindings):
            if not module.fact(Iterations).is_counted(use, loop):
                return None
            inside.append(use)
    if _has_other_users(module, scope, target.value, loop) or _outlives_exception(module, scope, target.value, loop):
        return None
    return Running(target.value, loop, False, kind, tuple(inside))


def _list_of(module: Module, read: HostRead, loop: cst.For | cst.While, argument: cst.Arg) -> Running | None:
    call = module.tree.parent(argument)
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or len(call.args) != 1:
        return None
    if call.func.attr.value != "append" or not isinstance(module.tree.parent(call), cst.Expr):
        return None
    kind = _number_kind(module, read)
    found = _local(module, call.func.value, loop)
    if found is None or not kind:
        return None
    target, scope = found
    bindings = scope.bindings[target.value]
    start = bindings[0]
    if len(bindings) != 1 or start.kind is not BindingKind.ASSIGN or not _is_empty_list(start):
        return None
    around = [item.node for item in module.fact(Loops).around(start.node)]
    whole = loop  # the outermost loop that fills the list
    for outer in module.fact(Loops).around(loop):
        if outer.node in around:
            break
        whole = outer.node
    if whole.orelse is not None or not module.tree.dominates(start.node, whole):
        return None
    uses = module.names.uses_in(scope, target.value)
    begin, end = module.tree.index(start.node), module.tree.last(whole)
    others = (use for use in uses if use is not target and not module.tree.within(use, start.node))
    if any(begin < module.tree.index(use) <= end for use in others):
        return None
    if _has_other_users(module, scope, target.value, loop) or _outlives_exception(module, scope, target.value, whole):
        return None
    return Running(target.value, whole, True, kind, ())


def _outlives_exception(module: Module, scope: Scope, name: str, loop: cst.For | cst.While) -> bool:
    """Whether ``name`` is used after an exception ended ``loop`` early and left tensors instead of numbers."""
    bindings = scope.bindings[name]
    for above, child in climb(module.tree, loop, scope.node):
        if isinstance(above, cst.With) and child is above.body:
            goes_on = any(module.name_of(module.callee(item.item)) == "contextlib.suppress" for item in above.items)
        elif isinstance(above, TRIES) and child is above.body:
            goes_on = not all(ends_with(handler.body, cst.Raise, cst.Return) for handler in above.handlers)
        else:
            continue
        for use in module.names.uses_in(scope, name):
            if module.tree.within(use, above.body) or any(module.tree.within(use, item.node) for item in bindings):
                continue
            inside = module.tree.within(use, above)
            if isinstance(above, cst.With) or not inside:
                if goes_on:
                    return True
            elif above.orelse is None or not module.tree.within(use, above.orelse):
                return True
    return False


def _is_empty_list(binding: Binding) -> bool:
    """``[]``, also in ``a, b = [], []``."""
    value = unpacked(binding.value, binding.path)
    return isinstance(value, cst.List) and not value.elements


def _local(module: Module, node: cst.BaseExpression, loop: cst.CSTNode) -> tuple[cst.Name, Scope] | None:
    """The name ``node`` and its scope, if that is the scope of ``loop``."""
    scope = module.names.home_of(node) if isinstance(node, cst.Name) else None
    if not isinstance(node, cst.Name) or scope is None or scope is not module.tree.scope_of(loop):
        return None
    return node, scope


def _has_other_users(module: Module, scope: Scope, name: str, loop: cst.CSTNode) -> bool:
    """Whether another function than that of ``loop`` uses ``name``."""
    home = module.function_of(loop)
    return any(module.function_of(use) is not home for use in module.names.uses_in(scope, name))


def _binds(use: cst.Name, bindings: list[Binding]) -> bool:
    """Whether ``use`` is where one of ``bindings`` assigns the name."""
    for binding in bindings:
        if isinstance(binding.node, cst.Assign) and any(item.target is use for item in binding.node.targets):
            return True
    return False


def _number_kind(module: Module, read: HostRead) -> Literal["int", "float", ""]:
    """``"int"`` for a count of matches, ``"float"`` for a loss or a mean; "" if unknown."""
    name = (module.name_of(read.call.func) if isinstance(read.call, cst.Call) else None) or ""
    if name == "builtins.int":
        return ""  # it truncates the fraction
    if (
        name == "builtins.float"
        or module.value(read.tensor).role is Role.LOSS
        or module.fact(StepTensors).is_loss(read.tensor)
    ):
        return "float"
    node = read.tensor
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return ""
    if node.func.attr.value == "mean":
        return "float"
    if node.func.attr.value != "sum":
        return ""
    counted: cst.BaseExpression = node.func.value
    if module.name_of(node.func) == "torch.sum" and node.args:
        counted = node.args[0].value
    return "int" if _is_comparison(module, counted) else ""


def _is_comparison(module: Module, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Comparison):
        return True
    if not isinstance(node, cst.Call):
        return False
    if (module.name_of(node.func) or "").removeprefix("torch.") in _COMPARING:
        return True
    if not isinstance(node.func, cst.Attribute):
        return False
    if node.func.attr.value in _COMPARING:
        return True
    return node.func.attr.value in _RESHAPING and _is_comparison(module, node.func.value)
