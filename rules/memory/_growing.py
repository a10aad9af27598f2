"""Tensors that a loop grows with ``cat``, and copies as a whole at every iteration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.invariance import Invariance
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.dotted import dotted_name, last_name, last_part
from torchlint.model.syntax.scopes import Binding
from torchlint.model.training.loops import Loop, Loops, is_batch
from torchlint.model.training.purpose import Purposes
from torchlint.rule.growth_sketch import CATS

from ._growth_sketch import FEW

_CATS = tuple(f"torch.{name}" for name in CATS)
#: Factories of a tensor of size 0.
_EMPTY = frozenset({"torch.tensor", "torch.empty", "torch.zeros", "torch.Tensor", "torch.FloatTensor"}) | frozenset(
    {"torch.LongTensor", "torch.IntTensor", "torch.BoolTensor", "torch.DoubleTensor"}
)
#: Methods that only move a tensor or change its number format.
_MOVES = frozenset({"to", "cuda", "cpu", "float", "half", "long"})
#: What there are many of.
_STEPS = re.compile(r"step|length|\blen\(|sample|time|iter|max_|\bn\b|\bT\b|horizon|seq", re.IGNORECASE)
_MANY = 16  #: iterations below which the copies do not count


@dataclass(frozen=True, eq=False)
class Growth:
    """A statement ``x = torch.cat([x, y])`` in a loop that only collects."""

    call: cst.Call
    statement: cst.Assign
    name: str  #: of the variable or attribute
    items: list[cst.BaseExpression]  #: what is added
    loop: Loop
    start: cst.BaseExpression | None  #: the value before the loop
    first: cst.If | None  #: ``if x is None: x = y``, with the statement in its ``else``


class Growing:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[Growth]:
        """The statements by which loops grow tensors that they do not read, in order."""
        for call in self._module.own_calls(*_CATS):
            found = self._growth(call.node)
            if found is not None:
                yield found

    def _growth(self, call: cst.Call) -> Growth | None:
        statement = self._tree.parent(call)
        choice = statement if isinstance(statement, cst.IfExp) else None
        if choice is not None:  # `x = y if x is None else torch.cat([x, y])`
            statement = self._tree.parent(choice)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        name = dotted_name(statement.targets[0].target)
        items = self._added(call, name)
        if name is None or not items or self._module.fact(Purposes).is_self_test(call):
            return None
        for loop in self._module.fact(Loops).around(call):
            first = self._first(statement, name, loop)
            if not self._is_collected(statement, name, loop, first) or self._is_rare(statement, loop, first):
                return None
            starts = self._starts(statement, name, loop)
            begins = first is not None or choice is not None or self._begins_empty(starts, name)
            if self._is_of_sequence(items, name, loop):
                return None
            if self._is_long(loop) and (begins or is_batch(loop.over) or self._counts_steps(loop)):
                return Growth(call, statement, name, items, loop, starts[-1] if starts else None, first)
        return None

    def _added(self, call: cst.Call, name: str | None) -> list[cst.BaseExpression]:
        """What a ``cat`` of several tensors puts behind the first, if that is ``name``."""
        if name is None or not call.args or not isinstance(call.args[0].value, (cst.List, cst.Tuple)):
            return []
        parts = [item.value for item in call.args[0].value.elements]
        if len(parts) < 2 or dotted_name(parts[0]) != name:
            return []
        mentioned = (dotted_name(node) for part in parts[1:] for node in self._tree.nodes_in(part))
        return [] if name in mentioned else parts[1:]

    def _is_of_sequence(self, items: list[cst.BaseExpression], name: str, loop: Loop) -> bool:
        """Whether the loop appends what it computes from ``items`` to another tensor, which it reads: a generation.

        The tokens are as many as what the network is given in every iteration, and much smaller.
        """
        added = {item.value for item in items if isinstance(item, cst.Name)}
        for call in self._tree.calls_in(loop.node.body) if added else ():
            statement = self._tree.parent(call)
            if self._module.name_of(call.func) not in _CATS or not isinstance(statement, cst.Assign):
                continue
            other = dotted_name(statement.targets[0].target)
            if other is None or other == name:
                continue
            if not any(self._is_made_of(item, added) for item in self._added(call, other)):
                continue
            uses = self._places(other, statement)
            if any(self._tree.within(use, loop.node) and not self._tree.within(use, statement) for use in uses):
                return True
        return False

    def _is_made_of(self, item: cst.BaseExpression, names: set[str]) -> bool:
        """Whether an expression contains one of ``names``, or is the name of one that does."""
        made = self._module.values.reaching.assigned(item) if isinstance(item, cst.Name) else item
        return made is not None and not names.isdisjoint(self._tree.names_in(made))

    # -- the loop

    def _is_long(self, loop: Loop) -> bool:
        """Whether there may be many iterations: batches, samples, steps; not layers or scales."""
        if is_batch(loop.over):
            return True
        if isinstance(loop.node, cst.While):
            return True
        node = loop.node.iter
        while isinstance(node, (cst.GeneratorExp, cst.ListComp)):
            node = node.for_in.iter  # `for row in (item for item in rows if key in item):`
        if self._module.value(node).kind is Kind.MODULE or loop.over.kind is Kind.MODULE:
            return False
        if isinstance(node, (cst.List, cst.Tuple)) or self._calls_target(loop.node):
            return False
        if 0 < len(self._module.value(node).elements) < _MANY:
            return False
        text = self._module.code(node)
        if FEW.search(text):
            return False
        if isinstance(node, cst.Call) and self._module.name_of(node.func) == "builtins.range":
            numbers = [self._module.value(item.value).constant for item in node.args]
            known = [number for number in numbers[:2] if isinstance(number, int)]
            return not (len(known) == len(numbers[:2]) and max(known, default=_MANY) < _MANY)
        return True

    def _calls_target(self, loop: cst.For) -> bool:
        """Whether the loop is over layers or functions: an iteration calls what it is given."""
        targets = self._tree.names_in(loop.target)
        return any(
            isinstance(call.func, cst.Name) and call.func.value in targets for call in self._tree.calls_in(loop.body)
        )

    def _counts_steps(self, loop: Loop) -> bool:
        """Whether the loop counts up to a number of steps, samples or positions."""
        node = loop.node.iter if isinstance(loop.node, cst.For) else None
        while isinstance(node, cst.Call) and node.args and self._module.name_of(node.func) != "builtins.range":
            if last_name(node.func) == "trange":
                break
            node = node.args[0].value  # `tqdm(range(steps))`
        return isinstance(node, cst.Call) and _STEPS.search(self._module.code(node)) is not None

    def _is_rare(self, statement: cst.Assign, loop: Loop, first: cst.If | None) -> bool:
        """Whether a condition lets most iterations pass by, or the loop ends there."""
        for item in conditions(self._tree, statement, loop.node, exits=False):
            if item.kind in (ConditionKind.HANDLER, ConditionKind.CASE):
                return True
            if item.kind is ConditionKind.BRANCH and item.node is not first and item.test is not None:
                if self._module.fact(Invariance).is_invariant(item.test, loop.node):
                    continue  # `if args.attack == "pgd":`
                text = self._module.code(item.test)
                if "%" in text or "<" in text or (first is None and re.search(r"==", text)):
                    return True
        return False

    # -- the variable

    def _bindings(self, name: str, at: cst.CSTNode) -> list[Binding] | None:
        """The bindings of a variable, or of an attribute of ``self`` in its class."""
        if "." not in name:
            home = self._tree.scope_of(at)
            return home.bindings.get(name)
        function = self._module.function_of(at)
        owner = self._tree.class_of(function) if function is not None else None
        if owner is None or name.count(".") != 1 or not name.startswith("self."):
            return None
        return self._tree.scopes[owner].attributes.get(name[5:])

    def _first(self, statement: cst.Assign, name: str, loop: Loop) -> cst.If | None:
        """The ``if`` that tells the first iteration, or an empty start, from the others."""
        for above, child in climb(self._tree, statement, loop.node):
            if not isinstance(above, cst.If):
                continue
            other = above.body if child is above.orelse else above.orelse
            if other is None:
                return None
            assigned = [
                node
                for node in self._tree.nodes_in(other)
                if isinstance(node, cst.AssignTarget) and dotted_name(node.target) == name
            ]
            test = self._module.code(above.test)
            tells = re.search(r"\bNone\b|\b0\b|first|not |len\(|numel", test) or name in test
            if assigned and (tells or self._sets_flag(other, above.test)):
                return above
            return None
        return None

    def _sets_flag(self, block: cst.CSTNode, test: cst.BaseExpression) -> bool:
        """Whether a block sets a variable of a test to True or False: ``if start: x = y; start = False``."""
        flags = self._tree.names_in(test)
        return any(
            isinstance(node, cst.Assign)
            and dotted_name(node.targets[0].target) in flags
            and dotted_name(node.value) in ("True", "False")
            for node in self._tree.nodes_in(block)
        )

    def _is_collected(self, statement: cst.Assign, name: str, loop: Loop, first: cst.If | None) -> bool:
        """Whether the loop neither reads the variable nor gives it another value, and something reads it behind."""
        bindings = self._bindings(name, statement)
        if bindings is None:
            return False
        for binding in bindings:
            if binding.node is statement or not self._tree.within(binding.node, loop.node):
                continue
            if first is None or not self._tree.within(binding.node, first):
                return False
        containers = self._module.fact(Stores).containers.get(last_part(name), ()) if "." in name else ()
        if any(isinstance(container, cst.Attribute) for container, _, _ in containers):
            return False
        later = False
        function = self._tree.function_of(statement)
        for use in self._places(name, statement):
            if self._tree.function_of(use) is not function:
                if "." in name:
                    later = True
                    continue
                return False  # a closure
            if not self._tree.within(use, loop.node):
                later = later or self._tree.index(use) > self._tree.index(loop.node) or self._is_repeated(loop)
            elif not self._tree.within(use, statement) and not self._only_asks(use, first):
                return False
        return later

    def _places(self, name: str, at: cst.CSTNode) -> list[cst.CSTNode]:
        """The nodes that name a variable of a place, or an attribute."""
        if "." not in name:
            return list(self._module.names.uses_in(self._tree.scope_of(at), name))
        return [node for node in self._tree.attributes_named(last_part(name)) if dotted_name(node) == name]

    def _is_repeated(self, loop: Loop) -> bool:
        return bool(self._module.fact(Loops).around(loop.node))

    def _only_asks(self, use: cst.CSTNode, first: cst.If | None) -> bool:
        """Whether a use is the target of the first value, or a part of the test for it."""
        if isinstance(self._tree.parent(use), cst.AssignTarget):
            return True
        return first is not None and self._tree.within(use, first.test)

    def _starts(self, statement: cst.Assign, name: str, loop: Loop) -> list[cst.BaseExpression | None]:
        """The values that the variable is given before the loop, in order; None for a part of one."""
        before = [
            item
            for item in self._bindings(name, statement) or ()
            if item.kind is BindingKind.ASSIGN and self._tree.index(item.node) < self._tree.index(loop.node)
        ]
        return [None if item.path else item.value for item in before]

    def _begins_empty(self, starts: list[cst.BaseExpression | None], name: str) -> bool:
        """Whether the last value before the loop is empty, perhaps moved: ``x = x.cuda()``."""
        for start in reversed(starts):
            if not (isinstance(start, cst.Call) and isinstance(start.func, cst.Attribute)):
                return self._is_empty(start)
            if dotted_name(start.func.value) != name or start.func.attr.value not in _MOVES:
                return self._is_empty(start)
        return False

    def _is_empty(self, start: cst.BaseExpression | None) -> bool:
        """Whether the loop starts with nothing: ``None``, ``[]``, ``torch.tensor([])``, ``torch.empty(0, 3)``."""
        while isinstance(start, cst.Call) and isinstance(start.func, cst.Attribute):
            if self._module.name_of(start.func) in _EMPTY:
                break
            start = start.func.value
        if isinstance(start, cst.Name):
            return start.value == "None"
        if isinstance(start, cst.List):
            return not start.elements
        if not isinstance(start, cst.Call) or self._module.name_of(start.func) not in _EMPTY:
            return False
        given = [item.value for item in start.args if item.keyword is None]
        if not given:
            return True
        sizes = [item.value for item in given[0].elements] if isinstance(given[0], (cst.List, cst.Tuple)) else given
        return not sizes or any(isinstance(item, cst.Integer) and item.value == "0" for item in sizes)
