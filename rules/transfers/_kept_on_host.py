"""Tensors that a constructor or a module makes once on the host and keeps there: which moves copy them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.buffers import Buffers
from torchlint.model.program.device_tests import asks_for_device
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import PARAMETER
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import changes_in_place
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self, last_part
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.syntax.scopes import Binding
from torchlint.model.tensors.creation import OF_EINOPS, WHOLE
from torchlint.model.tensors.host_factories import HostFactories
from torchlint.model.tensors.placement import Placement
from torchlint.model.training.data_flow import DataFlow
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._host_tensors import HostTensors
from ._repetition import keeps_result
from ._schedules import Schedules
from ._seldom import asks_for_attributes

#: Attributes of a tensor that are another form of it.
_FORMS = frozenset({"data", "T", "mT"})
#: The maximum number of names and functions between a move and the tensor that is kept.
_DEPTH = 3


class KeptOnHost:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._tensors = module.fact(HostTensors)

    def repeating(self, call: cst.Call, moved: cst.BaseExpression) -> StepPlace | None:
        """What runs ``call`` once per batch, if it moves a tensor that stays on the host all the time.

        A network's ``forward``, or a method that each step calls, moves an attribute that only the constructor sets,
        or numbers of one, or a variable of the file that is set once.
        """
        function = self._module.function_of(call)
        if function is None or self.is_conditional(call, function) or self._is_assigned_to_item(call):
            return None
        kept = self._kept(moved) or self._module.fact(Schedules).indexed(moved)
        if kept is None or not (
            self._is_attribute_on_host(kept) if is_attribute_of_self(kept) else self._is_global(kept)
        ):
            return None
        return self._module.fact(StepPlaces).per_batch(call)

    def whole(self, node: cst.BaseExpression, *, from_start: bool = False) -> cst.BaseExpression:
        """The tensor of which ``node`` is another form, or the first elements or the last: ``x`` of ``x[:n].float()``.

        With ``from_start``, the last elements are another tensor.
        """
        while True:
            if isinstance(node, cst.Subscript) and all(_is_large(item, from_start=from_start) for item in node.slice):
                node = node.value
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and self._is_form(node, node.func):
                node = node.func.value
            elif isinstance(node, cst.Call) and node.args and self._module.name_of(node.func) in OF_EINOPS:
                node = node.args[0].value
            elif isinstance(node, cst.Attribute) and node.attr.value in _FORMS and not is_attribute_of_self(node):
                node = node.value
            else:
                return node

    def writes_to(self, tensor: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """Where elements of a name or attribute are set: ``table[row] += x``, ``table.add_(1)``."""
        text = dotted_name(tensor) or ""
        name = last_part(text)
        texts = {text, name} if self._module.names.members(tensor) else {text}
        for target, _, place in self._module.fact(Stores).containers.get(name, ()):
            if dotted_name(target) in texts:
                yield place
        for use in (*self._tree.names.get(name, ()), *self._tree.attributes_named(name)):
            above = self._tree.parent(use)
            statement = self._tree.parent(above) if isinstance(above, cst.Subscript) else None
            adds = isinstance(statement, cst.AugAssign) and statement.target is above
            changes = isinstance(above, cst.Attribute) and changes_in_place(above.attr.value)
            if above is not None and (adds or changes) and dotted_name(use) in texts:
                yield above

    # -- forms

    def _is_form(self, call: cst.Call, func: cst.Attribute) -> bool:
        """``x.expand(n, -1)``, ``x.to(torch.half)``, ``x.type_as(y)``; of an object, it is a method of its own."""
        method = func.attr.value
        if isinstance(func.value, cst.Name) and func.value.value == "self":
            return False
        return method in WHOLE or method == "type_as" or self._module.fact(HostFactories).casts(call, method)

    def _kept(self, node: cst.BaseExpression, depth: int = _DEPTH) -> cst.Attribute | cst.Name | None:
        """The attribute of ``self``, or the variable of a file, of which ``node`` is a form; also by another name."""
        node = self.whole(node)
        if isinstance(node, cst.Attribute) and (is_attribute_of_self(node) or self._module.names.members(node)):
            return node
        if isinstance(node, cst.Call) and depth > 0:
            called = self._module.definitions.called(node, self._module.values)
            function = called[0] if len(called) == 1 else None
            if not isinstance(function, cst.FunctionDef) or not self._is_beside(function, node):
                return None
            returned = self._module.definitions.returns(function)
            only = returned[0] if len(returned) == 1 else None
            return None if only is None else self._kept(only, depth - 1)
        given = self._module.values.reaching.only(node) if isinstance(node, cst.Name) else None
        if given is None or given.kind is not BindingKind.ASSIGN or given.path or given.value is None or depth <= 0:
            return None
        assert isinstance(node, cst.Name)
        if self._tree.function_of(given.node) is None:
            return node
        return None if any(self.writes_to(node)) else self._kept(given.value, depth - 1)

    def _is_beside(self, function: cst.FunctionDef, call: cst.Call) -> bool:
        return self._tree.root_of(function) is self._tree.root_of(call)

    # -- where the tensor is

    def _is_global(self, name: cst.Attribute | cst.Name) -> bool:
        """Whether a module makes a tensor on the host, and nothing else in it sets or changes that."""
        names = self._module.names
        bound = names.bindings(name) if isinstance(name, cst.Name) else names.members(name) or ()
        stored = self._module.fact(Stores).attributes.get(last_part(dotted_name(name) or ""), ())
        is_set_elsewhere = any(names.modules(owner) for owner, _, _ in stored)  # `colors.WHITE = ...`
        return (
            len(bound) == 1
            and not is_set_elsewhere
            and not any(self.writes_to(name))
            and self._tensors.is_on_host(name)
        )

    def _is_attribute_on_host(self, attribute: cst.Attribute) -> bool:
        """Whether only constructors set an attribute, and a tensor of the host under some settings at least."""
        name = attribute.attr.value
        function = self._module.function_of(attribute)
        owner = self._tree.class_of(function) if function is not None else None
        if owner is None:
            return False
        classes = self._module.definitions.lineage(owner)
        if any(method in self._tree.scopes[item].bindings for item in classes for method in ("to", "cuda", "_apply")):
            return False
        held = self._tensors.held(attribute)
        is_in_constructor = self._module.fact(Purposes).is_in_constructor
        later = [item for item in held if self._module.function_of(item.node) and not is_in_constructor(item.node)]
        made = [item.value for item in held if is_in_constructor(item.node)]
        stored = self._module.fact(Stores).attributes.get(name, ())
        outside = [(value, place) for target, value, place in stored if dotted_name(target) != "self"]
        if (
            not all(self._is_made_again(item.value, made) for item in later)
            or not all(map(is_in_constructor, self.writes_to(attribute)))
            or not all(is_in_constructor(place) or self._is_adapted(name, value, place) for value, place in outside)
        ):
            return False
        tensors = [item for item in held if item.value is None or not self._may_be_without(item.value)]
        return (
            bool(tensors)
            and all(map(self._tensors.is_bound_on_host, tensors))
            and any(map(self._is_reached, tensors))
            and not self._module.fact(Buffers).of(owner, name, or_parameter=True)
        )

    def _is_made_again(self, value: cst.BaseExpression | None, made: list[cst.BaseExpression | None]) -> bool:
        """Whether a method gives an attribute what a constructor gives it, by the same expression."""
        return value is not None and self._text(value) in [self._text(item) for item in made if item is not None]

    def _text(self, node: cst.BaseExpression) -> str:
        """The code of an expression without white space."""
        return "".join(self._module.code(node).split())

    def _is_adapted(self, name: str, value: cst.BaseExpression, place: cst.CSTNode) -> bool:
        """Whether a statement that runs once computes an attribute from itself, and moves nothing.

        As for another size of the input: ``net.table = F.interpolate(net.table, size)``.
        """
        if not self._module.fact(Purposes).runs_once(place):
            return False
        moves = {move.call for move in self._module.fact(Placement).moves}

        def comes_from(is_source: Callable[[cst.CSTNode], bool]) -> bool:
            return self._module.fact(DataFlow).search(is_source, lambda part: False).finds(value)

        return not comes_from(moves.__contains__) and comes_from(
            lambda part: isinstance(part, cst.Attribute) and part.attr.value == name
        )

    def _may_be_without(self, value: cst.BaseExpression) -> bool:
        """Whether an attribute is not a tensor that stays on the host: ``None``, or a parameter with other settings.

        A parameter of an object other than a network stays where it is made.
        """
        if not isinstance(value, cst.Call):
            return is_none(value)
        name = self._module.name_of(value.func) or ""
        if name.startswith("torch.nn.init."):
            return bool(value.args) and self._may_be_without(value.args[0].value)
        return name in PARAMETER and not self._tensors.is_of_plain_object(value)

    def _is_reached(self, binding: Binding) -> bool:
        """Whether a call of a constructor may set an attribute, as far as literal arguments and defaults decide."""
        function = self._module.function_of(binding.node)
        calls = self._module.callers(function).calls if function is not None else ()
        excludes = self._module.values.branches.excludes
        return not calls or not all(function and excludes(call, function, binding.node) for call in calls)

    # -- how often

    def is_conditional(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether a condition or a cache lets some calls of ``function`` pass by the move."""
        if keeps_result(self._module, function):
            return True
        return any(
            child is not above.test and not self._is_of_settings(above.test) and not self._moves_too(above, child, call)
            if isinstance(above, (cst.If, cst.IfExp))
            else isinstance(above, (*HANDLERS, cst.Lambda))
            for above, child in climb(self._tree, call, function)
        )

    def _moves_too(self, branch: cst.If | cst.IfExp, part: cst.CSTNode, call: cst.Call) -> bool:
        """Whether the other part of a branch moves the tensor of ``call`` as well, perhaps another part of it."""
        moved, other = self._moved_by(call), branch.orelse if part is branch.body else branch.body
        calls = self._tree.calls_named("to", "cuda", "type_as", inside=other) if other is not None and moved else ()
        return any(self._moved_by(item) == moved for item in calls)

    def _moved_by(self, call: cst.Call) -> str | None:
        """The dotted name of what ``call`` moves."""
        return dotted_name(self.whole(call.func.value)) if isinstance(call.func, cst.Attribute) else None

    def _is_of_settings(self, test: cst.BaseExpression) -> bool:
        """Whether a condition is the same for an object: on attributes that the constructor sets, or on the device."""
        return asks_for_device(self._module, test) or asks_for_attributes(self._module, test)

    def _is_assigned_to_item(self, call: cst.Call) -> bool:
        """``grids[device] = self.grid.to(device)``: copied once."""
        statement = self._tree.statement_of(call)
        return isinstance(statement, cst.Assign) and any(
            isinstance(item.target, cst.Subscript) for item in statement.targets
        )


def _is_large(element: cst.SubscriptElement, *, from_start: bool) -> bool:
    """Whether an index selects from the first element on or up to the last, or adds a dimension.

    ``:``, ``:count``, ``start:``, ``None``, ``...``. A slice with two bounds may select a batch.
    """
    part = element.slice
    if isinstance(part, cst.Slice):
        is_open = part.lower is None or (part.upper is None and not from_start)
        return is_open and part.step is None
    given = part.value if isinstance(part, cst.Index) else None
    return isinstance(given, cst.Ellipsis) or is_none(given)
