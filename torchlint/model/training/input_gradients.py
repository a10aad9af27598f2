"""Gradients of inputs, not of weights: adversarial examples, images and styles that an optimizer changes."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import requires_gradient
from torchlint.model.syntax.dotted import called_name, dotted_name, is_attribute_of_self
from torchlint.model.training.loops import is_step

#: Methods of tensors alone that give a tensor which is not a parameter.
_MAKING = frozenset({"clone", "detach", "normal_", "uniform_", "zero_", "requires_grad_"})


class InputGradients(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._changed: dict[cst.CSTNode, bool] = {}

    @cached_property
    def are_optimized(self) -> bool:
        """Whether all that the optimizers of the file change are tensors: an image, a style, a prompt; no network."""
        made: list[cst.Call] = []
        for calls in (self._calls_of_optim, self._forest.tree.calls):  # one by name that is given a network is enough
            made = [call for call in calls if self._makes_optimizer(call)]
            if not all(call.args and self._is_list_of_tensors(call.args[0].value) for call in made):
                return False
        return bool(made)

    @property
    def _calls_of_optim(self) -> list[cst.Call]:
        """The calls that name a class or a function of torch.optim."""
        names = self._forest.names
        return names.calls_of(*(name for name in names.calls if name.startswith("torch.optim.")))

    def are_changed_in(self, node: cst.CSTNode) -> bool:
        """Whether all optimizers that a loop or a function steps change tensors, whatever others of the program do."""
        if node not in self._changed:
            steps = [call for call in self._forest.tree.calls_in(node) if is_step(call)]
            self._changed[node] = bool(steps) and all(map(self._steps_inputs, steps))
        return self._changed[node]

    def _makes_optimizer(self, call: cst.Call) -> bool:
        return self._forest.value(call).is_optimizer_of_torch

    def _is_list_of_tensors(self, node: cst.BaseExpression) -> bool:
        """``[image]``, ``[latent] + noises``, ``[{"params": [image]}]``: names of no network's parameters."""
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return self._is_list_of_tensors(node.left) and self._is_list_of_tensors(node.right)
        if isinstance(node, cst.ListComp):
            return self._makes_tensor(node.elt)
        if isinstance(node, cst.Name):
            values = [item.value for item in self._forest.values.reaching.of(node)]
            return any(map(_is_list, values)) and all(
                item is not None and (self._fills_with_tensors(node, item) or self._makes_tensor(item))
                for item in values
            )
        if not isinstance(node, cst.List):
            return False
        return bool(node.elements) and all(
            isinstance(item, cst.Element) and (self._is_tensor(item.value) or self._is_group(item.value))
            for item in node.elements
        )

    def _fills_with_tensors(self, name: cst.Name, value: cst.BaseExpression) -> bool:
        """Whether a name is bound to a list of tensors, perhaps an empty one to which tensors are appended."""
        if not isinstance(value, cst.List) or value.elements:
            return _is_list(value) and self._is_list_of_tensors(value)
        function = self._forest.tree.function_of(name)
        appended = [
            item.value
            for call in self._forest.tree.calls_named("append")
            if isinstance(call.func, cst.Attribute)
            and dotted_name(call.func.value) == name.value
            and self._forest.tree.function_of(call) is function
            for item in call.args
        ]
        return bool(appended) and all(map(self._makes_tensor, appended))

    def _makes_tensor(self, node: cst.BaseExpression) -> bool:
        """``x.detach().clone()``, ``noise.repeat(8, 1).normal_()``, ``torch.zeros(8)``."""
        if isinstance(node, cst.Call) and called_name(node) in _MAKING and isinstance(node.func, cst.Attribute):
            return True
        return isinstance(node, cst.Call) and self._forest.value(node).kind is Kind.TENSOR

    def _is_group(self, node: cst.BaseExpression) -> bool:
        """``{"params": [image], "lr": 0.1}``."""
        return isinstance(node, cst.Dict) and any(
            isinstance(item, cst.DictElement)
            and isinstance(item.key, cst.SimpleString)
            and item.key.raw_value == "params"
            and self._is_list_of_tensors(item.value)
            for item in node.elements
        )

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            return node.func.attr.value == "requires_grad_"
        if isinstance(node, cst.Attribute):
            owner = self._forest.value(node.value)
            if owner.kind is Kind.MODULE and dotted_name(node.value) != "self":
                return False  # `net.weight`
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        values = [item.value for item in self._forest.values.reaching.of(node)] if isinstance(node, cst.Name) else []
        if values and all(isinstance(item, (cst.Dict, cst.List, cst.ListComp)) for item in values):
            return False  # a group of parameters
        return self._forest.value(node).kind in (Kind.TENSOR, Kind.UNKNOWN)

    def are_wanted_by(self, backward: cst.Call) -> bool:
        """Whether a backward pass is that of an attack: its function reads the gradient of a tensor that it changes.

        It makes the tensor require a gradient, and steps no optimizer, or only one of such tensors.
        """
        function = self._forest.function_of(backward)
        read = self._gradients.get(function, ())
        if function is None or not any(self._is_input(node.value, function) for node in read):
            return False
        return all(map(self._steps_inputs, filter(is_step, self._forest.tree.calls_in(function.body))))

    @cached_property
    def _gradients(self) -> dict[cst.CSTNode | None, list[cst.Attribute]]:
        """Each ``x.grad``, by the function around it."""
        return self._by_function("grad")

    @cached_property
    def _requiring(self) -> dict[cst.CSTNode | None, list[cst.Attribute]]:
        """Each ``x.requires_grad_`` and ``x.requires_grad``, by the function around it."""
        return self._by_function("requires_grad_", "requires_grad")

    def _by_function(self, *names: str) -> dict[cst.CSTNode | None, list[cst.Attribute]]:
        found: dict[cst.CSTNode | None, list[cst.Attribute]] = {}
        for node in self._forest.tree.attributes_named(*names):
            found.setdefault(self._forest.tree.function_of(node), []).append(node)
        return found

    def _is_input(self, node: cst.BaseExpression, function: cst.FunctionDef) -> bool:
        """Whether ``node`` is a variable, or an attribute of ``self``, that ``function`` makes require a gradient."""
        if not isinstance(node, cst.Name) and not is_attribute_of_self(node):
            return False
        name = dotted_name(node)
        if any(dotted_name(other.value) == name for other in self._requiring.get(function, ())):
            return True
        return isinstance(node, cst.Name) and any(
            isinstance(item.value, cst.Call) and requires_gradient(item.value)
            for item in self._forest.tree.scopes[function].bindings.get(node.value, ())
        )

    def _steps_inputs(self, step: cst.Call) -> bool:
        """Whether an optimizer that is stepped is made for tensors."""
        owner = step.func.value if isinstance(step.func, cst.Attribute) else step.func
        made = [call for call in self._forest.value(owner).origins if isinstance(call, cst.Call)]
        return bool(made) and all(call.args and self._is_list_of_tensors(call.args[0].value) for call in made)


def _is_list(node: cst.BaseExpression | None) -> bool:
    return isinstance(node, (cst.List, cst.ListComp, cst.BinaryOperation))
