"""Training on the CPU: all that an optimizer changes is made there, and nothing moves it."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.options import Options
from torchlint.model.semantics.knowledge import PARAMETER, Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.tensors.creation import FACTORIES, LEGACY
from torchlint.model.tensors.devices import Devices
from torchlint.model.tensors.placement import Move, Placement
from torchlint.model.training.loops import is_step

#: Calls of libraries that leave a network where it is.
_KEEPING = ("builtins.", "torch.optim.", "torch.nn.utils.", "torch.save")
#: Layers that move something to a GPU.
_PARALLEL = "Parallel"
#: What makes a tensor of a tensor, on the same device.
_PARAMETERS = PARAMETER | {"torch.autograd.Variable"}
#: The maximum number of functions that a network is followed into.
_DEPTH = 3


class HostTraining(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._known: dict[cst.CSTNode, bool] = {}
        self._staying: CyclicMemo[cst.ClassDef, bool] = CyclicMemo(True)  #: a class may build objects of its own

    def is_done_by(self, step: cst.CSTNode) -> bool:
        """Whether the optimizers of a step change only networks and tensors that are seen to stay on the CPU.

        They are built in the function that makes the optimizer. A switch that is off by default may move the network,
        if nothing moves the data: with it, the program fails.
        """
        if step not in self._known:
            self._known[step] = self._trains_on_host(step)
        return self._known[step]

    def _trains_on_host(self, step: cst.CSTNode) -> bool:
        if self._forest.fact(Placement).is_gpu_default or self._forest.fact(Devices).uses_trainer:
            return False
        made: set[cst.CSTNode] = set()
        for call in filter(is_step, self._tree.calls_in(step)):
            assert isinstance(call.func, cst.Attribute)
            value = self._forest.value(call.func.value)
            if value.kind is not Kind.OPTIMIZER or not value.origins:
                return False
            made |= value.origins
        return (
            bool(made)
            and all(map(self._changes_host, made))
            and not self._moves_in(self._forest.function_or_file(step))
        )

    def _changes_host(self, optimizer: cst.CSTNode) -> bool:
        """Whether an optimizer is given what stays on the CPU: ``net.parameters()``, ``[weights]``."""
        if (
            not isinstance(optimizer, cst.Call)
            or not optimizer.args
            or self._moves_in(self._forest.function_or_file(optimizer))
        ):
            return False
        given = optimizer.args[0].value
        if isinstance(given, (cst.List, cst.Tuple)):
            return bool(given.elements) and all(self._is_tensor_on_host(item.value) for item in given.elements)
        if not isinstance(given, cst.Call) or not isinstance(given.func, cst.Attribute):
            return False
        network = given.func.value
        is_of_all = given.func.attr.value == "parameters" and isinstance(network, cst.Name)
        return is_of_all and isinstance(network, cst.Name) and self._stays(network)

    def _moves_in(self, home: cst.CSTNode) -> bool:
        """Whether a function moves anything, apart from networks under a switch that is off by default."""
        return any(
            self._tree.within(move.call, home) and move.device is not Device.CPU and not self._is_off(move)
            for move in self._forest.fact(Placement).moves
        ) or any(self._tree.within(item, home) for item in self._tree.keywords.get("device", ()))

    def _is_off(self, move: Move) -> bool:
        """Whether it is ``if args.gpu: net = net.cuda()``, where ``args.gpu`` is off by default."""
        is_network = self._forest.value(move.source).kind is Kind.MODULE
        return is_network and self._forest.fact(Options).leave_out(move.call)

    # -- what stays on the CPU

    def _is_tensor_on_host(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a variable that was made on the CPU: ``nn.Parameter(torch.zeros(4))``."""
        bindings = self._forest.names.bindings(node) if isinstance(node, cst.Name) else []
        return bool(bindings) and all(
            item.kind is BindingKind.ASSIGN and self._is_made_on_host(item.value) for item in bindings
        )

    def _is_made_on_host(self, node: cst.CSTNode | None) -> bool:
        name = self._forest.name_of(node.func) if isinstance(node, cst.Call) else None
        if not isinstance(node, cst.Call) or name is None:
            return False
        if name in _PARAMETERS:
            return bool(node.args) and self._is_made_on_host(node.args[0].value)
        return name.startswith("torch.") and name[6:] in FACTORIES | LEGACY

    def _stays(self, name: cst.Name) -> bool:
        """Whether a network is built here, and no use of its variable may move it."""
        bindings = self._forest.names.bindings(name)
        home = self._forest.function_or_file(bindings[0].node) if bindings else None
        moves = {move.call for move in self._forest.fact(Placement).moves if self._is_off(move)}
        return (
            home is not None
            and all(item.kind is BindingKind.ASSIGN and not item.path for item in bindings)
            and all(item.value in moves or self._is_built(item.value) for item in bindings)
            and self._is_kept_in(home, name.value, _DEPTH)
        )

    def _is_built(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` builds a network on the CPU: ``nn.Sequential(...)``, ``Net()``."""
        if not isinstance(node, cst.Call) or self._forest.value(node).kind is not Kind.MODULE:
            return False
        name = self._forest.name_of(node.func)
        if name is not None and name.startswith("torch.nn."):
            return _PARALLEL not in name
        called = self._forest.definitions.called(node, self._forest.values)
        return bool(called) and all(map(self._is_unmoved, called))

    def _is_unmoved(self, definition: cst.CSTNode) -> bool:
        """Whether neither a class of networks nor those that it builds move anything."""
        return isinstance(definition, cst.ClassDef) and self._staying.get(definition, self._find_unmoved)

    def _find_unmoved(self, definition: cst.ClassDef) -> bool:
        return not self._moves_in(definition) and all(
            self._is_unmoved(inner)
            for part in self._forest.definitions.lineage(definition)
            for call in self._tree.calls_in(part)
            for inner in self._forest.definitions.called(call, self._forest.values)
            if isinstance(inner, cst.ClassDef)
        )

    def _is_kept_in(self, home: cst.CSTNode, name: str, depth: int) -> bool:
        """Whether no use of a variable of ``home`` gives its network to what may move it."""
        uses = [use for use in self._tree.names.get(name, ()) if self._tree.within(use, home)]
        return all(self._tree.is_target(use) or self._is_kept_by(use, depth) for use in uses)

    def _is_kept_by(self, use: cst.Name, depth: int) -> bool:
        above = self._tree.parent(use)
        if isinstance(above, (cst.Attribute, cst.Call, cst.Param, cst.Return)):
            return True  # `net.train()`, whose moves are found by themselves, or `net(x)`
        call = self._tree.parent(above) if isinstance(above, cst.Arg) else None
        if not isinstance(call, cst.Call) or not isinstance(above, cst.Arg) or above.star or depth <= 0:
            return False
        if above.keyword is use:
            return True
        library = self._forest.name_of(call.func)
        if library is not None:
            return library.startswith(_KEEPING)
        called = self._forest.definitions.called(call, self._forest.values)
        return bool(called) and all(
            isinstance(function, cst.FunctionDef) and self._is_kept_by_function(function, call, use, depth)
            for function in called
        )

    def _is_kept_by_function(self, function: cst.FunctionDef, call: cst.Call, use: cst.Name, depth: int) -> bool:
        """Whether ``function`` only uses the network that ``call`` passes as ``use``, and moves nothing like it."""
        passed = self._forest.definitions.arguments.of
        taken = [param for param in parameters_of(function) if passed(call, function, param) is use]
        moved = {
            (dotted_name(move.source) or "").partition(".")[0]
            for move in self._forest.fact(Placement).moves
            if self._tree.within(move.call, function)
        }
        return bool(taken) and all(
            param.name.value not in moved and self._is_kept_in(function, param.name.value, depth - 1) for param in taken
        )
