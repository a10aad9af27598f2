"""Loops: hot (over a loader, or containing a training step), epoch, or other; and what guards a statement in one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import UNKNOWN, Role, Value, iterated
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name, last_part, name_or_key
from torchlint.model.syntax.exits import ends_with

#: Methods that run a backward pass, and those of an optimizer that takes a step.
BACKWARD = ("backward", "manual_backward", "fused_backward")
STEP = ("step", "step_and_update_lr")


class LoopKind(str, Enum):
    """How often a loop's body runs, as far as it matters."""

    HOT = "hot"  #: once per batch or step
    EPOCH = "epoch"
    OTHER = "other"


class Loop:
    """A ``for`` or ``while`` statement; what is known of it is computed on demand."""

    def __init__(self, node: cst.For | cst.While, loops: Loops) -> None:
        self.node = node
        self._loops = loops

    @cached_property
    def over(self) -> Value:
        """What one iteration binds (a batch, a number, ...), unknown for ``while``."""
        return self._loops.over(self.node)

    @cached_property
    def kind(self) -> LoopKind:
        """How often its body runs."""
        return self._loops.kind(self.node, self.over)

    @property
    def loaders(self) -> frozenset[cst.CSTNode]:
        """The DataLoader calls it iterates."""
        return batch_origins(self.over)


def batch_origins(value: Value) -> frozenset[cst.CSTNode]:
    """The loaders whose batches ``value`` is or contains."""
    if value.role is Role.BATCH:
        return value.origins
    found: frozenset[cst.CSTNode] = frozenset()
    for part in (*value.elements, *((value.each,) if value.each is not None else ())):
        found |= batch_origins(part)
    return found


def is_batch(value: Value) -> bool:
    """Whether ``value`` is a batch of a loader, or contains one (the pair that ``enumerate`` gives)."""
    if value.role is Role.BATCH:
        return True
    return any(is_batch(part) for part in (*value.elements, *((value.each,) if value.each is not None else ())))


def gives_batches(value: Value) -> bool:
    """Whether a loop that binds ``value`` iterates over a known loader: not over the parts of a batch."""
    if value.role is Role.BATCH:
        return value.kind is Kind.BATCH and bool(value.origins)
    return any(map(gives_batches, (*value.elements, *((value.each,) if value.each is not None else ()))))


#: How batches are called.
_BATCHES = re.compile(r"batch|data|set\b|iter", re.IGNORECASE)
_EPOCH_NAMES = re.compile(r"epoch|max_ep\b|n_ep\b", re.IGNORECASE)

#: Parameters of progress bars for the text next to them.
_DESCRIBING = frozenset({"desc", "description", "prefix", "header", "title"})


class Loops(ForestFact):
    """The loops of one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._values = forest.values
        self._known: dict[cst.CSTNode, Loop] = {}

    def all(self) -> Iterator[Loop]:
        """Every loop, in order."""
        return map(self.of, self._tree.loops)

    def hot(self, node: cst.CSTNode) -> Loop | None:
        """The innermost loop around ``node`` that runs once per batch or step."""
        return next((loop for loop in self.around(node) if loop.kind is LoopKind.HOT), None)

    def of(self, node: cst.For | cst.While) -> Loop:
        """What is known of the loop ``node``."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = Loop(node, self)
        return known

    def over(self, node: cst.For | cst.While) -> Value:
        """What one iteration of a loop binds, unknown for ``while``."""
        return iterated(self._values.of(node.iter)) if isinstance(node, cst.For) else UNKNOWN

    def around(self, node: cst.CSTNode) -> list[Loop]:
        """The loops around ``node`` within its function that may repeat it, innermost first."""
        found: list[Loop] = []
        for above, child in climb(self._tree, node):
            kind = type(above)
            if kind is cst.For or kind is cst.While:
                assert isinstance(above, (cst.For, cst.While))
                if child is above.body and not self._ends_at_once(above):
                    found.append(self.of(above))
            elif kind is cst.FunctionDef or kind is cst.Lambda or kind is cst.ClassDef:
                break
        return found

    def over_batches(self, call: cst.Call) -> cst.For | None:
        """The loop around ``call`` over a loader, or one like ``for images, labels in batches`` over unknown ones."""
        for loop in self.around(call):
            if isinstance(loop.node, cst.For):
                is_pair = isinstance(loop.node.target, cst.Tuple)
                if is_batch(loop.over) or (is_pair and _BATCHES.search(dotted_name(loop.node.iter) or "")):
                    return loop.node
        return None

    def taking_batch(self, call: cst.Call) -> cst.For | None:
        """The loop around ``call`` that takes the next batch for it: ``for _ in range(n): model(next(batches))``."""
        loops = (loop.node for loop in self.around(call) if isinstance(loop.node, cst.For))
        takes = any(batch_origins(self._values.of(item.value)) for item in call.args)
        return next(loops, None) if takes else None

    def repeating(self, node: cst.CSTNode) -> list[Loop]:
        """The loops around ``node``; of a function without any that another defines, as for an optimizer, around it."""
        loops = self.around(node)
        function = self._tree.function_of(node)
        while not loops and function is not None and self._tree.function_of(function) is not None:
            loops = self.around(function)
            function = self._tree.function_of(function)
        return loops

    def _ends_at_once(self, node: cst.For | cst.While) -> bool:
        """Whether a loop leaves its body at the end of the first iteration, as one that takes a sample batch does."""
        return ends_with(node.body, cst.Break, cst.Return) and not self._tree.inside(node.body, cst.Continue)

    def kind(self, node: cst.For | cst.While, over: Value) -> LoopKind:
        """How often the body of a loop over ``over`` runs."""
        if is_batch(over):
            return LoopKind.HOT
        inner = [*self._tree.inside(node.body, cst.For), *self._tree.inside(node.body, cst.While)]
        has_step = any(is_backward(call) or is_step(call) for call in self._tree.calls_in(node.body))
        inner_step = any(
            is_backward(call) or is_step(call) for loop in inner for call in self._tree.calls_in(loop.body)
        )
        if isinstance(node, cst.For):
            if _EPOCH_NAMES.search(" ".join(self._names_of(node))) and (inner_step or not has_step):
                return LoopKind.EPOCH
        if has_step and not inner_step:
            return LoopKind.HOT
        if inner_step:
            return LoopKind.EPOCH
        return LoopKind.OTHER

    def _names_of(self, loop: cst.For) -> Iterator[str]:
        """The names in the head of a loop, but not in what it shows: ``tqdm(data, desc=f"epoch {epoch}")``."""
        yield from (name.value for name in self._tree.inside(loop.target, cst.Name))
        for name in self._tree.inside(loop.iter, cst.Name):
            if not any(_is_shown(above) for above, _ in climb(self._tree, name, loop)):
                yield name.value


def _is_shown(node: cst.CSTNode) -> bool:
    """Whether ``node`` is a text with values in it, or what a progress bar is described by."""
    if isinstance(node, cst.Arg):
        return node.keyword is not None and node.keyword.value in _DESCRIBING
    return isinstance(node, cst.FormattedString)


def is_backward(call: cst.Call) -> bool:
    """``loss.backward()``, ``accelerator.backward(loss)``, ``self.manual_backward(loss)``."""
    return type(call.func) is cst.Attribute and call.func.attr.value in BACKWARD


_NO_OPTIMIZERS = (
    "env",
    "sched",
    "prof",
    "pbar",
    "progress",
    "simul",
    "sampler",
    "pruner",
    "noise",
    "ddim",
    "ddpm",
    "sim",
    "world",
)


def is_step(call: cst.Call) -> bool:
    """``optimizer.step()``, ``scaler.step(optimizer)``; not that of a scheduler, environment, profiler or pruner."""
    if type(call.func) is not cst.Attribute or call.func.attr.value not in STEP:
        return False
    owner = name_or_key(call.func.value).lower()
    if owner == "p" or any(word in owner for word in _NO_OPTIMIZERS):  # `with profile() as p`
        return False
    return "optim" in owner or "opt" in last_part(owner) or "scaler" in owner or len(call.args) == 0
