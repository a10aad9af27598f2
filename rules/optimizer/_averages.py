"""Loops that update a moving average of parameters, one parameter at a time."""

from __future__ import annotations

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
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._average_words import NAMES, PARAMETERS
from ._blends import Blend, Blends

#: Methods that a training step calls once.
_UPDATES = frozenset({"update", "step", "update_target", "update_ema", "optimizer_step", "on_train_batch_end"})


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
            if step is not None or self._is_called_elsewhere(loop):
                yield AverageLoop(loop, blend, step)

    # -- the loop

    def _is_over_parameters(self, loop: cst.For) -> bool:
        if PARAMETERS.search(self._module.code(loop.iter)):
            return True
        nodes = list(self._tree.nodes_in(loop.iter))
        names = [node for node in nodes if isinstance(node, cst.Name)]
        values = [item.value for name in names for item in self._module.values.reaching.of(name)]
        values += [item for node in nodes if isinstance(node, cst.Attribute) for item in self._stored(node)]
        return any(value is not None and PARAMETERS.search(self._module.code(value)) for value in values)

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
        if "param_groups" in self._module.code(loop.iter) or ".grad" in self._module.code(loop):
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

    def _is_called_elsewhere(self, loop: cst.For) -> bool:
        """Whether the function around ``loop`` says what it is there for, and code that is not seen calls it.

        Or that code calls an ``update`` which calls it.
        """
        function = self._module.function_of(loop)
        if function is None:
            return False
        owner = self._tree.class_of(function)
        names = (function.name.value, owner.name.value if owner is not None else "")
        if not any(map(NAMES.search, names)) or self._module.fact(Iterations).is_counted(loop, function):
            return False
        calls = self._module.fact(Dispatch).callers(function)
        return not calls or any(map(self._is_of_update, calls))

    def _is_of_update(self, call: cst.Call) -> bool:
        """Whether a call runs at each ``update`` of an object, as a training step out of sight calls it."""
        method = self._module.function_of(call)
        return (
            method is not None
            and self._tree.class_of(method) is not None
            and method.name.value in _UPDATES
            and self._module.fact(StepPlaces).usually(call, method)
            and not self._module.fact(Dispatch).callers(method)
        )

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
