"""What reaches a backward pass: the expressions that losses are made of, followed back through the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import called_name, dotted_name, last_name
from torchlint.model.training.data_flow import DataFlow, Item, Taken
from torchlint.model.training.evaluation import Evaluation
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradientless import WITH_INDICES, Gradientless
from torchlint.model.training.library_steps import LibrarySteps
from torchlint.model.training.loops import BACKWARD, is_backward, is_step

#: How many calls deep a backward pass is looked for.
_CALL_DEPTH = 3

#: Methods that return numbers or arrays, which have no gradient.
LEAVING = frozenset({"item", "tolist", "numpy"})
#: ... and those whose result has no graph.
_DETACHING = LEAVING | {"detach"}
#: Names of files in which ``x.data`` may be the data of a packed sequence, which is on the graph.
_PACKING = frozenset({"pack_padded_sequence", "pack_sequence", "PackedSequence"})
_GRADIENT_FUNCTIONS = ("torch.autograd.grad", "torch.autograd.backward")
_GRADIENT_PREFIXES = ("torch.func.", "torch.autograd.functional.", "functorch.")


class Gradients(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._flow = forest.fact(DataFlow)
        self._dispatch = forest.fact(Dispatch)
        self._library_steps = forest.fact(LibrarySteps)
        self._gradientless = forest.fact(Gradientless)
        self._modes = forest.fact(GradModes)
        self._evaluation = forest.fact(Evaluation)
        self._words_of = forest.words_of
        self._trained: dict[cst.CSTNode, bool] = {}
        #: whether a method trains in training mode only
        self._in_mode: CyclicMemo[cst.FunctionDef, bool] = CyclicMemo(False)
        self._without: CyclicMemo[cst.FunctionDef, bool] = CyclicMemo(False)  #: whether its result has no gradient

    @cached_property
    def backwards(self) -> list[cst.Call]:
        """Every call that runs a backward pass, in order."""
        calls = self._tree.calls_where(lambda name: name in BACKWARD or name.endswith("scaler"))
        named = [name for name in self._names.calls if _is_of_gradients(name)]
        found = dict.fromkeys((*filter(self.is_backward, calls), *self._names.calls_of(*named)))
        return sorted(found, key=self._tree.index)

    def is_backward(self, call: cst.Call) -> bool:
        """``loss.backward()``, ``torch.autograd.grad(...)``, a loss scaler that is called with the loss."""
        if is_backward(call):
            return True
        name = self._names.resolve(call.func)
        if name is not None:
            return _is_of_gradients(name)
        last = last_name(call.func)
        if not last.endswith("scaler") or len(call.args) < 2:
            return False
        return last != "scaler" or any("opt" in last_name(item.value).lower() for item in call.args)  # not of data

    def trains(self, node: cst.CSTNode) -> bool:
        """Whether a backward pass or an optimizer's step runs in ``node``, or in what it calls within the file."""
        if node not in self._trained:
            self._trained[node] = self._trains(node, _CALL_DEPTH, set())
        return self._trained[node]

    def _trains(self, node: cst.CSTNode, depth: int, seen: set[cst.CSTNode]) -> bool:
        for call in self._tree.calls_in(node):
            if self.is_backward(call) or (is_step(call) and not self._is_environment(call)):
                return True
            if depth <= 0:
                continue
            for function in self._dispatch.functions(call):
                if function not in seen:
                    seen.add(function)
                    if self._trains(function, depth - 1, seen) and not self._evaluates(call, function):
                        return True
        return False

    def trains_by(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether ``function`` trains when ``call`` runs it: not if it only does so in training mode."""
        return self.trains(function) and not self._evaluates(call, function)

    def _evaluates(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether ``call`` runs in evaluation mode a method that trains under ``if self.training:`` only."""
        network = call.func.value if isinstance(call.func, cst.Attribute) else call.func
        is_off = self._in_mode.get(function, self._trains_in_mode)
        return is_off and self._evaluation.of(call, network) is not None

    def _trains_in_mode(self, method: cst.FunctionDef) -> bool:
        if "training" not in self._words_of(self._tree.root_of(method)):
            return False
        if any(self._names.resolve(call.func) in knowledge.GRAD_MODES for call in self._tree.calls_in(method)):
            return False  # it also chooses whether it records gradients
        training = [call for call in self._tree.calls_in(method.body) if self.trains(call)]
        return bool(training) and all(
            any(
                item.guard is not None and dotted_name(item.guard.test) == "self.training"
                for item in branches(self._tree, call, method)
            )
            for call in training
        )

    def _is_environment(self, call: cst.Call) -> bool:
        return bool(call.args) and not any(
            "optim" in part for part in (dotted_name(call.args[0].value) or "").split(".")
        )

    # -- what a loss is made of

    def reaches_backward(self, node: cst.CSTNode) -> bool:
        """Whether the value of ``node`` takes part in a backward pass of the file, as data or as a target."""
        return node in self._reached

    def anything_reaches_backward(self, node: cst.CSTNode) -> bool:
        """Whether something computed inside ``node`` takes part in a backward pass."""
        return any(call in self._reached for call in self._tree.calls_in(node))

    def carries_gradient(self, node: Item) -> bool:
        """Whether a backward pass may go through ``node``: not if its value is detached on every way to a loss."""
        return node in self._carrying

    def take_gradient(self, nodes: Iterable[cst.CSTNode], is_source: Callable[[cst.CSTNode], bool]) -> bool:
        """Whether one of ``nodes`` is computed from a source on a way on which nothing detaches it."""
        return any(map(self._flow.search(is_source, self._detaches).finds, nodes))

    def _detaches(self, part: cst.CSTNode) -> bool:
        return self._has_none(part) or (isinstance(part, cst.Call) and called_name(part) in _DETACHING)

    @cached_property
    def _reached(self) -> set[Item]:
        return self._followed(LEAVING)

    @cached_property
    def _carrying(self) -> set[Item]:
        return self._followed(_DETACHING)

    def _followed(self, ending: frozenset[str]) -> set[Item]:
        """What the losses are made of, without what a method of ``ending`` has taken off the graph."""

        def ends(part: cst.CSTNode) -> bool:
            if self._has_none(part) if "detach" in ending else self._gradientless.is_size(part):
                return True
            return type(part) is cst.Call and type(part.func) is cst.Attribute and part.func.attr.value in ending

        reached: set[Item] = set()
        #: Each with whether it may come from a caller: not where a function was entered by its call, for then the
        #: arguments of that call have been seen.
        waiting: list[tuple[Item, bool]] = []
        for call in self.backwards:
            waiting.extend((argument.value, True) for argument in call.args)
            if isinstance(call.func, cst.Attribute):
                waiting.append((call.func.value, True))
        waiting.extend((loss, True) for loss in self._library_steps.losses)
        done: set[tuple[Item, bool]] = set()
        while waiting:
            item = waiting.pop()
            if item in done:
                continue
            done.add(item)
            expression, outward = item
            for part, sources in self._flow.steps(expression, ends, outward):
                reached.add(part)
                waiting.extend(sources)
                if isinstance(expression, Taken) and part is expression.call:
                    reached.add(expression)
        return reached

    def _has_none(self, part: cst.CSTNode) -> bool:
        """Whether an expression has no gradient: ``x.data``, ``x.max(1)[1]``, a sample, a call under ``no_grad``."""
        if type(part) is cst.Attribute and part.attr.value == "data":
            return self._is_detached(part)
        if type(part) is cst.Subscript:
            return takes_index(part)
        if type(part) is cst.Call and self._modes.of(part).is_off:
            return True
        if self._gradientless.is_plain(part) or self._gradientless.is_discrete(part):
            return True
        return type(part) is cst.Call and self._gives_none(part)

    def _gives_none(self, call: cst.Call) -> bool:
        """Whether all functions of the program that ``call`` may run return what has no gradient: a chosen action."""
        functions = self._dispatch.functions(call)
        return bool(functions) and all(self._without.get(function, self._returns_none) for function in functions)

    def _returns_none(self, function: cst.FunctionDef) -> bool:
        returned = [item for item in self._definitions.returns(function) if item is not None]
        carries = self._flow.search(self._may_have_gradient, self._detaches).finds
        return bool(returned) and not any(map(carries, returned))

    def _may_have_gradient(self, part: cst.CSTNode) -> bool:
        """Whether a part of an expression that nothing has detached is computed elsewhere: parameters, networks."""
        if isinstance(part, cst.Call):
            is_followed = self._names.resolve(part.func) is not None or bool(self._flow.sources(part))
            return not is_followed and self._flow.is_callee(part.func)
        if isinstance(part, (cst.Name, cst.Attribute)):
            return self._names.resolve(part) is None and not self._flow.sources(part) and not self._tree.is_called(part)
        return False

    def _is_detached(self, data: cst.Attribute) -> bool:
        """Whether ``x.data`` is what a tensor contains: no attribute of ``self``, nor the data of a packed sequence."""
        return dotted_name(data) != "self.data" and _PACKING.isdisjoint(self._words_of(self._tree.root_of(data)))


def takes_index(node: cst.Subscript) -> bool:
    """Whether only the indices of a maximum or the like are taken: ``q.max(1)[1]``, which has no gradient."""
    call = node.value
    if not isinstance(call, cst.Call) or called_name(call) not in WITH_INDICES:
        return False
    if not any(_is_number(item.value) or item.keyword is not None for item in call.args):
        return False
    item = node.slice[0].slice if len(node.slice) == 1 else None
    return isinstance(item, cst.Index) and isinstance(item.value, cst.Integer) and item.value.value == "1"


def _is_number(node: cst.BaseExpression) -> bool:
    return isinstance(node.expression if isinstance(node, cst.UnaryOperation) else node, cst.Integer)


def _is_of_gradients(name: str) -> bool:
    """Whether a function of torch computes gradients, by its canonical name."""
    return name in _GRADIENT_FUNCTIONS or name.startswith(_GRADIENT_PREFIXES)
