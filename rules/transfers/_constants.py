"""Constants that are copied from the host to a device again and again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.configuration import Configuration
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.moves import device_of
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import changes_in_place, keyword
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.conditions import conjuncts
from torchlint.model.syntax.dotted import called_name, dotted_name, index_of, last_part
from torchlint.model.syntax.literals import asked_for_none, is_none
from torchlint.model.tensors.new_tensors import NewTensors
from torchlint.model.tensors.placement import Placement
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._chosen_types import calls_of_types, type_of
from ._constant_values import ConstantValues, is_changed_at
from ._indirect import IndirectMoves
from ._seldom import SeldomTaken
from ._tensor_targets import TensorTargets
from ._widths import Widths

#: ``x.<name>(data)`` that makes a tensor of a list or of a number, where ``x`` is.
NEW_TENSOR = "new_tensor"
#: ``torch.<name>(data)`` that makes a tensor of a list or of a number ...
_OF_DATA = ("torch.tensor", "torch.as_tensor", "torch.asarray", "torch.from_numpy")
#: ... and those that make one of a list only; of a number, they make a tensor of that size.
_OF_LISTS = tuple(f"torch.{name}Tensor" for name in ("", "Float", "Long", "Int", "Double", "Half", "Bool", "Byte"))
#: ... on the current GPU.
_OF_CUDA = tuple(name.replace("torch.", "torch.cuda.") for name in _OF_LISTS)
#: Methods between the tensor and its move that leave it on the host.
_SHAPING = frozenset(
    "view reshape unsqueeze squeeze expand repeat t transpose permute contiguous flatten float long int double half "
    "bool byte index_select type expand_as log exp sqrt neg reciprocal abs flip".split()
)
#: What gives the same tensor, in torch before 0.4.
_VARIABLE = "torch.autograd.Variable"
#: Names of number formats.
_FORMAT = re.compile(r"type|format|precision", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Upload:
    """A constant that is made on the host and copied to a device, repeatedly."""

    node: cst.Call  #: what copies: the factory if it is given a device or has a name, else the move
    factory: cst.Call  #: what makes the tensor
    data: cst.BaseExpression
    repeated: StepPlace
    is_named: bool  #: whether it has a name before a later statement copies it


class ConstantUploads:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._values = module.fact(ConstantValues)

    @cached_property
    def all(self) -> list[Upload]:
        """The constants that the code of a file uploads at every step or call of a network, in order."""
        calls = [call.node for call in self._module.own_calls(*_OF_DATA, *_OF_LISTS, *_OF_CUDA)]
        calls += filter(self._is_of_cuda, calls_of_types(self._module))
        calls += [call.node for call in self._module.own_methods(NEW_TENSOR)]
        return [found for call in dict.fromkeys(calls) if (found := self._upload(call))]

    def _is_of_cuda(self, call: cst.Call) -> bool:
        """Whether ``call`` makes a tensor on the current GPU, if there is one."""
        return (self._module.name_of(call.func) or type_of(self._module, call)) in _OF_CUDA

    def _upload(self, factory: cst.Call) -> Upload | None:
        data = self._data(factory)
        if data is None or self._may_be_there(factory, data):
            return None
        if not self._values.is_constant(data) and not self._module.fact(Widths).is_scaled(factory, data):
            return None
        if self._module.fact(NewTensors).of(factory) is not None:
            return None  # made of sizes and numbers alone, it can be made on the device
        copied = self._copying(factory)
        named = copied is None and self._is_copied_later(factory)
        node = factory if named else copied
        if node is None or self._module.fact(SeldomTaken).has(node) or self._is_unset(node, data):
            return None
        repeated = self._module.fact(StepPlaces).per_batch(node)
        if repeated is None or self._is_compiled(node) or any(map(self._is_default, repeated.calls)):
            return None
        if self._module.fact(SeldomTaken).contradicts(node, repeated.calls):
            return None
        return Upload(node, factory, data, repeated, named)

    def _data(self, factory: cst.Call) -> cst.BaseExpression | None:
        """What the tensor is made of, if that is a list or a number, and no size."""
        if not factory.args or factory.args[0].keyword is not None or any(item.star for item in factory.args):
            return None
        data = factory.args[0].value
        if self._module.name_of(factory.func) in _OF_DATA or called_name(factory) == NEW_TENSOR:
            return data
        if any(item.keyword is None for item in factory.args[1:]):
            return None
        if isinstance(data, (cst.List, cst.Tuple)) or self._is_list(data):
            return data
        return None if self._module.value(data) or self._is_filled(factory) else data

    def _may_be_there(self, factory: cst.Call, data: cst.BaseExpression) -> bool:
        """Whether the data may be a tensor on the device, which ``torch.as_tensor`` returns as it is."""
        if self._module.name_of(factory.func) not in ("torch.as_tensor", "torch.asarray"):
            return False
        whole = data
        while isinstance(whole, cst.Subscript):
            whole = whole.value
        return (dotted_name(whole) or "").startswith("self.") and not self._module.value(data)

    def _is_list(self, node: cst.BaseExpression) -> bool:
        return self._module.value(node).kind in (Kind.SEQUENCE, Kind.ARRAY)

    def _is_filled(self, factory: cst.Call) -> bool:
        """Whether a tensor gets its values later: ``torch.FloatTensor(self.size)`` has none."""
        statement = self._tree.statement_of(factory)
        target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
        home = self._module.names.home_of(target) if isinstance(target, cst.Name) else None
        uses = self._module.names.uses_in(home, target.value) if home and isinstance(target, cst.Name) else ()
        above = (item for item, _ in climb(self._tree, factory, statement) if isinstance(item, cst.Attribute))
        return any(changes_in_place(item.attr.value) for item in above) or any(
            is_changed_at(self._tree, use) for use in uses
        )

    # -- the copy

    def _copying(self, made: cst.BaseExpression) -> cst.Call | None:
        """The call that copies what ``made`` gives: a factory itself with ``device=``, or a move of its result."""
        if isinstance(made, cst.Call) and self._is_placed(made):
            return made if self._is_made_there(made) else None
        for above, child in climb(self._tree, made):
            if isinstance(above, cst.Call) and above.func is child:
                assert isinstance(child, cst.Attribute)
                method = child.attr.value
                if method in ("cuda", "type_as"):
                    return above
                if method == "to" and self._moves(above):
                    return above
                if method not in _SHAPING and method != "to":
                    return None
            elif isinstance(above, cst.Call):
                if not self._keeps_on_host(above):
                    return None
            elif isinstance(above, cst.Subscript):
                if above.value is not child:
                    return None
            elif not isinstance(above, (cst.Attribute, cst.UnaryOperation)) and not (
                isinstance(above, cst.Arg) and above.keyword is None
            ):
                return None
        return None

    def _is_placed(self, made: cst.Call) -> bool:
        """Whether a factory itself decides where its tensor is."""
        return keyword(made, "device") is not None or self._is_of_cuda(made) or called_name(made) == NEW_TENSOR

    def _is_made_there(self, made: cst.Call) -> bool:
        """Whether such a factory may make its tensor on a GPU."""
        device = keyword(made, "device")
        if device is None and isinstance(made.func, cst.Attribute) and called_name(made) == NEW_TENSOR:
            return not self._module.fact(TensorTargets).is_on_host(made.func.value)
        return device is None or self._may_be_gpu(device)

    def _is_copied_later(self, factory: cst.Call) -> bool:
        """Whether a statement gives a name what ``factory`` makes, and a later one moves that under its name.

        The name may be bound to other forms of the tensor in between: ``kernel = kernel.repeat(3, 1)``.
        """
        made = self._tree.statement_of(factory)
        if not isinstance(made, cst.Assign) or len(made.targets) != 1:
            return False
        target = made.targets[0].target
        home = self._module.names.home_of(target) if isinstance(target, cst.Name) else None
        if home is None or not isinstance(target, cst.Name) or not self._is_form_of(made.value, factory):
            return False
        forms: set[cst.CSTNode] = {made}
        for use in self._module.names.uses_in(home, target.value):
            reached = {item.node for item in self._module.values.reaching.of(use)}
            if reached.isdisjoint(forms):
                continue
            if self._copying(use) is not None:
                return True
            if is_changed_at(self._tree, use):
                return False
            if not reached <= forms:
                continue  # it may also be something else
            statement = self._tree.statement_of(use)
            if isinstance(statement, cst.AugAssign) and statement.target is use:
                if not self._values.is_constant(statement.value):
                    return False
                forms.add(statement)
            elif isinstance(statement, cst.Assign) and self._is_form_of(statement.value, use):
                forms.add(statement)
        return False

    def _is_form_of(self, whole: cst.BaseExpression, part: cst.CSTNode) -> bool:
        """Whether ``whole`` is ``part``, or another form of it on the host."""
        while part is not whole:
            above = self._tree.parent(part)
            if isinstance(above, cst.Attribute):
                called = self._tree.parent(above)
                if above.attr.value not in _SHAPING or not isinstance(called, cst.Call) or called.func is not above:
                    return False
                part = called
            elif isinstance(above, cst.Arg):
                called = self._tree.parent(above)
                if not isinstance(called, cst.Call) or not self._keeps_on_host(called):
                    return False
                part = called
            elif isinstance(above, cst.BinaryOperation):
                if not self._values.is_constant(above.left if part is above.right else above.right):
                    return False
                part = above
            else:
                return False
        return True

    def _keeps_on_host(self, call: cst.Call) -> bool:
        """Whether a function gives another form of the tensor that it is given: ``torch.log(torch.tensor(2.0))``."""
        name = self._module.name_of(call.func) or ""
        return name == _VARIABLE or (name.startswith("torch.") and last_part(name) in _SHAPING)

    def _moves(self, call: cst.Call) -> bool:
        """Whether ``x.to(...)`` may move to a GPU; ``x.to(y)`` moves to where ``y`` is."""
        target = keyword(call, "device", "other")
        if target is None and call.args and call.args[0].keyword is None and not call.args[0].star:
            target = call.args[0].value
        if target is None:
            return False
        value = self._module.value(target)
        if value.kind in (Kind.TENSOR, Kind.BATCH):
            return value.device is not Device.CPU
        if self._module.fact(Placement).is_device(target):
            return self._may_be_gpu(target)
        return self._is_item(target) or self._module.fact(IndirectMoves).goes_to_tensor(call)

    def _is_item(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is one of several things of which nothing says that they are number formats: ``layers[-1]``.

        They are tensors or devices, unless the function makes a list of them.
        """
        named = self._module.values.reaching.only(node) if isinstance(node, cst.Name) else None
        if named is not None and named.kind is BindingKind.ASSIGN and not named.path and named.value is not None:
            node = named.value
        known = self._module.value(node)
        if not isinstance(node, cst.Subscript) or (known and known.sure):
            return False
        index = index_of(node)
        index = index.expression if isinstance(index, cst.UnaryOperation) else index
        if not isinstance(index, cst.Integer) or _FORMAT.search(self._module.code(node.value)):
            return False
        held = self._module.values.reaching.of(node.value) if isinstance(node.value, cst.Name) else ()
        return not any(isinstance(item.value, (cst.List, cst.Tuple, cst.BaseComp)) for item in held)

    def _may_be_gpu(self, device: cst.BaseExpression) -> bool:
        if is_none(device):
            return False
        return device_of(device, self._module.values) in (None, Device.CUDA)

    # -- how often
    def _is_unset(self, node: cst.Call, data: cst.BaseExpression) -> bool:
        """Whether ``data`` is tested for None before, and nothing is seen to give it a value.

        So for ``if self.weights is not None: scores.new_tensor(self.weights)`` of a constructor's ``weights=None``.
        """
        name = dotted_name(data)
        if name is None or not any(
            dotted_name(asked_for_none(part, cst.IsNot)) == name
            for above, child in climb(self._tree, node)
            if isinstance(above, cst.If) and child is above.body
            for part in conjuncts(above.test)
        ):
            return False
        sources = self._sources(data)
        if not sources and name.count(".") > 1:
            return True  # of an object with settings: ``self.args.classes``
        for item in [item for item in sources if isinstance(item, cst.Call)]:  # a function may return what it is given
            sources += [source for given in item.args for source in self._sources(given.value)]
        given = [item for item in sources if not isinstance(item, cst.Call) and not is_none(item)]
        return not any(map(self._module.value, given)) and any(map(is_none, sources))

    def _sources(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        found = self._module.fact(Configuration).sources(node)
        return [*found.values] if found is not None else []

    def _is_default(self, call: cst.Call) -> bool:
        """Whether a call computes what its caller may be given: ``if grid is None: grid = self.make_grid(x)``."""
        statement = self._tree.statement_of(call)
        name = dotted_name(statement.targets[0].target) if isinstance(statement, cst.Assign) else None
        return name is not None and any(
            isinstance(above, cst.If)
            and isinstance(above.test, cst.Comparison)
            and isinstance(above.test.comparisons[0].operator, cst.Is)
            and dotted_name(above.test.left) == name
            for above in self._tree.ancestors(statement)
        )

    def _is_compiled(self, node: cst.Call) -> bool:
        """Whether ``torch.compile`` is seen to compile the function or the network, and folds the constant."""
        function = self._module.function_of(node)
        if function is None:
            return False
        if any("compile" in self._module.code(item.decorator) for item in function.decorators):
            return True
        return any(item in self._compiled for item in self._holders(function))

    def _holders(self, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
        yield function
        owner = self._tree.class_of(function)
        if owner is not None:
            yield owner

    @cached_property
    def _compiled(self) -> frozenset[cst.CSTNode]:
        """The classes and functions that are given to ``torch.compile``."""
        found = [call.node.args[0].value for call in self._module.calls("torch.compile") if call.node.args]
        found += [call.receiver for call in self._module.methods("compile")]
        definitions = (self._module.value(item).definition for item in found)
        return frozenset(item for item in definitions if item is not None)
