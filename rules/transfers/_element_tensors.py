"""Whether what a loop reads the elements of is one tensor: by how it is made, passed and used."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.stores import Stores
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.program.tensor_methods import METHODS
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.tensors.placement import Placement
from torchlint.model.training.networks import Networks
from torchlint.model.training.step_places import StepPlaces

from ._exits import leaves_device
from ._host_tensors import HostTensors

#: Functions and methods that give tuples, at least without further arguments.
_TUPLES = frozenset({"unbind", "split", "chunk", "tensor_split", "meshgrid", "where", "nonzero", "broadcast_tensors"})
#: A function that is called at more places than this is a tool of many.
_MAX_CALLERS = 24
#: Attributes of tensors and arrays.
_OF_SHAPES = frozenset({"shape", "ndim"})
#: How many functions up a parameter is followed.
_CALLER_DEPTH = 3
#: How many functions deep a network is looked into.
_NETWORK_DEPTH = 4
#: What has other elements than tensors, or elements of its own.
_OTHERS = frozenset({Kind.SEQUENCE, Kind.ARRAY, Kind.NUMBER, Kind.STRING})


class ElementTensors:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def is_tensor(self, node: cst.BaseExpression, *, has_items: bool) -> bool:
        """Whether ``node`` is one tensor; ``has_items``: its elements have ``.item()``, and are not numbers."""
        called = node.func if isinstance(node, cst.Call) else node
        if self._is_tuple(node) or self._module.name_of(called) == "torch.linspace":
            return False  # the drop rates of layers are read once
        if self._may_be_array(node):
            return False
        value = self._module.value(node)
        if self._is_moved(node):
            return True
        if value.kind is Kind.TENSOR and value.role is not Role.BATCH and self._is_matrix(node):
            return True
        is_open = value.kind in (Kind.UNKNOWN, Kind.TENSOR) and value.role is not Role.BATCH
        if is_open and self._module.fact(TensorForms).is_used_as_tensor(node):
            return True
        if is_open and has_items and self._is_shaped_input(node):
            return True
        if (is_open or has_items) and self._is_given(node, _CALLER_DEPTH, has_items=has_items):
            return True
        return self._module.fact(TensorForms).is_tensor(
            node, lambda name: name is not node and self._has_methods_of_tensor(name)
        )

    def _is_shaped_input(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is an input of a `forward`, or a part of one, and has a shape, as no list has."""
        home = self._module.names.home_of(node) if isinstance(node, cst.Name) else None
        if home is None or not isinstance(node, cst.Name) or not self._is_input(node):
            return False
        owners = map(self._tree.parent, self._module.names.uses_in(home, node.value))
        return any(isinstance(owner, cst.Attribute) and owner.attr.value in _OF_SHAPES for owner in owners)

    def _is_input(self, name: cst.Name) -> bool:
        """Whether ``name`` is a parameter of a `forward`, or one of the parts of such a parameter."""
        bound = self._module.values.reaching.only(name)
        if bound is not None and bound.kind is BindingKind.ASSIGN and bound.path and isinstance(bound.value, cst.Name):
            bound = self._module.values.reaching.only(bound.value)
        param = bound.node if bound is not None else None
        function = owner_of(self._tree, param) if isinstance(param, cst.Param) and not param.star else None
        is_named = function is not None and function.name.value == "forward"
        return is_named and function is not None and self._module.fact(StepPlaces).is_forward(function)

    def is_stored(self, name: str) -> bool:
        """Whether all that the program gives attributes of this name are tensors, none of them made on the host."""
        tree, forms = self._tree, self._module.fact(TensorForms)
        values = [value for _, value, _ in self._module.fact(Stores).attributes.get(name, ())]
        values += [item.value for item in tree.keywords.get(name, ())]
        if not values or any(name in tree.scopes[owner].bindings for owner in tree.classes):
            return False  # a field, or a method
        on_host = self._module.fact(HostTensors).is_on_host
        return all(forms.is_tensor(value) and not on_host(value) for value in values)

    def _is_given(self, node: cst.BaseExpression, depth: int, *, has_items: bool) -> bool:
        """Whether ``node`` is a parameter for which calls pass a tensor; parts of a batch must have been moved.

        All calls, or one of them if the elements have ``.item()``, and none passes a list. Also a row of it:
        ``tokens[i]``, ``row`` of ``for row in tokens``, or ``first`` of ``first, second = edges``.
        """
        while isinstance(node, cst.Subscript):
            node = node.value
        if isinstance(node, cst.IfExp):
            return self._are_given([node.body, node.orelse], depth, has_items=has_items)
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) and depth > 0 else ()
        if has_items and len(reached) > 1:
            return self._is_one_given(reached, depth)
        return len(reached) == 1 and self._is_bound_to_given(reached[0], depth, has_items=has_items)

    def _is_one_given(self, reached: list[Binding], depth: int) -> bool:
        """Whether a variable is a tensor where one of several things is assigned to it, and none is a list.

        ``lengths``, a parameter, after ``if has_prompts: prompts, lengths = lengths.data``.
        """
        values = [self._module.value(item.value) for item in reached if item.value is not None and not item.path]
        if any(value.kind in _OTHERS for value in values) or any(map(self._leaves_device, reached)):
            return False
        return any(self._is_bound_to_given(item, depth, has_items=True) for item in reached)

    def _leaves_device(self, item: Binding) -> bool:
        return item.value is not None and leaves_device(self._module, item.value)

    def _is_bound_to_given(self, item: Binding, depth: int, *, has_items: bool) -> bool:
        """Whether what binds a variable is such a parameter, or takes a part of one."""
        is_part = item.kind is BindingKind.ASSIGN and (item.path or isinstance(item.value, cst.IfExp))
        if is_part or (item.kind is BindingKind.FOR and not item.path):
            is_followed = isinstance(item.value, (cst.Name, cst.IfExp))
            return is_followed and item.value is not None and self._is_given(item.value, depth, has_items=has_items)
        param = item.node
        function = owner_of(self._tree, param) if isinstance(param, cst.Param) and not param.star else None
        if function is None or not isinstance(param, cst.Param):
            return False
        given = self._module.fact(Dispatch).arguments_for(function, param)
        return len(given) <= _MAX_CALLERS and self._are_given(given, depth - 1, has_items=has_items)

    def _are_given(self, given: list[cst.BaseExpression], depth: int, *, has_items: bool) -> bool:
        """Whether ``given``, each of which may be passed, are tensors."""
        others = [
            item
            for item in given
            if not is_none(item)
            and not self._is_moved(item)
            and not self._module.fact(TensorForms).is_tensor(item)
            and not self._is_given(item, depth, has_items=has_items)
            and not self._is_returned(item)
            and not (has_items and self._is_set_by_move(item))
        ]
        if not others or not has_items:
            return bool(given) and not others
        return len(others) < len(given) and all(self._module.value(item).kind not in _OTHERS for item in others)

    def _is_returned(self, node: cst.BaseExpression) -> bool:
        """Whether a variable is one of several results of a function, each time one that can only be a tensor."""
        bound = self._module.values.reaching.only(node) if isinstance(node, cst.Name) else None
        call = bound.value if bound is not None and bound.path else None
        if bound is None or not isinstance(call, cst.Call):
            return False
        returned = [
            unpacked(item, bound.path)
            for function in self._module.fact(Dispatch).run(call)
            for item in self._module.definitions.returns(function)
        ]
        assigned, forms = self._module.values.reaching.assigned, self._module.fact(TensorForms)
        made = [assigned(item) or item if isinstance(item, cst.Name) else item for item in returned]
        return bool(made) and all(
            item is not None and forms.is_tensor(item, self._has_methods_of_tensor) for item in made
        )

    def _is_moved(self, node: cst.BaseExpression) -> bool:
        value = self._module.value(node)
        if value.kind is not Kind.TENSOR or not value.sure:
            return False
        return value.role is not Role.BATCH or value.device is Device.CUDA

    def _is_set_by_move(self, node: cst.BaseExpression) -> bool:
        """Whether a variable is given a tensor that is moved to a device other than the CPU: ``c = c.to(device)``."""
        moves = {move.call: move for move in self._module.fact(Placement).moves}
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else ()
        made = [moves.get(item.value) for item in reached if isinstance(item.value, cst.Call) and not item.path]
        return any(move is not None and move.device is not Device.CPU for move in made)

    def _may_be_array(self, node: cst.BaseExpression | None, depth: int = 2) -> bool:
        """Whether ``node`` is one of several outputs of a network, in which something converts tensors to arrays."""
        for item in self._module.values.reaching.of(node) if isinstance(node, cst.Name) and depth > 0 else ():
            if isinstance(item.node, cst.Param):
                given = self._module.passed_by_all(item.node, _MAX_CALLERS)
                if any(self._may_be_array(passed, depth - 1) for passed in given):
                    return True
            elif item.path and isinstance(item.value, cst.Call) and self._makes_arrays(item.value):
                return True
        return False

    def _makes_arrays(self, call: cst.Call) -> bool:
        """Whether ``call`` runs a network, and a function of the program that calls ``.numpy()``."""
        calls = [call] if self._module.fact(Networks).runs_network(call) else []
        seen: set[cst.CSTNode] = set()
        for _ in range(_NETWORK_DEPTH):
            run = [item for each in calls for item in self._module.fact(Dispatch).run(each) if item not in seen]
            seen.update(run)
            calls = [each for function in run for each in self._tree.calls_in(function)]
            if any(isinstance(each.func, cst.Attribute) and each.func.attr.value == "numpy" for each in calls):
                return True
        return False

    def _is_matrix(self, node: cst.BaseExpression) -> bool:
        """Whether a variable is indexed as no list can be: ``boxes[:, 0]``."""
        home = self._module.names.home_of(node) if isinstance(node, cst.Name) else None
        if home is None or not isinstance(node, cst.Name):
            return False
        owners = map(self._tree.parent, self._module.names.uses_in(home, node.value))
        return any(isinstance(owner, cst.Subscript) and len(owner.slice) > 1 for owner in owners)

    def _has_methods_of_tensor(self, name: cst.Name) -> bool:
        """Whether ``name`` is an output of a network of which a method is called: ``logits.max(-1)``.

        Of one of several outputs it must be a method that tensors have.
        """
        parent = self._tree.parent(name)
        if not isinstance(parent, cst.Attribute) or not isinstance(self._tree.parent(parent), cst.Call):
            return False
        reached = self._module.values.reaching.of(name)
        return bool(reached) and all(
            item.kind is BindingKind.ASSIGN
            and (not item.path or (parent.attr.value in METHODS and not self._may_be_array(name)))
            and isinstance(item.value, cst.Call)
            and self._module.fact(Networks).runs_network(item.value)
            for item in reached
        )

    def _is_tuple(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` may be several tensors: ``torch.unbind(x)``, ``torch.where(mask)``."""
        if isinstance(node, cst.Name):
            reached = self._module.values.reaching.of(node)
            return any(
                not item.path and isinstance(item.value, cst.Call) and self._is_tuple(item.value) for item in reached
            )
        if not isinstance(node, cst.Call):
            return False
        returned = [
            item
            for function in self._module.fact(Dispatch).run(node)
            for item in self._module.definitions.returns(function)
        ]
        return called_name(node) in _TUPLES or any(isinstance(item, (cst.Tuple, cst.List)) for item in returned)
