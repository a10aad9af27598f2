"""Loaders with worker processes that are created again at every epoch, with the same arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.loaders import Loaders
from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.invariance import Invariance
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.dotted import called_name, dotted_name, is_attribute_of_self, last_part
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.training.intervals import Intervals
from torchlint.model.training.loops import Loop, LoopKind, Loops
from torchlint.model.training.purpose import Purposes

from ._dataset_changes import GETTERS
from ._workers import Workers, passed

#: Loops over whole experiments: each iteration has its own data or model.
_EXPERIMENTS = re.compile(
    r"fold|trial|seed|task|exp(eriment)?s?(_|$)|(^|_)runs?(_|$)|split|repeat|stage|phase|client|subject|domain|scale"
    r"|size|res(olution)?(_|$)|config|cfg|name|model|path|file|key|set(s|$)|param|(^|_)lrs?(_|$)|user|class",
    re.IGNORECASE,
)
#: Classes of torch whose objects depend on their arguments alone.
_SAMPLERS = re.compile(
    r"torch\.utils\.data\.(distributed\.)?(Random|Sequential|Batch|Distributed|SubsetRandom|WeightedRandom)Sampler"
)
#: Functions that give the same in each process.
_OF_PROCESS = frozenset(
    f"torch.distributed.{name}" for name in ("is_initialized", "is_available", "get_rank", "get_world_size")
)
#: Functions that only read a dataset that they are given.
_READERS = re.compile(
    r"(^|\.)(len|print|isinstance|DataLoader|enumerate|zip|sum|min|max|sorted|info|debug|format|str|repr)$"
)
#: Attributes of a dataset that are texts or numbers by their names: what gets one cannot change the dataset.
_TEXTS = re.compile(r"(^|_)(path|root|dir(ectory)?|folder|file_?name|name|mode|split|size|length)$|^(num|n|is|has)_")
#: Calls whose numbers a loop counts.
_COUNTS = ("range", "trange")
_MAX_CALLERS = 8
#: How many functions may be around each other between the loop and the loader.
_DEPTH = 4


@dataclass(frozen=True, eq=False)
class RebuiltLoader:
    """A loader that each iteration of a loop creates again."""

    loader: Call
    loop: cst.For | cst.While
    call: cst.Call | None  #: the call in the loop that reaches the loader; None if the loader is in the loop itself
    statement: cst.Assign | None  #: ``loader = DataLoader(...)`` directly in the body of the loop


class RebuiltLoaders:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[RebuiltLoader]:
        """The loaders of the file that are created again and again, in order."""
        for loader in self._module.fact(Loaders).within(self._module.root):
            if passed(self._module, loader) is Workers.UNKNOWN:
                continue
            found = self._rebuilt(loader)
            if found is not None:
                yield found

    def _rebuilt(self, loader: Call) -> RebuiltLoader | None:
        around = self._module.fact(Loops).around(loader.node)
        if around:
            loop = around[0]
            if not self._repeats(loop) or not self._at_every_iteration(loader.node, loop.node):
                return None
            if not self._is_steady(loader, loop.node) or not self._is_consumed(loader, loop.node):
                return None
            return RebuiltLoader(loader, loop.node, None, self._statement(loader, loop.node))
        function = self._module.function_of(loader.node)
        if function is None or self._module.fact(Purposes).is_constructor(function):
            return None
        if not self._is_steady(loader, function):
            return None
        data = loader.argument("dataset").value
        if data is not None and self._is_set_elsewhere(data):
            return None
        used = [item.value for item in loader.node.args]
        used += [local for item in used if (local := self._local_value(item, function)) is not None]
        return self._through_callers(loader, loader.node, used if data is None else [data, *used], _DEPTH)

    def _through_callers(
        self, loader: Call, node: cst.Call, used: list[cst.BaseExpression], depth: int, *, is_consumed: bool = False
    ) -> RebuiltLoader | None:
        """``loader``, if a loop calls the function around ``node`` and creates it from the same ``used`` each time.

        The first of ``used`` is the dataset. With ``is_consumed``, a function in between iterates over the loader.
        """
        function = self._module.function_of(node)
        conditions = self._conditions(node, function) if function is not None else None
        if function is None or conditions is None or depth <= 0:
            return None
        is_consumed = is_consumed or self._is_consumed(loader, function)
        callers = self._module.fact(Dispatch).callers(function)
        for call in callers if len(callers) <= _MAX_CALLERS else ():
            given = self._given(function, [*used, *conditions], call)
            data = self._given(function, used[:1], call)
            around = next(filter(self._repeats, self._module.fact(Loops).around(call)), None)
            place = around.node if around is not None else self._module.function_of(call)
            if given is None or place is None or not all(self._is_same(item, place) for item in given):
                continue
            if any(self._sets(item, place) or self._is_set_elsewhere(item) for item in data or ()):
                continue
            if around is None:
                passed_on = [*(data or ()), *given]
                found = self._through_callers(loader, call, passed_on, depth - 1, is_consumed=is_consumed)
            else:
                is_each = self._at_every_iteration(call, around.node)
                is_each = is_each and (is_consumed or self._is_consumed(loader, around.node))
                found = RebuiltLoader(loader, around.node, call, None) if is_each else None
            if found is not None:
                return found
        return None

    # -- the loop

    def _repeats(self, loop: Loop) -> bool:
        """Whether a loop runs epochs of one experiment: no iteration makes a network or an optimizer."""
        if loop.kind is LoopKind.OTHER or loop.loaders:
            return False
        if isinstance(loop.node, cst.For):
            names = self._tree.names_in(loop.node.target)
            if any(_EXPERIMENTS.search(name) for name in names) or not self._counts(loop.node.iter):
                return False
        return not any(self._sets_up(call) for call in self._tree.calls_in(loop.node.body))

    def _counts(self, over: cst.BaseExpression) -> bool:
        """``range(epochs)``, also in a progress bar."""
        while isinstance(over, cst.Call) and over.args and called_name(over) not in _COUNTS:
            over = over.args[0].value
        return isinstance(over, cst.Call) and called_name(over) in _COUNTS

    def _sets_up(self, call: cst.Call) -> bool:
        value = self._module.value(call)
        return value.kind in (Kind.MODULE, Kind.OPTIMIZER) and call in value.origins

    def _at_every_iteration(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether no condition is between the two that may change, and no earlier statement leaves the iteration."""
        conditions = self._conditions(node, outer)
        return conditions is not None and all(self._is_same(item, outer) for item in conditions)

    def _conditions(self, node: cst.CSTNode, outer: cst.CSTNode) -> list[cst.BaseExpression] | None:
        """The conditions under which ``outer`` reaches ``node``; None if it depends on anything else than settings."""
        found = []
        for item in conditions(self._tree, node, outer):
            if isinstance(item.node, cst.If) and item.kind is ConditionKind.BRANCH:
                if self._module.fact(Intervals).counts(item.node.test):
                    continue  # `if epoch % 5 == 0:`
                if not _is_of_settings(self._tree.nodes_in(item.node.test)):
                    return None
                found.append(item.node.test)  # `if args.validate:`
            elif item.kind is ConditionKind.EXIT:
                if item.leaves_by(cst.Continue, cst.Return):
                    return None
            elif isinstance(item.node, cst.For) and isinstance(outer, cst.FunctionDef):
                continue  # `for dataset in datasets:`, at each call of the function
            elif item.kind is not ConditionKind.TRY:
                return None
        return found

    # -- the loader

    def _is_consumed(self, loader: Call, outer: cst.CSTNode) -> bool:
        """Whether code in ``outer`` iterates over the loader, or passes it to a function."""
        if any(self._tree.within(item.node, outer) for item in self._module.fact(Loading).consumers(loader)):
            return True
        return any(
            self._module.value(item.value).kind is Kind.LOADER
            and loader.node in self._module.value(item.value).origins
            and not last_part(dotted_name(call.func) or "").startswith("len")
            for call in self._tree.calls_in(outer)
            for item in call.args
            if isinstance(item.value, cst.Name)
        )

    def _is_steady(self, loader: Call, loop: cst.CSTNode) -> bool:
        """Whether all arguments are the same at every iteration of ``loop``, and the dataset does not change."""
        if any(item.star for item in loader.node.args):
            return False
        if not all(self._is_same(item.value, loop) for item in loader.node.args):
            return False
        data = loader.argument("dataset").value
        return isinstance(data, (cst.Name, cst.Attribute)) and not self._changes(data, loader, loop)

    def _is_same(self, node: cst.BaseExpression, loop: cst.CSTNode) -> bool:
        if isinstance(node, cst.Call):
            name = self._module.name_of(node.func) or ""
            if name in _OF_PROCESS and not node.args:
                return True
            made = _SAMPLERS.fullmatch(name) is not None
            if made or isinstance(self._module.value(node.func).definition, cst.ClassDef):
                return all(self._is_same(item.value, loop) for item in node.args)
        if isinstance(node, cst.Lambda):
            return all(
                not self._module.fact(Invariance).is_bound_in(name, loop)
                for name in self._tree.nodes_in(node.body)
                if isinstance(name, cst.Name)
            )
        if isinstance(node, cst.IfExp):
            return all(self._is_same(item, loop) for item in (node.test, node.body, node.orelse))
        local = self._local_value(node, loop)
        if local is not None:
            return self._is_same(local, loop)  # ``sampler``, made of the same dataset each time
        if isinstance(node, cst.Comparison):
            return all(
                self._is_same(item, loop) for item in (node.left, *(part.comparator for part in node.comparisons))
            )
        return self._module.fact(Invariance).is_invariant(node, loop)

    def _local_value(self, node: cst.BaseExpression, place: cst.CSTNode) -> cst.BaseExpression | None:
        """What a variable is given by the only statement in ``place`` that binds it."""
        bound = self._module.values.reaching.only(node) if isinstance(node, cst.Name) else None
        if bound is None or bound.kind is not BindingKind.ASSIGN or bound.path:
            return None
        return bound.value if self._tree.within(bound.node, place) else None

    def _changes(self, data: cst.BaseExpression, loader: Call, loop: cst.CSTNode) -> bool:
        """Whether something in ``loop`` may change the dataset, which a loader with workers would not see."""
        text = dotted_name(data)
        for call in self._tree.calls_in(loop):
            given = [item.value for item in call.args if self._is_part(item.value, text)]
            if call is not loader.node and not all(map(self._is_immutable, given)):
                name = self._module.name_of(call.func) or dotted_name(call.func) or ""
                if not _READERS.search(name) and not _SAMPLERS.fullmatch(name):
                    return True
        return self._sets(data, loop)

    def _is_immutable(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is an attribute with a text or a number: ``dataset.path``."""
        if not isinstance(node, cst.Attribute):
            return False
        kind = self._module.value(node).kind
        return kind in (Kind.NUMBER, Kind.STRING) or (
            kind is Kind.UNKNOWN and _TEXTS.search(node.attr.value) is not None
        )

    def _sets(self, data: cst.BaseExpression, place: cst.CSTNode) -> bool:
        """Whether code in ``place`` sets a part of the dataset, or calls a method of it that may."""
        text = dotted_name(data)
        for target, _, statement in self._tree.stores:
            owner = target.value if isinstance(target, (cst.Attribute, cst.Subscript)) else None
            if owner is not None and self._tree.within(statement, place) and self._is_part(owner, text):
                return True
        called = [call.func for call in self._tree.calls_in(place) if isinstance(call.func, cst.Attribute)]
        return any(self._is_part(func.value, text) and not GETTERS.search(func.attr.value) for func in called)

    def _is_set_elsewhere(self, data: cst.BaseExpression) -> bool:
        """Whether a method that is not a constructor sets the dataset in an attribute, or calls a method that may."""
        if not is_attribute_of_self(data):
            return False
        for use in self._tree.attributes_named(data.attr.value):
            above = self._tree.parent(use)
            called = self._tree.parent(above) if isinstance(above, cst.Attribute) and above.value is use else None
            changes = isinstance(called, cst.Call) and isinstance(above, cst.Attribute) and called.func is above
            if changes and isinstance(above, cst.Attribute) and GETTERS.search(above.attr.value):
                continue
            function = self._module.function_of(use)
            if (changes or isinstance(above, cst.AssignTarget)) and function is not None:
                if not self._module.fact(Purposes).is_constructor(function):
                    return True
        return False

    def _is_part(self, node: cst.CSTNode, text: str | None) -> bool:
        """Whether ``node`` is the dataset or a part of it."""
        name = dotted_name(node)
        return text is not None and name is not None and (name == text or name.startswith(text + "."))

    def _given(
        self, function: cst.FunctionDef, used: list[cst.BaseExpression], call: cst.Call
    ) -> list[cst.BaseExpression] | None:
        """What ``call`` passes for the parameters of ``function`` in ``used``; None if that is not seen."""
        names = [part for item in used for part in self._tree.inside(item, cst.Name)]
        bound = dict.fromkeys(binding.node for name in names for binding in self._module.names.bindings(name))
        params = [node for node in bound if isinstance(node, cst.Param) and owner_of(self._tree, node) is function]
        found = []
        for param in params:
            given = self._module.definitions.argument_of(call, function, param)
            if given is not None:
                found.append(given)
            elif param.name.value not in ("self", "cls") and any(item.star for item in call.args):
                return None
        return found

    def _statement(self, loader: Call, loop: cst.For | cst.While) -> cst.Assign | None:
        """The statement that a fix can move in front of the loop."""
        statement = self._tree.parent(loader.node)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        row = self._tree.parent(statement)
        target = statement.targets[0].target
        if row is None or self._tree.parent(row) is not loop.body or not isinstance(target, cst.Name):
            return None
        scope = self._module.names.home_of(target)
        alone = scope is not None and len(scope.bindings[target.value]) == 1
        return statement if alone and isinstance(row, cst.SimpleStatementLine) and len(row.body) == 1 else None


def _is_of_settings(parts: Iterable[cst.CSTNode]) -> bool:
    """Whether a condition of these parts only asks for values of names and attributes: ``args.split is not None``."""
    given = list(parts)
    compared = [item.operator for part in given if isinstance(part, cst.Comparison) for item in part.comparisons]
    others = (cst.Call, cst.Subscript, cst.In, cst.NotIn, cst.NamedExpr, cst.Lambda)
    return not any(isinstance(part, others) for part in (*given, *compared))
