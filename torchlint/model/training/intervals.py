"""Intervals: conditions that are true at every n-th iteration.

By a remainder, by how much has passed since the last time, or by a value that is None otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.configuration import Configuration
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.literals import asked_for_none, is_none
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding

#: Names in a condition that is true in one of several processes: there, at every step.
PROCESSES = re.compile(r"(^|_)rank$|main_process|is_master|master_process|is_main|is_rank|local_rank", re.IGNORECASE)
#: Names of conditions that are true where something is logged.
_SHOWING = re.compile(r"_?(should|do|need|needs|will|to)_(log|print|report|display|show)(ging)?|log_now")
#: Comparisons of a counter with what it was the last time, and a number of iterations more.
_ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


class Intervals(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._optional: CyclicMemo[cst.BaseExpression, bool] = CyclicMemo(False)
        self._remainders: dict[cst.CSTNode, bool] = {}

    def counts(self, test: cst.BaseExpression) -> bool:
        """Whether a condition is true at every n-th iteration: ``step % 100 == 0``, also by a name.

        A name may be that of the condition, or of a value that is None at all other iterations. An option has its
        default: an interval of 1 does not count. So is ``step - last > 100``, if ``last = step`` follows, and what
        says so by its name: ``should_log``.
        """
        return any(
            self._is_remainder(node)
            or (isinstance(node, cst.Name) and self._is_counted(node))
            or (isinstance(node, (cst.Name, cst.Attribute)) and _SHOWING.fullmatch(last_name(node)))
            or (isinstance(node, cst.Comparison) and self._is_since_last(node))
            for node in self._tree.nodes_in(test)
        )

    def alternates(self, test: cst.BaseExpression) -> bool:
        """Whether a condition is true at every second iteration, which does not count: ``step % 2 == 0``."""
        return any(
            bool(values := self._periods(node)) and all(map(_is_two, values)) for node in self._tree.nodes_in(test)
        )

    def _is_remainder(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Modulo):
            return False
        if node not in self._remainders:
            values = self._periods(node)
            self._remainders[node] = not values or not all(map(_is_short, values))
        return self._remainders[node]

    def _periods(self, node: cst.CSTNode) -> Sequence[cst.BaseExpression]:
        """What ``node`` may be a remainder by: of an option, its default."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Modulo):
            return ()
        sources = self._forest.fact(Configuration).sources(node.right)
        return sources.values if sources is not None else ()

    def _is_counted(self, name: cst.Name) -> bool:
        reached = self._forest.values.reaching.of(name)
        made = [item.value for item in reached if item.kind is BindingKind.ASSIGN and not item.path]
        if any(
            isinstance(value, (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation))
            and any(map(self._is_remainder, self._tree.nodes_in(value)))
            for value in made
        ):
            return True
        return self._asks_whether_given(name) and self._is_given_at_intervals(name)

    # -- how much has passed since the last time

    def _is_since_last(self, test: cst.Comparison) -> bool:
        """Whether the code that a comparison decides about sets what it is compared with to the same counter."""
        if not isinstance(test.comparisons[0].operator, _ORDERS):
            return False
        guard, parts = nearest(self._tree, test, cst.If), self._tree.nodes_in(test)
        if guard is None or not self._tree.within(test, guard.test) or not any(map(_adds, parts)):
            return False
        counters = {self._forest.code(part) for part in parts if isinstance(part, (cst.Name, cst.Attribute, cst.Call))}
        return any(
            value is not None and self._forest.code(value) in counters and self._decides(guard, statement)
            for part in parts
            for value, statement in self._set(part)
        )

    def _set(self, part: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression | None, cst.CSTNode]]:
        """The values that are assigned to a name or an attribute, each with its statement."""
        if isinstance(part, cst.Name):
            for item in self._forest.values.reaching.of(part):
                if item.kind is BindingKind.ASSIGN and not item.path:
                    yield item.value, item.node
        elif isinstance(part, cst.Attribute):
            for owner, value, statement in self._forest.fact(Stores).attributes.get(part.attr.value, ()):
                if dotted_name(owner) == dotted_name(part.value):
                    yield value, statement

    def _decides(self, guard: cst.If, statement: cst.CSTNode) -> bool:
        """Whether ``statement`` is in the body of ``guard``, or behind a body that ends the iteration or the call."""
        if not self._leaves(guard):
            return self._tree.within(statement, guard.body)
        block = self._tree.parent(guard)
        return (
            block is not None
            and self._tree.within(statement, block)
            and self._tree.index(statement) > self._tree.last(guard)
        )

    def _leaves(self, guard: cst.If) -> bool:
        """Whether the body of ``guard`` ends the iteration, or a call outside of any loop."""
        if ends_with(guard.body, cst.Continue):
            return True
        around = nearest(self._tree, guard, cst.For, cst.While, cst.FunctionDef)
        return ends_with(guard.body, cst.Return) and isinstance(around, cst.FunctionDef)

    # -- values that are None at most iterations

    def _asks_whether_given(self, name: cst.Name) -> bool:
        """``x is not None``, or the truth of ``x``."""
        parent = self._tree.parent(name)
        if isinstance(parent, cst.Comparison):
            return asked_for_none(parent, cst.IsNot) is not None
        return isinstance(parent, (cst.If, cst.IfExp, cst.BooleanOperation))

    def _is_given_at_intervals(self, value: cst.BaseExpression) -> bool:
        """Whether ``value`` is None at all but every n-th iteration."""
        return self._optional.get(value, self._find_given)

    def _find_given(self, value: cst.BaseExpression) -> bool:
        if isinstance(value, cst.IfExp):
            return is_none(value.orelse) and self._counts_steps(value.test) and not self._is_usual(value.test)
        if isinstance(value, cst.Call):
            functions = self._forest.fact(Dispatch).functions(value)
            return bool(functions) and all(self._returns_at_intervals(function) for function in functions)
        if isinstance(value, cst.Name):
            reached = self._forest.values.reaching.of(value)
            params = [item.node for item in reached if isinstance(item.node, cst.Param)]
            if params:
                return len(reached) == 1 and self._is_passed_at_intervals(params[0])
            return self._is_renewed(reached) and self._is_one_at_intervals((item.value, item.node) for item in reached)
        return False

    def _is_renewed(self, reached: list[Binding]) -> bool:
        """Whether assignments make a name None again in each iteration that may give it another value."""
        if not all(item.kind is BindingKind.ASSIGN and not item.path for item in reached):
            return False
        empty = [item.node for item in reached if is_none(item.value)]
        loops = {nearest(self._tree, item.node, cst.For, cst.While) for item in reached if not is_none(item.value)}
        return all(loop is None or self._tree.within(node, loop) for loop in loops for node in empty)

    def _is_passed_at_intervals(self, param: cst.Param) -> bool:
        function = owner_of(self._tree, param)
        if function is None or (param.default is not None and not is_none(param.default)):
            return False
        passed = [self._passed(call, function, param) for call in self._forest.fact(Dispatch).callers(function)]
        given = [value for value in passed if value is not None]
        return bool(given) and all(self._is_given_at_intervals(value) for value in given)

    def _passed(self, call: cst.Call, function: cst.FunctionDef, param: cst.Param) -> cst.BaseExpression | None:
        """What a call passes for a parameter; behind ``*items``, whose number is unknown, what has the same name."""
        value = self._forest.definitions.argument_of(call, function, param)
        if value is not None or not any(item.star == "*" for item in call.args):
            return value
        named = (item.value for item in call.args if not item.star and item.keyword is None)
        return next((item for item in named if isinstance(item, cst.Name) and item.value == param.name.value), None)

    def _returns_at_intervals(self, function: cst.FunctionDef) -> bool:
        returned = self._forest.definitions.returns(function)
        return not self._forest.definitions.yields(function) and self._is_one_at_intervals(
            (item, item) for item in returned if item is not None
        )

    def _is_one_at_intervals(self, values: Iterable[tuple[cst.BaseExpression | None, cst.CSTNode]]) -> bool:
        """Whether there are ``values``, each with its place, and all are None at all but every n-th iteration."""
        given = [(value, place) for value, place in values if value is not None and not is_none(value)]
        return bool(given) and all(
            self._is_at_intervals(place) or self._is_given_at_intervals(value) for value, place in given
        )

    def _is_at_intervals(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs at every n-th iteration only, as far as its function shows."""
        for above, child in climb(self._tree, node):
            if isinstance(above, (cst.FunctionDef, cst.Lambda)):
                return False
            if isinstance(above, cst.If) and child is not above.test and self._counts_steps(above.test):
                if (child is above.body) is not self._is_usual(above.test):
                    return True
            if isinstance(above, cst.IndentedBlock) and self._is_behind_return(above, child):
                return True
        return False

    def _is_behind_return(self, block: cst.IndentedBlock, child: cst.CSTNode) -> bool:
        """Whether ``block`` returns before ``child`` at most iterations: ``if step % 100 != 0: return None``."""
        return any(
            isinstance(statement, cst.If)
            and ends_with(statement.body, cst.Return)
            and self._counts_steps(statement.test)
            and self._is_usual(statement.test)
            for statement in block.body[: block.body.index(child)]
        )

    def _counts_steps(self, test: cst.BaseExpression) -> bool:
        """Whether a condition counts, and not processes: what one of them is given, it has at every iteration."""
        names = (node for node in self._tree.nodes_in(test) if isinstance(node, (cst.Name, cst.Attribute)))
        return self.counts(test) and not any(PROCESSES.search(last_name(name)) for name in names)

    def _is_usual(self, test: cst.BaseExpression) -> bool:
        """Whether a condition that counts is true at all but every n-th iteration: ``step % 100 != 0``."""
        if isinstance(test, cst.BooleanOperation):
            return any(self.counts(part) and self._is_usual(part) for part in (test.left, test.right))
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return not self._is_usual(test.expression)
        if isinstance(test, cst.Comparison):
            guard = nearest(self._tree, test, cst.If) if self._is_since_last(test) else None
            if guard is not None:
                return self._leaves(guard)
            return isinstance(test.comparisons[0].operator, (cst.NotEqual, cst.GreaterThan))
        return self._is_remainder(test)


def _adds(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Subtract))


def _is_short(period: cst.BaseExpression) -> bool:
    """Whether what runs at every n-th iteration runs as good as always: every second one counts like every one."""
    return _is_two(period) or (isinstance(period, cst.Integer) and period.value == "1")


def _is_two(period: cst.BaseExpression) -> bool:
    return isinstance(period, cst.Integer) and period.value == "2"
