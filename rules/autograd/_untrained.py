"""Networks whose gradients a training step computes although no optimizer updates their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import libcst as cst

from torchlint.model.forest import ForestFact
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name, last_name, last_part
from torchlint.model.syntax.scopes import Scope
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.input_gradients import InputGradients
from torchlint.model.training.loops import Loops, is_backward
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.steps import Steps
from torchlint.source.lexemes import code_of

from ._escapes import Escapes
from ._freezing_words import chooses_parameters, freezes_parameters, mentions_freezing

#: Libraries whose networks consist of a large body and a head.
_LIBRARIES = ("torchvision.models.", "timm.create_model", "timm.models.", "transformers.")
_HEADS = frozenset({"fc", "classifier", "head", "heads", "last_linear", "linear", "conv_seg"})
#: Words of networks that do so themselves ...
_STOPS = re.compile(r"no_grad|inference_mode|set_grad_enabled|\.data\b|stop_grad")
#: ... and the data of a weight that is only measured, changed in place or copied into a parameter.
_WEIGHT_DATA = re.compile(r"\.data(?:\[\w+\])*\.(?:size|shape|numel|\w+_)\b|Parameter\([\w.]+\.data\)")
#: ... outside of the methods that set the first weights: `self.head.weight.data.mul_(0.1)`.
_INITIAL = re.compile(r"init|reset")
#: Layers of torch.nn with many parameters, or which contain layers.
_WITH_PARAMETERS = tuple(
    "Linear Bilinear Conv Lazy LSTM GRU RNN Embedding Multihead Transformer Sequential ModuleList ModuleDict".split()
)
#: How many classes deep layers are looked for.
_DEPTH = 4
#: How many functions and classes that a network uses are looked at.
_MAX_DEFINITIONS = 40
#: Networks, each by what builds it.
_Networks: TypeAlias = "frozenset[frozenset[cst.CSTNode]]"


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
        self._around: dict[cst.CSTNode, _Networks] = {}
        self._computing: dict[cst.ClassDef, bool] = {}
        self._kept: dict[tuple[Scope, str], bool] = {}

    @property
    def networks(self) -> Iterator[UntrainedNetwork]:
        """The networks whose gradients are computed and never used."""
        texts = [self._module.file_of_root[root].text for root in self._module.related]
        codes = [code_of(text) for text in texts if mentions_freezing(text)]
        if any(map(chooses_parameters, codes)):
            return
        freezing = list(filter(freezes_parameters, codes))
        if not freezing:
            yield from self._parts()
        if not any("getattr(self" in code for code in freezing):  # `for name in names: getattr(self, name)`
            yield from self._others()

    @cached_property
    def _optimizers(self) -> list[cst.Call]:
        """The calls that build an optimizer; none if another one may be built out of sight."""
        found = []
        for root in self._module.related:
            for call in self._tree.calls_in(root):
                name, last = self._module.name_of(call.func), last_name(call.func)
                takes = self._takes_parameters(call)
                if "optim" not in (name or last).lower() and not takes and (name is not None or last[:1].islower()):
                    continue
                if self._module.value(call).kind is Kind.OPTIMIZER:
                    found.append(call)
                elif takes or (name is None and "optim" in last.lower()):
                    if not self._module.definitions.called(call, self._module.values):
                        return []
        return found

    def _takes_parameters(self, call: cst.Call) -> bool:
        """Whether an object may be an optimizer of another library: ``optimizer = Lion(model.parameters())``."""
        name, given = self._module.name_of(call.func) or "", _parameters(call)
        is_kept = isinstance(self._tree.parent(call), (cst.Assign, cst.AnnAssign))
        if not is_kept or given is None or name.startswith(("torch.", "builtins.")):
            return False
        return "parameters()" in self._module.code(given)

    # -- an optimizer of a part of a network

    def _parts(self) -> Iterator[UntrainedNetwork]:
        module = self._module
        for optimizer in self._tree.calls_in(module.root):
            given = _parameters(optimizer)
            trained = self._owner(given)
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

    def _owner(self, given: cst.BaseExpression | None) -> cst.BaseExpression | None:
        """``model.fc`` of ``model.fc.parameters()``, also of a list or an iterator with a name that nothing changes."""
        if isinstance(given, cst.Name):
            bound, scope = self._module.names.bindings(given), self._module.names.home_of(given)
            if len(bound) != 1 or bound[0].path or scope is None:
                return None
            if (scope, given.value) not in self._kept:
                uses = self._module.names.uses_in(scope, given.value)
                self._kept[scope, given.value] = all(
                    isinstance(self._tree.parent(use), (cst.Arg, cst.AssignTarget)) for use in uses
                )
            return self._owner(bound[0].value) if self._kept[scope, given.value] else None
        if isinstance(given, cst.Call) and self._module.name_of(given.func) == "builtins.list" and len(given.args) == 1:
            return self._owner(given.args[0].value)
        if isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute) and not given.args:
            return given.func.value if given.func.attr.value == "parameters" else None
        return None

    def _is_part(self, trained: cst.Attribute) -> bool:
        """Whether a network has more parameters than those of its layer ``trained``, and computes their gradients."""
        value = self._module.value(trained.value)
        if value.kind is not Kind.MODULE or len(value.origins) != 1:
            return False
        if not isinstance(value.definition, cst.ClassDef):
            return value.name.startswith(_LIBRARIES) and trained.attr.value in _HEADS
        if not self._computes_gradients(value.definition) or "detach" in self._code_after_setup(value.definition):
            return False
        layers = {
            name
            for definition in self._module.definitions.lineage(value.definition)
            for name, bindings in self._tree.scopes[definition].attributes.items()
            if any(self._has_parameters(item.value) for item in bindings)
        }
        return trained.attr.value in layers and len(layers) > 1

    def _has_parameters(self, made: cst.BaseExpression | None, depth: int = _DEPTH) -> bool:
        """Whether an expression builds a layer with parameters, or a network of such layers."""
        value = self._module.value(made)
        if value.kind is not Kind.MODULE:
            return made is not None and self._has_part_of_library(made)
        if isinstance(value.definition, cst.ClassDef):
            parts = self._parts_of(value.definition) if depth > 0 else ()
            return any(self._has_parameters(part, depth - 1) for part in parts)
        last = last_part(value.name)
        if last in ("Sequential", "ModuleList", "ModuleDict") and isinstance(made, cst.Call):
            inside = [call for call in self._tree.calls_in(made) if call is not made]
            starred = any(item.star for item in made.args)
            return not inside or starred or any(self._has_parameters(call, depth) for call in inside)
        return not value.name.startswith("torch.nn.") or last.startswith(_WITH_PARAMETERS)

    def _parts_of(self, definition: cst.ClassDef) -> list[cst.BaseExpression]:
        """What the objects of a class are made of: the values of their attributes."""
        return [
            item.value
            for part in self._module.definitions.lineage(definition)
            for bindings in self._tree.scopes[part].attributes.values()
            for item in bindings
            if item.value is not None
        ]

    def _computes_gradients(self, definition: cst.ClassDef) -> bool:
        """Whether a class of the program is a network without ways of its own to stop gradients."""
        if definition not in self._computing:
            self._computing[definition] = self._find_computes_gradients(definition)
        return self._computing[definition]

    def _find_computes_gradients(self, definition: cst.ClassDef) -> bool:
        names = list(self._module.definitions.base_names(definition))
        plain = all(name in ("torch.nn.Module", "torch.nn.Sequential") for name in names)
        used = self._used_by(definition)
        if not plain or len(used) >= _MAX_DEFINITIONS or any(map(self._freezes, used)):
            return False
        codes = [_WEIGHT_DATA.sub("", self._code_after_setup(item)) for item in used]
        if any(map(_STOPS.search, codes)):
            return False
        # only a part of the result may be detached, as the features of the target of a loss
        return not any("detach" in code for code in codes) or self._returns_gradient(definition)

    def _freezes(self, definition: cst.FunctionDef | cst.ClassDef) -> bool:
        return freezes_parameters(code_of(self._module.code(definition)))

    def _returns_gradient(self, definition: cst.ClassDef) -> bool:
        """Whether the gradient of what a network returns passes through one of its layers."""
        forward = self._module.definitions.method(definition, "forward")
        if not isinstance(forward, cst.FunctionDef):
            return False
        returned = [item for item in self._module.definitions.returns(forward) if item is not None]
        return self._module.fact(Gradients).take_gradient(
            returned, lambda part: isinstance(part, cst.Call) and self._has_parameters(part.func)
        )

    def _used_by(self, definition: cst.ClassDef) -> set[cst.FunctionDef | cst.ClassDef]:
        """A class, and the functions and classes of the program that its code runs."""
        waiting: list[cst.FunctionDef | cst.ClassDef] = [definition]
        found: set[cst.FunctionDef | cst.ClassDef] = set()
        while waiting and len(found) < _MAX_DEFINITIONS:
            current = waiting.pop()
            if current in found:
                continue
            found.add(current)
            if isinstance(current, cst.ClassDef):
                waiting += self._module.definitions.lineage(current)
            for call in self._tree.calls_in(current):
                waiting += self._module.definitions.called(call, self._module.values)
        return found

    def _code_after_setup(self, definition: cst.FunctionDef | cst.ClassDef) -> str:
        """The code of a definition without the functions that set the first weights."""
        code = self._module.code(definition)
        inner = definition.body.body if isinstance(definition, cst.ClassDef) else (definition,)
        for statement in inner:
            if isinstance(statement, cst.FunctionDef) and _INITIAL.search(statement.name.value):
                code = code.replace(self._module.code(statement), "")
        return code

    # -- a network that no optimizer knows

    def _others(self) -> Iterator[UntrainedNetwork]:
        module, tree = self._module, self._tree
        runs = {made: calls for made, calls in module.fact(NetworkRuns).by_constructor.items() if module.is_own(made)}
        if not runs or not self._optimizers:
            return
        steps = _StepsByNetworks(self._steps())
        for made, calls in runs.items():
            for call in calls:
                if tree.root_of(call) not in module.related or not self._computes_own_gradients(made, call):
                    continue
                backward = self._backward_of_another(call, steps)
                if backward is None:
                    continue
                network = module.fact(Escapes).bound_to(made)
                if network is not None and not module.fact(Escapes).may_be_trained(made):
                    yield UntrainedNetwork(made, network, None, call, backward)
                break

    def _steps(self) -> Iterator[_Step]:
        """The steps of the program."""
        module = self._module
        for step in module.fact(Steps).loops:
            yield _Step(step.body, step.backward, self._origins(module.fact(Steps).networks(step)))
        inputs = module.fact(InputGradients)
        for backward in filter(is_backward, module.fact(Gradients).backwards):
            for loop in module.fact(Loops).repeating(backward)[:1]:
                if inputs.are_optimized or inputs.are_changed_in(loop.node):  # an image, a style
                    yield _Step(loop.node, backward, None)

    def _origins(self, networks: Iterable[cst.BaseExpression]) -> _Networks:
        return frozenset(self._module.value(item).origins for item in networks)

    def _computes_own_gradients(self, made: cst.Call, call: cst.Call) -> bool:
        """Whether the network that ``made`` builds and ``call`` runs has parameters whose gradients are computed."""
        value = self._module.value(self._module.fact(Networks).network_of(call))
        if isinstance(value.definition, cst.ClassDef):
            return self._builds_layers(value.definition) and self._computes_gradients(value.definition)
        return value.name.startswith(_LIBRARIES) or self._has_part_of_library(made)

    def _builds_layers(self, definition: cst.ClassDef) -> bool:
        """Whether a network has layers with parameters, and none that its constructor is given."""
        parts = self._parts_of(definition)
        return any(map(self._has_parameters, parts)) and not any(map(self._takes_network, parts))

    def _takes_network(self, part: cst.BaseExpression) -> bool:
        """Whether an expression contains a parameter that is a network."""
        return any(
            isinstance(node, cst.Name)
            and node.value != "self"
            and any(item.kind is BindingKind.PARAM for item in self._module.names.bindings(node))
            and self._module.value(node).kind is Kind.MODULE
            for node in self._tree.nodes_in(part)
        )

    def _has_part_of_library(self, made: cst.BaseExpression) -> bool:
        """Whether an expression builds a network of a library, to take parts of it: `vgg16().features[:16]`."""
        return any(self._module.value(call).name.startswith(_LIBRARIES) for call in self._tree.calls_in(made))

    def _backward_of_another(self, call: cst.Call, steps: _StepsByNetworks) -> cst.Call | None:
        """The backward pass of a step that trains something other than the network that ``call`` runs.

        That of a step around the call comes first.
        """
        own = self._module.value(self._module.fact(Networks).network_of(call)).origins
        is_among_others = any(not own & item for item in self._networks_around(call))

        def trains_another(trained: _Networks | None) -> bool:
            return trained is None or is_among_others or any(not own & item for item in trained)

        around = (step for above in self._tree.ancestors(call) for step in steps.by_body.get(above, ()))
        step = next((step for step in around if trains_another(step.trained)), None)
        step = step or next((first for trained, first in steps.first.items() if trains_another(trained)), None)
        return None if step is None else step.backward

    def _networks_around(self, call: cst.Call) -> _Networks:
        """The networks that the function around ``call`` runs for a backward pass, be it in another loop."""
        networks, gradients = self._module.fact(Networks), self._module.fact(Gradients)
        around = self._module.function_or_file(call)
        if around not in self._around:
            calls = [item for item in self._tree.calls_in(around) if gradients.carries_gradient(item)]
            self._around[around] = self._origins(
                networks.network_of(item) for item in calls if networks.runs_network(item)
            )
        return self._around[around]


@dataclass(frozen=True, eq=False)
class _Step:
    """A step of the program."""

    body: cst.CSTNode
    backward: cst.Call
    trained: _Networks | None  #: None if it trains a tensor


class _StepsByNetworks:
    """Steps, of which those that train the same networks are looked at once."""

    def __init__(self, steps: Iterable[_Step]) -> None:
        self.by_body: dict[cst.CSTNode, list[_Step]] = {}  #: by their code
        self.first: dict[_Networks | None, _Step] = {}  #: by the networks that they train, the first in order
        for step in steps:
            self.by_body.setdefault(step.body, []).append(step)
            self.first.setdefault(step.trained, step)


class NetworkRuns(ForestFact):
    """Where a program runs its networks for a backward pass."""

    @cached_property
    def by_constructor(self) -> dict[cst.Call, list[cst.Call]]:
        """What builds a network -> the calls that run it and whose gradients a backward pass computes, in order."""
        forest, networks = self._forest, self._forest.fact(Networks)
        found: dict[cst.Call, list[cst.Call]] = {}
        for call in forest.tree.calls:
            if not forest.fact(Gradients).carries_gradient(call):
                continue
            if not networks.is_forward(call) and not networks.runs_network(call):
                continue
            origins = forest.value(networks.network_of(call)).origins
            made = next(iter(origins)) if len(origins) == 1 else None
            if not isinstance(made, cst.Call) or forest.fact(Purposes).is_test(call):
                continue
            if not forest.fact(GradModes).of(call).is_off:
                found.setdefault(made, []).append(call)
        return found


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
