"""Modules that a function moves each time before it runs them: which loop, or which network, calls the function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.invariance import Invariance
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import called_name, dotted_name, is_attribute_of_self, is_within_self, last_part
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.tensors.placement import Move
from torchlint.model.tensors.writes import Moves
from torchlint.model.training.loops import LoopKind, Loops
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlaces

from ._repeat_words import MOVING, OF_MODULES, RUNNING

#: How many calls lie between a loop and the function that moves a module.
_DEPTH = 3
#: A function that is called at more places than this is a tool of many.
_MAX_CALLERS = 24
#: Calls after which a module is to be moved.
LOADING = frozenset({"load_state_dict", "from_pretrained", "load_checkpoint", "load_from_checkpoint"})
#: Modules of torch that contain others.
_CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})
_PLACING = frozenset({"cpu", "to", "cuda", "to_empty"})

#: Whether a node, given first, runs whenever the loop or function given second does.
Passes = Callable[[cst.CSTNode, cst.CSTNode], bool]
#: Whether calls load modules, and by name of what they move the places to which they do.
_Changes: TypeAlias = tuple[bool, dict[str | None, set[str]]]


class RepeatedModules:
    """Answers for one file."""

    def __init__(self, module: Module, passes: Passes) -> None:
        self._module = module
        self._tree = module.tree
        self._passes = passes
        self._set: dict[str, list[cst.CSTNode]] = {}  #: by attribute of ``self`` where it gets another value
        self._changes: dict[tuple[cst.ClassDef, cst.FunctionDef | None], _Changes] = {}

    def repeating(self, move: Move) -> cst.CSTNode | None:
        """What runs a move and the module that it moves again: a network's ``forward``, or a loop some calls away."""
        function = self._module.function_of(move.call)
        if function is None or self._module.fact(Purposes).is_for_constructors(function):
            return None
        kept = self._iterated(move.source)
        if kept is move.source and self._module.fact(Loops).around(move.call):
            return None
        is_forward = self._module.fact(StepPlaces).is_forward(function)
        is_run = self.runs(move, function, is_step=is_forward) or (is_forward and self._is_used(move, function))
        if not is_run or self._is_set_in(kept, function):
            return None
        if self._is_changed(move, function):
            return None
        if is_within_self(kept):
            if is_forward:
                return function if not self._is_layer(kept) else None
            return self._loop_of(function, kept, None, _DEPTH)
        reached = self._module.values.reaching.of(kept) if isinstance(kept, cst.Name) else ()
        param = reached[0].node if len(reached) == 1 else None
        if isinstance(param, cst.Param):
            return self._loop_of(function, kept, param, _DEPTH)
        is_of_file = bool(reached) and all(self._tree.function_of(item.node) is None for item in reached)
        return self._loop_of(function, kept, None, _DEPTH) if is_of_file else None

    # -- in the function

    def runs(self, move: Move, place: cst.CSTNode, *, is_step: bool = False) -> bool:
        """Whether a function or loop runs the module where it moves it: not a loop in it, as over all batches.

        In a function that runs once per batch, it may be another loop. What runs may be what the move returns:
        ``net.to(x.device)(x)``.
        """
        name = dotted_name(move.source)
        names = {name, *(f"{name}.{method}" for method in RUNNING)}
        loops = self._loops(move.call)
        return any(
            call.func is move.call or (dotted_name(call.func) in names and (is_step or self._loops(call) == loops))
            for call in self._tree.calls_in(place)
        )

    def _is_used(self, move: Move, function: cst.FunctionDef) -> bool:
        """Whether a function calls a method of a module that a statement in it moves: ``self.clap.embed(texts)``.

        It is known to be a module, or its class calls methods of it, or of a part of it, that only modules have.
        """
        name, owner = dotted_name(move.source), self._tree.class_of(function)
        if owner is None or not isinstance(self._tree.parent(move.call), cst.Expr) or not is_within_self(move.source):
            return False
        if MOVING.issuperset(self._methods(f"{name}.", function)):
            return False
        is_module = self._module.value(move.source).kind in (Kind.MODULE, Kind.LOSS)
        return is_module or not OF_MODULES.isdisjoint(self._methods(f"{name}.", owner))

    def _methods(self, owner: str, place: cst.CSTNode) -> Iterator[str]:
        """The methods that a place calls of an object, given by its name and a dot, and of its parts."""
        names = (dotted_name(call.func) or "" for call in self._tree.calls_in(place))
        return (last_part(name) for name in names if name.startswith(owner))

    def _loops(self, call: cst.Call) -> list[cst.CSTNode]:
        """The loops and comprehensions around a call in its function."""
        found: list[cst.CSTNode] = [loop.node for loop in self._module.fact(Loops).around(call)]
        inner = nearest(self._tree, call, *COMPREHENSIONS, cst.FunctionDef, cst.Lambda)
        return [inner, *found] if isinstance(inner, COMPREHENSIONS) else found

    def _iterated(self, source: cst.BaseExpression) -> cst.BaseExpression:
        """``self.layers`` for ``layer`` of ``for layer in self.layers``, which contains modules; else ``source``."""
        loops = self._module.fact(Loops).around(source)
        if not loops or not isinstance(source, cst.Name) or not isinstance(loops[0].node, cst.For):
            return source
        is_layer = self._module.value(source).kind in (Kind.MODULE, Kind.LOSS)
        over = loops[0].node.iter
        return over if is_layer and dotted_name(loops[0].node.target) == source.value else source

    def _is_layer(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a single layer of torch: to ask for the places of its parameters takes microseconds."""
        name = self._module.value(node).name
        return name.startswith("torch.nn.") and last_part(name) not in _CONTAINERS

    def _is_set_in(self, node: cst.BaseExpression, place: cst.CSTNode) -> bool:
        """Whether a function or loop gives an attribute of ``self`` another value."""
        text = dotted_name(node)
        if not is_within_self(node) or text is None:
            return False
        if text not in self._set:
            owner, _, name = text.rpartition(".")
            self._set[text] = [
                at
                for target, value, at in self._module.fact(Stores).attributes.get(name, ())
                if dotted_name(target) == owner and not self._is_own_move(value, text)
            ]
        return any(self._tree.within(at, place) for at in self._set[text])

    def _is_own_move(self, value: cst.BaseExpression | None, text: str | None) -> bool:
        """``self.model.to(device)``."""
        func = value.func if isinstance(value, cst.Call) else None
        return isinstance(func, cst.Attribute) and dotted_name(func.value) == text

    def _is_changed(self, move: Move, function: cst.FunctionDef) -> bool:
        """Whether a call moves the same module elsewhere, as for offloading, or loads modules.

        That is in the function of a move, or in one that it calls; of an attribute, in all methods of its class but the
        constructor.
        """
        owner = self._tree.class_of(function) if is_within_self(move.source) else None
        if owner is not None:
            loads, moves = self._changes_in_class(owner, function)
        else:
            loads, moves = self._changes_in(self._tree.calls_in(function.body))
        if loads or not moves.get(dotted_name(move.source), set()) <= {self._place(move.call)}:
            return True
        return any(isinstance(item, cst.Call) for item, _ in self._module.fact(Moves).on(move.source, function))

    def _place(self, move: cst.Call) -> str:
        """To where a call moves something, as it is written."""
        return "cpu" if called_name(move) == "cpu" else ", ".join(self._module.code(item.value) for item in move.args)

    def _changes_in_class(self, owner: cst.ClassDef, function: cst.FunctionDef) -> _Changes:
        """What the methods of a class change, without those for constructors except ``function``."""
        is_constructor = self._module.fact(Purposes).is_for_constructors
        key = (owner, function if is_constructor(function) else None)
        if key not in self._changes:
            calls = [
                call
                for call in self._tree.calls_in(owner.body)
                if (method := self._module.function_of(call)) is None or method is key[1] or not is_constructor(method)
            ]
            self._changes[key] = self._changes_in(calls)
        return self._changes[key]

    def _changes_in(self, calls: Iterable[cst.Call]) -> _Changes:
        """Whether one of some calls loads modules, and by name of what they move the places to which they do."""
        loads, moves = False, dict[str | None, set[str]]()
        for call in calls:
            if isinstance(call.func, cst.Attribute):
                loads = loads or call.func.attr.value in LOADING
                if call.func.attr.value in _PLACING:
                    moves.setdefault(dotted_name(call.func.value), set()).add(self._place(call))
        return loads, moves

    # -- where it is called

    def _loop_of(
        self, function: cst.FunctionDef, kept: cst.BaseExpression, param: cst.Param | None, depth: int
    ) -> cst.CSTNode | None:
        """The loop that calls a function at every iteration, each time with the same module."""
        calls = self._module.fact(Dispatch).callers(function)
        if depth <= 0 or len(calls) > _MAX_CALLERS:
            return None
        if not calls and param is None and self._gets_batch(function):
            return function
        for call in calls:
            given = self._module.definitions.argument_of(call, function, param) if param is not None else None
            if (param is not None and given is None) or self._module.fact(Purposes).is_self_test(call):
                continue
            if self._tree.within(call, function):
                continue  # it calls itself for parts
            loops = self._module.fact(Loops).around(call)
            listing = nearest(self._tree, call, *COMPREHENSIONS, cst.FunctionDef, cst.Lambda)
            if isinstance(listing, COMPREHENSIONS):
                if self._repeats(listing, call, given, kept):
                    return listing
                continue
            if loops:
                if self._repeats(loops[0].node, call, given, kept) and loops[0].kind is not LoopKind.EPOCH:
                    return loops[0].node
                continue
            outer = self._module.function_of(call)
            bound = self._module.values.reaching.only(given) if isinstance(given, cst.Name) else None
            passed = bound.node if bound is not None and isinstance(bound.node, cst.Param) else None
            is_same = given is None or passed is not None or is_attribute_of_self(given)
            if outer is None or not is_same or not self._passes(call, outer):
                continue
            found = self._loop_of(outer, kept if given is None else given, passed, depth - 1)
            if found is not None:
                return found
        return None

    def _gets_batch(self, function: cst.FunctionDef) -> bool:
        """Whether an object is called with a batch, as one that a configuration makes."""
        return function.name.value == "__call__" and any(
            item.name.value.split("_")[-1] == "batch" for item in parameters_of(function)
        )

    def _repeats(
        self, loop: cst.CSTNode, call: cst.Call, given: cst.BaseExpression | None, kept: cst.BaseExpression
    ) -> bool:
        """Whether each iteration of a loop makes a call with the same module, or for the same object."""
        if not self._passes(call, loop) or self._is_set_in(kept, loop):
            return False
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        same = [item for item in (given, owner) if item is not None and dotted_name(item) != "self"]
        if not all(self._module.fact(Invariance).is_invariant(item, loop) for item in same):
            return False
        text = dotted_name(given) if given is not None else dotted_name(kept)
        return not any(
            isinstance(other.func, cst.Attribute)
            and (other.func.attr.value in LOADING or other.func.attr.value in ("cpu", "to", "to_empty"))
            and dotted_name(other.func.value) == text
            for other in self._tree.calls_in(loop)
        )
