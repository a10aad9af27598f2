"""Tensors that are seen to be made on the host: what moves them copies them."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import PARAMETER, Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.value import Device, named_device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.tensors.creation import FACTORIES, LEGACY, OF_EINOPS
from torchlint.model.tensors.host_factories import HostFactories

#: Functions of torch that make a tensor on the host, unless they are given a device.
_CREATING = FACTORIES | LEGACY | {"tensor", "from_numpy"}
#: Functions of torch that give several tensors.
_SEVERAL = frozenset(f"torch.{name}" for name in ("meshgrid", "broadcast_tensors", "chunk", "split", "unbind"))
#: Attributes of a tensor that are another form or a part of it.
_FORMS = frozenset({"data", "T", "mT", "real", "imag"})
#: Methods that may move a tensor, or give none.
_LEAVING = frozenset("to cuda type type_as item tolist numpy size dim numel data_ptr get_device".split())


class HostTensors(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._on_host: CyclicMemo[cst.CSTNode, bool | None] = CyclicMemo(None)

    def is_on_host(self, node: cst.CSTNode | None) -> bool:
        """Whether a tensor is seen to be made on the host: the move copies it each time."""
        return self._asked(node) is True

    def _asked(self, node: cst.CSTNode | None) -> bool | None:
        """Whether a tensor is seen to be on the host; None if it is computed from itself alone."""
        return False if node is None else self._on_host.get(node, self._is_seen_on_host)

    def _is_seen_on_host(self, node: cst.CSTNode) -> bool | None:
        if isinstance(node, cst.Name):
            return _every(map(self._is_bound, self._forest.values.reaching.of(node)))
        if isinstance(node, cst.Attribute) and node.attr.value in _FORMS and not is_attribute_of_self(node):
            return self._asked(node.value)
        if isinstance(node, cst.Attribute):
            if members := self._forest.names.members(node):
                return _every(map(self._is_bound, members))
            if is_attribute_of_self(node) and (held := self.held(node)):
                return _every(map(self._is_bound, held))
            return _every(map(self._asked, self._forest.values.stored(dotted_name(node) or "")))
        if isinstance(node, cst.Subscript):
            return self._asked(node.value)
        if isinstance(node, (cst.List, cst.Tuple)):
            return self._are_on_host([item.value for item in node.elements])
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self._asked(node.elt)
        if isinstance(node, cst.UnaryOperation):
            return self._asked(node.expression)
        if isinstance(node, cst.BinaryOperation):
            return self._are_on_host([node.left, node.right])
        if isinstance(node, cst.Comparison):
            return self._are_on_host([node.left, *(item.comparator for item in node.comparisons)])
        return isinstance(node, cst.Call) and self._is_made_on_host(node)

    def held(self, node: cst.Attribute) -> list[Binding]:
        """What a class and its bases give an attribute of ``self``, in their methods or outside of them."""
        function = self._forest.function_of(node)
        owner = self._forest.tree.class_of(function) if function is not None else None
        scopes = [self._forest.tree.scopes[item] for item in self._forest.definitions.lineage(owner)] if owner else []
        name = node.attr.value
        return [item for scope in scopes for item in (*scope.attributes.get(name, ()), *scope.bindings.get(name, ()))]

    def is_bound_on_host(self, binding: Binding) -> bool:
        """Whether a name is given a tensor on the host, also as one of several: ``weights, places = tables(size)``."""
        return self._is_bound(binding) is True

    def _is_bound(self, binding: Binding) -> bool | None:
        if isinstance(binding.node, cst.Param):
            return self._is_passed_from_host(binding.node)
        if binding.kind is BindingKind.FOR:
            sources = [*iterables(self._forest.names, binding.value, binding.path)] if binding.value is not None else []
            return len(sources) == 1 and not sources[0][1] and self._asked(sources[0][0])
        if isinstance(binding.node, cst.AugAssign):
            return self._asked(binding.node.target)  # a tensor is changed in place
        if binding.kind not in (BindingKind.ASSIGN, BindingKind.ANNOTATION):
            return False
        if not binding.path:
            return self._asked(binding.value)
        if (given := unpacked(binding.value, binding.path)) is not None:
            return self._asked(given)
        call = binding.value if isinstance(binding.value, cst.Call) else None
        if call is not None and self._forest.name_of(call.func) in _SEVERAL:
            return self._asked(call)
        return _every(self._asked(unpacked(item, binding.path)) for item in self._returned_by(call))

    def is_of_plain_object(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is in a class that is not a network: a network moves its parameters."""
        owner = nearest(self._forest.tree, node, cst.ClassDef)
        definitions = self._forest.definitions
        return owner is not None and definitions.is_known_whole(owner) and not definitions.base_names(owner)

    def _returned_by(self, call: cst.Call | None) -> list[cst.BaseExpression | None]:
        """What the functions of the program that ``call`` may run return."""
        called = self._forest.definitions.called(call, self._forest.values) if call is not None else ()
        functions = [item for item in called if isinstance(item, cst.FunctionDef)]
        return [item for function in functions for item in self._forest.definitions.returns(function)]

    def _are_on_host(self, nodes: list[cst.BaseExpression]) -> bool | None:
        """Whether one of some operands is a tensor on the host, and no other is known to be a tensor elsewhere."""
        answers = [self._asked(item) for item in nodes]
        others = [item for item, answer in zip(nodes, answers, strict=True) if answer is False]
        if any(self._forest.value(item).kind in (Kind.TENSOR, Kind.BATCH, Kind.MODULE) for item in others):
            return False
        return _every(answer for answer in answers if answer is not False)

    def _is_made_on_host(self, node: cst.Call) -> bool | None:
        name = self._forest.name_of(node.func)
        if any(item.star == "**" for item in node.args) or not self._is_host(keyword(node, "device")):
            return False
        given = [item.value for item in node.args if item.keyword is None]
        if name == "torch.autograd.Variable" or (name in PARAMETER and self.is_of_plain_object(node)):
            return bool(given) and self._asked(given[0])
        if name is not None:
            if name in OF_EINOPS:
                return bool(given) and self._asked(given[0])
            if not name.startswith("torch.") or name.count(".") != 1:
                return False
            if name == "torch.load":
                return named_device(self._forest.value(keyword(node, "map_location"))) is Device.CPU
            return name[6:] in _CREATING or self._are_on_host(given)
        if self._forest.definitions.called(node, self._forest.values):
            return _every(map(self._asked, self._returned_by(node)))
        func = node.func
        if not isinstance(func, cst.Attribute):
            return False
        if func.attr.value == "cpu":
            return True
        return not self._may_leave(node, func.attr.value) and self._asked(func.value)

    def _is_host(self, device: cst.BaseExpression | None) -> bool:
        """Whether a device that a function of torch is given is the host: none, the CPU, or that of such a tensor."""
        if isinstance(device, cst.Attribute) and device.attr.value == "device":
            return self.is_on_host(device.value)
        return device is None or named_device(self._forest.value(device)) is Device.CPU

    def _may_leave(self, call: cst.Call, method: str) -> bool:
        """Whether a method may give a tensor on another device, or no tensor; ``x.type_as(y)`` goes where ``y`` is."""
        if method not in _LEAVING or self._forest.fact(HostFactories).casts(call, method):
            return False
        return method != "type_as" or len(call.args) != 1 or not self.is_on_host(call.args[0].value)

    def _is_passed_from_host(self, param: cst.Param) -> bool | None:
        """Whether all calls of a function pass a tensor on the host, or None."""
        given = [] if param.star else self._forest.passed_by_all(param)
        return _every(
            self._asked(item) for item in given if item is None or self._forest.value(item).kind is not Kind.NONE
        )


def _every(answers: Iterable[bool | None]) -> bool | None:
    """Whether there are answers and all are True, but for those that are None; None if all are."""
    found: bool | None = False
    for answer in answers:
        if answer is False:
            return False
        found = found or answer
    return found
