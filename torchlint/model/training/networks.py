"""Which calls run a network."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.network_names import names_network
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self, last_name, last_part
from torchlint.model.syntax.parameters import is_property
from torchlint.model.training.function_words import may_run_network
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.loops import is_backward, is_step

#: Libraries of networks whose methods switch gradients off: ``encode``, ``decode``.
_RECORDING_NOTHING = ("sentence_transformers", "vocos")
#: Names of objects whose call runs several networks.
_PIPELINE = re.compile(r"(?:^|_)pipe(?:line)?$", re.IGNORECASE)
#: Modules that contain no networks, only functions and classes.
_LIBRARIES = frozenset({"torch", "builtins", "numpy", "math", "os", "time", "random", "re", "json", "logging"})
#: How many functions are followed that return what another one gives.
_DEPTH = 2
_DATA_PARALLEL = "torch.nn.parallel.data_parallel"


class Networks(ForestFact):
    """The forward calls of a forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._runs: CyclicMemo[cst.Call | cst.FunctionDef, bool] = CyclicMemo(False)

    def is_forward(self, node: cst.Call) -> bool:
        """Whether ``node`` runs a network: `model(x)`, `self.model.forward(x)`; not a criterion or a container."""
        func = node.func
        if self._is_parallel(node):
            return self._forest.value(node.args[0].value).kind is Kind.MODULE
        if isinstance(func, cst.Attribute) and func.attr.value == "forward":
            return self._forest.value(func.value).kind is Kind.MODULE
        if self._forest.name_of(func) is not None:
            return False
        if isinstance(func, cst.Attribute) and dotted_name(func.value) == "self":
            owner = self._forest.value(func.value).definition
            method = self._forest.definitions.method(owner, func.attr.value) if owner is not None else None
            if method is not None and not is_property(method):
                return False
        value = self._forest.value(func)
        return value.kind is Kind.MODULE

    def runs_network(self, node: cst.Call) -> bool:
        """Whether ``node`` runs a network, in the caller's grad mode: a forward, or ``model.encode(x)``.

        A layer without parameters, a loss, a metric or a preprocessor that happens to be a module is not a network.
        """
        return self._runs.get(node, self._find_runs)

    def _find_runs(self, node: cst.Call | cst.FunctionDef) -> bool:
        return self._find_runs_network(node) if isinstance(node, cst.Call) else self._find_runs_itself(node)

    def _find_runs_network(self, node: cst.Call) -> bool:
        if self.is_of_library(node) or (not node.args and not self._needs_nothing(node)):
            return False
        func = self.network_of(node)
        if knowledge.NO_NETWORK.search(last_name(func.value if isinstance(func, cst.Subscript) else func)):
            return False  # asked first, as a value takes longer
        value = self._forest.value(func)
        last = last_part(value.name)
        if value.kind is not Kind.MODULE or (knowledge.NO_NETWORK.search(last) and not self._is_given_network(value)):
            return False
        if last.startswith(knowledge.PARAMETERLESS) and value.name.startswith("torch.nn."):
            return False
        is_method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "forward"
        if func is node.func or is_method or self._is_parallel(node):
            return self.is_forward(node)
        if any(map(self._forest.imports, _RECORDING_NOTHING)):
            return False
        return not self._disables_gradients(node)

    def _disables_gradients(self, node: cst.Call) -> bool:
        disables = self._forest.fact(GradModes).disables
        return any(map(disables, self._forest.definitions.called(node, self._forest.values)))

    def is_of_unseen_method(self, node: cst.Call) -> bool:
        """Whether ``node`` is of a method, other than the forward, of a network whose class only its author knows.

        ``from_pretrained`` takes it from the hub, with the code or by a library that is not known: both often decorate
        such methods with ``no_grad``. So is the call of a pipeline.
        """
        network = self.network_of(node)
        value = self._forest.value(network)
        if value.definition is not None:
            return False
        if network is node.func and _PIPELINE.search(last_name(network)):
            return True  # those of diffusers and transformers decorate `__call__`
        if network is node.func or last_name(node.func) == "forward":
            return False
        return any(
            isinstance(made, cst.Call)
            and last_name(made.func) == "from_pretrained"
            and (self._trusts_code(made) or self._is_of_unknown_library(made))
            for made in value.origins
        )

    def _trusts_code(self, made: cst.Call) -> bool:
        trusts = keyword(made, "trust_remote_code")
        return trusts is not None and dotted_name(trusts) != "False"

    def _is_of_unknown_library(self, made: cst.Call) -> bool:
        name = self._forest.name_of(made.func)
        return name is not None and not name.startswith(knowledge.EVAL_BY_DEFAULT_PACKAGES)

    def infers(self, node: cst.Call) -> bool:
        """Whether ``node`` is of a method of a network that runs it without gradients: ``model.infer_image(x)``."""
        network = self.network_of(node)
        return (
            network is not node.func
            and self._forest.value(network).kind is Kind.MODULE
            and self._disables_gradients(node)
            and self.is_seen_to_run(node)
        )

    def _needs_nothing(self, node: cst.Call) -> bool:
        """Whether a network of the program, which has its data such as a graph, is run: ``model.generate()``."""
        network = self.network_of(node)
        if dotted_name(network) in (None, "self"):
            return False
        if network is not node.func:
            called = self._forest.definitions.called(node, self._forest.values)
            return any(isinstance(item, cst.FunctionDef) and self._runs_directly(item) for item in called)
        definition = self._forest.value(network).definition
        forward = self._forest.definitions.method(definition, "forward") if definition is not None else None
        return forward is not None and self._runs_directly(forward)

    def _is_given_network(self, value: Value) -> bool:
        """Whether a class of the program runs a network that its constructor is given: ``LossWrapper(model)``."""
        definition = value.definition if isinstance(value.definition, cst.ClassDef) else None
        forward = self._forest.definitions.method(definition, "forward") if definition is not None else None
        if definition is None or forward is None:
            return False
        attributes = self._forest.tree.scopes[definition].attributes
        return any(
            is_attribute_of_self(call.func)
            and names_network(last_name(call.func).lower())
            and any(self._is_parameter(item.value) for item in attributes.get(last_name(call.func), ()))
            for call in self._forest.tree.calls_in(forward.body)
        )

    def _is_parameter(self, node: cst.BaseExpression | None) -> bool:
        return isinstance(node, cst.Name) and any(
            item.kind is BindingKind.PARAM for item in self._forest.names.bindings(node)
        )

    def runs_without_gradients(self, call: cst.Call, function: cst.FunctionDef, depth: int = _DEPTH) -> bool:
        """Whether ``function`` disables gradients by a decorator, or wherever it runs a network for ``call``.

        If it runs none, but computes by itself, what it returns counts. Or it returns, perhaps under a condition, what
        such a function gives: ``return self.inference(x)``.
        """
        modes, branches = self._forest.fact(GradModes), self._forest.values.branches
        if modes.is_decorated(function):
            return True
        handed = self._handing_on(function) if depth > 0 else []
        if any(self.runs_without_gradients(inner, item, depth - 1) for inner, item in handed):
            return True
        runs = [
            inner
            for inner in self._forest.tree.calls_in(function.body)
            if (self.is_forward(inner) or self._is_run_by_own(inner)) and not branches.excludes(call, function, inner)
        ]
        computed = runs or filter(None, self._forest.definitions.returns(function))
        found = [modes.within(inner, function) for inner in computed]
        return bool(found) and all(mode is not None and mode.is_off for mode in found)

    def chooses_grad_mode(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether ``function`` may set a grad mode for ``call``, and not only for what it computes of outputs."""
        forest, modes = self._forest, self._forest.fact(GradModes)
        if modes.within(call, function) is not None:
            return True
        for switch in modes.switching_off(function):
            if isinstance(switch, cst.Decorator) or any(map(self.runs_network, forest.tree.calls_in(switch.body))):
                return True
        return any(
            forest.name_of(inner.func) in knowledge.GRAD_MODES
            and not isinstance(forest.tree.parent(inner), cst.WithItem)
            for inner in forest.tree.calls_in(function)
        )

    def _handing_on(self, function: cst.FunctionDef) -> list[tuple[cst.Call, cst.FunctionDef]]:
        """The calls whose results ``function`` returns as they are, with the functions that they run."""
        definitions = self._forest.definitions
        returned = [item for item in definitions.returns(function) if isinstance(item, cst.Call)]
        called = [(call, item) for call in returned for item in definitions.called(call, self._forest.values)]
        return [(call, item) for call, item in called if isinstance(item, cst.FunctionDef)]

    def is_of_library(self, call: cst.Call) -> bool:
        """Whether ``call`` is of a function or class of torch, NumPy or Python; quicker than its value."""
        name = self._forest.name_of(call.func)
        return name is not None and name.partition(".")[0] in _LIBRARIES and not self._is_parallel(call)

    def _is_parallel(self, call: cst.Call) -> bool:
        """``data_parallel(model, x, device_ids)``, the function of torch that runs a network on several GPUs."""
        return bool(call.args) and self._forest.name_of(call.func) == _DATA_PARALLEL

    def network_of(self, call: cst.Call) -> cst.BaseExpression:
        """The network that a forward call runs: ``model`` of ``model(x)`` or of ``model.encode(x)``."""
        if self._is_parallel(call):
            return call.args[0].value
        func = self._method_in(call.func) if isinstance(call.func, cst.Name) else call.func
        if isinstance(func, cst.Attribute) and (
            func.attr.value in (*knowledge.ENCODING_METHODS, "forward") or self._is_run_by_method(func)
        ):
            return func.value
        return call.func

    def _method_in(self, name: cst.Name) -> cst.BaseExpression | None:
        """``model.encode`` of ``encode = model.encode``; also of one of two networks: ``a.encode if flag else ...``."""
        bound = self._forest.values.reaching.assigned(name)
        return bound.body if isinstance(bound, cst.IfExp) else bound

    def _is_run_by_method(self, func: cst.Attribute) -> bool:
        """Whether ``func`` is a method by which its class, a network of the program, is run: ``model.infer``.

        The network may be of one of several classes: it runs those that have it. ``model.forward_masks`` says so.
        """
        name = func.attr.value
        if dotted_name(func.value) == "self" or not (may_run_network(name) or name in self._methods):
            return False
        owner = self._forest.value(func.value)
        if owner.kind is not Kind.MODULE or name.startswith("forward_"):
            return owner.kind is Kind.MODULE
        methods = self._methods_of(owner, name)
        return bool(methods) and all(map(self._runs_itself, methods))

    def _methods_of(self, owner: Value, name: str) -> list[cst.FunctionDef]:
        """The methods that a network may have under a name; of one of unknown class, those of all networks.

        Without networks that have it, all methods of the program. None if one of all chooses the grad mode: the network
        may be of its class.
        """
        definitions = self._forest.definitions
        classes = definitions.classes_of(owner, self._forest.values) if owner.definition is None else [owner.definition]
        if not classes and not owner.origins:
            named = self._methods.get(name, [])
            return [] if any(map(self._chooses_grad_mode, named)) else [*filter(self._is_of_network, named)] or named
        return [method for item in classes if (method := definitions.method(item, name)) is not None]

    def _chooses_grad_mode(self, method: cst.FunctionDef) -> bool:
        named = self._forest.tree.inside(method, cst.Attribute, cst.Name)
        return any(self._forest.name_of(node) in knowledge.GRAD_MODES for node in named)

    @cached_property
    def _methods(self) -> dict[str, list[cst.FunctionDef]]:
        """The methods of all classes by name, without those that are called out of sight: ``__init__``."""
        found: dict[str, list[cst.FunctionDef]] = {}
        for function in self._forest.tree.functions:
            if not function.name.value.startswith("__") and self._forest.tree.class_of(function) is not None:
                found.setdefault(function.name.value, []).append(function)
        return found

    def runs_only_parts(self, call: cst.Call) -> bool:
        """Whether ``call`` is of a method that runs no layer, only methods of parts: ``self.diffusion.sample(z)``."""
        func = call.func
        if not isinstance(func, cst.Attribute) or self.network_of(call) is func:
            return False
        if func.attr.value in (*knowledge.ENCODING_METHODS, "forward"):
            return False
        definitions = self._forest.definitions.called(call, self._forest.values)
        return any(isinstance(item, cst.FunctionDef) and not self._runs_directly(item) for item in definitions)

    def is_seen_to_run(self, call: cst.Call) -> bool:
        """Whether the function that ``call`` names is seen, and runs a network: it is not only declared.

        Of a method of a network of unknown class, all methods of the program with this name are of networks and do.
        """
        called = self._forest.definitions.called(call, self._forest.values)
        if called or not isinstance(call.func, cst.Attribute):
            return any(isinstance(item, cst.FunctionDef) and self._runs_itself(item) for item in called)
        methods = self._methods_of(self._forest.value(call.func.value), call.func.attr.value)
        return bool(methods) and all(map(self._is_of_network, methods)) and all(map(self._runs_itself, methods))

    def _is_of_network(self, method: cst.FunctionDef) -> bool:
        return self._forest.values.object_of(method).kind is Kind.MODULE

    def _runs_itself(self, method: cst.FunctionDef) -> bool:
        """Whether a method of a network runs it, or a part of it: ``self.decoder(z)``, ``self.diffusion.sample(z)``.

        A method that also trains it is none.
        """
        return self._runs.get(method, self._find_runs)

    def _find_runs_itself(self, method: cst.FunctionDef) -> bool:
        calls = self._forest.tree.calls_in(method.body)
        return not any(is_backward(call) or is_step(call) for call in calls) and (
            self._runs_directly(method)
            or any(
                isinstance(call.func, cst.Attribute)
                and (self._is_run_by_method(call.func) or self._is_run_by_own(call))
                for call in calls
            )
        )

    def runs_own_part(self, call: cst.Call) -> bool:
        """Whether a network runs a part of itself by a method that its name says to: ``self.forward_decoder(x)``."""
        named = isinstance(call.func, cst.Attribute) and call.func.attr.value.startswith("forward_")
        return named and self._is_run_by_own(call)

    def _is_run_by_own(self, call: cst.Call) -> bool:
        """Whether ``call`` is of another method of the same object that runs the network: ``self.decode(codes)``."""
        return is_attribute_of_self(call.func) and self.is_seen_to_run(call)

    def _runs_directly(self, method: cst.FunctionDef) -> bool:
        return any(
            (self.is_forward(call) and self.runs_network(call)) or dotted_name(call.func) == "self"
            for call in self._forest.tree.calls_in(method.body)
        )
