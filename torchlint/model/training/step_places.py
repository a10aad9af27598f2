"""Whether a place runs once per batch: in a step, or in a `forward`, in whichever file the loop over the batches is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.device_tests import asks_for_device
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.branches import Branches
from torchlint.model.semantics.knowledge import GRADIENT_CLIPS, Kind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import is_attribute_of_self
from torchlint.model.syntax.literals import asked_for_none, is_none
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.syntax.parameters import is_static
from torchlint.model.training.beside_training import is_beside_training
from torchlint.model.training.emptiness import has_work
from torchlint.model.training.forward_callers import ForwardCallers
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.library_steps import LibrarySteps
from torchlint.model.training.loops import BACKWARD, Loop, LoopKind, Loops, is_batch
from torchlint.model.training.network_loops import NetworkLoops
from torchlint.model.training.networks import Networks
from torchlint.model.training.outputs import Outputs
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.steps import Steps

#: How many calls lie between a loop and a place in a function that it runs.
_CALL_DEPTH = 4
#: A function that is called at more places than this is a tool of many, not a part of a step.
_MAX_CALLERS = 24
#: How many calls lie between a `forward` and the code that it runs, and how many callers a function of it may have.
_FORWARD_DEPTH = 3
#: ... where what is repeated is the same each time.
_INVARIANT_DEPTH = 4
_MAX_CALLERS_OF_HELPER = 40
#: Methods of a network that are run once per batch.
_FORWARDS = frozenset({"forward", "training_step", "validation_step", "test_step", "predict_step"})
#: Whether a node, given first, runs whenever the loop or function given second does.
Passes = Callable[[cst.CSTNode, cst.CSTNode], bool]


@dataclass(frozen=True, eq=False)
class StepPlace:
    """Why a place runs once per batch."""

    step: cst.CSTNode  #: the loop over the batches; else the function that is run for every batch
    calls: tuple[cst.Call, ...]  #: the calls that lead from there to the place, the outermost first
    trains: bool  #: whether the step trains; otherwise it runs a network over data

    @property
    def is_loop(self) -> bool:
        """Whether a loop repeats the place, and not the callers of a function."""
        return isinstance(self.step, (cst.For, cst.While))


class StepPlaces(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._runs: dict[cst.CSTNode, bool] = {}
        #: by function, and by how many calls it is followed up
        self._repeated: dict[tuple[cst.FunctionDef, int], StepPlace | None] = {}

    def of(self, node: cst.CSTNode, passes: Passes | None = None, *, trained: bool = False) -> StepPlace | None:
        """The step that runs ``node`` every time; None if there is none, or none can be seen.

        ``passes`` says which conditions between a step and the node are true every time; without it, those count that
        depend on neither a counter nor a value of the step. With ``trained``, only training steps count.
        """
        passes = passes or self._forest.fact(Iterations).at_every_iteration
        return self._of(node, passes, trained, _CALL_DEPTH, set(), ())

    def in_training(self, node: cst.CSTNode) -> StepPlace | None:
        """The training step that runs ``node`` every time, or a `forward` that records gradients for unseen callers.

        Functions and classes whose names say that they infer do not count, and no pass over other data in evaluation
        mode.
        """
        if is_beside_training(self._forest, node):
            return None
        return self.of(node, self._always_trains, trained=True) or self._in_forward(node, _CALL_DEPTH, None, ())

    def _always_trains(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether ``node`` runs whenever ``outer`` does, and is a part of the training."""
        always = self._forest.fact(Iterations).at_every_iteration
        return always(node, outer) and not is_beside_training(self._forest, node)

    def _in_forward(
        self, node: cst.CSTNode, depth: int, inner: cst.FunctionDef | None, none: Sequence[cst.Param]
    ) -> StepPlace | None:
        """The `forward` that runs ``node`` in training, in whose function the parameters ``none`` are None.

        ``inner`` is the last one on the way to its callers that records gradients.
        """
        function = self._forest.function_of(node)
        if function is None:
            return None
        if self._updates(function) or self._clips(function):
            return StepPlace(function, (), trains=True) if self.usually(node, function) else None
        if not self._forest.fact(Iterations).at_every_iteration(node, function):
            return None
        forwards = self._forest.fact(ForwardCallers)
        if forwards.is_step(function):
            return StepPlace(function, (), trains=True) if not forwards.needs_option(node, function) else None
        none = [*none, *self._none_at(node, function)]
        is_forward = function.name.value == "forward" and self.is_forward(function)
        inner = function if is_forward or forwards.gives_loss(function) else inner
        if inner is not None and is_static(function):
            return None
        inner = None if self._forest.fact(GradModes).of(function.body).is_off else inner  # what calls it may train
        calls = self._forest.fact(Dispatch).callers(function)
        if calls and all(map(self._forest.fact(Purposes).is_self_test, calls)):
            return None
        if is_forward:
            calls = forwards.of(function)
        is_last = depth <= 0 or function in self._forest.fact(LibrarySteps).forwards
        if inner is not None and (not calls or (is_forward and is_last)):
            passes_on = is_forward or forwards.passes_on(function)
            return StepPlace(inner, (), trains=True) if passes_on and not none else None  # without targets, it infers
        excludes = self._forest.values.branches.excludes  # `sinkhorn(x)` of `def sinkhorn(x, eps=-1)`, where `eps > 0`
        calls_in_training = (call for call in calls if not is_beside_training(self._forest, call))
        running = [call for call in calls_in_training if not excludes(call, function, node)]
        if inner is not None and any(map(self._trains_on_all_data, running)):
            return StepPlace(inner, (), trains=True)
        if depth <= 0 or len(calls) > _MAX_CALLERS:
            return None
        for call in running:
            absent = self._absent_at(call, function, none)
            found = self._in_forward(call, depth - 1, inner, absent) if absent is not None else None
            if found is not None:
                return StepPlace(found.step, (*found.calls, call), found.trains)
        return None

    def _absent_at(
        self, call: cst.Call, function: cst.FunctionDef, none: Sequence[cst.Param]
    ) -> list[cst.Param] | None:
        """The parameters around ``call`` that are None if those of ``function`` are; None if it passes something."""
        found: list[cst.Param] = []
        for param in none:
            given = self._forest.definitions.argument_of(call, function, param)
            passed_on = self._forest.names.parameter(given, rebound=True)
            if passed_on is not None:
                found.append(passed_on)
            elif not (given is None or is_none(given) or is_attribute_of_self(given)):
                return None
        return found

    def _trains_on_all_data(self, call: cst.Call) -> bool:
        """Whether a network that ``call`` runs is trained with its output once per epoch: a step on all data."""
        forest = self._forest
        if not forest.fact(Gradients).reaches_backward(call) or forest.fact(GradModes).of(call).is_off:
            return False
        function = forest.function_of(call)
        callers = forest.fact(Dispatch).callers(function) if function is not None else ()
        loops = next(filter(None, map(forest.fact(Loops).around, (call, *callers))), None)
        place = next((loop.node for loop in forest.fact(Loops).around(call)), function)
        return loops is not None and place is not None and forest.fact(Iterations).at_every_iteration(call, place)

    def usually(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether ``node`` runs whenever ``outer`` does, or whenever that trains, if it is wanted at all.

        An option may turn it off, but no counter, exception or early exit.
        """
        iterations = self._forest.fact(Iterations)
        if iterations.at_every_iteration(node, outer, or_often=True):
            return True
        for above, child in climb(self._forest.tree, node):
            if above is outer:
                break
            if isinstance(above, HANDLERS):
                return False
            if isinstance(above, cst.IndentedBlock) and iterations.is_behind_exit(above, child):
                return False
        return not iterations.is_counted(node, outer)

    def always(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether ``node`` runs whenever ``outer`` does, on a GPU and with something to work on.

        No condition may be between the two but one on the device, or on the data of the step (``if len(boxes) > 0:``).
        """
        for above, child in climb(self._forest.tree, node):
            if above is outer:
                return True
            if isinstance(above, (cst.FunctionDef, cst.Lambda)) and child is above.body:
                return isinstance(above, cst.FunctionDef) and above.name.value == "closure"
            if isinstance(above, (*HANDLERS, cst.Match)):
                return False
            if isinstance(above, (cst.For, cst.While)) and child is not above.body:
                return False
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                works = has_work(above, child, self._forest.values.reaching)
                if not works and not asks_for_device(self._forest, above.test):
                    return False
            if isinstance(above, cst.IndentedBlock) and self._forest.fact(Iterations).is_behind_exit(above, child):
                return False
        return False

    def _of(
        self,
        node: cst.CSTNode,
        passes: Passes,
        trained: bool,
        depth: int,
        seen: set[cst.FunctionDef],
        none: Sequence[cst.Param],
    ) -> StepPlace | None:
        """The step that runs ``node``, in whose function the parameters ``none`` are None."""
        for loop in self._forest.fact(Loops).around(node):
            trains = loop.node in self._steps
            if trains or (not trained and self.is_inference(loop)):
                trains = trains and not self.only_evaluates(node, loop.node)
                is_meant = (trains or not trained) and passes(node, loop.node)
                return StepPlace(loop.node, (), trains) if is_meant else None
        function = self._forest.function_of(node)
        if function is None or function in seen or not passes(node, function):
            return None
        if function in self._steps or self._consists_of_steps(function):
            return StepPlace(function, (), True)
        callers = self._forest.fact(Dispatch).callers(function)
        if depth <= 0 or len(callers) > _MAX_CALLERS:
            return None
        seen.add(function)
        absent = [*none, *self._none_at(node, function)]
        parameter = self._forest.names.parameter
        for call in callers:
            if self._forest.values.branches.excludes(call, function, node):
                continue
            given = [self._forest.definitions.argument_of(call, function, param) for param in absent]
            if any(self._is_tensor(item) for item in given):
                continue
            passed_on = [item for item in (parameter(value, rebound=True) for value in given) if item is not None]
            found = self._of(call, passes, trained, depth - 1, seen, passed_on)
            if found is not None:
                return StepPlace(found.step, (*found.calls, call), found.trains)
        return None

    def only_evaluates(self, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
        """Whether no backward pass of a step can follow ``node``: ``if split == "train": ... else: evaluate(x)``."""
        backwards = self._forest.tree.calls_named(*BACKWARD, inside=loop)
        return bool(backwards) and all(self._forest.tree.exclusive(node, call) for call in backwards)

    def _none_at(self, node: cst.CSTNode, function: cst.FunctionDef) -> Iterator[cst.Param]:
        """The parameters of ``function`` that are None where ``node`` runs: under ``if targets is None:``."""
        for item in branches(self._forest.tree, node, function):
            asked = asked_for_none(item.guard.test, cst.Is) if item.guard is not None else None
            param = self._forest.names.parameter(asked, rebound=True) if asked is not None else None
            if param is not None:
                yield param

    def _is_tensor(self, node: cst.BaseExpression | None) -> bool:
        return node is not None and self._forest.value(node).kind in (Kind.TENSOR, Kind.BATCH)

    def _consists_of_steps(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` runs training steps one after the other, each once: of a critic, then of an actor."""
        forest = self._forest
        return any(
            item in self._steps
            for call in forest.tree.calls_in(function.body)
            if not forest.fact(Loops).around(call)
            for item in forest.definitions.called(call, forest.values)
        )

    @cached_property
    def _steps(self) -> frozenset[cst.CSTNode]:
        return frozenset(self._forest.fact(Steps).places)

    def is_inference(self, loop: Loop) -> bool:
        """Whether ``loop`` runs a network over the batches of a loader, or over other data piece by piece."""
        if loop.kind is LoopKind.EPOCH or (loop.kind is LoopKind.HOT and not is_batch(loop.over)):
            return False
        if loop.node not in self._runs:
            self._runs[loop.node] = self._runs_network(loop)
        return self._runs[loop.node]

    def _runs_network(self, loop: Loop) -> bool:
        if loop.kind is LoopKind.HOT:
            return self._forest.fact(Outputs).first_run(loop.node.body) is not None
        runs, runs_part = self._forest.fact(Outputs).runs, self._forest.fact(Networks).runs_own_part
        calls, around = self._forest.tree.calls_in(loop.node.body), self._forest.fact(Loops).around
        return any((runs(call) or runs_part(call)) and loop in around(call)[:1] for call in calls)

    # -- what is repeated, under conditions or not

    def per_batch(self, node: cst.CSTNode) -> StepPlace | None:
        """What runs ``node`` once per batch: what repeats it, or else a step; not by a constructor that a step runs."""
        found = self._repeating(node, _INVARIANT_DEPTH) or self.of(node) or self._wrapping(node) or self._sampling(node)
        sets_up = self._forest.fact(Purposes).is_constructor
        places = (node, *found.calls) if found is not None else ()
        functions = filter(None, map(self._forest.function_of, places))
        return None if any(map(sets_up, functions)) else found

    def _wrapping(self, node: cst.CSTNode) -> StepPlace | None:
        """The `__call__` around ``node``, if it returns what a network gives: of an object that is called like one."""
        function = self._forest.function_of(node)
        if function is None or function.name.value != "__call__" or self._forest.tree.class_of(function) is None:
            return None
        returned = self._forest.definitions.returns(function)
        runs = [isinstance(item, cst.Call) and self._forest.fact(Outputs).runs(item) for item in returned]
        return StepPlace(function, (), trains=False) if runs and all(runs) else None

    def _sampling(self, node: cst.CSTNode) -> StepPlace | None:
        """The loop around ``node`` that runs a network in a function that it calls: ``x = self.denoise(x, t)``."""
        found = self._forest.fact(NetworkLoops).around(node)
        return StepPlace(found[0].node, found[1], trains=False) if found is not None else None

    def repeating(self, node: cst.CSTNode) -> StepPlace | None:
        """What runs ``node`` once per batch: a loop or a network's `forward`, directly or a few calls deep.

        Unlike for :meth:`of`, only conditions on a counter matter (``if step % 100 == 0:``), and the callers of a
        `forward` need not be seen.
        """
        return self._repeating(node, _FORWARD_DEPTH)

    def _repeating(self, node: cst.CSTNode, depth: int) -> StepPlace | None:
        loop = self._forest.fact(Loops).hot(node)
        counted = self._forest.fact(Iterations).is_counted
        if loop is not None:
            return None if counted(node, loop.node) else StepPlace(loop.node, (), loop.node in self._steps)
        for function in self._forest.functions_around(node):
            if counted(node, function):
                return None
            found = self._repeating_function(function, depth)
            if found is not None and found.calls and self._branches.excludes(found.calls[-1], function, node):
                found = self._find_repeating(function, depth, node)
            if found is not None:
                return found
        return None

    @cached_property
    def _branches(self) -> Branches:
        """A function that is given a network does not build one: ``if model is None: model = Net()``."""
        return Branches(self._forest.tree, self._forest.definitions, self._forest.values.reaching, trusting=True)

    def _repeating_function(self, function: cst.FunctionDef, depth: int) -> StepPlace | None:
        key = function, depth
        if key not in self._repeated:
            self._repeated[key] = self._find_repeating(function, depth)
        return self._repeated[key]

    def _find_repeating(
        self, function: cst.FunctionDef, depth: int, node: cst.CSTNode | None = None
    ) -> StepPlace | None:
        """What repeats a function, or only ``node`` in it."""
        if self.is_forward(function):
            return StepPlace(function, (), function in self._steps)
        if depth <= 0 or self._forest.fact(Purposes).is_constructor(function):
            return None
        calls = self._forest.fact(Dispatch).callers(function)
        if len(calls) > _MAX_CALLERS_OF_HELPER:
            return None
        for call in calls:
            if node is not None and self._branches.excludes(call, function, node):
                continue
            found = self._repeating(call, depth - 1)
            if found is not None:
                return StepPlace(found.step, (*found.calls, call), found.trains)
        return None

    def is_forward(self, function: cst.FunctionDef) -> bool:
        """Whether a network, a criterion, an optimizer or a trainer runs ``function`` for every batch."""
        if function in self._forest.fact(LibrarySteps).methods or function in self._forest.fact(LibrarySteps).updates:
            return True
        owner = self._forest.tree.class_of(function)
        if owner is None:
            return False
        if function.name.value == "step":
            return self._updates(function)
        return function.name.value in _FORWARDS and self._forest.values.instance(owner).kind in (Kind.MODULE, Kind.LOSS)

    def _clips(self, function: cst.FunctionDef) -> bool:
        """Whether ``function``, of which no call is seen, clips gradients: what does so runs once per step."""
        around, name_of = self._forest.fact(Loops).around, self._forest.name_of
        return not self._forest.fact(Dispatch).callers(function) and any(
            name_of(call.func) in GRADIENT_CLIPS and not around(call)
            for call in self._forest.tree.calls_in(function.body)
        )

    def _updates(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is the `step` of an optimizer, or of a class that changes the gradients of one."""
        owner = self._forest.tree.class_of(function) if function.name.value == "step" else None
        if owner is None:
            return False
        if self._forest.values.instance(owner).kind is Kind.OPTIMIZER:
            return True
        tree = self._forest.tree
        return all(
            any(tree.within(node, function) for node in tree.attributes_named(name))
            for name in ("param_groups", "grad")
        )
