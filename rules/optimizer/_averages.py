"""Loops that update a moving average of parameters, one parameter at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.configuration import Configuration
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import called_name, dotted_name, is_attribute_of_self
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._average_words import NAMES, PARAMETERS, WEIGHTS
from ._blends import Blend, Blends

#: Parts of the names of functions that a training step may run, and of those that run less often.
_STEPS = re.compile(r"update|step|train|optimi|learn|batch|iter|forward|backward|loss|zero_grad|sync", re.IGNORECASE)
_SELDOM = re.compile(
    r"epoch|(^|_)(init|reset|load|save)(_|$)|(fit|train|train_loop|training)_(start|end|begin)$", re.IGNORECASE
)
#: Gradients, of which an optimizer keeps averages.
_GRADIENTS = re.compile(r"\b(grads?|gradients?|d_p)\b")
#: How many calls lie between a loop and a function whose callers are out of sight.
_DEPTH = 4


@dataclass(frozen=True, eq=False)
class AverageLoop:
    """A loop over parameters that blends each with its average."""

    loop: cst.For
    blend: Blend
    step: StepPlace | None  #: the training step that runs it; None if no call of its function is seen


class Averages:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[AverageLoop]:
        """The loops of the file that update an average at every training step, in order."""
        for loop in self._tree.loops:
            if not isinstance(loop, cst.For) or not self._module.is_own(loop) or not self._is_over_parameters(loop):
                continue
            blend = self._blend(loop)
            if blend is None or self._has_other_purpose(loop) or self._is_over_numbers(loop):
                continue
            places = self._module.fact(StepPlaces)
            step = places.of(loop, places.usually, trained=True) or places.in_training(loop)
            if step is not None or self._is_left_open(loop):
                yield AverageLoop(loop, blend, step)

    # -- the loop

    def _is_over_parameters(self, loop: cst.For) -> bool:
        if PARAMETERS.search(self._module.code(loop.iter)):
            return True
        nodes = list(self._tree.nodes_in(loop.iter))
        names = [node for node in nodes if isinstance(node, cst.Name)]
        values = [item.value for name in names for item in self._module.values.reaching.of(name)]
        values += [item for node in nodes if isinstance(node, cst.Attribute) for item in self._stored(node)]
        values += [item for node in names for item in self._passed(node)]
        return any(value is not None and PARAMETERS.search(self._module.code(value)) for value in values)

    def _passed(self, name: cst.Name) -> list[cst.BaseExpression]:
        """What calls give the parameter that a name is."""
        param = self._module.names.parameter(name)
        given = self._module.passed_by_all(param) if param is not None else []
        return [item for item in given if item is not None]

    def _stored(self, node: cst.Attribute) -> list[cst.BaseExpression]:
        """What the class around an attribute of ``self`` stores in it, or the file in that of another object."""
        owner = nearest(self._tree, node, cst.ClassDef) if is_attribute_of_self(node) else self._module.root
        holder = dotted_name(node.value)
        if owner is None or holder is None:
            return []
        stores = self._module.fact(Stores).attributes.get(node.attr.value, ())
        return [
            value
            for target, value, statement in stores
            if dotted_name(target) == holder and self._tree.within(statement, owner)
        ]

    def _is_over_numbers(self, loop: cst.For) -> bool:
        """Whether a loop is over the items of a dictionary in which the program puts numbers, such as metrics."""
        call = loop.iter
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or called_name(call) != "items":
            return False
        sources = self._module.fact(Configuration).sources(call.func.value)
        return any(
            isinstance(item, cst.DictElement) and self._module.value(item.value).kind is Kind.NUMBER
            for source in (sources.values if sources is not None else ())
            for made in (source, *self._returned(source))
            for item in (made.elements if isinstance(made, cst.Dict) else ())
        )

    def _returned(self, call: cst.BaseExpression) -> Iterator[cst.BaseExpression | None]:
        """What a function of the program returns."""
        if isinstance(call, cst.Call):
            for function in self._module.definitions.called(call, self._module.values):
                if isinstance(function, cst.FunctionDef):
                    yield from self._module.definitions.returns(function)

    def _has_other_purpose(self, loop: cst.For) -> bool:
        """Whether the loop is part of an optimizer, or what runs where the batched functions are missing."""
        if "param_groups" in self._module.code(loop.iter) or _GRADIENTS.search(self._module.code(loop)):
            return True
        function = self._module.function_of(loop)
        callers = self._module.fact(Dispatch).callers(function) if function is not None else ()
        if any(map(self._is_in_optimizer, (loop, *callers))):
            return True
        calls = () if function is None else self._tree.calls_in(function.body)
        return any(called_name(call).startswith("_foreach_") for call in calls)

    def _is_in_optimizer(self, node: cst.CSTNode) -> bool:
        owner = nearest(self._tree, node, cst.ClassDef)
        return owner is not None and self._module.values.instance(owner).kind is Kind.OPTIMIZER

    def _is_left_open(self, node: cst.CSTNode, depth: int = _DEPTH, *, named: bool = False) -> bool:
        """Whether a training step out of sight may run ``node`` each time, in functions that say what they are for.

        The callers that are seen do not show that it runs less often: in a constructor, in an epoch, at some steps.
        """
        function = self._module.function_of(node)
        if function is None or not self._may_be_in_step(node, function):
            return False
        says = named or self._says_that_it_averages(function)
        calls = self._module.fact(Dispatch).callers(function)
        if calls:
            return depth > 0 and any(self._is_left_open(call, depth - 1, named=says) for call in calls)
        return says and (not named or _STEPS.search(function.name.value) is not None)

    def _may_be_in_step(self, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether ``function`` may be a part of a step that runs ``node`` each time, and makes no steps itself."""
        if _SELDOM.search(function.name.value) or self._module.fact(Purposes).is_constructor(function):
            return False
        if not self._module.fact(StepPlaces).usually(node, function):
            return False
        return not any(map(self._module.fact(Gradients).trains, self._tree.inside(function.body, cst.For, cst.While)))

    def _says_that_it_averages(self, function: cst.FunctionDef) -> bool:
        """Whether the name of a function, of its class or of a parameter does: ``ema``, ``soft_update``, ``tau``."""
        owner = self._tree.class_of(function)
        names = (function.name.value, owner.name.value if owner is not None else "")
        return any(map(NAMES.search, names)) or any(param.name.value in WEIGHTS for param in parameters_of(function))

    # -- the blend

    def _blend(self, loop: cst.For) -> Blend | None:
        blends = Blends(self._module, self._bound_in(loop))
        return blends.first(loop.body) or self._blend_of_call(loop, blends)

    def _bound_in(self, loop: cst.For) -> frozenset[str]:
        """The names that each iteration binds."""
        targets = [node.target for node in self._tree.nodes_in(loop.body) if isinstance(node, cst.AssignTarget)]
        parts = [loop.target, *(target for target in targets if isinstance(target, (cst.Name, cst.Tuple)))]
        return frozenset(self._tree.names_in(*parts))

    def _blend_of_call(self, loop: cst.For, blends: Blends) -> Blend | None:
        """The blend in a function that each iteration calls, or that it returns: ``ema.update(name, param.data)``."""
        for call in self._tree.calls_in(loop.body):
            if self._module.name_of(call.func) is not None or not any(blends.is_item(item.value) for item in call.args):
                continue
            for function in self._module.fact(Dispatch).run(call):
                if ".grad" in self._module.code(function) or any(map(self._is_loop, self._tree.nodes_in(function))):
                    continue
                inner = Blends(self._module, self._bound_by(call, function, blends))
                found = inner.first(function.body)
                if found is None and self._is_stored(call, blends):
                    found = inner.returned(function)
                if found is not None:
                    return replace(found, weight=None)
            if self._is_stored(call, blends) and (computed := self._blend_of_lambda(call, blends)) is not None:
                return computed
        return None

    def _blend_of_lambda(self, call: cst.Call, blends: Blends) -> Blend | None:
        """The blend of a lambda that ``call`` may run: ``self._update(model, lambda e, p: d * e + (1 - d) * p)``."""
        sources = self._module.fact(Configuration).sources(call.func)
        for made in sources.values if sources is not None else ():
            if isinstance(made, cst.Lambda):
                given = zip(made.params.params, call.args, strict=False)
                bound = frozenset(param.name.value for param, item in given if blends.is_item(item.value))
                found = Blends(self._module, bound).computed(made.body)
                if found is not None:
                    return found
        return None

    def _is_stored(self, call: cst.Call, blends: Blends) -> bool:
        """Whether an iteration stores the result of ``call`` in a parameter: ``e.data = average(e.data, p.data)``."""
        statement = self._tree.statement_of(call)
        if isinstance(statement, cst.Assign):
            return statement.value is call and blends.is_item(statement.targets[0].target)
        copied = statement.value if isinstance(statement, cst.Expr) else None
        if (
            not isinstance(copied, cst.Call)
            or not isinstance(copied.func, cst.Attribute)
            or called_name(copied) != "copy_"
        ):
            return False
        return any(item.value is call for item in copied.args) and blends.is_item(copied.func.value)

    def _is_loop(self, node: cst.CSTNode) -> bool:
        return isinstance(node, (cst.For, cst.While))

    def _bound_by(self, call: cst.Call, function: cst.FunctionDef, blends: Blends) -> frozenset[str]:
        """The names in a function of the parameter that ``call`` passes, and of what is computed from it."""
        bound = {
            param.name.value
            for param in parameters_of(function)
            if (given := self._module.definitions.argument_of(call, function, param)) is not None
            and blends.is_item(given)
        }
        for node in self._tree.nodes_in(function.body):
            if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name):
                made = self._tree.names_in(node.value)
                if not bound.isdisjoint(made):
                    bound.add(node.targets[0].target.value)
        return frozenset(bound)
