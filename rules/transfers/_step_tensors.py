"""Tensors that a training step computes on the GPU: outputs, losses, gradients, moved data; what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.tensor_methods import METHODS
from torchlint.model.semantics.knowledge import GRADIENT_NORMS, Kind
from torchlint.model.semantics.moves import moved_to
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name, dotted_name, key_of, last_name
from torchlint.model.syntax.scopes import Binding
from torchlint.model.tensors.devices import Devices
from torchlint.model.training.data_flow import DataFlow, Search
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.library_steps import LibrarySteps
from torchlint.model.training.loops import BACKWARD, is_backward
from torchlint.model.training.outputs import Outputs

from ._fabric_batches import FabricBatches
from ._network_inputs import NetworkInputs

#: The maximum number of expressions that a value is followed through.
_VALUE_DEPTH = 20
#: Methods that give a single number if they get no dimension.
_REDUCTIONS = frozenset({"mean", "sum"})
#: A variable, by its text, and the function that uses it; None at module level.
_Variable = tuple[str | None, cst.FunctionDef | None]


class StepTensors(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._inputs = forest.fact(NetworkInputs)

    def is_tensor_of_step(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is computed on the device from an output of a network, a loss or a moved batch."""
        return self._search.finds(node)

    def is_asked(self, name: cst.Name) -> bool:
        """Whether a method of tensors is called on a tensor of the step, or on what arithmetic makes of it."""
        above = self._tree.parent(name)
        while isinstance(above, cst.BinaryOperation):
            above = self._tree.parent(above)
        return isinstance(above, cst.Attribute) and above.attr.value in METHODS and self.is_tensor_of_step(name)

    def is_of_gradients(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is computed on the device from gradients of parameters: ``p.grad.view(-1)``."""
        return self._gradient_search.finds(node)

    @cached_property
    def _search(self) -> Search:
        return self._search_for(self._is_source)

    @cached_property
    def _gradient_search(self) -> Search:
        return self._search_for(self._is_gradient)

    def _search_for(self, is_source: Callable[[cst.CSTNode], bool]) -> Search:
        flow = self._forest.fact(DataFlow)
        return flow.search(is_source, self._ends, outward=True, depth=_VALUE_DEPTH)

    def _ends(self, part: cst.CSTNode) -> bool:
        """Whether the value of ``part`` is not on the device: also a number in a dictionary, ``state["step"]``."""
        return self._inputs.leaves_device(part) or (type(part) is cst.Subscript and key_of(part) in self._number_keys)

    @cached_property
    def _number_keys(self) -> set[str]:
        """The keys under which the program puts nothing but written numbers: ``state["step"] = 0``."""
        stored: dict[str, bool] = {}
        for target, value, statement in self._tree.stores:
            key = key_of(target) if isinstance(target, cst.Subscript) else ""
            if key:
                given = statement.value if isinstance(statement, cst.AugAssign) else value
                stored[key] = stored.get(key, True) and isinstance(given, (cst.Integer, cst.Float))
        return {key for key, is_number in stored.items() if is_number}

    def _is_gradient(self, part: cst.CSTNode) -> bool:
        """Whether ``part`` is a gradient, the norm of all, or the data of a parameter whose gradient is read."""
        if type(part) is cst.Call:
            return self._forest.name_of(part.func) in GRADIENT_NORMS
        if type(part) is not cst.Attribute or part.attr.value not in ("grad", "data"):
            return False
        if part.attr.value == "grad":
            return self._forest.name_of(part) is None
        return (dotted_name(part.value), self._forest.function_of(part)) in self._parameters

    @cached_property
    def _parameters(self) -> set[_Variable]:
        """The variables whose gradients a function reads."""
        nodes = self._tree.attributes_named("grad")
        found = {(dotted_name(node.value), self._forest.function_of(node)) for node in nodes}
        return {item for item in found if item[0] is not None}

    def _is_source(self, part: cst.CSTNode) -> bool:
        if type(part) is cst.Call:
            if self._forest.fact(Outputs).runs(part) or self._forest.fact(FabricBatches).gives(part):
                return True
            value = self._forest.value(part)
            if value.kind is not Kind.TENSOR:
                return value.kind is Kind.UNKNOWN and moved_to(part, self._forest.values) is Device.CUDA
            if value.role in (Role.OUTPUT, Role.LOSS):
                return value.device is not Device.CPU
            if value.role is Role.BATCH and value.device is None:
                return self._forest.fact(Devices).is_move_to_cuda(part)
            return (value.role is Role.BATCH or called_name(part) in ("to", "cuda")) and value.device is Device.CUDA
        if type(part) is cst.Name and (self._inputs.has(part) or self._forest.fact(FabricBatches).has(part)):
            return True
        return (type(part) is cst.Name or type(part) is cst.Attribute) and self.is_term(part)

    def is_loss(self, node: cst.CSTNode) -> bool:
        """Whether a backward pass of the function around ``node`` starts from that name, if it is still a tensor."""
        if (dotted_name(node), self._forest.function_of(node)) not in self._losses:
            return False
        reached = self._forest.values.reaching.of(node) if isinstance(node, cst.Name) else []
        return not any(self._inputs.leaves_device(item.value) for item in reached if item.value is not None)

    def is_named_loss(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is ``getattr(self, "loss_" + name)``, and losses of the program have such names."""
        if not isinstance(node, cst.Call) or len(node.args) < 2:
            return False
        if self._forest.name_of(node.func) != "builtins.getattr":
            return False
        name = node.args[1].value
        first: cst.CSTNode | None = name.left if isinstance(name, cst.BinaryOperation) else None
        if isinstance(name, cst.FormattedString) and name.parts:
            first = name.parts[0]
        prefix = first.raw_value if isinstance(first, cst.SimpleString) else ""
        if isinstance(first, cst.FormattedStringText):
            prefix = first.value
        begin = f"{dotted_name(node.args[0].value)}.{prefix}"
        return bool(prefix) and any(text is not None and text.startswith(begin) for text, _ in self._terms)

    def is_item_of_loss(self, node: cst.Subscript) -> bool:
        """Whether a backward pass of the function around ``node`` starts from ``losses["total"]``, or a name for it."""
        place = (dotted_name(node.value), self._forest.function_of(node))
        return any(self._forest.code(item) == self._forest.code(node) for item in self._items.get(place, ()))

    def contains_loss(self, node: cst.Name) -> bool:
        """Whether a backward pass starts from an item of the dictionary ``node``, or from the sum of its values."""
        place = (node.value, self._forest.function_of(node))
        reached = self._forest.values.reaching.of(node)
        if place not in self._containers and not (reached and self._summed.issuperset(reached)):
            return False
        return not self._is_overwritten(place)

    @cached_property
    def _summed(self) -> set[Binding]:
        """The bindings of dictionaries from the sum of whose values backward passes start."""
        named = [
            item.value
            for root in self._started
            if isinstance(root, cst.Name)
            for item in self._forest.values.reaching.of(root)
            if not item.path
        ]
        return {
            binding
            for root in (*self._started, *named)
            if isinstance(root, cst.Call) and root.args and self._forest.name_of(root.func) == "builtins.sum"
            for name in self._dictionary_of(root.args[0].value)
            for binding in self._forest.values.reaching.of(name)
        }

    def _dictionary_of(self, values: cst.BaseExpression) -> Iterator[cst.Name]:
        """``losses`` of ``losses.values()``, ``v for v in losses.values()`` or ``losses[k] for k in losses``."""
        if isinstance(values, (cst.GeneratorExp, cst.ListComp)):
            element, over = values.elt, values.for_in.iter
            if isinstance(element, cst.Subscript) and isinstance(over, cst.Name):
                if isinstance(element.value, cst.Name) and element.value.value == over.value:
                    yield over
            values = over
        if isinstance(values, cst.Call) and isinstance(values.func, cst.Attribute) and not values.args:
            if values.func.attr.value in ("values", "items") and isinstance(values.func.value, cst.Name):
                yield values.func.value

    @cached_property
    def _containers(self) -> set[_Variable]:
        """The dictionaries, or those around them, from an item of which backward passes start."""
        return {
            (self._forest.code(item).partition("[")[0], function)
            for (_, function), items in self._items.items()
            for item in items
        }

    def _is_overwritten(self, place: _Variable) -> bool:
        """Whether a function stores in a variable an item that is not on the device: ``losses[k] = v.item()``."""
        return any(self._is_off_device(value) for _, value in self._item_stores.get(place, ()))

    def _is_off_device(self, value: cst.BaseExpression | None) -> bool:
        return value is None or not self.is_tensor_of_step(value)

    @cached_property
    def _item_stores(self) -> dict[_Variable, list[tuple[cst.Subscript, cst.BaseExpression | None]]]:
        """By variable and function the items that are stored there, each with its value."""
        found: dict[_Variable, list[tuple[cst.Subscript, cst.BaseExpression | None]]] = {}
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Subscript):
                place = (dotted_name(target.value), self._forest.function_of(target))
                found.setdefault(place, []).append((target, value))
        return found

    @cached_property
    def _items(self) -> dict[_Variable, list[cst.Subscript]]:
        """By variable and function the items of dictionaries that backward passes start from."""
        named = [
            self._unreduced(item.value)
            for root in self._started
            if isinstance(root, cst.Name)
            for item in self._forest.values.reaching.of(root)
            if not item.path
        ]
        found: dict[_Variable, list[cst.Subscript]] = {}
        for item in (*self._started, *named):
            if isinstance(item, cst.Subscript) and not self._changes(item):
                found.setdefault((dotted_name(item.value), self._forest.function_of(item)), []).append(item)
        return found

    def _changes(self, item: cst.Subscript) -> bool:
        """Whether the function around ``losses["total"]`` stores something there that is not on the device."""
        code = self._forest.code(item)
        stored = self._item_stores.get((dotted_name(item.value), self._forest.function_of(item)), ())
        return any(self._forest.code(target) == code and self._is_off_device(value) for target, value in stored)

    def _unreduced(self, node: cst.BaseExpression | None) -> cst.BaseExpression | None:
        """``losses["total"]`` of ``losses["total"].mean()``, the mean over GPUs."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
            return node.func.value if node.func.attr.value in _REDUCTIONS else node
        return node

    def is_scalar(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is a single number: a mean or a sum, or a backward pass starts from it or from its sum."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and len(node.args) < 2:
            is_of_torch = self._forest.name_of(node.func) in ("torch.sum", "torch.mean")
            return node.func.attr.value in _REDUCTIONS and is_of_torch is bool(node.args)
        return (dotted_name(node), self._forest.function_of(node)) in self._scalars

    @cached_property
    def _scalars(self) -> set[_Variable]:
        roots = [
            part
            for call in self._tree.calls_named(*BACKWARD)
            if is_backward(call) and all(item.keyword for item in call.args) and isinstance(call.func, cst.Attribute)
            for part in self._unscaled(call.func.value)
        ]
        return self._reached(self._weighted, [root for root in roots if dotted_name(root)])

    def _unscaled(self, root: cst.BaseExpression) -> list[cst.CSTNode]:
        """``root``, or what a scaler scales: ``loss`` of ``scaler.scale(loss)``."""
        return self._added(root) if isinstance(root, cst.Call) and called_name(root) == "scale" else [root]

    def is_term(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is a name that is added to such a loss, and not a part of a batch on the CPU."""
        if (dotted_name(node), self._forest.function_of(node)) not in self._terms:
            return False
        value = self._forest.value(node)
        return value.kind is not Kind.LOADER and (value.role is not Role.BATCH or value.device is Device.CUDA)

    @cached_property
    def _backward_roots(self) -> list[cst.CSTNode]:
        """The names that the backward passes of the file start from."""
        return [part for root in self._started for part in self._added(root)]

    @cached_property
    def _started(self) -> list[cst.BaseExpression]:
        """The expressions that the backward passes of the file start from.

        Also ``loss`` of ``with scale_loss(loss, opt) as scaled: scaled.backward()`` and of ``loss_scaler(loss, opt)``,
        and what the training step of a library returns.
        """
        scalers = (call for call in self._forest.fact(Gradients).backwards if last_name(call.func).endswith("scaler"))
        found = [call.args[0].value for call in scalers if call.args] + self._forest.fact(LibrarySteps).losses
        for call in self._tree.calls_named(*BACKWARD):
            if is_backward(call) and isinstance(call.func, cst.Attribute):
                found += [call.func.value, *(item.value for item in call.args[:1] if item.keyword is None)]
        scaling = [
            item.value
            for root in found
            if isinstance(root, cst.Name)
            for item in self._forest.values.reaching.of(root)
            if item.kind is BindingKind.WITH
            and isinstance(item.value, cst.Call)
            and called_name(item.value) == "scale_loss"
        ]
        return [*found, *(call.args[0].value for call in scaling if call.args)]

    @cached_property
    def _losses(self) -> set[_Variable]:
        return {(dotted_name(part), self._forest.function_of(part)) for part in self._backward_roots}

    @cached_property
    def _terms(self) -> set[_Variable]:
        return self._reached(self._added, self._backward_roots)

    def is_addend(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is a name that is added to such a loss, and no weight of one."""
        place = (dotted_name(node), self._forest.function_of(node))
        return place in self._terms and place in self._addends  # each addend is a term, and those are found sooner

    @cached_property
    def _addends(self) -> set[_Variable]:
        return self._reached(self._weighted, self._backward_roots)

    def _reached(self, parts: Callable[[cst.CSTNode], list[cst.CSTNode]], roots: list[cst.CSTNode]) -> set[_Variable]:
        """The names that ``roots``, losses, are made of, of which ``parts`` gives those of one expression."""
        flow = self._forest.fact(DataFlow)
        waiting = list(roots)
        found: dict[cst.CSTNode, None] = {}
        while waiting:
            part = waiting.pop()
            if part not in found:
                found[part] = None
                for source, _ in flow.sources(part):
                    waiting.extend(parts(source))
                    for returned, _ in flow.sources(source) if isinstance(source, cst.Call) else ():
                        waiting.extend(parts(returned))
        return {(dotted_name(part), self._forest.function_of(part)) for part in found}

    def _weighted(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The names that ``node`` adds up, each with a number as its weight: ``a`` and ``b`` of ``a + args.w * b``."""
        if isinstance(node, cst.UnaryOperation):
            return self._weighted(node.expression)
        if isinstance(node, cst.Call) and called_name(node) != "scale":
            return []
        if not isinstance(node, cst.BinaryOperation):
            return self._added(node)
        if isinstance(node.operator, cst.Multiply):
            sides = [side for side in (node.left, node.right) if not self._is_weight(side)]
            return self._weighted(sides[0]) if len(sides) == 1 else []
        if isinstance(node.operator, cst.Divide):
            return self._weighted(node.left)
        added = isinstance(node.operator, (cst.Add, cst.Subtract))
        return [part for side in (node.left, node.right) for part in self._weighted(side)] if added else []

    def _is_weight(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a number or a setting: ``2``, ``args.weight``, ``self.alpha``."""
        if isinstance(node, (cst.Integer, cst.Float, cst.Attribute)):
            return True
        value = self._forest.value(node)
        return value.sure and value.kind is Kind.NUMBER

    def _added(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The names that ``node`` adds up: ``a`` and ``b`` of ``(a + 2 * b) / n``, ``a`` of ``scaler.scale(a)``."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            return [node] if dotted_name(node) is not None else []
        if isinstance(node, cst.BinaryOperation):
            left = self._added(node.left)
            return left if isinstance(node.operator, cst.Divide) else left + self._added(node.right)
        if isinstance(node, cst.UnaryOperation):
            return self._added(node.expression)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in ("scale", "scale_loss") and node.args:
                return self._added(node.args[0].value)
            if node.func.attr.value in ("mean", "sum", "squeeze"):
                return self._added(node.func.value)
        return []
