"""GPU tensors that a training step prints, logs or puts on a progress bar, which reads their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.semantics.knowledge import GRADIENT_NORMS, Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import bare, called_name, dotted_name, last_name
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.training.host_training import HostTraining
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._dictionaries import Dictionaries
from ._host_reads import HostReads
from ._meters import Meters
from ._print_words import REDUCTIONS
from ._step_tensors import StepTensors

#: Methods of progress bars and writers of TensorBoard that read the tensors that they are given.
_SHOWING = frozenset(
    "set_postfix set_postfix_str set_description set_description_str add_scalar add_scalars log_metric log_metrics "
    "log_value".split()
)
_LOGGING = frozenset({"info", "warning", "critical", "error"})
_LOGGER = re.compile(r"^_?(log|logger|logging)$", re.IGNORECASE)
_FUNCTIONS = frozenset({"builtins.print", "wandb.log", "mlflow.log_metric", "mlflow.log_metrics"})
_DEPTH = 6  #: variables and functions that a value is followed through
_MANY = 8  #: iterations below which a loop only tries something
_LITERALS = (cst.SimpleString, cst.ConcatenatedString)
#: Expressions that compute a value.
_COMPUTED = (cst.BinaryOperation, cst.UnaryOperation, cst.Call)
#: Methods that keep a tensor what it is.
_SAME = frozenset({"detach", "data", "clone", "mean", "sum", "squeeze", "cpu"})


@dataclass(frozen=True, eq=False)
class ShownTensor:
    """A tensor in the arguments of ``print`` or the like, or in a text."""

    by: cst.Call | None  #: the call of ``print``; None if a text is made elsewhere
    tensor: cst.BaseExpression
    step: StepPlace


class ShownTensors:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._reads = module.fact(HostReads)
        self._tensors = module.fact(StepTensors)
        self._dictionaries = module.fact(Dictionaries)
        self._numbers: CyclicMemo[cst.Name, bool] = CyclicMemo(False)
        self._on_gpu: CyclicMemo[tuple[cst.BaseExpression, int], bool] = CyclicMemo(False)

    def all(self) -> Iterator[ShownTensor]:
        """The tensors that the file shows, or makes a text of, at every training step, in order."""
        if not self._module.uses_torch or not self._reads.on_gpu:
            return
        behind = -1
        for node in self._tree.inside(self._module.root, cst.Call, cst.FormattedString, cst.BinaryOperation):
            shows = isinstance(node, cst.Call) and self._shows(node)
            if self._tree.index(node) <= behind or not (shows or self._is_text(node)):
                continue
            behind = self._tree.last(node)
            found = next((part for part in self._parts(node) if self._is_on_gpu(part, _DEPTH)), None)
            is_error = isinstance(self._tree.statement_of(node), (cst.Raise, cst.Assert))
            step = self._module.fact(StepPlaces).of(node, trained=True) if found is not None and not is_error else None
            if found is None or step is None or self._module.fact(HostTraining).is_done_by(step.step):
                continue
            if not self._is_tried(step):
                yield ShownTensor(node if isinstance(node, cst.Call) and shows else None, found, step)

    def _is_text(self, node: cst.CSTNode) -> bool:
        """``f"{loss:.3f}"``, ``"%.3f" % loss``, ``"{:.3f}".format(loss)``, also of a text with a name."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
            return self._module.value(node.func.value).kind is Kind.STRING
        if isinstance(node, cst.BinaryOperation):
            return isinstance(node.operator, cst.Modulo) and isinstance(node.left, _LITERALS)
        return isinstance(node, cst.FormattedString)

    def _shows(self, call: cst.Call) -> bool:
        """Whether ``call`` turns its arguments into text or numbers."""
        name = self._module.name_of(call.func)
        if name is not None:
            return name in _FUNCTIONS or (name.startswith("logging.") and last_name(call.func) in _LOGGING)
        func = call.func
        if not isinstance(func, cst.Attribute) or self._module.definitions.called(call, self._module.values):
            return False
        method = func.attr.value
        if method in _LOGGING:
            return _LOGGER.match(last_name(func.value)) is not None
        if method == "write":
            return last_name(func.value) == "tqdm"
        return method in _SHOWING

    def _is_tried(self, place: StepPlace) -> bool:
        """``for _ in range(1)``: a test of a network."""
        loop = place.step
        if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call):
            return False
        last = loop.iter.args[-1].value if len(loop.iter.args) == 1 else None
        constant = self._module.value(last).constant
        return isinstance(constant, int) and constant < _MANY

    def _parts(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The expressions whose value a call shows, or a text contains."""
        for part in [item.value for item in node.args] if isinstance(node, cst.Call) else [node]:
            yield from self._shown(part)

    def _shown(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The expressions that ``node`` turns into text, or contains."""
        inner = self._contents(node)
        if inner is None:
            yield node
        for part in inner or ():
            yield from self._shown(part)

    def _contents(self, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        if isinstance(node, cst.FormattedString):
            return [part.expression for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
        if isinstance(node, cst.ConcatenatedString):
            return [node.left, node.right]
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Modulo, cst.Add)):
            return [node.left, node.right]
        if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
            return [element.value for element in node.elements]
        if isinstance(node, cst.Call):
            formats = isinstance(node.func, cst.Attribute) and node.func.attr.value == "format"
            if formats or self._module.name_of(node.func) in ("builtins.str", "builtins.dict"):
                return [item.value for item in node.args]
        return None

    def _is_on_gpu(self, node: cst.BaseExpression, depth: int) -> bool:
        """Whether ``node`` is the loss, an output of the network or the mean of one, and still on the device."""
        return self._on_gpu.get((node, depth), self._find_on_gpu)

    def _find_on_gpu(self, key: tuple[cst.BaseExpression, int]) -> bool:
        node, depth = key
        shown = bare(node, _SAME)
        if isinstance(shown, cst.UnaryOperation) and isinstance(shown.operator, cst.Minus):
            return self._is_on_gpu(shown.expression, depth)
        if isinstance(shown, cst.BinaryOperation):
            return any(self._is_on_gpu(side, depth) for side in (shown.left, shown.right)) or self._is_cuda(shown)
        given = self._module.fact(Meters).given(shown) if isinstance(shown, cst.Attribute) and depth > 0 else []
        if given:
            return all(self._is_on_gpu(item, depth - 1) or self._is_element(item) for item in given)
        if self._is_reduction(node):
            is_number = self._may_be_number(shown) or self._module.value(shown).is_on_host
            return not is_number and self._tensors.is_tensor_of_step(shown)
        if isinstance(shown, cst.Call):
            return self._module.name_of(shown.func) in GRADIENT_NORMS or self._is_returned(shown, (), depth)
        if isinstance(shown, cst.Subscript):
            is_loss = self._tensors.is_item_of_loss(shown) and self._tensors.is_tensor_of_step(shown)
            return is_loss or self._is_dict_on_gpu(shown.value, depth, self._dictionaries.key_in(shown))
        return dotted_name(shown) is not None and self._is_name_on_gpu(shown, depth)

    def _is_name_on_gpu(self, node: cst.BaseExpression, depth: int) -> bool:
        if self._may_be_number(node) or self._module.value(node).is_on_host or self._is_key(node, depth):
            return False
        if isinstance(node, cst.Name) and self._is_known_item(node, depth):
            return self._is_reduced_before(node, depth)
        if any(self._dictionaries.entries(node, (), depth)):
            return self._is_dict_on_gpu(node, depth)
        value = self._module.value(node)
        is_output = value.kind is Kind.TENSOR and value.sure and value.role in (Role.OUTPUT, Role.LOSS)
        if self._tensors.is_loss(node) or is_output or self._is_addend(node):
            return self._tensors.is_tensor_of_step(node)
        if not isinstance(node, cst.Name):
            return False
        return self._is_reduced_before(node, depth) or self._tensors.contains_loss(node)

    def _is_addend(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a name of which a loss is the sum, and no number on any path."""
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else []
        return self._tensors.is_addend(node) and all(
            item.kind is BindingKind.ASSIGN
            and item.value is not None
            and self._module.value(unpacked(item.value, item.path)).kind is not Kind.NUMBER
            for item in reached
        )

    def _is_reduced_before(self, name: cst.Name, depth: int) -> bool:
        """Whether a variable is a number that is computed from reductions: ``accuracy = hits.sum() / len(hits)``.

        It may have another value that is computed on the device, such as that of a function that averages over
        processes, and may be a running sum: ``total += loss``.
        """
        found: list[bool] = []
        for item in self._module.values.reaching.of(name):
            adds = isinstance(item.node, cst.AugAssign)
            value = item.node.value if isinstance(item.node, cst.AugAssign) else unpacked(item.value, item.path)
            if depth > 0 and item.value is not None and (item.kind is BindingKind.FOR or value is None):
                if not self._is_part_on_gpu(item, depth - 1):
                    return False
                found.append(True)
                continue
            if value is None or depth <= 0 or item.kind not in (BindingKind.ASSIGN, BindingKind.AUGMENT):
                return False
            is_certain = (adds or isinstance(value, _COMPUTED)) and self._is_on_gpu(value, depth - 1)
            if not is_certain and not self._may_be_on_gpu(value):
                return False
            found.append(is_certain)
        return any(found)

    def _is_returned(self, call: cst.Call, path: tuple[int, ...], depth: int) -> bool:
        """Whether functions of the program compute on the device what ``call`` gives, or what ``path`` takes of it."""
        if depth <= 0 or not self._may_be_on_gpu(call):
            return False
        returned = [unpacked(item, path) for item in self._dictionaries.returned(call)]
        return bool(returned) and all(item is not None and self._is_on_gpu(item, depth - 1) for item in returned)

    def _is_part_on_gpu(self, binding: Binding, depth: int) -> bool:
        """Whether a name is bound to a part of what is on the device.

        ``accuracy`` of ``loss, accuracy = measure(outputs)``; ``value`` of ``for key, value in losses.items():``, of
        which one value is a tensor.
        """
        whole = binding.value
        if not isinstance(whole, cst.Call):
            return False
        if binding.kind is BindingKind.ASSIGN:
            return self._is_returned(whole, binding.path, depth)
        method = called_name(whole)
        if (
            binding.kind is not BindingKind.FOR
            or not isinstance(whole.func, cst.Attribute)
            or method not in ("items", "values")
        ):
            return False
        is_value = binding.path == ((1,) if method == "items" else ())
        return is_value and self._is_dict_on_gpu(whole.func.value, depth)

    def _is_dict_on_gpu(self, node: cst.BaseExpression, depth: int, key: str | None = None) -> bool:
        """Whether ``node`` is a dictionary in which the program puts a tensor on the device, under ``key`` if given."""
        if self._may_be_number(node):
            return False
        if key is None and isinstance(node, cst.Name) and self._tensors.contains_loss(node):
            return True
        entries = self._dictionaries.entries(node, (), depth)
        return any(self._is_on_gpu(value, depth - 1) for name, value in entries if key in (None, name))

    def _is_known_item(self, name: cst.Name, depth: int) -> bool:
        """Whether ``name`` is ``value`` of ``for key, value in losses.items():``, where that dictionary is known."""
        return any(
            item.kind is BindingKind.FOR
            and isinstance(item.value, cst.Call)
            and isinstance(item.value.func, cst.Attribute)
            and any(self._dictionaries.entries(item.value.func.value, (), depth))
            for item in self._module.values.reaching.of(name)
        )

    def _is_key(self, name: cst.BaseExpression, depth: int) -> bool:
        """``key`` of ``for key in losses:``, where that is a dictionary."""
        return isinstance(name, cst.Name) and any(
            item.kind is BindingKind.FOR
            and not item.path
            and isinstance(item.value, cst.Name)
            and (self._tensors.contains_loss(item.value) or any(self._dictionaries.entries(item.value, (), depth)))
            for item in self._module.values.reaching.of(name)
        )

    def _is_element(self, node: cst.BaseExpression) -> bool:
        """``top[0]`` of ``top, _ = accuracy(outputs, labels)``: numbers have no elements."""
        if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Name):
            return False
        reached = self._module.values.reaching.of(node.value)
        call = reached[0].value if len(reached) == 1 and reached[0].kind is BindingKind.ASSIGN else None
        if not isinstance(call, cst.Call) or not self._may_be_on_gpu(call):
            return False
        returned = self._dictionaries.returned(call)
        return bool(returned) and all(item is not None and self._tensors.is_tensor_of_step(item) for item in returned)

    def _may_be_on_gpu(self, node: cst.BaseExpression) -> bool:
        """Whether a call computes something from what is on the device, and not a number for certain."""
        value = self._module.value(node)
        is_number = value.sure and value.kind in (Kind.NUMBER, Kind.ARRAY, Kind.STRING)
        return isinstance(node, cst.Call) and not is_number and self._tensors.is_tensor_of_step(node)

    def _is_cuda(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a tensor on the device for certain: ``self.total / n`` after ``self.total += loss``."""
        value = self._module.value(node)
        is_cuda = value.kind is Kind.TENSOR and value.sure and value.device is Device.CUDA
        return is_cuda and self._tensors.is_tensor_of_step(node)

    def _is_reduction(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` reduces what is certainly a tensor to one number: ``x.mean()``, ``torch.mean(x)``."""
        if not isinstance(node, cst.Call) or called_name(node) not in REDUCTIONS:
            return False
        given = 1 if self._module.name_of(node.func) == f"torch.{called_name(node)}" else 0
        if len(node.args) != given:
            return False
        of_loss = isinstance(node.func, cst.Attribute) and self._tensors.is_term(node.func.value)
        return of_loss or self._module.fact(TensorForms).is_tensor(node) or self._is_in_forward(node)

    def _is_in_forward(self, node: cst.Call) -> bool:
        """Whether a network or criterion computes ``node`` from its input, which is a tensor: ``dice.mean()``."""
        function = self._module.function_of(node)
        return function is not None and self._module.fact(StepPlaces).is_forward(function)

    def _may_be_number(self, node: cst.BaseExpression) -> bool:
        """Whether the value of a variable is a number on some path: ``loss = loss.item()``.

        It may be one of several that a function returns: ``return loss, loss.item()``.
        """
        return isinstance(node, cst.Name) and self._numbers.get(node, self._find_number)

    def _find_number(self, name: cst.Name) -> bool:
        bindings = [(item, item.value) for item in self._module.values.reaching.of(name) if item.value is not None]
        if any(self._is_read(part) for _, value in bindings for part in self._tree.calls_in(value)):
            return True
        returned = [
            part
            for item, value in bindings
            if isinstance(value, cst.Call) and item.kind is BindingKind.ASSIGN
            for whole in self._dictionaries.returned(value)
            if (part := unpacked(whole, item.path)) is not None
        ]
        return any(
            self._is_read(part) if isinstance(part, cst.Call) else self._may_be_number(part) for part in returned
        )

    def _is_read(self, call: cst.Call) -> bool:
        """``loss.item()``, ``float(loss)``."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("item", "tolist", "numpy"):
            return True
        return self._module.name_of(call.func) in ("builtins.float", "builtins.int")
