"""Training steps: the loops that run forward and backward, there or in a function they call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.grad_mode import GradMode, GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.library_steps import LibrarySteps
from torchlint.model.training.loops import LoopKind, Loops, is_backward, is_step
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes

#: How many calls a step is followed through, from a backward pass up to the loop, and down to the forwards.
_CALL_DEPTH = 4
#: ... and how many functions are looked into for it.
_MAX_FUNCTIONS = 60
#: What a check asks that autocast changes.
_FORMAT_QUESTIONS = frozenset({"dtype", "type", "numpy", "is_floating_point"})


@dataclass(frozen=True, eq=False)
class TrainingLoop:
    """A loop that trains."""

    loop: cst.CSTNode  #: the ``for`` or ``while``; else the function that a library runs for every batch
    body: cst.CSTNode  #: what runs at every step: the loop, or a function of the program that it calls
    forward: cst.Call  #: the first forward in ``body`` whose output reaches a backward pass
    call: cst.Call  #: in ``body``: the forward, or the call of the function that runs it
    backward: cst.Call  #: the first backward pass, in ``body`` or in a function that it calls
    backwards: tuple[cst.Call, ...]  #: the backward passes in ``body``
    place: cst.Call  #: what of it stands in a file with a backward pass: the forward, its call, or the backward pass


class Steps(ForestFact):
    """Answers for one file."""

    def __init__(self, module: Forest) -> None:
        self._module = module
        self._around: dict[cst.FunctionDef, list[tuple[cst.CSTNode, cst.CSTNode]]] = {}

    @cached_property
    def loops(self) -> list[TrainingLoop]:
        """The training loops of the file, in order."""
        found: dict[cst.CSTNode, TrainingLoop] = {}
        if not any(self._is_optimizer(call) for call in self._module.tree.calls):
            return []  # an attack, a saliency map
        if self._optimizes_inputs:
            return []
        backwards = self._module.fact(Gradients).backwards
        files = {self._module.tree.root_of(call) for call in backwards}
        for backward in backwards:
            if self._module.fact(Purposes).is_test(backward):
                continue
            if not is_backward(backward) and "scaler" not in (dotted_name(backward.func) or ""):
                continue
            if self._module.name_of(backward.func) == "torch.distributed.autograd.backward":
                continue  # the forward runs in other processes
            for loop, body in self._bodies(backward):
                forward, call = next(self._forwards(body), (None, None))
                if forward is None or call is None:
                    continue
                if body not in found:
                    inside = tuple(call for call in self._module.tree.calls_in(body) if is_backward(call))
                    first = inside[0] if inside else backward
                    place = next(part for part in (forward, call, first) if self._module.tree.root_of(part) in files)
                    found[body] = TrainingLoop(loop, body, forward, call, first, inside, place)
                break
        return sorted(found.values(), key=lambda item: self._module.tree.index(item.forward))

    @cached_property
    def _optimizes_inputs(self) -> bool:
        """Whether all that the optimizers of the file change are tensors: an image, a style, a prompt; no network."""
        made = [call for call in self._module.tree.calls if self._module.value(call).name.startswith("torch.optim.")]
        made = [call for call in made if self._module.value(call).kind is Kind.OPTIMIZER]
        return bool(made) and all(call.args and self._is_list_of_tensors(call.args[0].value) for call in made)

    def _is_list_of_tensors(self, node: cst.BaseExpression) -> bool:
        """``[image]``: names of no network's parameters."""
        if isinstance(node, cst.Name):
            values = [item.value for item in self._module.names.bindings(node)]
            return bool(values) and all(
                isinstance(item, cst.List) and self._is_list_of_tensors(item) for item in values
            )
        if not isinstance(node, cst.List):
            return False
        return bool(node.elements) and all(
            isinstance(item, cst.Element) and self._is_tensor(item.value) for item in node.elements
        )

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            return node.func.attr.value == "requires_grad_"
        if isinstance(node, cst.Attribute):
            owner = self._module.value(node.value)
            if owner.kind is Kind.MODULE and dotted_name(node.value) != "self":
                return False  # `net.weight`
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        return self._module.value(node).kind in (Kind.TENSOR, Kind.UNKNOWN)

    def _is_optimizer(self, call: cst.Call) -> bool:
        return is_step(call) or (isinstance(call.func, cst.Attribute) and call.func.attr.value == "zero_grad")

    def _bodies(self, backward: cst.Call) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """The loops around a backward pass, innermost first; else the functions on the way to a loop that runs it."""
        loops = self._module.fact(Loops).repeating(backward)
        innermost = self._module.function_of(backward)
        if loops:
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
        """``function`` and the functions that call it, up to the first that is called in a loop; then that loop."""
        module = self._module
        seen = {function}
        waiting: deque[tuple[cst.FunctionDef, tuple[cst.FunctionDef, ...]]] = deque([(function, (function,))])
        while waiting and len(seen) < _MAX_FUNCTIONS:
            current, chain = waiting.popleft()
            if current in module.fact(LibrarySteps).updates:
                yield from ((current, body) for body in chain)
                return
            calls = module.fact(Dispatch).callers(current)
            named = set(module.callers(current).calls) if len(chain) == 1 else set()
            for call in calls:
                around = module.fact(Loops).around(call)
                if around and (call in named or self._changes_weights((*chain, around[0].node))):
                    yield from ((around[0].node, body) for body in (*chain, around[0].node))
                    return
            outer = [module.function_of(node) for node in (*calls, current)]  # a closure is run by what defines it
            for above in dict.fromkeys(outer):
                if above is not None and above not in seen and len(chain) < _CALL_DEPTH:
                    seen.add(above)
                    waiting.append((above, (*chain, above)))

    def _changes_weights(self, bodies: Sequence[cst.CSTNode]) -> bool:
        """Whether an optimizer is used in one of ``bodies``; without one, a loop may make saliency maps."""
        return any(
            is_step(call) or (self._is_optimizer(call) and "opt" in (dotted_name(call.func) or "").lower())
            for body in bodies
            for call in self._module.tree.calls_in(body)
        )

    def networks(self, step: TrainingLoop) -> list[cst.BaseExpression]:
        """What the forwards of a step run, one for each forward that the loss is made of."""
        return [self._module.fact(Networks).network_of(call) for call, _ in self._forwards(step.body)]

    def _forwards(self, body: cst.CSTNode) -> Iterator[tuple[cst.Call, cst.Call]]:
        """The forwards in ``body``, then in functions that it calls, that the loss is made of.

        Each with the call in ``body`` that leads to it.
        """
        module = self._module
        calls = module.tree.calls_in(body)
        yield from ((call, call) for call in calls if self._is_trained(call))
        waiting = deque((call, call, 1) for call in calls)
        seen: set[cst.CSTNode] = set()
        while waiting and len(seen) < _MAX_FUNCTIONS:
            call, first, depth = waiting.popleft()
            if not module.fact(Gradients).reaches_backward(call) and not self._fills_self(call):
                continue
            for function in module.fact(Dispatch).functions(call):
                if function in seen or self._is_method_of_network(function):
                    continue
                seen.add(function)
                inside = module.tree.calls_in(function.body)
                yield from ((inner, first) for inner in inside if self._is_trained(inner))
                if depth < _CALL_DEPTH:
                    waiting.extend((inner, first, depth + 1) for inner in inside)

    def _fills_self(self, call: cst.Call) -> bool:
        """``self.forward()`` as a statement: what it computes it keeps in the object."""
        func = call.func
        if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name) or func.value.value != "self":
            return False
        return isinstance(self._module.tree.parent(call), cst.Expr)

    def _is_method_of_network(self, function: cst.FunctionDef) -> bool:
        owner = self._module.tree.class_of(function)
        return owner is not None and self._module.values.instance(owner).kind is Kind.MODULE

    def _is_trained(self, call: cst.Call) -> bool:
        module = self._module
        if not module.fact(Gradients).reaches_backward(call) or not module.fact(Networks).runs_network(call):
            return False
        return module.fact(GradModes).of(call) not in (GradMode.NO_GRAD, GradMode.INFERENCE)

    def forward_and_loss(self, step: TrainingLoop) -> Sequence[cst.CSTNode] | None:
        """The neighbouring statements from the first forward to the loss, in the block that also holds the backward.

        None where the step is not that simple: several backward passes, other statements in between, a forward
        inside an inner block, or outputs that autocast would leave in a format numpy does not know.
        """
        tree = self._module.tree
        if len(step.backwards) != 1:
            return None
        path = {item: position for item, position, _ in tree.block_path(step.forward)}
        for block, position, _ in tree.block_path(step.backwards[0]):
            if isinstance(block, cst.SimpleStatementLine):
                if len(block.body) != 1:
                    return None
                continue
            if block not in path:
                return None
            return self._between(block, path[block], position)
        return None

    def _between(self, block: cst.CSTNode, first: int, backward: int) -> Sequence[cst.CSTNode] | None:
        body: Sequence[cst.CSTNode] = block.body  # type: ignore[attr-defined]
        if first >= backward:
            return None
        chosen: list[cst.CSTNode] = []
        pending: list[cst.CSTNode] = []
        for statement in body[first:backward]:
            if self._is_part_of_loss(statement):
                chosen += [*pending, statement]
                pending = []
            elif self._is_zero_grad(statement) or self._only_names_or_checks(statement):
                pending.append(statement)
            else:
                break
        rest = body[first + len(chosen) : backward]
        if not chosen or any(self._is_part_of_loss(statement) for statement in rest):
            return None
        if any(is_step(call) for statement in chosen for call in self._module.tree.calls_in(statement)):
            return None
        return None if self._meets_numpy(chosen, block) else chosen

    def _is_part_of_loss(self, statement: cst.CSTNode) -> bool:
        if not isinstance(statement, (cst.SimpleStatementLine, cst.If)):
            return False
        return self._module.fact(Gradients).anything_reaches_backward(statement)

    def _is_zero_grad(self, statement: cst.CSTNode) -> bool:
        calls = self._module.tree.calls_in(statement)
        return isinstance(statement, cst.SimpleStatementLine) and any(
            isinstance(call.func, cst.Attribute) and call.func.attr.value == "zero_grad" for call in calls
        )

    def _only_names_or_checks(self, statement: cst.CSTNode) -> bool:
        """``loss = raw_loss``, or an `assert` that does not ask for a number format."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
            return False
        inner = statement.body[0]
        if isinstance(inner, cst.Assert):
            return not any(
                isinstance(node, cst.Attribute) and node.attr.value in _FORMAT_QUESTIONS
                for node in self._module.tree.nodes_in(inner)
            )
        return isinstance(inner, cst.Assign) and isinstance(inner.value, cst.Name)

    def _meets_numpy(self, statements: Sequence[cst.CSTNode], block: cst.CSTNode) -> bool:
        """Whether an output of ``statements`` is turned into an array: numpy has no bfloat16."""
        tree = self._module.tree
        bound = {
            name.value
            for statement in statements
            for part in tree.nodes_in(statement)
            if isinstance(part, cst.AssignTarget)
            for name in tree.nodes_in(part)
            if isinstance(name, cst.Name)
        }
        for call in tree.calls_in(block):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy":
                if any(isinstance(part, cst.Name) and part.value in bound for part in tree.nodes_in(call.func)):
                    return True
        return False
