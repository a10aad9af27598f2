"""``no_grad`` blocks whose tensors do not leave them, so that ``inference_mode`` is possible."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.numerics.autocasts import Autocasts
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import PARTS_AND_RESULTS, base_of, dotted_name, prefixes
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import LEAVING, Gradients
from torchlint.model.training.networks import Networks
from torchlint.model.training.outputs import Outputs

#: Methods that change objects that outlive the block.
_MUTATING = frozenset(
    {"copy_", "clamp_", "lerp_", "register_buffer", "load_state_dict", "swap_tensors", "set_", "init"}
)
#: Names of context managers for mixed precision.
_AUTOCAST = re.compile(r"autocast|(^|[._])amp([._]|$)")
#: Attributes that are parameters, or lead to them.
_PARAMETERS = frozenset({"data", "weight", "bias", "grad"})
#: Calls that are not allowed under ``inference_mode``, or that create something permanent.
_FORBIDDEN = (knowledge.ENABLE_GRAD, knowledge.SET_GRAD_ENABLED, "torch.nn.Parameter")


class NoGrad:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._recorded: dict[cst.CSTNode, list[cst.Call]] = {}

    @cached_property
    def replaceable(self) -> list[tuple[cst.CSTNode, cst.Call, cst.CSTNode]]:
        """Each ``no_grad`` manager or decorator that could be ``inference_mode``, with a forward pass and its body."""
        found: list[tuple[cst.CSTNode, cst.Call, cst.CSTNode]] = []
        for manager, body, function in self._disabled:
            forward = self._module.fact(Outputs).first_run(body)
            if forward is not None and self._stays_inside(body, function):
                found.append((manager, forward, body))
        return found

    @cached_property
    def _disabled(self) -> list[tuple[cst.CSTNode, cst.CSTNode, cst.FunctionDef | None]]:
        """Every plain ``no_grad``: the manager or decorator, its body, and the function around it."""
        module = self._module
        found: list[tuple[cst.CSTNode, cst.CSTNode, cst.FunctionDef | None]] = []
        for node in module.tree.withs:
            for item in node.items:
                if isinstance(item.item, cst.Call) and module.name_of(item.item.func) == knowledge.NO_GRAD:
                    found.append((item.item, node.body, module.function_of(node)))
        for function in module.tree.functions:
            for decorator in function.decorators:
                target = decorator.decorator
                name = module.name_of(target.func if isinstance(target, cst.Call) else target)
                if name == knowledge.NO_GRAD:
                    found.append((target, function.body, function))
        return sorted(found, key=lambda item: module.tree.index(item[0]))

    def _stays_inside(self, body: cst.CSTNode, function: cst.FunctionDef | None) -> bool:
        """Whether no tensor created in ``body`` is used for training, kept, or passed to unknown code."""
        module = self._module
        if module.fact(Gradients).anything_reaches_backward(body) or self._has_autocast(body) or self._changes(body):
            return False
        runs = module.fact(Outputs).tensor_calls(body)
        if runs and all(isinstance(module.tree.parent(call), cst.Expr) for call in runs):
            return False  # a warm-up, or hooks take the outputs
        if function is not None and self._is_part_of_network(function):
            return function.name.value != "forward" and self._returns_numbers(function)
        return not self._keeps(body, runs) and not self._returns(function, runs) and not self._feeds_network(body, runs)

    def _changes(self, body: cst.CSTNode) -> bool:
        """Whether ``body`` enables gradients again, or changes tensors that outlive it, here or in its callees."""
        module = self._module
        if any(
            isinstance(node, (cst.Call, cst.Attribute)) and module.name_of(node) in _FORBIDDEN
            for node in module.tree.nodes_in(body)
        ):
            return True
        if any(
            isinstance(target, cst.Attribute) and target.attr.value in _PARAMETERS and module.tree.within(target, body)
            for target, _, _ in module.tree.stores
        ):
            return True
        called = (
            item for call in module.tree.calls_in(body) for item in module.definitions.called(call, module.values)
        )
        bodies = [body, *(item.body for item in called if isinstance(item, cst.FunctionDef))]
        return any(
            isinstance(node, cst.Attribute) and node.attr.value in _MUTATING and not self._is_fresh(node, part)
            for part in bodies
            for node in module.tree.nodes_in(part)
        )

    def _is_part_of_network(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is a method of a network, whose callers are unknown and may train."""
        owner = self._module.tree.class_of(function)
        return owner is not None and (
            self._module.values.instance(owner).kind is Kind.MODULE or function.name.value in ("step", "__call__")
        )

    def _returns_numbers(self, function: cst.FunctionDef) -> bool:
        return all(
            item is None
            or self._module.fact(Outputs).is_no_tensor(item)
            or (isinstance(item, cst.Call) and isinstance(item.func, cst.Attribute) and item.func.attr.value in LEAVING)
            for item in self._module.definitions.returns(function)
        )

    def _feeds_network(self, body: cst.CSTNode, runs: set[cst.CSTNode]) -> bool:
        """Whether a network that records a graph gets one of the outputs after ``body``."""
        module = self._module
        end = module.tree.last(body)
        home = nearest(module.tree, body, cst.FunctionDef, cst.ClassDef)
        return any(
            module.fact(Outputs).carries(argument.value, runs, LEAVING)
            for call in self._recorded_in(home if home is not None else module.root)
            if module.tree.index(call) > end
            for argument in call.args
        )

    def _recorded_in(self, home: cst.CSTNode) -> list[cst.Call]:
        """The calls of networks in a function, class or file whose graph is recorded, in order."""
        if home not in self._recorded:
            module = self._module
            networks = (call for call in module.tree.calls_in(home) if module.value(call.func).kind is Kind.MODULE)
            self._recorded[home] = [call for call in networks if not module.fact(GradModes).of(call).is_off]
        return self._recorded[home]

    def _is_fresh(self, node: cst.Attribute, body: cst.CSTNode) -> bool:
        """Whether the object that a method changes in place was created in ``body``."""
        networks, owner = self._module.fact(Networks), base_of(node)
        owners = prefixes(node, PARTS_AND_RESULTS)
        if any(isinstance(made, cst.Call) and networks.runs_network(made) for made in owners):
            return True
        if not isinstance(owner, cst.Name):
            return False
        bindings = self._module.names.bindings(owner)
        return bool(bindings) and all(
            binding.kind is BindingKind.ASSIGN and self._module.tree.within(binding.node, body) for binding in bindings
        )

    def _has_autocast(self, body: cst.CSTNode) -> bool:
        module = self._module
        first = next((node for node in module.tree.nodes_in(body) if isinstance(node, cst.BaseSmallStatement)), body)
        if module.fact(Autocasts).is_on(first):
            return True
        return any(_AUTOCAST.search(dotted_name(call.func) or "") for call in module.tree.calls_in(body)) or any(
            isinstance(node, cst.With) and module.fact(Autocasts).is_on(node.body)
            for node in module.tree.nodes_in(body)
        )

    def _keeps(self, body: cst.CSTNode, runs: set[cst.CSTNode]) -> bool:
        """Whether an output is stored on an object."""
        tree = self._module.tree
        return any(
            isinstance(target, cst.Attribute)
            and value is not None
            and tree.within(target, body)
            and self._module.fact(Outputs).carries(value, runs, LEAVING)
            for target, value, _ in tree.stores
        )

    def _returns(self, function: cst.FunctionDef | None, runs: set[cst.CSTNode]) -> bool:
        """Whether an output is returned as a tensor."""
        if function is None:
            return False
        given = [item for item in self._module.definitions.returns(function) if item is not None]
        given += self._module.definitions.yields(function)
        return any(self._module.fact(Outputs).carries(item, runs, LEAVING) for item in given)
