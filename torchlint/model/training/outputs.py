"""Outputs: which calls run a network, and where what they give goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.type_tests import TypeTests
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.scopes import unpacked
from torchlint.model.training.data_flow import DataFlow, Item, Taken
from torchlint.model.training.gradientless import WITH_INDICES, Gradientless
from torchlint.model.training.gradients import LEAVING, takes_index
from torchlint.model.training.networks import Networks

#: What ends the graph of an output, and shows that it is only read.
DETACHING = frozenset({"detach", "detach_", "item", "tolist", "numpy", "argmax", "argmin", "data"})
#: ... and what gives integers or indices, which have no gradient.
GRADIENTLESS = DETACHING | {
    "max",
    "min",
    "topk",
    "sort",
    "argsort",
    "multinomial",
    "long",
    "int",
    "bool",
    "byte",
    "size",
    "sample",
}
_NO_TENSORS = (Kind.NUMBER, Kind.STRING, Kind.ARRAY, Kind.NONE)

#: Functions that give packed sequences, whose data is not a detached tensor.
_PACKING = frozenset({"pack_padded_sequence", "pack_sequence", "PackedSequence"})

#: A call that gives something, or what an assignment takes of it.
Output: TypeAlias = cst.Call | Taken

#: How many calls deep a run of a network is looked for.
_CALL_DEPTH = 4


class Outputs(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._type_tests = TypeTests(forest.tree, forest.names)
        #: Where a function calls itself, its other returns decide.
        self._ending: CyclicMemo[tuple[cst.FunctionDef, frozenset[str]], bool] = CyclicMemo(True)
        #: By expression and exits the calls that are parts of it, and the expressions that these take their value from.
        self._flowing: dict[tuple[Item, frozenset[str]], tuple[list[Output], list[Item]]] = {}

    def runs(self, call: cst.Call) -> bool:
        """Whether ``call`` runs a network: a forward, or a method such as ``model.generate(...)``."""
        func = call.func
        if self._forest.fact(Networks).runs_network(call):
            return True
        if not isinstance(func, cst.Attribute) or func.attr.value not in knowledge.RUNNING_METHODS:
            return False
        is_named = knowledge.NO_NETWORK.search(last_name(func.value)) is None  # not ``tokenizer.encode(text)``
        return is_named and self._forest.value(func.value).kind is Kind.MODULE

    def first_run(self, node: cst.CSTNode) -> cst.Call | None:
        """The first call in ``node`` that runs a network, itself or in a function of the file."""
        return self._first_run(node, _CALL_DEPTH, set())

    def _first_run(self, node: cst.CSTNode, depth: int, seen: set[cst.CSTNode]) -> cst.Call | None:
        forest = self._forest
        for call in forest.tree.calls_in(node):
            if self.runs(call):
                return call
            if depth <= 0:
                continue
            for definition in forest.definitions.called(call, forest.values):
                if isinstance(definition, cst.FunctionDef) and definition not in seen:
                    seen.add(definition)
                    if self._first_run(definition.body, depth - 1, seen) is not None:
                        return call
        return None

    def tensor_calls(self, body: cst.CSTNode, depth: int = _CALL_DEPTH) -> set[cst.CSTNode]:
        """The calls in ``body`` that give outputs of networks: runs, and functions of the file that return them."""
        forest = self._forest
        found: set[cst.CSTNode] = set()
        for call in forest.tree.calls_in(body):
            if self.runs(call):
                found.add(call)
            elif depth > 0:
                for definition in forest.definitions.called(call, forest.values):
                    if isinstance(definition, cst.FunctionDef) and self._gives_output(definition, depth - 1):
                        found.add(call)
        return found

    def _gives_output(self, function: cst.FunctionDef, depth: int) -> bool:
        inner = self.tensor_calls(function.body, depth)
        return bool(inner) and any(
            item is not None and self.carries(item, inner, LEAVING)
            for item in self._forest.definitions.returns(function)
        )

    def carries(self, expression: cst.CSTNode, runs: set[cst.CSTNode], exits: frozenset[str]) -> bool:
        """Whether ``expression`` may contain the output of one of ``runs`` that no method of ``exits`` has ended."""
        flow = self._forest.fact(DataFlow)
        return flow.search(runs.__contains__, lambda part: part not in runs and self._ends(part, exits)).finds(
            expression
        )

    def carried(
        self, items: Iterable[tuple[cst.CSTNode, cst.CSTNode | None]], exits: frozenset[str]
    ) -> dict[Output, tuple[cst.CSTNode | None, ...]]:
        """The calls whose output one of ``items`` may contain, all at once: those for which ``carries`` is true.

        Each item comes with its owner. Each call is given with the owners of its items, three of them at most, and so
        is what assignments take of the tuple that one returns.
        """
        found: dict[Output, tuple[cst.CSTNode | None, ...]] = {}
        owners: dict[Item, tuple[cst.CSTNode | None, ...]] = {}
        waiting: list[tuple[Item, cst.CSTNode | None]] = list(items)
        while waiting:
            node, owner = waiting.pop()
            if _is_enough(owners.get(node, ()), owner):
                continue
            owners[node] = (*owners.get(node, ()), owner)
            calls, sources = self._flow_into(node, exits)
            for call in calls:
                if not _is_enough(found.get(call, ()), owner):
                    found[call] = (*found.get(call, ()), owner)
            waiting.extend((source, owner) for source in sources)
        return found

    def _flow_into(self, node: Item, exits: frozenset[str]) -> tuple[list[Output], list[Item]]:
        """The calls that give ``node`` data, an exit as the last one on its way, and what its parts are made of."""
        key = node, exits
        if key not in self._flowing:
            flow = self._forest.fact(DataFlow)
            calls: list[Output] = [node] if isinstance(node, Taken) else []

            def ends(part: cst.CSTNode) -> bool:
                if isinstance(part, cst.Call):
                    calls.append(part)
                return self._ends(part, exits)

            sources = [source for _, found in flow.steps(node, ends) for source, _ in found]
            self._flowing[key] = calls, sources
        return self._flowing[key]

    def is_index(self, expression: cst.CSTNode, call: cst.Call) -> bool:
        """Whether ``expression`` only has indices or samples of what ``call`` returns: they have no gradient.

        ``actions, scores = agent.choose(states)``, where ``actions`` is what ``argmax`` gives; ``agent.act(states)``.
        """
        forest = self._forest
        paths = [
            binding.path
            for name in forest.tree.inside(expression, cst.Name)
            for binding in forest.values.reaching.of(name)
            if binding.value is call
        ]
        if forest.tree.within(call, expression):
            paths.append(())
        functions = forest.fact(Dispatch).run(call)
        return (
            bool(paths)
            and bool(functions)
            and all(self._returns_index(function, path) for function in functions for path in paths)
        )

    def _returns_index(self, function: cst.FunctionDef, path: tuple[int, ...]) -> bool:
        """Whether a function returns, or has in a tuple, what is made of its networks but has no gradient."""
        runs = self.tensor_calls(function.body)
        returned = [unpacked(item, path) for item in self._forest.definitions.returns(function)]
        return (
            bool(runs)
            and bool(returned)
            and all(
                item is not None
                and self.carries(item, runs, frozenset())
                and not self.carries(item, runs, GRADIENTLESS - WITH_INDICES)
                for item in returned
            )
        )

    def is_no_tensor(self, expression: cst.CSTNode) -> bool:
        """Whether ``expression`` is surely a number, a text, an array or nothing."""
        value = self._forest.value(expression)
        return value.sure and value.kind in _NO_TENSORS

    def is_exit(self, node: cst.Attribute | cst.Subscript, exits: frozenset[str]) -> bool:
        """Whether an attribute is one of ``exits``; the data of a packed sequence stays on the graph.

        The indices of a maximum count as ``argmax``: ``scores.max(1)[1]``.
        """
        if isinstance(node, cst.Subscript):
            return "argmax" in exits and takes_index(node)
        if node.attr.value == "data" and isinstance(node.value, cst.Call):
            return "data" in exits and last_name(node.value.func) not in _PACKING
        return node.attr.value in exits

    def _ends(self, part: cst.CSTNode, exits: frozenset[str]) -> bool:
        gradientless = self._forest.fact(Gradientless)
        if gradientless.is_plain(part) or ("detach" in exits and gradientless.is_discrete(part)):
            return True
        if isinstance(part, cst.Call):
            if isinstance(part.func, cst.Attribute) and part.func.attr.value in exits:
                return True
            if self.ends_in_helper(part, exits):
                return True
        if isinstance(part, (cst.Call, cst.Name)) and self.is_no_tensor(part):
            return True
        if isinstance(part, cst.Name) and self._is_ended_by_type(part, exits):
            return True
        if isinstance(part, (cst.Attribute, cst.Subscript)):
            return self.is_exit(part, exits)
        return isinstance(part, (cst.Comparison, cst.Lambda)) and "detach" in exits

    def _is_ended_by_type(self, name: cst.Name, exits: frozenset[str]) -> bool:
        """Whether an exit has ended ``name`` if it was a tensor: after ``if torch.is_tensor(x): x = x.detach()``."""
        value = self._type_tests.replaced_tensor(name)
        if value is None or all(item.value is not value for item in self._forest.values.reaching.of(name)):
            return False
        return any(
            isinstance(part, cst.Attribute) and self.is_exit(part, exits) for part in self._forest.tree.nodes_in(value)
        )

    # -- helpers such as ``to_numpy(output)``

    def ends_in_helper(self, call: cst.Call, exits: frozenset[str]) -> bool:
        """Whether ``call`` gives its argument to a function of the project that returns it behind one of ``exits``."""
        if not call.args or not exits or self._forest.name_of(call.func) is not None:
            return False
        functions = self._forest.definitions.called(call, self._forest.values)
        return bool(functions) and all(
            isinstance(item, cst.FunctionDef) and self._ending.get((item, exits), self._returns_ended)
            for item in functions
        )

    def _returns_ended(self, key: tuple[cst.FunctionDef, frozenset[str]]) -> bool:
        """Whether a function only returns what an exit has ended, such as ``t.detach().cpu()`` of its parameter.

        It may return nothing, or an empty array, for some parameters, and objects other than tensors as they are.
        """
        function, exits = key
        returned = [
            item
            for item in self._forest.definitions.returns(function)
            if not self._is_empty(item) and not self._is_other_than_tensor(item)
        ]
        return bool(returned) and all(item is not None and self._is_ended(item, function, exits) for item in returned)

    def _is_empty(self, returned: cst.BaseExpression | None) -> bool:
        """Whether a return gives nothing, or what is made of nothing: ``None``, ``np.array([])``."""
        if returned is None or is_none(returned):
            return True
        return isinstance(returned, (cst.List, cst.Tuple, cst.Call)) and not any(
            isinstance(part, cst.Name) and self._forest.names.resolve(part) is None
            for part in self._forest.tree.nodes_in(returned)
        )

    def _is_other_than_tensor(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` names an object other than a tensor, by a test such as ``if not torch.is_tensor(x):``."""
        return isinstance(node, cst.Name) and Kind.TENSOR in self._type_tests.excluded_at(node)

    def _is_ended(self, node: cst.BaseExpression, function: cst.FunctionDef, exits: frozenset[str]) -> bool:
        """Whether an expression takes a parameter of ``function``, and an exit is on each way."""
        parameters = {param.name.value for param in parameters_of(function)} - {"self", "cls"}

        def is_parameter(part: cst.CSTNode) -> bool:
            if not isinstance(part, cst.Name) or part.value not in parameters or self._is_other_than_tensor(part):
                return False
            return any(
                item.kind in (BindingKind.PARAM, BindingKind.STAR) for item in self._forest.values.reaching.of(part)
            )

        flow = self._forest.fact(DataFlow)
        if flow.search(is_parameter, lambda part: self._ends(part, exits)).finds(node):
            return False
        return flow.search(is_parameter, lambda part: False).finds(node)


def _is_enough(owners: tuple[cst.CSTNode | None, ...], owner: cst.CSTNode | None) -> bool:
    """Whether ``owner`` need not be added: it is known, or three others are."""
    return owner in owners or len(owners) > 2
