"""Training steps: the code that runs once per step, and the forward and backward passes in it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import base_of, dotted_name, last_name
from torchlint.model.training.epoch_loops import EpochLoops, is_given_epochs
from torchlint.model.training.function_words import EVALUATING, words_of
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.input_gradients import InputGradients
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.library_steps import LibrarySteps
from torchlint.model.training.loops import BACKWARD, STEP, Loop, LoopKind, Loops, is_backward, is_batch, is_step
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.weight_changes import WeightChanges, is_optimizer_call

#: How many calls a step is followed through, from a backward pass up to the loop, and down to the forwards.
_CALL_DEPTH = 4
#: ... and how many functions are looked into for it.
_MAX_FUNCTIONS = 60
#: How many calls lie between a loop over batches and a function that trains with the parts of one.
_BATCH_DEPTH = 2
#: Names of what has a method `step` and is an optimizer, or steps one.
_OPTIMIZER = re.compile(r"opt|scaler|trainer|engine", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class TrainingLoop:
    """A loop that trains."""

    loop: cst.CSTNode  #: the ``for`` or ``while``; else the function that a library runs for every batch
    body: cst.CSTNode  #: what runs at every step: the loop, or a function of the program that it calls
    forward: cst.Call  #: the first forward in ``body`` whose output reaches a backward pass
    call: cst.Call  #: in ``body``: the forward, or the call of the function that runs it
    backward: cst.Call  #: the first backward pass, in ``body`` or in a function that it calls
    backwards: tuple[cst.Call, ...]  #: the backward passes in ``body``
    place: cst.Call  #: where it is reported, in a file with a backward pass: forward, its call, or backward pass


class Steps(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._epochs = forest.fact(EpochLoops)
        self._around: dict[cst.FunctionDef, list[tuple[cst.CSTNode, cst.CSTNode]]] = {}
        self._networks: dict[cst.CSTNode, list[cst.BaseExpression]] = {}
        self._per_batch: dict[tuple[cst.FunctionDef, int], bool] = {}

    @cached_property
    def places(self) -> list[cst.CSTNode]:
        """The code that runs once per training step.

        The innermost loops around backward passes and optimizer steps; else the functions that contain them, and the
        loops that call those.
        """
        found: dict[cst.CSTNode, None] = {}
        tree, is_self_test = self._forest.tree, self._forest.fact(Purposes).is_self_test
        for call in tree.calls_where(lambda name: name in BACKWARD or name in STEP or name.endswith("scaler")):
            trains = is_backward(call) or self._calls_scaler(call) or self._steps_optimizer(call)
            if trains and not is_self_test(call) and not self._only_computes(call):
                found.update(dict.fromkeys(self._places_of(call)))
        return [*found, *(item for item in self._forest.fact(LibrarySteps).methods if item not in found)]

    def _only_computes(self, call: cst.Call) -> bool:
        """Whether ``self.backward()`` runs a method of the program that only computes losses."""
        if not isinstance(call.func, cst.Attribute) or not self._forest.names.is_self(call.func.value):
            return False
        functions = self._forest.definitions.called(call, self._forest.values)
        return bool(functions) and not any(map(self._forest.fact(Gradients).trains, functions))

    def _calls_scaler(self, call: cst.Call) -> bool:
        """Whether ``call`` scales a loss and runs its backward pass: ``loss_scaler(loss, optimizer)``."""
        if not last_name(call.func).endswith("scaler"):
            return False
        return self._forest.name_of(call.func) is None and self._forest.fact(Gradients).is_backward(call)

    def _steps_optimizer(self, call: cst.Call) -> bool:
        if not is_step(call) or not isinstance(call.func, cst.Attribute):
            return False
        owner = call.func.value
        return self._forest.value(owner).kind in (Kind.OPTIMIZER, Kind.SCALER) or bool(
            _OPTIMIZER.search(dotted_name(owner) or "")
        )

    def _places_of(self, call: cst.Call) -> list[cst.CSTNode]:
        """The code that runs again for every ``call``: the loop around it, or its function if the loop is elsewhere."""
        loops = self._forest.fact(Loops).repeating(call)
        innermost = self._forest.function_of(call)
        if loops and _takes_owner(loops[0].node, call):
            loops = loops[1:]  # for optimizer in optimizers: optimizer.step()
        if loops:
            # the loop over the batches is around the loop over the parts of a batch
            per_batch = [loops[0], *(loop for loop in loops[1:] if is_batch(loop.over))]
            if len(loops) > 1 and loops[1] not in per_batch and self._is_around_parts(loops[0], loops[1], call):
                per_batch.append(loops[1])
            found: list[cst.CSTNode] = [loop.node for loop in per_batch if not self._epochs.is_epoch(loop.node)]
            if found and innermost is not None and self._is_run_per_batch(innermost, loops):
                found.append(innermost)
            return found
        for function in self._forest.functions_around(call):
            if self._is_step(function):
                return [function, *self._loops_calling(function, call)]
        return []

    def _is_around_parts(self, inner: Loop, outer: Loop, call: cst.Call) -> bool:
        """Whether each iteration of ``outer`` is a step, of which ``inner`` runs the parts.

        ``inner`` iterates over micro-batches, or over objects that each have an optimizer: ``phase.opt.step()``.
        """
        if self._accumulates(inner, outer):
            return True
        owner = base_of(call.func, {cst.Attribute})
        over = self._forest.tree.names_in(inner.node.target) if isinstance(inner.node, cst.For) else ()
        takes_owner = is_step(call) and isinstance(owner, cst.Name) and owner.value in over
        return takes_owner and self._epochs.takes_batch(outer.node)

    def _accumulates(self, inner: Loop, outer: Loop) -> bool:
        """Whether ``inner`` only adds up gradients, and each iteration of ``outer`` steps an optimizer with them."""
        if is_batch(inner.over) or any(map(is_step, self._forest.tree.calls_in(inner.node.body))):
            return False
        return any(
            self._steps_optimizer(call) and self._forest.fact(Iterations).at_every_iteration(call, outer.node)
            for call in self._forest.tree.calls_in(outer.node.body)
        )

    def _loops_calling(self, function: cst.FunctionDef, trains: cst.Call) -> Iterator[cst.CSTNode]:
        """The loops that call ``function``, a step, at every iteration: what else they run belongs to the step.

        ``trains`` is what makes the function a step. If it may be skipped, a loop may call the function to validate.
        """
        always = self._forest.fact(Iterations).at_every_iteration
        for call in self._forest.fact(Dispatch).callers(function) if self._always_trains(function, trains) else ():
            if self._forest.values.branches.excludes(call, function, trains):
                continue  # `step(batch, only_loss=True)`
            for loop in self._forest.fact(Loops).around(call)[:1]:
                if (
                    not self._epochs.is_epoch(loop.node)
                    and always(call, loop.node)
                    and not self._evaluates(loop, function)
                ):
                    yield loop.node

    def _evaluates(self, loop: Loop, function: cst.FunctionDef) -> bool:
        """Whether a loop evaluates, as its name says, with a ``function`` that needs gradients: no weights change."""
        around = self._forest.function_of(loop.node)
        is_named = around is not None and bool(words_of(around.name.value) & EVALUATING)
        return is_named and not self._forest.fact(WeightChanges).within((function, loop.node))

    def _always_trains(self, function: cst.FunctionDef, trains: cst.Call) -> bool:
        """Whether ``function`` runs a backward pass at every call, be it ``trains`` or that of another branch."""
        for above, child in climb(self._forest.tree, trains):
            if above is function:
                return True
            if isinstance(above, cst.If) and child is not above.test:
                other = above.orelse if child is above.body else above.body
                if other is None or not any(map(is_backward, self._forest.tree.calls_in(other))):
                    return False
        return False

    def _is_run_per_batch(self, function: cst.FunctionDef, loops: list[Loop]) -> bool:
        """Whether ``loops`` of ``function`` iterate over the parts of a batch, and a loop over batches calls it."""
        if any(is_batch(loop.over) or self._epochs.is_epoch(loop.node) for loop in loops):
            return False
        return self._is_called_per_batch(function, _BATCH_DEPTH)

    def _is_called_per_batch(self, function: cst.FunctionDef, depth: int) -> bool:
        """Whether a loop over batches, or one that takes the next batch, runs ``function`` once per iteration."""
        known = self._per_batch.get((function, depth))
        if known is None:
            known = self._per_batch[function, depth] = self._find_called_per_batch(function, depth)
        return known

    def _find_called_per_batch(self, function: cst.FunctionDef, depth: int) -> bool:
        for call in self._forest.fact(Dispatch).callers(function):
            loop = next(iter(self._forest.fact(Loops).around(call)), None)
            outer = self._forest.function_of(call)
            if loop is not None:
                if is_batch(loop.over) or self._epochs.takes_batch(loop.node):
                    return True
            elif outer is not None and depth > 0 and self._is_called_per_batch(outer, depth - 1):
                return True
        return False

    def _is_step(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is a training step: it runs forward and backward pass, and is called in a loop."""
        if function in self._forest.fact(LibrarySteps).updates:
            return True
        calls = self._forest.fact(Dispatch).callers(function)
        around = [loop for call in calls for loop in self._forest.fact(Loops).around(call)[:1]]
        if is_given_epochs(function):
            return any(is_batch(loop.over) for loop in around)  # otherwise a step that is an epoch
        if around:
            return not all(self._epochs.is_epoch(loop.node) for loop in around)
        if calls and all(map(self._forest.fact(Purposes).runs_once, calls)):
            return False
        inside = self._forest.tree.calls_in(function.body)
        if not any(self._steps_optimizer(call) for call in inside):
            return False
        if any(map(self._makes_optimizer, inside)):
            return False  # it trains from the beginning, as with `optimizer.step(closure)` of L-BFGS
        return any(map(self._takes_gradients, inside)) or self._is_within_step(function, {function})

    def _makes_optimizer(self, call: cst.Call) -> bool:
        """Whether ``call`` makes an optimizer, by its name or as a function of the program: values take longer."""
        if "optim" not in (self._forest.name_of(call.func) or last_name(call.func)).lower():
            if not self._forest.definitions.called(call, self._forest.values):
                return False
        return self._forest.value(call).kind is Kind.OPTIMIZER

    def _takes_gradients(self, call: cst.Call) -> bool:
        """``loss.backward()``, ``torch.autograd.grad(loss, weights)``, or a function of the program that does so."""
        if is_backward(call) or self._forest.name_of(call.func) == "torch.autograd.grad":
            return True
        run = self._forest.fact(Dispatch).functions(call)
        return any(is_backward(inner) for function in run for inner in self._forest.tree.calls_in(function.body))

    def _is_within_step(self, function: cst.FunctionDef, seen: set[cst.FunctionDef]) -> bool:
        """Whether a loop runs ``function`` through functions that call it: ``run_step`` that calls ``optimize``."""
        for call in self._forest.fact(Dispatch).callers(function):
            around = self._forest.fact(Loops).around(call)[:1]
            above = self._forest.function_of(call)
            if around:
                return not self._epochs.is_epoch(around[0].node) and len(seen) > 1
            if above is None or above in seen or len(seen) >= _CALL_DEPTH or is_given_epochs(above):
                continue
            if self._is_within_step(above, {*seen, above}):
                return True
        return False

    # -- what runs in a step

    @cached_property
    def loops(self) -> list[TrainingLoop]:
        """The training loops of the file, in order."""
        found: dict[cst.CSTNode, TrainingLoop] = {}
        if not any(map(is_optimizer_call, self._forest.tree.calls_named(*STEP, "zero_grad"))):
            return []  # an attack, a saliency map
        inputs = self._forest.fact(InputGradients)
        if inputs.are_optimized:
            return []
        backwards, purposes = self._forest.fact(Gradients).backwards, self._forest.fact(Purposes)
        backwards = [call for call in backwards if is_backward(call) or "scaler" in (dotted_name(call.func) or "")]
        files = {self._forest.tree.root_of(call) for call in backwards}
        for backward in backwards:
            if purposes.is_test(backward) or purposes.is_self_test(backward):
                continue
            if self._forest.name_of(backward.func) == "torch.distributed.autograd.backward":
                continue  # the forward runs in other processes
            if inputs.are_wanted_by(backward):
                continue
            for loop, body in self._bodies(backward):
                if inputs.are_changed_in(loop):
                    break
                forward, call = next(self._forwards(body), (None, None))
                if forward is None or call is None:
                    continue
                if body not in found:
                    inside = tuple(call for call in self._forest.tree.calls_in(body) if is_backward(call))
                    first = inside[0] if inside else backward
                    place = next(part for part in (forward, call, first) if self._forest.tree.root_of(part) in files)
                    found[body] = TrainingLoop(loop, body, forward, call, first, inside, place)
                break
        return sorted(found.values(), key=lambda item: self._forest.tree.index(item.forward))

    def _bodies(self, backward: cst.Call) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """The loops around a backward pass, innermost first; else the functions on the way to a loop that runs it."""
        loops = self._forest.fact(Loops).repeating(backward)
        innermost = self._forest.function_of(backward)
        if loops:
            if not self._forest.fact(WeightChanges).around(backward):
                return  # a saliency map for each batch
            hot = [item.node for item in loops if item.kind is LoopKind.HOT]
            ordered = [item.node for item in loops]
            if hot:  # the loop over batches, not one over the parts of a batch
                outermost = hot[-1]
                ordered = [outermost, *ordered[ordered.index(outermost) + 1 :]]
            yield from ((node, node) for node in ordered)
        elif innermost is not None:
            if innermost not in self._around:
                self._around[innermost] = list(self._bodies_around(innermost))
            yield from self._around[innermost]

    def _bodies_around(self, function: cst.FunctionDef) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """``function`` and the functions that call it, up to the first that is called in a loop; then that loop.

        If no call of the last one is seen, other code repeats it: the step of a model that another package trains.
        """
        forest = self._forest
        seen = {function}
        uncalled: tuple[cst.FunctionDef, ...] = ()
        waiting: deque[tuple[cst.FunctionDef, tuple[cst.FunctionDef, ...]]] = deque([(function, (function,))])
        while waiting and len(seen) < _MAX_FUNCTIONS:
            current, chain = waiting.popleft()
            if current in forest.fact(LibrarySteps).updates:
                yield from ((current, body) for body in chain)
                return
            calls = [call for call in forest.fact(Dispatch).callers(current) if self._may_train(call)]
            for call in calls:
                around = forest.fact(Loops).around(call)
                if around and forest.fact(WeightChanges).within((*chain, around[0].node)):
                    yield from ((around[0].node, body) for body in (*chain, around[0].node))
                    return
            outer = [forest.function_of(node) for node in (*calls, current)]  # a closure is run by what defines it
            if not calls and outer == [None] and any(map(self._steps_optimizer, forest.tree.calls_in(current.body))):
                uncalled = uncalled or chain
            for above in dict.fromkeys(outer):
                if above is not None and above not in seen and len(chain) < _CALL_DEPTH:
                    seen.add(above)
                    waiting.append((above, (*chain, above)))
        yield from ((uncalled[-1], body) for body in uncalled)

    def _may_train(self, call: cst.Call) -> bool:
        """Whether a backward pass may be behind ``call``: gradients are recorded there, and it is not in a test."""
        return not self._forest.fact(Purposes).is_test(call) and not self._forest.fact(GradModes).of(call).is_off

    def networks(self, step: TrainingLoop) -> list[cst.BaseExpression]:
        """What the forwards of a step run, one for each forward that the loss is made of."""
        known = self._networks.get(step.body)
        if known is None:
            forwards = [call for call, _ in self._forwards(step.body)]
            known = self._networks[step.body] = list(map(self._forest.fact(Networks).network_of, forwards))
        return known

    def _forwards(self, body: cst.CSTNode) -> Iterator[tuple[cst.Call, cst.Call]]:
        """The forwards in ``body``, then in functions that it calls, that the loss is made of.

        Each with the call in ``body`` that leads to it.
        """
        forest = self._forest
        calls = forest.tree.calls_in(body)
        yield from ((call, call) for call in calls if self._is_trained(call))
        waiting = deque((call, call, 1) for call in calls)
        seen: set[cst.CSTNode] = set()
        while waiting and len(seen) < _MAX_FUNCTIONS:
            call, first, depth = waiting.popleft()
            if not forest.fact(Gradients).reaches_backward(call) and not self._fills_object(call):
                continue
            for function in forest.fact(Dispatch).functions(call):
                if function in seen or self._is_part_of_network(function, body):
                    continue
                seen.add(function)
                inside = forest.tree.calls_in(function.body)
                yield from ((inner, first) for inner in inside if self._is_trained(inner))
                if depth < _CALL_DEPTH:
                    waiting.extend((inner, first, depth + 1) for inner in inside)

    def _fills_object(self, call: cst.Call) -> bool:
        """``self.forward()`` or ``model.train_batch(x)`` as a statement: what it computes it keeps in the object."""
        func = call.func
        if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name):
            return False
        return isinstance(self._forest.tree.parent(call), cst.Expr)

    def _is_part_of_network(self, function: cst.FunctionDef, body: cst.CSTNode) -> bool:
        """Whether ``function`` is a method of a network, and not a step of one that has its own training loop."""
        owner = self._forest.tree.class_of(function)
        if owner is None or self._forest.values.instance(owner).kind is not Kind.MODULE:
            return False
        trainer = self._forest.function_of(body) if not isinstance(body, cst.FunctionDef) else body
        above = self._forest.tree.class_of(trainer) if trainer is not None else None
        if function.name.value == "forward":
            return True
        return above is not owner and owner not in self._training_itself

    @cached_property
    def _training_itself(self) -> set[cst.CSTNode | None]:
        """The classes with a backward pass in a method."""
        functions = map(self._forest.function_of, filter(is_backward, self._forest.fact(Gradients).backwards))
        return {self._forest.tree.class_of(function) for function in functions if function is not None}

    def _is_trained(self, call: cst.Call) -> bool:
        forest = self._forest
        if not forest.fact(Gradients).reaches_backward(call) or not forest.fact(Networks).runs_network(call):
            return False
        return not forest.fact(GradModes).of(call).is_off


def _takes_owner(loop: cst.For | cst.While, call: cst.Call) -> bool:
    """Whether ``call`` is of a method of what ``loop`` iterates over."""
    if (
        not isinstance(loop, cst.For)
        or not isinstance(loop.target, cst.Name)
        or not isinstance(call.func, cst.Attribute)
    ):
        return False
    return isinstance(call.func.value, cst.Name) and call.func.value.value == loop.target.value
