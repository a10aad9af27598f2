"""The calls that switch modules between training and evaluation mode."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name


@dataclass(frozen=True, eq=False)
class ModeSwitch:
    """A call of ``eval()`` or ``train()`` on something that may be a module."""

    call: cst.Call
    target: str  #: dotted text of the receiver, "" for any other expression
    evaluation: bool | None  #: True for ``eval()``, False for ``train()``, None for ``train(flag)``
    place: cst.CSTNode  #: the call, or the loop that switches each network of a list


class ModeSwitches(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values

    @cached_property
    def all(self) -> list[ModeSwitch]:
        """All mode switches of the file, in order."""
        found: list[ModeSwitch] = []
        for call in self._tree.calls_named("eval", "train"):
            func = call.func
            if not isinstance(func, cst.Attribute):
                continue
            if self._names.resolve(func) is not None or len(call.args) > 1:
                continue
            flag = dotted_name(call.args[0].value) if call.args else None
            if func.attr.value == "eval":
                if call.args:
                    continue
                evaluation: bool | None = True
            elif call.args and flag not in ("True", "False"):
                if self._values.of(func.value).kind is not Kind.MODULE:
                    continue  # trainer.train(loader)
                evaluation = None
            else:
                evaluation = flag == "False"
            found.append(ModeSwitch(call, dotted_name(func.value) or "", evaluation, call))
            found.extend(ModeSwitch(call, item, evaluation, place) for item, place in self._listed(call, func.value))
        return found

    def _listed(self, call: cst.Call, receiver: cst.BaseExpression) -> list[tuple[str, cst.CSTNode]]:
        """The networks that a call switches one by one, with the place: ``for net in (encoder, decoder): net.eval()``.

        The loop, or the comprehension, switches each of them whenever it runs.
        """
        bindings = self._names.bindings(receiver) if isinstance(receiver, cst.Name) else []
        if len(bindings) != 1 or bindings[0].kind is not BindingKind.FOR or bindings[0].path:
            return []
        loop, items = bindings[0].node, bindings[0].value
        place: cst.CSTNode = call
        if isinstance(loop, cst.For):
            place = loop
            if not any(block is loop.body for block, _, _ in self._tree.block_path(call)[:2]):
                return []
        elif not isinstance(loop, cst.CompFor) or loop.ifs:
            return []
        listed = items.elements if isinstance(items, (cst.Tuple, cst.List)) else ()
        return [(name, place) for item in listed if (name := dotted_name(item.value)) is not None]

    def last_before(self, node: cst.CSTNode, target: str | None = None) -> ModeSwitch | None:
        """The last mode switch before ``node`` in its function that is sure to have run.

        With ``target``, only switches of that object or of its owner count.
        """
        function = self._tree.function_of(node)
        found: ModeSwitch | None = None
        for part in [None] if target is None else _owners(target):
            switches = self._switches_of.get((function, part), [])
            before = bisect_left(switches, self._tree.index(node), key=self._place)
            near = (switch for switch in reversed(switches[:before]) if self._tree.dominates(switch.place, node))
            last = next(near, None)
            if last is not None and (found is None or self._place(last) > self._place(found)):
                found = last
        return None if found is not None and target is not None and self._is_rebound(target, found, node) else found

    @cached_property
    def _switches_of(self) -> dict[tuple[cst.CSTNode | None, str | None], list[ModeSwitch]]:
        """The mode switches of each function, by the name of what they switch; under None all of them."""
        found: dict[tuple[cst.CSTNode | None, str | None], list[ModeSwitch]] = {}
        for switch in sorted(self.all, key=self._place):
            function = self._tree.function_of(switch.call)
            found.setdefault((function, None), []).append(switch)
            if switch.target:
                found.setdefault((function, switch.target), []).append(switch)
        return found

    def _place(self, switch: ModeSwitch) -> int:
        return self._tree.index(switch.place)

    def _is_rebound(self, target: str, switch: ModeSwitch, node: cst.CSTNode) -> bool:
        """Whether another object has got the name between the switch and ``node``; wrapping it does not count."""
        first = target.partition(".")[0]
        scope = self._names.scope_with(first, self._tree.scope_of(switch.call))
        low, high = self._place(switch), self._tree.index(node)
        between = self._values.reaching.between(scope, first, low, high) if scope is not None else ()
        for binding in between:
            if binding.kind is BindingKind.ASSIGN and binding.value is not None:
                parts = self._tree.nodes_in(binding.value)
                if not any(isinstance(part, cst.Name) and part.value == first for part in parts):
                    return True
        return False


def _owners(target: str) -> list[str]:
    """What switches ``model.encoder`` when it is switched: ``model`` and ``model.encoder``."""
    parts = target.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def same_object(switched: str, used: str) -> bool:
    """Whether switching the object called ``switched`` switches the one called ``used``: itself or a part of it."""
    return bool(switched) and (used == switched or used.startswith(switched + "."))
