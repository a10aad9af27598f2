"""Collective operations that all processes run at every training step, although the step does not depend on them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.autograd_functions import AutogradFunctions
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.climbing import climb, is_tested
from torchlint.model.syntax.conditions import Condition, ConditionKind, branches, conditions
from torchlint.model.syntax.dotted import base_of, dotted_name, last_name, last_part
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.library_steps import LibrarySteps
from torchlint.model.training.loops import Loops, is_backward
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.steps import Steps

_BARRIERS = frozenset({"torch.distributed.barrier", "torch.distributed.monitored_barrier"})
_OBJECTS = frozenset({"torch.distributed.all_gather_object", "torch.distributed.gather_object"})
_GATHER = "torch.distributed.all_gather"
_SUMS = frozenset({"torch.distributed.all_reduce", "torch.distributed.reduce"})
#: Methods of `accelerate.Accelerator`.
_WAITS = "wait_for_everyone"
_GATHERS = frozenset({"gather", "gather_for_metrics", "reduce"})
#: Words of tensors that the next steps depend on.
_STATE = re.compile(
    r"grad|param|weight|buffer|center|queue|bank|proto|flat|ema|stop|finish|should|found_inf|overflow|oom"
)
#: Words of functions that exchange gradients, weights or statistics of a network.
_NETWORK = re.compile(r"\.grad\b|parameters\(\)|state_dict|buffers\(\)|\.modules\(\)")
#: Words of conditions that are true in a program of several processes.
_PROCESSES = re.compile(r"world|dist|ddp|initialized|n?_?procs?\b|process|gpus?\b|replica", re.IGNORECASE)
#: Words of conditions that are true for the parameters that are trained.
_TRAINED = re.compile(r"\.requires_grad\b|\.grad\b.* None$")
#: A condition that a value is absent.
_IS_NONE = re.compile(r"^[\w.]+ is None$")
#: How many calls lie between a step and a collective operation.
_DEPTH = 2
#: How many assignments a value is followed through to a condition.
_NAMES = 5
_MAX_CALLERS = 24  #: callers of a function that are asked for the parameters that they pass


class Collective(Enum):
    """What a collective operation does."""

    BARRIER = "a barrier makes all processes wait for the slowest one"
    OBJECT = "Python objects are pickled and exchanged"
    LOGGED = "a value that is only logged is exchanged"
    PARAMETERS = "the gradient of each parameter is exchanged separately"


@dataclass(frozen=True, eq=False)
class StepCollective:
    """A collective operation of a step."""

    call: cst.Call  #: in the step
    operation: cst.CSTNode  #: in the step, or in a function that it calls
    kind: Collective
    step: cst.CSTNode
    whole: cst.CSTNode  #: the loop that runs the step, else the step itself


class Collectives:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @property
    def all(self) -> Iterator[StepCollective]:
        """The collective operations of the training steps of the file, in order."""
        for step in self._module.fact(Steps).places:
            if not self._module.is_own(step) or self._module.fact(Purposes).is_test(step):
                continue
            for call in self._tree.calls_in(step):
                if not self._runs_always(call, step) or self._is_other_branch(call, step):
                    continue
                if self._is_once_per_pass(call, step):
                    continue
                found = self._operation(call, _DEPTH, set())
                if found is not None:
                    yield StepCollective(call, *found, step, self._loop_of(step))

    def _is_once_per_pass(self, call: cst.Call, step: cst.CSTNode) -> bool:
        """Whether a function that takes a step iterates over a loader, maybe in ``closure``, and not around ``call``.

        The step of ``optimizer.step(closure)`` may be that of a whole epoch.
        """
        loops = self._tree.inside(step, cst.For) if isinstance(step, cst.FunctionDef) else ()
        return any(self._is_over_loader(loop) and not self._tree.within(call, loop) for loop in loops)

    def _is_over_loader(self, loop: cst.For) -> bool:
        found = iterables(self._module.names, loop.iter, ())
        return any(self._module.value(over).kind is Kind.LOADER for over, _ in found)

    def _loop_of(self, step: cst.CSTNode) -> cst.CSTNode:
        """The loop that calls ``step``, if it is a step too."""
        callers = self._module.fact(Dispatch).callers(step) if isinstance(step, cst.FunctionDef) else ()
        loops = (loop.node for call in callers for loop in self._module.fact(Loops).around(call)[:1])
        return next((loop for loop in loops if loop in self._module.fact(Steps).places), step)

    def _runs_always(self, call: cst.Call, step: cst.CSTNode) -> bool:
        """Whether ``call`` runs in each iteration, if there are several processes and the step is not left out."""
        outermost: cst.CSTNode = call
        for item in branches(self._tree, call, step):
            if item.guard is not None:
                trains = any(map(is_backward, self._tree.calls_in(item.guard.body)))
                if trains or self._asks_for_processes(item.guard):
                    outermost = item.guard
        return self._module.fact(Iterations).at_every_iteration(outermost, step)

    def _is_other_branch(self, call: cst.Call, step: cst.CSTNode) -> bool:
        """Whether ``call`` runs where the step does not train."""
        gradients = self._module.fact(Gradients)
        inside = self._tree.calls_in(step)
        return any(gradients.is_backward(other) and self._tree.exclusive(other, call) for other in inside)

    def _runs_if_distributed(self, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether ``node`` runs whenever ``function`` does, in a program of several processes."""
        for item in conditions(self._tree, node, function):
            if item.kind in (ConditionKind.HANDLER, ConditionKind.CASE):
                return False
            if item.test is None or self._runs_again(item, function):
                continue
            test = self._module.code(item.test)
            is_usual = _PROCESSES.search(test) or _TRAINED.search(test)
            if not is_usual and (item.kind is ConditionKind.BRANCH or not _IS_NONE.search(test)):
                return False  # it may also end the function, unless it is not given a value
        return True

    def _runs_again(self, item: Condition, function: cst.FunctionDef) -> bool:
        """Whether ``function`` calls itself for each part of what ``item`` excludes: ``isinstance(values, dict)``."""
        if not isinstance(item.test, cst.Call) or self._module.name_of(item.test.func) != "builtins.isinstance":
            return False
        excluded = item.part if item.kind is ConditionKind.EXIT else None
        if item.is_else and isinstance(item.node, cst.If):
            excluded = item.node.body
        called = self._module.definitions.called
        inside = self._tree.calls_in(excluded) if excluded is not None else ()
        return any(function in called(call, self._module.values) for call in inside)

    def _asks_for_processes(self, branch: cst.If) -> bool:
        test = self._module.code(branch.test)
        return test in self._starting or _PROCESSES.search(test) is not None

    @cached_property
    def _starting(self) -> frozenset[str]:
        """The conditions under which the program starts several processes: ``if args.apex: init_process_group()``."""
        return frozenset(
            self._module.code(above.test)
            for call in self._tree.calls_named("init_process_group")
            for above, child in climb(self._tree, call)
            if isinstance(above, cst.If) and child is above.body and isinstance(above.test, (cst.Name, cst.Attribute))
        )

    # -- what a call exchanges

    def _operation(
        self, call: cst.Call, depth: int, seen: set[cst.FunctionDef]
    ) -> tuple[cst.CSTNode, Collective] | None:
        """The collective operation that ``call`` is or runs, if no gradient depends on it."""
        name = self._module.name_of(call.func)
        if name in _BARRIERS:
            return call, Collective.BARRIER
        if name in _OBJECTS:
            return call, Collective.OBJECT
        if name in _SUMS:
            return self._sum(call)
        if name == _GATHER and self._exchanges_objects(call):
            return call, Collective.OBJECT
        if name is not None and name.startswith("torch."):
            return None
        own = self._of_library(call)
        if own is not None:
            return own
        return self._inside(call, depth, seen)

    def _exchanges_objects(self, call: cst.Call) -> bool:
        """Whether the function around ``call``, or one that it calls, pickles what it exchanges."""
        function = self._module.function_of(call)
        if function is None or function.name.value == "forward":
            return False
        inside = self._tree.calls_in(function.body)
        called = (item for inner in inside for item in self._module.definitions.called(inner, self._module.values))
        inner = [*inside, *(each for item in called if isinstance(item, cst.FunctionDef) for each in self._calls(item))]
        return any(self._module.name_of(each.func) == "pickle.dumps" for each in inner)

    def _calls(self, function: cst.FunctionDef) -> Sequence[cst.Call]:
        return self._tree.calls_in(function.body)

    def _sum(self, call: cst.Call) -> tuple[cst.CSTNode, Collective] | None:
        positional = call.args[0].value if call.args and call.args[0].keyword is None else None
        given = positional or keyword(call, "tensor")
        if given is None:
            return None
        if self._is_of_each_parameter(given, call):
            return call, Collective.PARAMETERS
        return (call, Collective.LOGGED) if self._is_logged(given, call) else None

    def _is_of_each_parameter(self, given: cst.BaseExpression, call: cst.Call) -> bool:
        """Whether ``call``, in a loop over parameters, exchanges the gradient of one."""
        if ".grad" not in self._module.code(given):
            return False
        loops = (loop.node for loop in self._module.fact(Loops).around(call))
        return any(isinstance(loop, cst.For) and self._are_parameters(loop.iter) for loop in loops)

    def _are_parameters(self, node: cst.BaseExpression) -> bool:
        """Whether a loop iterates over ``model.parameters()``, also as an argument of the function around it."""
        if "parameters()" in self._module.code(node):
            return True
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else ()
        params = [item.node for item in reached if isinstance(item.node, cst.Param)]
        given = self._module.passed_by_all(params[0], _MAX_CALLERS) if len(params) == 1 else []
        return bool(given) and all(item is not None and "parameters()" in self._module.code(item) for item in given)

    def _of_library(self, call: cst.Call) -> tuple[cst.CSTNode, Collective] | None:
        """`accelerator.gather(loss)`; `self.log("loss", loss, sync_dist=True)` of Lightning."""
        if not isinstance(call.func, cst.Attribute):
            return None
        method, owner = call.func.attr.value, call.func.value
        if method in ("log", "log_dict") and dotted_name(owner) == "self":
            return (call, Collective.LOGGED) if self._is_logged_by_lightning(call) else None
        if method == _WAITS or method in _GATHERS:
            value = self._module.value(owner)
            given = call.args[0].value if call.args else None
            is_known = value.kind is Kind.TRAINER and last_part(value.name) == "Accelerator"
            if is_known or (value.kind is Kind.UNKNOWN and last_name(owner) == "accelerator"):
                if method == "reduce" and given is not None and self._is_of_each_parameter(given, call):
                    return call, Collective.PARAMETERS
            if not is_known:
                return None
            if method == _WAITS:
                return call, Collective.BARRIER
            needed = self._module.fact(Gradients).reaches_backward(call) or self._is_decided_by(call)
            if given is not None and not needed and not _STATE.search(self._module.code(given).lower()):
                return call, Collective.LOGGED
        return None

    def _is_logged_by_lightning(self, call: cst.Call) -> bool:
        function = self._module.function_of(call)
        if function not in self._module.fact(LibrarySteps).methods or function.name.value != "training_step":
            return False
        literals = {item.keyword.value: self._module.code(item.value) for item in call.args if item.keyword is not None}
        return literals.get("sync_dist") == "True" and literals.get("on_step", "True") == "True"

    def _inside(self, call: cst.Call, depth: int, seen: set[cst.FunctionDef]) -> tuple[cst.CSTNode, Collective] | None:
        """An operation in a function that ``call`` runs."""
        module = self._module
        is_needed = module.fact(Gradients).reaches_backward(call)
        if depth <= 0 or (is_needed and not self._is_unpacked(call)) or module.fact(Networks).runs_network(call):
            return None
        if self._is_decided_by(call):
            return None
        own = module.fact(AutogradFunctions).forward(call)
        for function in module.fact(Dispatch).functions(call) if own is None else (own,):
            if function in seen or module.fact(Gradients).trains(function):
                continue
            seen.add(function)
            for inner in self._tree.calls_in(function.body):
                if self._runs_if_distributed(inner, function):
                    found = self._operation(inner, depth - 1, seen)
                    is_logged = found is not None and found[1] is Collective.LOGGED
                    if found is None or (is_needed and not is_logged):
                        continue
                    if not (is_logged and self._is_argument_needed(call, found[0])):
                        return found
        return None

    def _is_unpacked(self, call: cst.Call) -> bool:
        """Whether the loss is one of several results of ``call``: ``loss, values = self.parse(losses)``."""
        statement = self._tree.parent(call)
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        return any(len(_targets(item.target)) > 1 for item in targets)

    def _is_argument_needed(self, call: cst.Call, operation: cst.CSTNode) -> bool:
        """Whether ``operation`` changes an argument of ``call`` on which a gradient or a decision depends."""
        exchanged = keyword(operation, "tensor") if isinstance(operation, cst.Call) else None
        if exchanged is None and isinstance(operation, cst.Call) and operation.args:
            exchanged = operation.args[0].value
        changed = base_of(exchanged) if exchanged is not None else None
        if not isinstance(changed, cst.Name):
            return False
        if any(item.kind is not BindingKind.PARAM for item in self._module.values.reaching.of(changed)):
            return False
        for argument in call.args:
            root = base_of(argument.value)
            if isinstance(root, cst.Name) and self._is_needed_later(root, call):
                return True
            if _STATE.search(self._module.code(argument.value).lower()):
                return True
        return False

    # -- what becomes of the result

    def _is_step(self, function: cst.FunctionDef, call: cst.Call) -> bool:
        """Whether ``function`` contains the step, and is not called by it."""
        steps = self._module.fact(Steps).places
        return function in steps or any(item.node in steps for item in self._module.fact(Loops).around(call))

    def _is_logged(self, given: cst.BaseExpression, call: cst.Call) -> bool:
        """Whether neither a gradient nor a decision depends on the tensor that ``call`` exchanges."""
        function = self._module.function_of(call)
        if _STATE.search(self._module.code(given).lower()):
            return False
        if function is not None and not self._is_step(function, call) and _NETWORK.search(self._module.code(function)):
            return False
        gradients = self._module.fact(Gradients)
        if gradients.reaches_backward(call) or self._is_decided_by(call):
            return False
        root = base_of(given)
        if not isinstance(root, cst.Name) or root.value == "self":
            return False
        if any(
            item.kind is BindingKind.FOR
            and item.value is not None
            and _STATE.search(self._module.code(item.value).lower())
            for item in self._module.values.reaching.of(root)
        ):
            return False
        return not self._is_needed_later(root, call)

    def _is_needed_later(self, root: cst.Name, call: cst.Call) -> bool:
        """Whether a gradient or a decision depends on a name, in ``call`` or after it."""
        home = self._module.names.home_of(root)
        index = self._tree.index(call)
        uses = self._module.names.uses_in(home, root.value) if home is not None else []
        later = [use for use in uses if self._tree.index(use) > index]
        gradients = self._module.fact(Gradients)
        return any(gradients.reaches_backward(use) or self._is_decided_by(use) for use in (root, *later))

    def _is_decided_by(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is part of a condition, or of what a name is assigned that is part of one."""
        if self._is_asked(node):
            return True
        if any(self._is_asked(use) for use in self._uses_of_assigned(node)):
            return True
        loops = self._module.fact(Loops).around(node)
        return bool(loops) and self._decides_in(loops[0].node, node)

    def _is_asked(self, node: cst.CSTNode) -> bool:
        """Whether a condition depends on the value of ``node``, not only on its type or on which keys it has."""
        above = self._tree.parent(node)
        if isinstance(above, cst.ComparisonTarget) and isinstance(above.operator, (cst.In, cst.NotIn)):
            return False
        call = self._tree.parent(above) if isinstance(above, cst.Arg) else None
        is_for_type = isinstance(call, cst.Call) and self._module.name_of(call.func) == "builtins.isinstance"
        return not is_for_type and is_tested(self._tree, node)

    def _decides_in(self, loop: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether a condition in ``loop`` depends on ``node`` by several names: ``value = sum(reduced).item()``."""
        waiting, seen = deque([(node, _NAMES)]), {node}
        while waiting:
            current, depth = waiting.popleft()
            if self._is_asked(current):
                return True
            for use in self._uses_of_assigned(current) if depth > 0 else ():
                if isinstance(use, cst.Name) and use not in seen and self._tree.within(use, loop):
                    seen.add(use)
                    waiting.append((use, depth - 1))
        return False

    def _uses_of_assigned(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The uses of what is assigned a value with ``node`` in it."""
        statement = self._tree.statement_of(node)
        if isinstance(statement, cst.Assign) and self._tree.within(node, statement.value):
            for item in statement.targets:
                for target in _targets(item.target):
                    yield from self._uses(target)

    def _uses(self, target: cst.BaseExpression) -> Sequence[cst.CSTNode]:
        """The uses of a variable, or of an attribute of this name: ``self.losses``."""
        if isinstance(target, cst.Attribute):
            return self._tree.attributes_named(target.attr.value)
        root = base_of(target)
        home = self._module.names.home_of(root) if isinstance(root, cst.Name) else None
        return self._module.names.uses_in(home, root.value) if home is not None and isinstance(root, cst.Name) else ()


def _targets(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What an assignment binds: the parts of ``a, b``."""
    if isinstance(target, (cst.Tuple, cst.List)):
        return [part for item in target.elements for part in _targets(item.value)]
    return [target]
