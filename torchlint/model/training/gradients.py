"""What reaches a backward pass: the expressions that losses are made of, followed back through the file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Scope
from torchlint.model.training.loops import is_backward, is_step

#: How many calls deep a backward pass is looked for.
_CALL_DEPTH = 3

#: Methods that give numbers and arrays, which no gradient goes through.
LEAVING = frozenset({"item", "tolist", "numpy"})
_GRADIENT_FUNCTIONS = ("torch.autograd.grad", "torch.autograd.backward")
_GRADIENT_PREFIXES = ("torch.func.", "torch.autograd.functional.", "functorch.")

#: Methods that put their arguments into the object they are called on.
_FILLING = frozenset({"append", "extend", "insert", "add", "update", "push", "appendleft", "setdefault", "add_"})

#: Methods whose result has no graph.
_DETACHING = frozenset({"detach", "item", "tolist", "numpy"})


class Gradients(ForestFact):
    """Answers for one file."""

    def __init__(self, module: Forest) -> None:
        self._tree = module.tree
        self._names = module.names
        self._definitions = module.definitions
        self._values = module.values
        self._dispatch = module.fact(Dispatch)
        self._trained: dict[cst.CSTNode, bool] = {}

    @cached_property
    def backwards(self) -> list[cst.Call]:
        """Every call that runs a backward pass, in order."""
        return [call for call in self._tree.calls if self.is_backward(call)]

    def is_backward(self, call: cst.Call) -> bool:
        """``loss.backward()``, ``torch.autograd.grad(...)``, a loss scaler that is called with the loss."""
        if is_backward(call):
            return True
        name = self._names.resolve(call.func)
        if name is not None:
            return name in _GRADIENT_FUNCTIONS or name.startswith(_GRADIENT_PREFIXES)
        last = last_name(call.func)
        return last.endswith("scaler") and len(call.args) >= 2

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
                    if self._trains(function, depth - 1, seen):
                        return True
        return False

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

    def carries_gradient(self, node: cst.CSTNode) -> bool:
        """Whether a backward pass may go through ``node``: not if its value is detached on every way to a loss."""
        return node in self._carrying

    @cached_property
    def _reached(self) -> set[cst.CSTNode]:
        return self._followed(whole=True)

    @cached_property
    def _carrying(self) -> set[cst.CSTNode]:
        return self._followed(whole=False)

    def _followed(self, *, whole: bool) -> set[cst.CSTNode]:
        """What the losses are made of; without ``whole``, nothing behind ``detach()``."""
        reached: set[cst.CSTNode] = set()
        #: Each with whether it may come from a caller: not where a function was entered by its call, for then the
        #: arguments of that call have been seen.
        waiting: list[tuple[cst.CSTNode, bool]] = []
        for call in self.backwards:
            waiting.extend((argument.value, True) for argument in call.args)
            if isinstance(call.func, cst.Attribute):
                waiting.append((call.func.value, True))
        done: set[tuple[cst.CSTNode, bool]] = set()
        while waiting:
            item = waiting.pop()
            if item in done:
                continue
            done.add(item)
            expression, outward = item
            for part in self._tensor_parts(expression, whole=whole):
                reached.add(part)
                waiting.extend(self.sources(part, outward))
        return reached

    def _tensor_parts(self, expression: cst.CSTNode, *, whole: bool) -> Iterator[cst.CSTNode]:
        """The parts of ``expression`` that give it data, but not what becomes a number or an array."""
        behind = -1
        for part in self.data_parts(expression, whole=whole):
            if self._tree.index(part) <= behind:
                continue
            if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and part.func.attr.value in LEAVING:
                behind = self._tree.last(part)
                continue
            yield part

    def data_parts(self, expression: cst.CSTNode, *, whole: bool = True) -> Iterator[cst.CSTNode]:
        """``expression`` and the parts of it that give it data: not the function or network that a call runs.

        Without ``whole``, nothing that is detached.
        """
        tree = self._tree
        nodes = tree.nodes_in(expression)
        offset = tree.index(expression)
        position = 0
        while position < len(nodes):
            part = nodes[position]
            parent = tree.parent(part) if position else None
            skipped = isinstance(parent, cst.Call) and parent.func is part and self._is_callee(part)
            if skipped or (not whole and _is_detached(part)):
                position = tree.last(part) - offset + 1
                continue
            yield part
            position += 1

    def _is_callee(self, func: cst.CSTNode) -> bool:
        """Whether ``func`` only says what is called; ``x.mean`` also brings the data ``x``."""
        if not isinstance(func, cst.Attribute):
            return isinstance(func, cst.Name)
        if self._names.resolve(func) is not None or self._values.of(func).kind in (Kind.MODULE, Kind.LOSS):
            return True
        return self._values.of(func.value).kind is Kind.MODULE or dotted_name(func.value) == "self"

    def sources(self, node: cst.CSTNode, outward: bool = False) -> Iterator[tuple[cst.CSTNode, bool]]:
        """The expressions that ``node``, a name, attribute or call, may take its value from.

        With ``outward``, also what the callers of its function pass.
        """
        if isinstance(node, cst.Name):
            yield from self._name_sources(node, outward)
        elif isinstance(node, cst.Attribute):
            for source in self._attribute_sources(node):
                yield source, True
        elif isinstance(node, cst.Call):
            for function in self._dispatch.functions(node):
                for item in self._definitions.returns(function):
                    if item is not None:
                        yield item, False
                for item in self._definitions.yields(function):
                    yield item, False
            for binding in self._values.reaching.of(node.func) if isinstance(node.func, cst.Name) else ():
                if isinstance(binding.value, cst.Lambda):
                    yield binding.value.body, False

    def _name_sources(self, node: cst.Name, outward: bool) -> Iterator[tuple[cst.CSTNode, bool]]:
        scope = self._names.home_of(node)
        if scope is None:
            return
        for binding in self._values.reaching.of(node):
            if binding.value is not None and binding.kind in ("assign", "for", "with"):
                yield binding.value, outward
            elif isinstance(binding.node, cst.AugAssign):
                yield binding.node.value, outward
                if isinstance(binding.node.target, cst.Name):  # ``total += x`` keeps what was there before
                    yield binding.node.target, outward
            elif outward and isinstance(binding.node, cst.Param):
                function = owner_of(self._tree, binding.node)
                if function is not None:
                    for given in self._dispatch.arguments_for(function, binding.node):
                        yield given, True
        for filled, home in self._fillings.get(node.value, ()):
            if self._names.scope_with(node.value, home) is scope:
                yield filled, outward

    def _attribute_sources(self, node: cst.Attribute) -> Iterator[cst.CSTNode]:
        text = dotted_name(node)
        if text is None or self._names.resolve(node) is not None:
            return
        yield from (value for value in self._values.stored(text) if value is not None)
        for filled, _ in self._fillings.get(text, ()):
            yield filled
        if text.startswith("self.") and text.count(".") == 1:
            owner = nearest(self._tree, node, cst.ClassDef)
            if owner is not None:
                for binding in self._tree.scopes[owner].attributes.get(node.attr.value, ()):
                    if binding.value is not None:
                        yield binding.value
                    elif isinstance(binding.node, cst.AugAssign):
                        yield binding.node.value

    @cached_property
    def _fillings(self) -> dict[str, list[tuple[cst.BaseExpression, Scope]]]:
        """What is put into containers: ``losses.append(x)``, ``losses["a"] = x``."""
        found: dict[str, list[tuple[cst.BaseExpression, Scope]]] = {}
        for call in self._tree.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and func.attr.value in _FILLING and call.args:
                text = dotted_name(func.value)
                if text is not None:
                    items = found.setdefault(text, [])
                    items.extend((argument.value, self._tree.scope_of(call)) for argument in call.args)
        for target, value, statement in self._tree.stores:
            if isinstance(target, cst.Subscript) and value is not None:
                text = dotted_name(target.value)
                if text is not None:
                    found.setdefault(text, []).append((value, self._tree.scope_of(statement)))
        return found


def _is_detached(node: cst.CSTNode) -> bool:
    """``x.detach()``, ``x.item()``: a value without a graph."""
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in _DETACHING
