"""Grad mode: under which one a place runs; set there or by every caller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name, last_name, last_part
from torchlint.model.syntax.literals import is_true
from torchlint.model.training.loops import BACKWARD, is_backward

#: How many callers up the call is looked for that records gradients where others turn them off.
_UNGUARDED_DEPTH = 4

#: Lightning hooks that the trainer runs without gradients and in evaluation mode.
LIGHTNING_INFERENCE_HOOKS = frozenset(
    f"{phase}_{part}" for phase in ("validation", "test", "predict") for part in ("step", "epoch_end", "step_end")
) | {
    f"on_{phase}_{part}"
    for phase in ("validation", "test", "predict")
    for part in ("epoch_end", "batch_end", "epoch_start", "start", "end", "batch_start")
}

#: Methods of a ``speechbrain.Brain`` that it runs without gradients and in evaluation mode.
_BRAIN_HOOKS = frozenset({"evaluate_batch"})

#: Names of context managers in variables that do not change the grad mode.
_HARMLESS = re.compile(
    r"autocast|amp|timer|bar|progress|prof|lock|file|writer|session|stream|device|pool|txn|scope|run$"
)
#: Libraries without a notion of gradients that call the functions they are given.
_PLAIN_CALLERS = frozenset(
    "builtins functools itertools multiprocessing concurrent threading timeit ray joblib hyperopt optuna nevergrad "
    "bayes_opt scipy numpy pandas gradio streamlit wandb tkinter PyQt5 PyQt6 PySide2 PySide6 wx matplotlib".split()
)
#: Methods that register a function for an event of a graphical interface.
_EVENTS = frozenset({"connect", "bind", "after", "singleShot", "on_click", "on_clicked", "on_changed"})


class GradMode(str, Enum):
    """Whether operations record an autograd graph."""

    RECORDING = "recording"
    NO_GRAD = "no_grad"
    INFERENCE = "inference_mode"
    UNKNOWN = "unknown"

    @property
    def is_off(self) -> bool:
        """Whether autograd records nothing for certain."""
        return self in (GradMode.NO_GRAD, GradMode.INFERENCE)


class GradModes(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values
        self._links = forest.links
        self._recording: dict[cst.CSTNode, bool] = {}
        #: by function, and by function and place in it if its calls differ
        self._modes: CyclicMemo[tuple[cst.FunctionDef, cst.CSTNode | None], GradMode] = CyclicMemo(GradMode.UNKNOWN)

    # -- grad mode

    def of(self, node: cst.CSTNode) -> GradMode:
        """The grad mode at ``node``, by its surroundings, its function's decorators and its callers in the file."""
        for above, child in climb(self._tree, node):
            if type(above) is cst.With and child is above.body:
                mode = self._with_mode(above)
                if mode is not None:
                    return mode
            elif type(above) is cst.FunctionDef and child is above.body:
                return self._statement_mode(node, above) or self._called_mode(above, node)
            elif type(above) is cst.Lambda and child is above.body:
                recording = self._is_called_plainly(above) and self.of(above) is GradMode.RECORDING
                return GradMode.RECORDING if recording else GradMode.UNKNOWN
        return self._statement_mode(node, None) or GradMode.RECORDING

    def _is_called_plainly(self, function: cst.Lambda) -> bool:
        """Whether a lambda is given to a library that does not know of gradients, which calls it as it is."""
        passed: list[cst.CSTNode] = [function]
        statement = self._tree.parent(function)
        variable = self._names.variable(statement.targets[0].target) if isinstance(statement, cst.Assign) else None
        if variable is not None:
            uses = self._names.uses_in(*variable)
            passed = [use for use in uses if not isinstance(self._tree.parent(use), cst.AssignTarget)]
        return bool(passed) and all(map(self._is_given_to_plain_caller, passed))

    def _is_given_to_plain_caller(self, node: cst.CSTNode) -> bool:
        argument = self._tree.parent(node)
        call = self._tree.parent(argument) if isinstance(argument, cst.Arg) else None
        if not isinstance(call, cst.Call):
            return False
        name = self._names.resolve(call.func)
        if name is None:
            return isinstance(call.func, cst.Attribute) and call.func.attr.value in _EVENTS
        return name.partition(".")[0] in _PLAIN_CALLERS

    def within(self, node: cst.CSTNode, function: cst.CSTNode | None) -> GradMode | None:
        """The grad mode that the statements of ``function`` around ``node`` or before it set; None if none does."""
        for above, child in climb(self._tree, node, function):
            if type(above) is cst.With and child is above.body:
                mode = self._with_mode(above)
                if mode is not None:
                    return mode
        return self._statement_mode(node, function)

    def is_turned_on(self, node: cst.CSTNode) -> bool:
        """Whether the function around ``node``, or the script, enables gradients there, regardless of its callers."""
        return self.within(node, self._tree.function_of(node)) is GradMode.RECORDING

    def unguarded_call(self, node: cst.CSTNode, depth: int = _UNGUARDED_DEPTH) -> cst.Call | None:
        """The call under which ``node`` records gradients, where other calls of its function turn them off."""
        function = self._tree.function_of(node)
        if not isinstance(function, cst.FunctionDef) or depth <= 0 or self.within(node, function) is not None:
            return None
        if self.disables(function) or self.is_inference_hook(function) or self._tree.function_of(function) is not None:
            return None
        modes = {call: self.of(call) for call in self._calls_reaching(function, node)}
        recording = next((call for call, mode in modes.items() if mode is GradMode.RECORDING), None)
        if recording is None and len(modes) == 1 and GradMode.UNKNOWN in modes.values():
            return self.unguarded_call(next(iter(modes)), depth - 1)
        return recording

    def _calls_reaching(self, function: cst.FunctionDef, node: cst.CSTNode | None) -> list[cst.Call]:
        """The calls of a function whose arguments let it run ``node``: not ``step(batch, train=False)``."""
        calls = self._definitions.callers(function, self._values).calls
        excludes = self._values.branches.excludes
        return [call for call in calls if node is None or not excludes(call, function, node)]

    def _with_mode(self, node: cst.With) -> GradMode | None:
        """The grad mode that a ``with`` sets; None if it leaves it alone."""
        for item in reversed(node.items):
            mode = self.manager_mode(item.item)
            if mode is None and self._is_unknown_manager(item.item):
                mode = GradMode.UNKNOWN
            if mode is not None:
                return mode
        return None

    def _statement_mode(self, node: cst.CSTNode, function: cst.CSTNode | None) -> GradMode | None:
        """What a ``torch.set_grad_enabled(...)`` statement before ``node`` in the same body leaves."""
        found: GradMode | None = None
        for call, mode in self._grad_switches:
            home = self._tree.function_of(call)
            if home is function and self._tree.dominates(call, node):
                found = mode
            elif home is None and function is not None and found is None and not self._tree.within(function, call):
                if self._is_of_other_script(call, node):
                    continue
                # Gradients are on anyway, unless the function says otherwise.
                found = None if mode is GradMode.RECORDING else mode
            elif found is None and mode is GradMode.NO_GRAD and self._is_set_up(call, function):
                found = mode
        return found

    def _is_set_up(self, switch: cst.Call, function: cst.CSTNode | None) -> bool:
        """Whether the constructor of the class around a method switches gradients for the whole process."""
        home = self._tree.function_of(switch)
        owner = self._tree.class_of(home) if home is not None else None
        if owner is None or not isinstance(home, cst.FunctionDef) or home.name.value != "__init__":
            return False
        is_method = isinstance(function, cst.FunctionDef) and self._tree.class_of(function) is owner
        return is_method and self._tree.dominates(switch, home.body.body[-1])

    def _is_of_other_script(self, switch: cst.Call, node: cst.CSTNode) -> bool:
        """Whether a script turns gradients off for itself, and another one that ``node`` may run in does not."""
        script, root = self._tree.root_of(switch), self._tree.root_of(node)
        if script is root:
            return False
        return bool(self._training_files - {script}) or self._is_of_recording_script(root)

    def _is_of_recording_script(self, root: cst.CSTNode) -> bool:
        """Whether one of the programs that reach a file turns gradients off nowhere at the top level."""
        known = self._recording.get(root)
        if known is None:
            files = {self._tree.root_of(call) for call, _ in self._grad_switches if not self._tree.function_of(call)}
            programs = map(self._links.program, self._links.scripts(root))
            known = self._recording[root] = any(map(files.isdisjoint, programs))
        return known

    @cached_property
    def _training_files(self) -> frozenset[cst.CSTNode]:
        """The files with a backward pass."""
        return frozenset(self._tree.root_of(call) for call in self._tree.calls_named(*BACKWARD) if is_backward(call))

    @cached_property
    def _grad_switches(self) -> list[tuple[cst.Call, GradMode | None]]:
        """The ``torch.set_grad_enabled(...)`` statements, and those that call a function with one in its body.

        So are ``torch.no_grad().__enter__()`` and ``stack.enter_context(torch.no_grad())``.
        """
        found: list[tuple[cst.Call, GradMode | None]] = []
        switches = [(call, self.manager_mode(call)) for call in self._names.calls_of(knowledge.SET_GRAD_ENABLED)]
        for call, mode in (*switches, *self._entered):
            statement, home = self._tree.parent(call), self._tree.function_of(call)
            if not isinstance(statement, cst.Expr):
                continue
            found.append((call, mode))
            line = self._tree.parent(statement)
            above = self._tree.parent(line) if line is not None else None
            if isinstance(home, cst.FunctionDef) and home.body in (line, above):
                calls = self._definitions.callers(home, self._values).calls
                found += [(item, mode) for item in calls if isinstance(self._tree.parent(item), cst.Expr)]
        return sorted(found, key=lambda item: self._tree.index(item[0]))

    @property
    def _entered(self) -> Iterator[tuple[cst.Call, GradMode]]:
        """The calls that enter a context manager of the grad mode; it is not known for how long, or which one.

        Only ``torch.no_grad().__enter__()`` is never undone: an ``inference_mode()`` without a name is at once.
        """
        for call in self._tree.calls_named("__enter__", "enter_context"):
            if isinstance(call.func, cst.Attribute) and (call.args or call.func.attr.value == "__enter__"):
                is_lasting = isinstance(call.func.value, cst.Call) and not call.args
                mode = self.manager_mode(call.args[0].value if call.args else call.func.value)
                if mode is not None:
                    yield call, mode if is_lasting and mode is not GradMode.INFERENCE else GradMode.UNKNOWN

    def _called_mode(self, function: cst.FunctionDef, node: cst.CSTNode) -> GradMode:
        """The grad mode in which ``function`` runs ``node``, unless its own statements set another one."""
        mode = self._modes.get((function, None), self._function_mode)
        return mode if mode is not GradMode.UNKNOWN else self._modes.get((function, node), self._function_mode)

    def _function_mode(self, key: tuple[cst.FunctionDef, cst.CSTNode | None]) -> GradMode:
        function, node = key
        for decorator in function.decorators:
            mode = self.manager_mode(decorator.decorator)
            if mode is not None:
                return mode
        if self.is_inference_hook(function):
            return GradMode.NO_GRAD
        if isinstance(self._tree.function_of(function), cst.FunctionDef):
            around = self.of(function)
            if around.is_off:
                return around
        modes = {self.of(call) for call in self._calls_reaching(function, node)}
        if not modes:
            is_off = node is not None or any(self.of(call).is_off for call in self._calls_of_name(function))
            return GradMode.UNKNOWN if is_off else GradMode.RECORDING
        return modes.pop() if len(modes) == 1 else GradMode.UNKNOWN

    def _calls_of_name(self, function: cst.FunctionDef) -> Iterator[cst.Call]:
        """The calls that may run a method which no call is seen to run: of an object of a class that is not known,
        or of the same method of other classes that are derived from one of the base classes of its class.
        """
        owner, name = self._tree.class_of(function), function.name.value
        if owner is None:
            return
        lineage = self._definitions.lineage(owner)[1:]
        bases = {base for base in lineage if self._definitions.method(base, name) is not None}
        for call in self._tree.calls_named(name):
            if isinstance(call.func, cst.Attribute):
                run = self._definitions.called(call, self._values)
                owners = {self._tree.class_of(item) for item in run if isinstance(item, cst.FunctionDef)} - {None}
                is_of_family = any(other and not bases.isdisjoint(self._definitions.lineage(other)) for other in owners)
                if is_of_family or not (run or self._values.of(call.func.value) or self._names.resolve(call.func)):
                    yield call

    def manager_mode(self, node: cst.CSTNode) -> GradMode | None:
        """The grad mode that a context manager or decorator sets; None if it leaves it alone."""
        name = self._names.resolve(node.func if isinstance(node, cst.Call) else node)
        if name in (knowledge.NO_GRAD, knowledge.INFERENCE_MODE, knowledge.ENABLE_GRAD):
            if name == knowledge.ENABLE_GRAD:
                return GradMode.RECORDING
            if name == knowledge.INFERENCE_MODE and isinstance(node, cst.Call) and node.args:
                flag = node.args[0].value
                if not is_true(flag):
                    return GradMode.RECORDING if dotted_name(flag) == "False" else GradMode.UNKNOWN
            return GradMode.NO_GRAD if name == knowledge.NO_GRAD else GradMode.INFERENCE
        if name == knowledge.SET_GRAD_ENABLED and isinstance(node, cst.Call) and node.args:
            text = dotted_name(node.args[0].value)
            return {"False": GradMode.NO_GRAD, "True": GradMode.RECORDING}.get(text or "", GradMode.UNKNOWN)
        return self._foreign_mode(node, name)

    def _foreign_mode(self, node: cst.CSTNode, name: str | None) -> GradMode | None:
        """A manager that is not torch's own: kept in a variable, built conditionally, or a helper of the file."""
        if isinstance(node, cst.IfExp):
            return GradMode.UNKNOWN if self.manager_mode(node.body) or self.manager_mode(node.orelse) else None
        alternatives = self._names.alternatives(node.func if isinstance(node, cst.Call) else node)
        if alternatives & knowledge.GRAD_MODES:
            return GradMode.UNKNOWN
        if isinstance(node, cst.Call):
            for definition in self._definitions.called(node, self._values):
                for inner in self._tree.calls_in(definition):
                    if self._names.resolve(inner.func) in knowledge.GRAD_MODES:
                        return GradMode.UNKNOWN
            last = last_name(node.func).lower()
        else:
            value = self._values.of(node)
            if value.kind is Kind.CONTEXT:
                return GradMode.UNKNOWN if value.name in knowledge.GRAD_MODES else None
            for definition in self._definitions.referenced(node, self._values):
                for inner in self._tree.calls_in(definition):
                    if self._names.resolve(inner.func) in knowledge.GRAD_MODES:
                        return GradMode.UNKNOWN
            last = last_name(node).lower()
        if name is None or not name.startswith(("torch.", "builtins.", "contextlib.")):
            if any(word in last for word in ("grad", "infer", "eval", "freeze", "no_sync")) and last != "no_sync":
                return GradMode.UNKNOWN
        return None

    def _is_unknown_manager(self, node: cst.CSTNode) -> bool:
        """``with ctx:`` made elsewhere, or ``with evaluating(model):`` of another file."""
        target = node.func if isinstance(node, cst.Call) else node
        name = self._names.resolve(target) or ""
        if name.startswith(("torch.", "builtins.", "contextlib.")) or self._values.of(node).kind is Kind.CONTEXT:
            return False
        if isinstance(node, cst.Call):
            if self._definitions.called(node, self._values):
                return False
            return any(self._values.of(argument.value).kind is Kind.MODULE for argument in node.args)
        return not _HARMLESS.search(last_name(node).lower())

    def disables(self, definition: cst.CSTNode) -> bool:
        """Whether a function of the file switches gradients off by itself, by a decorator or in its body."""
        return isinstance(definition, cst.FunctionDef) and next(self.switching_off(definition), None) is not None

    def switching_off(self, function: cst.FunctionDef) -> Iterator[cst.Decorator | cst.With]:
        """The decorators of a function and the ``with`` statements in it that switch gradients off, or may."""
        off = (GradMode.NO_GRAD, GradMode.INFERENCE, GradMode.UNKNOWN)
        yield from (item for item in function.decorators if self.manager_mode(item.decorator) in off)
        for node in self._tree.withs:
            if self._tree.within(node, function) and any(self.manager_mode(item.item) in off for item in node.items):
                yield node

    def is_decorated(self, function: cst.FunctionDef) -> bool:
        """Whether a decorator of a function switches gradients off."""
        modes = [self.manager_mode(item.decorator) for item in function.decorators]
        return GradMode.NO_GRAD in modes or GradMode.INFERENCE in modes

    def is_inference_hook(self, function: cst.FunctionDef) -> bool:
        """Whether Lightning or SpeechBrain calls this method in evaluation mode and without gradients."""
        owner = self._tree.class_of(function)
        if owner is not None and function.name.value in _BRAIN_HOOKS:
            derived = {item.name.value for item in self._definitions.lineage(owner)} - {owner.name.value}
            return "Brain" in derived | {last_part(name) for name in self._definitions.base_names(owner)}
        if owner is None or function.name.value not in LIGHTNING_INFERENCE_HOOKS:
            return False
        names = set(self._definitions.base_names(owner))
        return bool(names & knowledge.LIGHTNING_MODULES) or any("ightning" in name for name in names)
