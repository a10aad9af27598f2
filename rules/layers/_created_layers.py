"""Layers that a `forward` creates at every call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import is_attribute_of_self
from torchlint.model.syntax.literals import is_true
from torchlint.model.syntax.nodes import HANDLERS, TRIES
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlaces

from ._forward_words import LAYERS

_LAYER = re.compile(rf"torch\.nn\.(?:modules\.\w+\.)?({LAYERS})")
#: Methods of a module that return it.
_FLUENT = frozenset("to cuda cpu float half bfloat16 double eval train type requires_grad_ apply".split())
#: Keywords with which a layer has no parameters, and costs little.
_AFFINE = {"affine", "elementwise_affine"}


@dataclass(frozen=True, eq=False)
class CreatedLayer:
    """A layer that is new at every call."""

    node: cst.Call
    name: str  #: how its class reads: ``nn.Linear``
    function: cst.FunctionDef  #: the `forward`, or the method that a `forward` calls
    caller: cst.Call | None  #: the call in the `forward`; None if the layer is directly there


class CreatedLayers:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[CreatedLayer]:
        """The layers that the file creates in a `forward` and runs there, in order."""
        for call in self._tree.calls_in(self._module.root):
            name = self._module.name_of(call.func)
            match = None if name is None else _LAYER.fullmatch(name)
            if match is None or not _has_state(match[1], call):
                continue
            function = self._module.function_of(call)
            if function is None or self._module.fact(Purposes).is_self_test(call):
                continue
            repeated = self._module.fact(StepPlaces).repeating(call)
            if repeated is None or repeated.is_loop or not self._is_run_once(call, function):
                continue
            yield CreatedLayer(
                call, self._module.code(call.func), function, repeated.calls[0] if repeated.calls else None
            )

    def _is_run_once(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the layer is run where it is created, and is not kept for the next call."""
        made = self._moved(call)
        above = self._tree.parent(made)
        if isinstance(above, cst.Call) and above.func is made:
            return True
        if not isinstance(above, cst.Assign) or len(above.targets) != 1:
            return False
        target = above.targets[0].target
        if isinstance(target, cst.Name):
            return self._is_run_only(target, function)
        return is_attribute_of_self(target) and self._is_unconditional(above, function)

    def _moved(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``nn.Linear(8, 8).to(x.device)`` of the call in it."""
        while True:
            attribute = self._tree.parent(node)
            if not isinstance(attribute, cst.Attribute) or attribute.value is not node:
                return node
            call = self._tree.parent(attribute)
            if attribute.attr.value not in _FLUENT or not isinstance(call, cst.Call) or call.func is not attribute:
                return node
            node = call

    def _is_run_only(self, target: cst.Name, function: cst.FunctionDef) -> bool:
        """Whether a local layer is called, and otherwise only set up."""
        home = self._module.names.home_of(target)
        if home is None or home is not self._tree.scopes[function]:
            return False
        runs = False
        for use in self._module.names.uses_in(home, target.value):
            above = self._tree.parent(use)
            if isinstance(above, cst.Call) and above.func is use:
                runs = True
            elif isinstance(above, cst.AssignTarget):
                continue
            elif not isinstance(above, cst.Attribute) or above.value is not use:
                return False
        return runs

    def _is_unconditional(self, statement: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether a statement runs at every call: under no condition, and behind none that returns."""
        for above, child in climb(self._tree, statement):
            if above is function:
                return True
            if isinstance(above, (cst.If, *TRIES, *HANDLERS, cst.Match, cst.For, cst.While)):
                return False
            if isinstance(above, cst.IndentedBlock):
                earlier = above.body[: next(index for index, item in enumerate(above.body) if item is child)]
                if any(isinstance(node, cst.Return) for item in earlier for node in self._tree.nodes_in(item)):
                    return False
        return False


def _has_state(kind: str, call: cst.Call) -> bool:
    """Whether a layer of a class has parameters, as its arguments decide."""
    given = keywords_of(call)
    if "InstanceNorm" in kind:
        return is_true(given.get("affine"))
    return all(not isinstance(given[name], cst.Name) or is_true(given[name]) for name in _AFFINE & set(given))
