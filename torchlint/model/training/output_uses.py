"""What becomes of the output of a network: read, drawn, chosen from, returned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import is_attribute_of_self, last_name
from torchlint.model.training.computations import Computations
from torchlint.model.training.function_words import SAVING, SHOWING
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradientless import Gradientless
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.networks import Networks
from torchlint.model.training.outputs import DETACHING, GRADIENTLESS, Output, Outputs

#: What a policy gradient, an advantage or a bonus is made of.
_LIKELIHOOD = re.compile(r"log_?p|prob_?log|logprob|entropy|saved|value", re.IGNORECASE)
#: Their functions want no gradient of what they are given.
_READING_LIBRARIES = frozenset(
    {"builtins", "torch", "torchvision", "torchaudio", "numpy", "matplotlib", "cv2", "PIL", "imageio", "soundfile"}
)
_DETACHED = frozenset({"data", "detach", "detach_"})
#: Methods of writers of TensorBoard, which read the numbers of what they are given.
_WRITING = frozenset({"add_scalar", "add_scalars", "add_histogram"})
#: Functions by the methods of a tensor that they call.
_METHODS = {
    "numpy.array": "numpy",
    "numpy.asarray": "numpy",
    "builtins.float": "item",
    "builtins.int": "item",
}

#: Calls, and what contains the output of each.
_Carried: TypeAlias = dict[Output, tuple[cst.CSTNode | None, ...]]


class OutputUses:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._taken: dict[tuple[cst.CSTNode, frozenset[str]], _Carried] = {}
        self._leaving: dict[cst.CSTNode, _Carried] = {}
        self._given_away: dict[cst.CSTNode, _Carried] = {}

    def reads(self, node: cst.CSTNode) -> bool:
        """Whether outputs are visibly taken off the graph, here or by a helper such as ``to_numpy``, or only shown."""
        calls: list[cst.Call] = []
        for part in self._module.tree.nodes_in(node):
            if isinstance(part, cst.Attribute) and part.attr.value in DETACHING:
                return True
            if isinstance(part, cst.Call):
                if self._is_shown(part):
                    return True
                calls.append(part)
        return any(self._module.fact(Outputs).ends_in_helper(call, DETACHING) for call in calls)

    def reads_by_calls(self, function: cst.FunctionDef) -> bool:
        """Whether a function that ``function`` calls takes outputs off the graph, as one that also gives the loss."""
        module = self._module
        called = (item for call in module.tree.calls_in(function.body) for item in module.fact(Dispatch).run(call))
        return any(map(self.reads, called))

    def leaves_graph(self, call: Output, within: cst.CSTNode) -> bool:
        """Whether the output is detached ``within`` a function or file, which shows that it was recorded, or drawn."""
        return self._is_taken(call, within, _DETACHED)

    def _is_taken(self, call: Output, within: cst.CSTNode, exits: frozenset[str]) -> bool:
        """Whether one of ``exits`` ends the graph of the output ``within`` a function or file, or it is drawn."""
        if (within, exits) not in self._taken:
            taken = ((item, None) for item in self._taken_in(within, exits))
            self._taken[within, exits] = self._module.fact(Outputs).carried(taken, frozenset())
        return call in self._taken[within, exits]

    def _taken_in(self, within: cst.CSTNode, exits: frozenset[str]) -> Iterator[cst.CSTNode]:
        """What ``exits`` end, or what is drawn, ``within`` a function or file."""
        for part in self._module.tree.nodes_in(within):
            if isinstance(part, (cst.Attribute, cst.Subscript)) and self._module.fact(Outputs).is_exit(part, exits):
                yield part.value
            elif (
                isinstance(part, cst.Call) and "argmax" in exits and self._module.fact(Gradientless).gives_indices(part)
            ):
                yield part
            elif isinstance(part, cst.Call) and (
                self._is_shown(part)
                or self._is_function(part, exits)
                or self._module.fact(Outputs).ends_in_helper(part, exits)
            ):
                yield from (argument.value for argument in part.args)

    def _is_shown(self, call: cst.Call) -> bool:
        """Whether ``call`` shows or saves what it is given."""
        return last_name(call.func) in SHOWING or self._module.name_of(call.func) in SAVING

    def _is_function(self, call: cst.Call, exits: frozenset[str]) -> bool:
        """Whether a call is of one of ``exits`` as a function: ``torch.argmax(scores, 1)``, ``np.array(scores)``."""
        name = self._module.name_of(call.func) or ""
        return (last_name(call.func) in exits and name.startswith("torch.")) or _METHODS.get(name) in exits

    def only_leaves_graph(self, call: Output, within: cst.FunctionDef | cst.Module) -> bool:
        """Whether the output is detached ``within`` a function or a file, and goes nowhere else.

        It goes to no caller, object, function or loss.
        """
        return self.leaves_graph(call, within) and self._stays(call, within)

    def is_only_read(self, call: Output, within: cst.FunctionDef | cst.Module) -> bool:
        """The same for an output of which only numbers or indices may be read, which shows no grad mode."""
        return self._is_taken(call, within, DETACHING) and self._stays(call, within)

    def only_goes_to_callers(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the output is returned by ``function`` with its graph, and goes nowhere else."""
        owners = self._owners(call, function)
        return function in owners and all(owner in (call, function) for owner in owners)

    def _stays(self, call: Output, within: cst.FunctionDef | cst.Module) -> bool:
        """Whether the output goes to no caller, object, function or loss from ``within`` a function or a file."""
        return all(owner is call for owner in self._owners(call, within))

    def _owners(self, call: Output, within: cst.FunctionDef | cst.Module) -> tuple[cst.CSTNode | None, ...]:
        """Where the output goes to from ``within`` a function or file, None for an object or a loss."""
        if self._module.fact(Gradients).carries_gradient(call):
            return (None,)
        if within not in self._leaving:
            self._leaving[within] = self._module.fact(Outputs).carried(self._leaving_from(within), DETACHING)
        return self._leaving[within].get(call, ())

    def _leaving_from(self, within: cst.FunctionDef | cst.Module) -> Iterator[tuple[cst.CSTNode, cst.CSTNode | None]]:
        """What goes to a caller, an object or a function that may record.

        What is returned comes with the function ``within``, what a function is given with its call.
        """
        module = self._module
        for target, value, statement in module.tree.stores:
            if value is not None and not isinstance(target, cst.Name) and module.tree.within(statement, within):
                if not self._is_own_state(target, value, within):
                    yield value, None
        if isinstance(within, cst.FunctionDef):
            returned = (*module.definitions.returns(within), *module.definitions.yields(within))
            yield from ((item, within) for item in returned if item is not None)
        for call in module.tree.calls_in(within):
            if self._is_of_library(call) or self._continues_graph(call):
                continue
            if module.fact(Computations).only_computes(call):
                continue
            if isinstance(within, cst.FunctionDef) and module.fact(Computations).fills_own(call, within):
                continue
            if not module.fact(Outputs).ends_in_helper(call, DETACHING) and not module.fact(GradModes).of(call).is_off:
                yield from ((argument.value, call) for argument in call.args)

    def _is_own_state(self, target: cst.BaseExpression, value: cst.BaseExpression, within: cst.CSTNode) -> bool:
        """Whether only ``within`` reads what it makes anew of itself: ``self.hidden = self.hidden.cuda()``."""
        tree, owner = self._module.tree, self._module.tree.class_of(within)
        if owner is None or not is_attribute_of_self(target) or not isinstance(target, cst.Attribute):
            return False
        uses = tree.attributes_named(target.attr.value)
        if not any(tree.within(use, value) for use in uses):
            return False
        written = {id(place) for place, _, _ in tree.stores}
        return all(
            tree.within(use, within) or id(use) in written or nearest(tree, use, cst.ClassDef) not in (None, owner)
            for use in uses
        )

    def _is_of_library(self, call: cst.Call) -> bool:
        """Whether a call is of a library that keeps nothing: ``torch.exp(x)``, ``nn.Softmax(dim=1)(x)``."""
        name = self._module.name_of(call.func)
        if name is not None:
            return name.partition(".")[0] in _READING_LIBRARIES
        if last_name(call.func) in _WRITING and not self._module.definitions.called(call, self._module.values):
            return True
        return self._module.value(call.func).name.startswith("torch.nn.")

    def _continues_graph(self, call: cst.Call) -> bool:
        """Whether a network or a loss records what it does with its inputs: its outputs show what becomes of them."""
        module = self._module
        if module.fact(GradModes).of(call).is_off:
            return False
        if module.fact(Networks).runs_network(call):
            return True
        is_loss = module.value(call.func).kind in (Kind.LOSS, Kind.MODULE)
        return is_loss and not any(map(self.keeps, module.fact(Dispatch).run(call)))

    def keeps(self, method: cst.FunctionDef) -> bool:
        """Whether a method stores something in an object, which others may need the graph of."""
        tree = self._module.tree
        return any(not isinstance(target, cst.Name) and tree.within(at, method) for target, _, at in tree.stores)

    def is_given_away(self, call: cst.Call, within: cst.CSTNode) -> bool:
        """Whether a function out of sight, which may want its gradient, is given the output."""
        if within not in self._given_away:
            given = self._given_to_others(within)
            self._given_away[within] = self._module.fact(Outputs).carried(given, DETACHING)
        return any(owner is not call for owner in self._given_away[within].get(call, ()))

    def _given_to_others(self, within: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """What functions out of sight are given, with their calls."""
        module = self._module
        for call in module.tree.calls_in(within):
            if (
                not self._is_of_library(call)
                and not module.fact(Networks).runs_network(call)
                and not module.definitions.called(call, module.values)
            ):
                yield from ((argument.value, call) for argument in call.args)

    def only_chooses(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the output becomes an action, and its probability is not what a loss is made of."""
        tree = self._module.tree
        chosen = False
        for part in tree.nodes_in(function):
            if isinstance(part, (cst.Name, cst.Attribute)):
                name = part.value if isinstance(part, cst.Name) else part.attr.value
                if isinstance(name, str) and _LIKELIHOOD.search(name):
                    return False
            if chosen:
                continue
            if isinstance(part, cst.Attribute) and part.attr.value in DETACHING:
                chosen = self._module.fact(Outputs).carries(part.value, {call}, frozenset())
            elif isinstance(part, cst.Call) and self._module.fact(Outputs).ends_in_helper(part, DETACHING):
                given = [argument.value for argument in part.args]
                chosen = any(self._module.fact(Outputs).carries(item, {call}, frozenset()) for item in given)
        return chosen

    def is_kept(self, call: cst.Call, function: cst.FunctionDef | cst.Module) -> bool:
        """Whether the output stays on an object, where others may back-propagate it."""
        return any(
            isinstance(target, cst.Attribute)
            and value is not None
            and self._module.tree.within(statement, function)
            and self._module.fact(Outputs).carries(value, {call}, DETACHING)
            for target, value, statement in self._module.tree.stores
        )

    def is_consumed(self, call: cst.Call, function: cst.FunctionDef, depth: int = 3) -> bool:
        """Whether the output stays in the file: not returned to callers out of sight that may want its gradient."""
        module = self._module
        returned = [item for item in module.definitions.returns(function) if item is not None]
        returned += module.definitions.yields(function)
        if not any(self._module.fact(Outputs).carries(item, {call}, DETACHING) for item in returned):
            return True
        calls = (call for call in module.callers(function).calls if module.function_of(call) is not function)
        callers = list(calls)  # what a recursive call returns goes to them as well
        return bool(callers) and depth > 0 and all(self._is_consumed_at(caller, depth - 1) for caller in callers)

    def _is_consumed_at(self, call: cst.Call, depth: int) -> bool:
        function = self._module.function_of(call)
        return function is None or self.is_consumed(call, function, depth)

    def converts_without_detach(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the output becomes an array without ``detach()``: that raises, unless gradients are off already.

        The labels of a detector of torchvision are integers, which have none.
        """
        outputs = self._module.fact(Outputs)
        for read in self._converted:
            if self._module.tree.within(read, function) and outputs.carries(read, {call}, GRADIENTLESS):
                if outputs.is_index(read, call):
                    continue
                if not any(map(_is_labels, self._module.tree.inside(read, cst.SimpleString))):
                    return True
        return False

    @cached_property
    def _converted(self) -> list[cst.BaseExpression]:
        """What becomes an array: ``scores`` of ``scores.numpy()`` and of ``np.array(scores)``."""
        functions = self._module.calls(*(name for name, method in _METHODS.items() if method == "numpy"))
        return [
            *(call.receiver for call in self._module.methods("numpy")),
            *(call.node.args[0].value for call in functions if call.node.args),
        ]


def _is_labels(key: cst.SimpleString) -> bool:
    return key.evaluated_value == "labels"
