"""Networks whose gradients a training step computes although no optimizer updates their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import dotted_name, last_name, last_part
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.networks import Networks
from torchlint.model.training.steps import Steps, TrainingLoop
from torchlint.source.lexemes import code_of

from ._escapes import Escapes
from ._freezing_words import freezes_parameters

#: Libraries whose networks consist of a large body and a head.
_LIBRARIES = ("torchvision.models.", "timm.create_model", "timm.models.")
_HEADS = frozenset({"fc", "classifier", "head", "heads", "last_linear", "linear", "conv_seg"})
#: Words of networks that do so themselves ...
_DETACHES = re.compile(r"no_grad|inference_mode|set_grad_enabled|detach|\.data\b|stop_grad")
#: ... outside of the methods that set the first weights: `self.head.weight.data.mul_(0.1)`.
_INITIAL = re.compile(r"init|reset")


@dataclass(frozen=True, eq=False)
class UntrainedNetwork:
    """A network that takes part in a loss, and of which no optimizer is given the parameters, or only some."""

    place: cst.BaseExpression  #: the parameters that the optimizer is given; else what builds the network
    network: cst.BaseExpression  #: an expression for it, at that place
    trained: cst.BaseExpression | None  #: the part of it that is trained
    forward: cst.Call
    backward: cst.Call


class Untrained:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @property
    def networks(self) -> Iterator[UntrainedNetwork]:
        """The networks whose gradients are computed and never used."""
        if not self._freezes:
            yield from self._parts()
            yield from self._others()

    @cached_property
    def _freezes(self) -> bool:
        texts = (self._module.file_of_root[root].text for root in self._module.related)
        return any(freezes_parameters(code_of(text)) for text in texts)

    @cached_property
    def _optimizers(self) -> list[cst.Call]:
        """The calls that build an optimizer; none if another one may be built out of sight."""
        found = []
        for root in self._module.related:
            for call in self._tree.calls_in(root):
                if self._module.name_of(call.func) is None:
                    last = last_name(call.func).lower()
                    if "optim" in last and not self._module.definitions.called(call, self._module.values):
                        return []
                elif self._module.value(call).kind is Kind.OPTIMIZER:
                    found.append(call)
        return found

    # -- an optimizer of a part of a network

    def _parts(self) -> Iterator[UntrainedNetwork]:
        module = self._module
        for optimizer in self._tree.calls_in(module.root):
            given = _parameters(optimizer)
            trained = _owner(given)
            if given is None or not isinstance(trained, cst.Attribute) or dotted_name(trained) is None:
                continue
            network = trained.value
            if dotted_name(network) == "self" or last_name(network) == "module" or self._optimizers != [optimizer]:
                continue
            made = module.value(network).origins if self._is_part(trained) else frozenset()
            for step in module.fact(Steps).loops if made else ():
                if any(made & module.value(item).origins for item in module.fact(Steps).networks(step)):
                    yield UntrainedNetwork(given, network, trained, step.forward, step.backward)
                    break

    def _is_part(self, trained: cst.Attribute) -> bool:
        """Whether a network has more parameters than those of its layer ``trained``, and computes their gradients."""
        value = self._module.value(trained.value)
        if value.kind is not Kind.MODULE or len(value.origins) != 1:
            return False
        if not isinstance(value.definition, cst.ClassDef):
            return value.name.startswith(_LIBRARIES) and trained.attr.value in _HEADS
        if not self._computes_gradients(value.definition):
            return False
        layers = {
            name
            for definition in self._module.definitions.lineage(value.definition)
            for name, bindings in self._tree.scopes[definition].attributes.items()
            if any(self._has_parameters(item.value) for item in bindings)
        }
        return trained.attr.value in layers and len(layers) > 1

    def _has_parameters(self, made: cst.BaseExpression | None) -> bool:
        value = self._module.value(made)
        if value.kind is not Kind.MODULE:
            return False
        return not last_part(value.name).startswith((*knowledge.PARAMETERLESS, "Softmax", "LayerNorm"))

    def _computes_gradients(self, definition: cst.ClassDef) -> bool:
        """Whether a class of the program is a network without ways of its own to stop gradients."""
        names = list(self._module.definitions.base_names(definition))
        plain = all(name in ("torch.nn.Module", "torch.nn.Sequential") for name in names)
        classes = self._module.definitions.lineage(definition)
        return plain and not any(_DETACHES.search(self._code_after_setup(item)) for item in classes)

    def _code_after_setup(self, definition: cst.ClassDef) -> str:
        """The code of a class without the methods that set the first weights."""
        code = self._module.code(definition)
        for statement in definition.body.body:
            if isinstance(statement, cst.FunctionDef) and _INITIAL.search(statement.name.value):
                code = code.replace(self._module.code(statement), "")
        return code

    # -- a network that no optimizer knows

    def _others(self) -> Iterator[UntrainedNetwork]:
        module, seen = self._module, set()
        for step in module.fact(Steps).loops:
            for call in self._tree.calls_in(step.body):
                made = self._made_by(call)
                if made is None or made in seen or not module.is_own(made):
                    continue
                seen.add(made)
                if self._is_trained(call, step) and not module.fact(Escapes).may_be_trained(made):
                    network = module.fact(Escapes).bound_to(made)
                    if network is not None and self._optimizers:
                        yield UntrainedNetwork(made, network, None, call, step.backward)

    def _made_by(self, call: cst.Call) -> cst.Call | None:
        """What builds the network that ``call`` runs, if it has parameters whose gradients are computed."""
        if not self._module.fact(Networks).runs_network(call):
            return None
        value = self._module.value(self._module.fact(Networks).network_of(call))
        made = next(iter(value.origins)) if len(value.origins) == 1 else None
        if not isinstance(made, cst.Call) or not value.sure:
            return None
        if isinstance(value.definition, cst.ClassDef):
            names = self._tree.scopes[value.definition].attributes.values()
            has_parameters = any(self._has_parameters(item.value) for bindings in names for item in bindings)
            return made if has_parameters and self._computes_gradients(value.definition) else None
        return made if value.name.startswith(_LIBRARIES) else None

    def _is_trained(self, call: cst.Call, step: TrainingLoop) -> bool:
        """Whether a backward pass computes gradients of ``call``, in a step that also trains another network."""
        module = self._module
        if not module.fact(Gradients).carries_gradient(call) or module.fact(GradModes).of(call).is_off:
            return False
        own = module.value(module.fact(Networks).network_of(call)).origins
        others = (*module.fact(Steps).networks(step), *self._networks_around(call))
        return any(not own & module.value(item).origins for item in others)

    def _networks_around(self, call: cst.Call) -> list[cst.BaseExpression]:
        """The networks that the function around ``call`` runs for a backward pass, be it in another loop."""
        networks, gradients = self._module.fact(Networks), self._module.fact(Gradients)
        around = self._tree.calls_in(self._module.function_of(call) or self._module.root)
        return [
            networks.network_of(item)
            for item in around
            if gradients.carries_gradient(item) and networks.runs_network(item)
        ]


def _parameters(optimizer: cst.Call) -> cst.BaseExpression | None:
    """What an optimizer is to update."""
    return next(
        (
            item.value
            for item in optimizer.args
            if not item.star and (item.keyword is None or item.keyword.value == "params")
        ),
        None,
    )


def _owner(given: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """``model.fc`` of ``model.fc.parameters()``."""
    if isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute) and not given.args:
        return given.func.value if given.func.attr.value == "parameters" else None
    return None
