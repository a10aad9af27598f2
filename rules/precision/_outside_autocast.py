"""Networks that training runs under autocast, and evaluation or a teacher outside of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.numerics.autocasts import Autocasts
from torchlint.model.numerics.precision import Precision
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import Loops
from torchlint.model.training.networks import Networks
from torchlint.model.training.step_places import StepPlaces

#: What a variable with an autocast may be called.
_HELD = re.compile(r"amp|cast|ctx|context|precision|nullcontext|suppress", re.IGNORECASE)
#: Words of a function that chooses the number format of its forward passes itself.
_CHOOSES = re.compile(r"\.half\(|float16|bfloat16|\.double\(|float64|autocast|fp32|full_precision")
#: Names of networks whose outputs a student learns from.
_TEACHERS = re.compile(
    r"teacher|momentum|(^|_)ema(_|$)|target_(net|model|encoder)|_target$|encoder_[qk]$|(^|_)ref(erence)?(_model|_policy|_net|$)"
)
#: Parts of names that the two sides of a program add to the name of one network.
_SIDES = re.compile(r"_?(train|eval|val|test|ema|without_ddp|ddp|module|parallel)(_|$)")


@dataclass(frozen=True, eq=False)
class OutsideForward:
    """A forward pass in float32 of a program that trains under autocast."""

    call: cst.Call
    network: cst.BaseExpression
    training: cst.Call  #: the forward pass under autocast
    is_teacher: bool


class OutsideAutocast:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._autocasts = module.fact(Autocasts)
        self._networks = module.fact(Networks)

    def all(self) -> Iterator[OutsideForward]:
        """The forward passes of the file that belong under autocast, in order: the first of each loop or function."""
        seen: set[cst.CSTNode | None] = set()
        for call in self._tree.calls_in(self._module.root):
            if not self._is_candidate(call):
                continue
            if not self._trained:
                return
            found = self._evaluation(call) or self._teacher(call)
            place = self._place(call)
            if found is not None and place not in seen:
                seen.add(place)
                yield found

    def _is_candidate(self, call: cst.Call) -> bool:
        """Whether a call runs a network without gradients and without autocast, repeatedly."""
        if not self._networks.runs_network(call) or self._loop(call) is None:
            return False
        if not self._module.fact(GradModes).of(call).is_off:
            return False
        if self._autocasts.around(call) is not None or self._autocasts.is_on(call) or self._is_held(call):
            return False
        network = self._networks.network_of(call)
        if self._module.fact(Precision).is_halved(network) or self._casts_itself(network):
            return False
        function = self._module.function_of(call)
        return function is None or not _CHOOSES.search(self._own_code(call, function))

    def _loop(self, call: cst.Call) -> cst.For | cst.While | None:
        """The loop that repeats a call, in its function or in one that calls it."""
        around, function = self._module.fact(Loops).around(call), self._module.function_of(call)
        if around or function is None:
            return around[0].node if around else None
        if self._module.values.object_of(function).kind is Kind.MODULE:
            return None  # a part of a network
        place = self._module.fact(StepPlaces).of(call)
        if place is None or any(map(self._is_held, self._module.callers(function).calls)):
            return None
        return place.step if isinstance(place.step, (cst.For, cst.While)) else None

    def _place(self, call: cst.Call) -> cst.CSTNode | None:
        """What is reported once: the outermost loop around a call that does not train, or its function."""
        around, trains = self._module.fact(Loops).around(call), self._module.fact(Gradients).trains
        evaluating = [loop.node for loop in around if not trains(loop.node)]
        return evaluating[-1] if evaluating else self._loop(call) if around else self._module.function_of(call)

    def _own_code(self, call: cst.Call, function: cst.FunctionDef) -> str:
        """The statements around a call: its function, or the loop or statement of one that trains."""
        loop = self._loop(call)
        if loop is None or not self._module.fact(Gradients).trains(function):
            return self._module.code(function)
        trains = self._module.fact(Gradients).trains(loop)
        return self._module.code(self._tree.statement_of(call) if trains else loop)

    def _is_held(self, call: cst.Call) -> bool:
        """Whether a ``with`` around a call enters something that may be an autocast."""
        return any(
            isinstance(above, cst.With)
            and any(_HELD.search(last_name(self._module.callee(item.item))) for item in above.items)
            for above, _ in climb(self._tree, call)
        )

    def _casts_itself(self, network: cst.BaseExpression) -> bool:
        """Whether the definition of a network enters autocast itself."""
        definition = self._module.value(network).definition
        if not isinstance(definition, cst.ClassDef):
            return False
        return any("autocast" in self._module.code(item) for item in self._module.definitions.lineage(definition))

    # -- what training runs

    @cached_property
    def _trained(self) -> list[cst.Call]:
        """The forward passes under autocast whose outputs reach a backward pass."""
        if not self._autocasts.all and not self._autocasts.others:
            return []
        return [call for call in self._tree.calls if self._is_trained(call)]

    def _is_trained(self, call: cst.Call) -> bool:
        if not self._module.fact(Gradients).reaches_backward(call):
            return False
        if not self._networks.runs_network(call) or self._module.fact(GradModes).of(call).is_off:
            return False
        autocast = self._autocasts.around(call)
        if autocast is None:  # it is in a caller, or in a variable that has something else without a GPU
            return self._autocasts.is_seen_on(call) and all(item.enabled is not False for item in self._autocasts.all)
        is_low = autocast.enabled is not False and autocast.dtype != "torch.float32"
        return is_low and autocast.device in (Device.CUDA, None)

    def _evaluation(self, call: cst.Call) -> OutsideForward | None:
        """A forward pass over the batches of an evaluation, of a network that training runs under autocast."""
        network, loop = self._networks.network_of(call), self._loop(call)
        around = [item.node for item in self._module.fact(Loops).around(call)]
        loop = next((item for item in around if not self._counts(item)), loop)  # not that over samples of a batch
        if loop is None or not self._module.fact(StepPlaces).is_inference(self._module.fact(Loops).of(loop)):
            return None
        if self._counts(loop) or self._module.fact(Gradients).trains(loop):
            return None
        training = next((item for item in self._trained if self._is_same(network, item)), None)
        return None if training is None else OutsideForward(call, network, training, is_teacher=False)

    def _counts(self, loop: cst.For | cst.While) -> bool:
        """Whether a loop is over numbers, not data: a benchmark.

        ``while batch is not None:`` is over data, and so is a loop over numbers that selects items by them.
        """
        if isinstance(loop, cst.While):
            test = loop.test
            return not isinstance(test, cst.Comparison) or last_name(test.comparisons[0].comparator) != "None"
        if not any(_is_range(self._module.name_of(call.func) or "") for call in self._tree.calls_in(loop.iter)):
            return False
        counter = last_name(loop.target)
        items = [part for node in self._tree.inside(loop.body, cst.Subscript) for part in node.slice]
        return counter not in self._tree.names_in(*items)

    def _is_same(self, network: cst.BaseExpression, training: cst.Call) -> bool:
        trained = self._networks.network_of(training)
        made, other = self._module.value(trained), self._module.value(network)
        if made.origins and other.origins and made.sure and other.sure:
            return bool(made.origins & other.origins)
        name = _SIDES.sub("", self._module.code(trained))
        return bool(name) and any(
            self._tree.root_of(training) is self._tree.root_of(item) and name == _SIDES.sub("", self._module.code(item))
            for item in (network, *self._passed(network))
        )

    def _passed(self, network: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
        """What calls, also of other files, pass for a network that is a parameter."""
        param = self._module.values.reaching.parameter(network)
        function = owner_of(self._tree, param) if param is not None else None
        if param is None or function is None:
            return ()
        return tuple(self._module.fact(Dispatch).arguments_for(function, param))

    def _teacher(self, call: cst.Call) -> OutsideForward | None:
        """A forward pass of a training step whose output the loss of a student under autocast needs."""
        network = self._networks.network_of(call)
        if not _TEACHERS.search(last_name(network)) or not self._module.fact(Gradients).reaches_backward(call):
            return None
        loop, function = self._loop(call), self._module.function_of(call)
        step = function if function is not None and not self._module.fact(Loops).around(call) else loop
        training = next((item for item in self._trained if step is not None and self._tree.within(item, step)), None)
        return None if training is None else OutsideForward(call, network, training, is_teacher=True)


def _is_range(name: str) -> bool:
    """Whether a function gives numbers: ``range``, or ``tqdm.trange`` with a progress bar."""
    return name == "builtins.range" or (name.startswith("tqdm.") and name.endswith(".trange"))
