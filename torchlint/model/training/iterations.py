"""Iterations: whether code in a training step runs at every step, or at some steps only."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property
from operator import itemgetter

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.config_files import ConfigFiles
from torchlint.model.program.configuration import Configuration
from torchlint.model.program.environment_variables import is_off
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import base_of, dotted_name, last_name, last_part
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.training.asked_names import AskedNames
from torchlint.model.training.emptiness import has_work
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.intervals import PROCESSES, Intervals
from torchlint.model.training.latches import is_latched, is_latched_exit
from torchlint.model.training.loops import Loops, gives_batches, is_backward, is_step

#: Names in a condition that is true at some steps only, or that is enabled for inspection.
_RARE = re.compile(
    r"verbose|debug|display|print|statistic|diagnostic|\blog\b|log_(freq|every|interval|now|step)|should|do_log|is_log|"
    r"(^|(?<!all)_)rank$|main_process|is_master|master_process|is_main|is_rank|local_rank|"
    r"(^|_)(step|steps|iter|iters|iteration|epoch|epochs|count|counter|batch_idx)$|^(i|it|n|k|t|j)$|"
    r"(^|(?<!optimizer)_)idx$",
    re.IGNORECASE,
)
#: Names of flags that are only set to look into a program.
_INSPECTING = re.compile(r"verbose|debug|display|print|statistic|diagnostic|profil", re.IGNORECASE)
#: Names of flags that are set in training.
_TRAINING = re.compile(r"_?(is_)?train(ing)?(_mode)?", re.IGNORECASE)
#: What shows messages.
_SHOWING = frozenset({"print", "log", "logger", "logging", "warnings"})
#: What is the same for a parameter or tensor at every iteration.
_FIXED = frozenset({"requires_grad", "ndim", "dim", "ndimension", "dtype", "device", "is_cuda", "is_leaf"})
#: Names that count iterations, and names of the iteration from which on something is done.
_COUNTERS = re.compile(
    r"(global_?|cur(rent)?_?|train(ing)?_?|total_?)?"
    r"(step|steps|iter|iters|iteration|itr|batch_idx|batch_i|count|counter|i|it|epoch)",
    re.IGNORECASE,
)
_STARTS = re.compile(r"start|warm|begin|after|burn|delay|min_|ramp|skip", re.IGNORECASE)
#: Comparisons of such a number with that iteration; those whose `else` is what is done from there on.
_ABOVE = (cst.GreaterThan, cst.GreaterThanEqual)
_BELOW = (cst.LessThan, cst.LessThanEqual)
#: Calls that check the type of a value, which is the same at every iteration.
_TYPE_QUESTIONS = frozenset({"isinstance", "type", "hasattr", "callable", "is_tensor"})

#: What decides whether the code in it runs.
_DECIDING = frozenset(
    {
        *(cst.FunctionDef, cst.Lambda, *HANDLERS, cst.Match, cst.If, cst.IfExp),
        *(cst.For, cst.While, cst.IndentedBlock),
    }
)


class Iterations(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._intervals = forest.fact(Intervals)
        self._names = forest.fact(AskedNames)
        self._bound: dict[cst.CSTNode, set[str]] = {}
        self._exits: dict[cst.IndentedBlock, cst.If | None] = {}

    def at_every_iteration(self, node: cst.CSTNode, step: cst.CSTNode, *, or_often: bool = False) -> bool:
        """Whether nothing between ``step`` and ``node`` skips some iterations.

        ``or_often``: also True for each iteration of one of several processes, and for code that some steps train with.
        """
        tree = self._tree
        for above, child in climb(tree, node):
            if type(above) not in _DECIDING and above is not step:
                continue
            if isinstance(above, (cst.FunctionDef, cst.Lambda)) and above is not step and child is above.body:
                return self._is_closure(above)
            if isinstance(above, (*HANDLERS, cst.Match)):
                return False
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                often = or_often and self._trains_or_asks_for_process(above, child, step)
                late = self._starts_late(above, child, step)
                works = has_work(above, child, self._forest.values.reaching) and not self._intervals.counts(above.test)
                usual = self._is_usual(above, child) or self._has_all_work(above, child)
                if not (often or late or works or usual) and self._is_rare(above, step):
                    return False
            if isinstance(above, (cst.If, cst.IfExp)) and child is above.body:
                if self._is_off(above.test, or_option=above.orelse is not None) or is_latched(self._tree, above):
                    return False
            if isinstance(above, (cst.For, cst.While)) and above is not step and self._is_other_pass(above, child):
                return False
            if isinstance(above, cst.IndentedBlock) and self.is_behind_exit(above, child):
                return False
            if above is step:
                return True
        return False

    def is_counted(self, node: cst.CSTNode, step: cst.CSTNode) -> bool:
        """Whether ``node`` runs only at every n-th iteration of ``step``: under ``if i % 100 == 0``."""
        return any(
            item.guard is not None and self._intervals.counts(item.guard.test)
            for item in branches(self._tree, node, step)
        )

    def alternates(self, node: cst.CSTNode, step: cst.CSTNode) -> bool:
        """Whether ``node`` runs at every second iteration of ``step`` or in every second of its calls."""
        outer = step if self._tree.within(node, step) else self._forest.function_of(node)
        return outer is not None and any(
            item.guard is not None
            and nearest(self._tree, item.guard, cst.For, cst.While, cst.FunctionDef) is outer
            and self._intervals.alternates(item.guard.test)
            for item in branches(self._tree, node, outer)
        )

    def _is_closure(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        return isinstance(function, cst.FunctionDef) and function.name.value == "closure"

    def _is_rare(self, branch: cst.If | cst.IfExp, step: cst.CSTNode) -> bool:
        """Whether the condition of ``branch`` depends on a counter, a rank, a value of the iteration or a flag."""
        if self._intervals.counts(branch.test):
            return True
        varying = self._bound_in(step)
        for node in self._tree.nodes_in(branch.test):
            if not isinstance(node, (cst.Name, cst.Attribute)) or isinstance(
                self._tree.parent(node), cst.BinaryOperation
            ):
                continue  # `i % 2`: every second iteration counts like every iteration
            if (
                isinstance(self._tree.parent(node), cst.Index)
                and isinstance(node, cst.Name)
                and self._checks_type(node)
            ):
                continue  # `losses[i] is not None`
            if isinstance(node, cst.Name) and self._asked(node) in _TYPE_QUESTIONS:
                continue  # `hasattr(t, "item")`, although `t` often counts steps
            if isinstance(node, cst.Name) and (self._names.is_weight(node) or self._names.is_key(node, step)):
                continue
            if _RARE.search(node.value if isinstance(node, cst.Name) else node.attr.value):
                if isinstance(node, cst.Name) and self._is_library(node):
                    continue
                return True
            if isinstance(node, cst.Name) and node.value in varying and not self._checks_type(node):
                held = self._held(node, step)
                if held is None or _RARE.search(held):
                    return True
        return False

    def _held(self, name: cst.Name, step: cst.CSTNode) -> str | None:
        """What ``name`` is another name for, if that is the same at every iteration of ``step``.

        The attribute ``opt`` after ``opt = self.opt``; ``loss`` after ``config = settings["loss"]``.
        """
        assigned = self._forest.values.reaching.assigned(name)
        if isinstance(assigned, cst.Attribute):
            text = dotted_name(assigned)
            return last_part(text) if text is not None and text.startswith("self.") else None
        if not isinstance(assigned, cst.Subscript) or self._varies(assigned, step):
            return None
        return last_part(_setting(assigned)) or None

    def _varies(self, item: cst.Subscript, step: cst.CSTNode) -> bool:
        """Whether an iteration of ``step`` is given the container of ``item``, binds it or stores items there."""
        container = base_of(item)
        if not isinstance(container, cst.Name):
            return True
        return any(self._tree.within(bound.node, step) for bound in self._forest.values.reaching.of(container)) or any(
            isinstance(target, cst.Subscript)
            and isinstance(base := base_of(target), cst.Name)
            and base.value == container.value
            and self._tree.within(statement, step)
            for target, _, statement in self._tree.stores
        )

    def _is_usual(self, branch: cst.If | cst.IfExp, part: cst.CSTNode) -> bool:
        """Whether ``part`` runs in training, unless somebody looks into the program.

        The body of ``if is_training:`` and of ``if self.prints:``, which is only set to ``True``, the ``else`` of
        ``if self.debug:``.
        """
        test = branch.test
        if part is branch.body and self._is_always(test, "True"):
            return True
        is_negated = isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not)
        test = test.expression if isinstance(test, cst.UnaryOperation) else test
        if not isinstance(test, (cst.Name, cst.Attribute)) or self._intervals.counts(test):
            return False
        if _TRAINING.fullmatch(last_name(test)):
            return part is (branch.orelse if is_negated else branch.body)
        usual: cst.CSTNode | None = branch.body if is_negated else branch.orelse
        return part is usual and _INSPECTING.search(last_name(test)) is not None

    def _has_all_work(self, branch: cst.If | cst.IfExp, part: cst.CSTNode) -> bool:
        """Whether the step trains in ``part``, or the other part does nothing: ``if len(batch) == 1: pass``."""
        other = branch.body if part is branch.orelse else None
        if not (isinstance(other, cst.IndentedBlock) and all(map(self._does_nothing, other.body))):
            if not any(is_backward(call) for call in self._tree.calls_in(part)):
                return False
        names = self._tree.names_in(branch.test)
        return not self._intervals.counts(branch.test) and not any(map(_RARE.search, names))

    def _does_nothing(self, statement: cst.CSTNode) -> bool:
        """``pass``, ``logger.info("no labels")``."""
        parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
        return all(
            isinstance(item, cst.Pass)
            or (
                isinstance(item, cst.Expr)
                and isinstance(item.value, cst.Call)
                and (dotted_name(item.value.func) or "").partition(".")[0] in _SHOWING
            )
            for item in parts
        )

    def _is_library(self, name: cst.Name) -> bool:
        """``t`` of ``isinstance(x, t.Tensor)`` after ``import torch as t``."""
        return isinstance(self._tree.parent(name), cst.Attribute) and self._forest.name_of(name) is not None

    def _trains_or_asks_for_process(self, branch: cst.If | cst.IfExp, part: cst.CSTNode, step: cst.CSTNode) -> bool:
        """Whether ``part`` of ``branch`` trains, maybe with gradients of several steps, or only the process matters."""
        if any(is_backward(call) or is_step(call) for call in self._tree.calls_in(part)):
            return True
        nodes = [node for node in self._tree.nodes_in(branch.test) if isinstance(node, (cst.Name, cst.Attribute))]
        words = [node.value if isinstance(node, cst.Name) else node.attr.value for node in nodes]
        if not any(map(PROCESSES.search, words)) or self._intervals.counts(branch.test):
            return False
        varying = self._bound_in(step)
        return not any(word in varying or (_RARE.search(word) and not PROCESSES.search(word)) for word in words)

    def _is_off(self, test: cst.BaseExpression, *, or_option: bool) -> bool:
        """Whether a condition reads a setting that the program sets to ``False``, at least by default.

        The configuration files of the program may turn it on. So may environment variables.
        Without ``or_option``, a switch of the command line that adds a part to the training may be on.
        """
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            return any(self._is_off(side, or_option=or_option) for side in (test.left, test.right))
        if not isinstance(test, (cst.Name, cst.Attribute)) or (not or_option and self._is_option(test)):
            return False
        found = self._forest.fact(Configuration).sources(test)
        if found is None:
            return False
        if found.values and all(is_off(self._forest.names, item) for item in found.values):
            return True
        return _are(found.values, "False") and not self._forest.fact(ConfigFiles).turned_on(test)

    def _is_always(self, test: cst.BaseExpression, value: str) -> bool:
        """Whether a condition is a setting that the program gives no value but this one."""
        found = self._forest.fact(Configuration).sources(test) if isinstance(test, (cst.Name, cst.Attribute)) else None
        return found is not None and _are(found.values, value)

    def _is_option(self, flag: cst.Name | cst.Attribute) -> bool:
        """Whether ``flag`` has the name of a switch of the command line, and not of one to look into a program."""
        name = last_name(flag)
        return _INSPECTING.search(name) is None and self._forest.values.parsers.are_off(name, flag)

    def _starts_late(self, branch: cst.If | cst.IfExp, part: cst.CSTNode, step: cst.CSTNode) -> bool:
        """Whether ``part`` runs at every iteration from some iteration on.

        The body of ``if step > warmup:``, the ``else`` of ``if epoch < config.get("first_epoch", 1):``.
        """
        test = branch.test
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return False
        bound = test.comparisons[0]
        if not isinstance(bound.operator, _ABOVE if part is branch.body else _BELOW):
            return False
        counter = last_name(test.left)
        if not _COUNTERS.fullmatch(counter) or (isinstance(branch, cst.If) and self._leaves(part)):
            return False
        is_number = isinstance(bound.comparator, cst.Integer)
        if is_number and part is branch.body:
            return True
        if "epoch" in counter.lower() and (is_number or _is_number_by_default(bound.comparator)):
            return True  # a counter of steps may begin anew
        text = _setting(bound.comparator)
        return (
            _STARTS.search(last_part(text)) is not None
            and text not in self._bound_in(step)
            and not any(
                dotted_name(target) == text and self._tree.within(statement, step)
                for target, _, statement in self._tree.stores
            )
        )

    def _leaves(self, block: cst.CSTNode) -> bool:
        """Whether ``block`` ends the loop or the function: it runs once."""
        return any(isinstance(node, (cst.Break, cst.Return, cst.Raise)) for node in self._tree.nodes_in(block))

    def _asked(self, name: cst.Name) -> str:
        """The function that is asked about a name: ``hasattr`` of ``hasattr(loss, "item")``."""
        parent = self._tree.parent(name)
        call = self._tree.parent(parent) if isinstance(parent, cst.Arg) else None
        return last_part(self._forest.name_of(call.func) or "") if isinstance(call, cst.Call) else ""

    def _checks_type(self, name: cst.Name) -> bool:
        """``isinstance(loss, float)``, ``losses[i] is not None``, ``p.grad is not None``, ``"loss" in outputs``."""
        parent = self._tree.parent(name)
        if isinstance(parent, cst.Attribute):
            if parent.attr.value in _FIXED:
                return True
            parent = self._tree.parent(parent)
            return isinstance(parent, cst.Comparison) and any(is_none(item.comparator) for item in parent.comparisons)
        if isinstance(parent, cst.Arg):
            return self._asked(name) in ("len", *_TYPE_QUESTIONS)
        if isinstance(parent, cst.ComparisonTarget) and isinstance(parent.operator, (cst.In, cst.NotIn)):
            comparison = self._tree.parent(parent)
            return isinstance(comparison, cst.Comparison) and isinstance(comparison.left, cst.SimpleString)
        while isinstance(parent, (cst.Subscript, cst.SubscriptElement, cst.Index)):
            parent = self._tree.parent(parent)
        return isinstance(parent, cst.Comparison) and any(is_none(item.comparator) for item in parent.comparisons)

    def _bound_in(self, step: cst.CSTNode) -> set[str]:
        """The names that an iteration of ``step`` binds."""
        known = self._bound.get(step)
        if known is not None:
            return known
        first = bisect_left(self._all_bound, self._tree.index(step), key=itemgetter(0))
        behind = bisect_right(self._all_bound, self._tree.last(step), key=itemgetter(0))
        self._bound[step] = {name for _, name in self._all_bound[first:behind]}
        return self._bound[step]

    @cached_property
    def _all_bound(self) -> list[tuple[int, str]]:
        """All names that are bound, other than parameters, with the index of what binds them; in order."""
        return sorted(
            (self._tree.index(binding.node), name)
            for scope in self._tree.scopes.values()
            for name, bindings in scope.bindings.items()
            for binding in bindings
            if binding.kind is not BindingKind.PARAM
        )

    def _is_other_pass(self, loop: cst.For | cst.While, child: cst.CSTNode) -> bool:
        """Whether ``loop``, inside of a step, iterates over other data: a validation pass, not the parts of a batch."""
        if child is not loop.body:
            return False
        return gives_batches(self._forest.fact(Loops).of(loop).over) and not any(
            is_backward(call) for call in self._tree.calls_in(loop.body)
        )

    def is_behind_exit(self, block: cst.IndentedBlock, child: cst.CSTNode) -> bool:
        """Whether ``block`` has an exit before ``child`` that only some steps pass: under a counter, or once."""
        if block not in self._exits:
            exits = (
                statement
                for statement in block.body
                if isinstance(statement, cst.If)
                and ends_with(statement.body, cst.Continue, cst.Return)
                and (
                    is_latched_exit(self._tree, block, statement)
                    or (self._intervals.counts(statement.test) and not self._skips_training(block, statement))
                )
            )
            self._exits[block] = next(exits, None)
        first = self._exits[block]
        return first is not None and self._tree.index(first) < self._tree.index(child)

    def _skips_training(self, block: cst.IndentedBlock, exit_: cst.If) -> bool:
        """Whether all backward passes of ``block`` are behind an exit: it leaves out whole training steps."""
        trains, place = self._forest.fact(Gradients).trains, block.body.index(exit_)
        return any(map(trains, block.body[place + 1 :])) and not any(map(trains, block.body[:place]))


def _setting(node: cst.BaseExpression) -> str:
    """The dotted name of a setting: also ``config.warmup`` for ``config["warmup"]`` and ``config.get("warmup", 0)``."""
    owner, key = None, None
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        owner, key = _setting(node.value), node.slice[0].slice.value
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "get":
        owner, key = _setting(node.func.value), node.args[0].value if node.args else None
    if owner is None:
        return dotted_name(node) or ""
    return f"{owner}.{key.raw_value}" if owner and isinstance(key, cst.SimpleString) else ""


def _is_number_by_default(node: cst.BaseExpression) -> bool:
    """``config.get("first_epoch", 1)``."""
    return bool(_setting(node)) and isinstance(node, cst.Call) and isinstance(node.args[-1].value, cst.Integer)


def _are(values: Iterable[cst.BaseExpression], name: str) -> bool:
    """Whether each of ``values`` is this name: ``True``, ``False``."""
    return all(isinstance(item, cst.Name) and item.value == name for item in values)
