"""Changes of Python state, in code that runs compiled, that the compiler depends on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import LIST_ADDING, Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.parameters import first_parameter
from torchlint.model.syntax.scopes import Binding

from ._kinds import StateKind
from ._traced import Traced, TracedCode


@dataclass(frozen=True, eq=False)
class Mutation:
    """A place in a traced function that changes Python state that the compiled code depends on."""

    node: cst.CSTNode  #: the statement
    traced: Traced
    name: str  #: the changed expression
    made: Binding  #: where it is first assigned
    kind: StateKind


class Mutations:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._traced = module.fact(TracedCode)

    def all(self) -> Iterator[Mutation]:
        """Every place in code that runs compiled that changes a number, list or dict that the compiler depends on."""
        found: list[Mutation] = []
        for traced in self._traced.functions.values():
            for node in self._module.tree.inside(traced.function.body, cst.Assign, cst.AugAssign, cst.Expr):
                assert isinstance(node, (cst.Assign, cst.AugAssign, cst.Expr))
                changed = self._changed(node)
                if changed is None or not self._traced.is_reached(node, traced.function):
                    continue
                target, wanted = changed
                made = self._made(target, traced)
                if made is None or _kind_of_value(made.value) is not wanted:
                    continue
                if not self._is_reset(target, made):
                    found.append(Mutation(node, traced, self._module.code(target), made, wanted))
        yield from sorted(found, key=lambda item: self._module.tree.index(item.node))

    def _changed(self, node: cst.Assign | cst.AugAssign | cst.Expr) -> tuple[cst.BaseExpression, StateKind] | None:
        """What a statement increments or appends to, and the kind that it must have."""
        if isinstance(node, cst.Assign):
            target, value = node.targets[0].target, node.value
            if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, (cst.Add, cst.Subtract)):
                return None
            same = self._module.code(value.left) == self._module.code(target)
            return (target, StateKind.NUMBER) if same and self._module.value(value.right).kind is Kind.NUMBER else None
        if isinstance(node, cst.AugAssign):
            if not isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)):
                return None
            if isinstance(node.target, cst.Subscript):
                return node.target.value, StateKind.DICT
            amount = self._module.value(node.value)
            return (node.target, StateKind.NUMBER) if amount.kind in (Kind.NUMBER, Kind.UNKNOWN, Kind.OTHER) else None
        call = node.value
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value in LIST_ADDING:
            return call.func.value, StateKind.LIST
        return None

    def _made(self, target: cst.BaseExpression, traced: Traced) -> Binding | None:
        """Where a global, or an attribute of a module, is first assigned; None if it is neither."""
        tree = self._module.tree
        if isinstance(target, cst.Name):
            scope = self._module.names.home_of(target)
            if scope is None or not isinstance(scope.node, cst.Module):
                return None
            bound = [item for item in scope.bindings[target.value] if item.kind is BindingKind.ASSIGN]
            outside = [item for item in bound if self._module.function_of(item.node) is None]
            return outside[0] if len(outside) == 1 else None
        if not isinstance(target, cst.Attribute) or not isinstance(target.value, cst.Name):
            return None
        owner = tree.class_of(traced.function)
        first = first_parameter(traced.function)
        if owner is None or first is None or first.name.value != target.value.value:
            return None
        instance = self._module.values.instance(owner)
        if instance.kind is not Kind.MODULE:
            return None
        for definition in self._module.definitions.lineage(owner):
            for item in tree.scopes[definition].attributes.get(target.attr.value, []):
                where = self._module.function_of(item.node)
                if item.kind is BindingKind.ASSIGN and where is not None and where.name.value == "__init__":
                    return item
            for item in tree.scopes[definition].bindings.get(target.attr.value, []):
                if item.kind is BindingKind.ASSIGN:
                    return item
        return None

    def _counts_on(self, statement: cst.CSTNode) -> bool:
        """Whether the statement is ``x += 1`` or ``x = x + 1``."""
        if isinstance(statement, cst.Assign) and isinstance(statement.value, cst.BinaryOperation):
            return self._module.code(statement.value.left) == self._module.code(statement.targets[0].target)
        return isinstance(statement, cst.AugAssign)

    def _is_reset(self, target: cst.BaseExpression, made: Binding) -> bool:
        """Whether compiled code, or for a list or dictionary any code, resets it: it then has few values."""
        tree, name = self._module.tree, made.name
        if isinstance(target, cst.Name):
            bound = tree.scopes[tree.root_of(made.node)].bindings[name]
            others = [item for item in bound if item.kind is BindingKind.ASSIGN and item is not made]
            return any(not self._counts_on(item.node) for item in others)
        stores = [
            statement
            for stored, _, statement in tree.stores
            if isinstance(stored, cst.Attribute) and stored.attr.value == name and statement is not made.node
        ]
        stores = [statement for statement in stores if not self._counts_on(statement)]
        if _kind_of_value(made.value) is not StateKind.NUMBER:
            return bool(stores) or any(_last(call.receiver) == name for call in self._module.methods("clear", "pop"))
        return any(self._module.function_of(statement) in self._traced.functions for statement in stores)


def _kind_of_value(value: cst.BaseExpression | None) -> StateKind | None:
    if isinstance(value, cst.UnaryOperation):
        value = value.expression
    if isinstance(value, cst.Integer):
        return StateKind.NUMBER
    if isinstance(value, cst.List):
        return StateKind.LIST
    return StateKind.DICT if isinstance(value, cst.Dict) else None


def _last(owner: cst.BaseExpression) -> str:
    """``losses`` of ``self.losses``, and of ``f().losses``."""
    if isinstance(owner, cst.Attribute):
        return owner.attr.value
    return owner.value if isinstance(owner, cst.Name) else ""
