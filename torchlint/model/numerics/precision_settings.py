"""What statements of a program set: the number format of all that it computes, or of a single network."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.module import Module
from torchlint.model.numerics.autocasts import Autocast, Autocasts
from torchlint.model.numerics.layers import NetworkLayers
from torchlint.model.semantics.knowledge import AUTOCASTS, Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.inference_scripts import InferenceScripts

#: Calls that set the format of all that a process computes, whatever they are given.
_SETTERS = (
    "torch.set_float32_matmul_precision",
    "torch.set_autocast_enabled",
    "torch.set_autocast_gpu_dtype",
    "torch.set_autocast_dtype",
    "apex.amp.init",
    "apex.amp.initialize",
    "accelerate.Accelerator",
    "deepspeed.initialize",
)
#: Calls that set that of new tensors.
_DEFAULTS = ("torch.set_default_dtype", "torch.set_default_tensor_type")
#: Attributes of `torch.backends` that allow TF32 or forbid it.
_SWITCHES_OF_TF32 = frozenset({"allow_tf32", "fp32_precision"})
#: Arguments of `torch.set_float32_matmul_precision` that allow it, or less.
_FAST = frozenset({"high", "medium"})
#: Words of formats other than float32.
_FORMATS = re.compile(r"half|double|16|64")
_HALVES = frozenset({"torch.float16", "torch.half", "torch.bfloat16", "torch.HalfTensor", "torch.cuda.HalfTensor"})
_DOUBLES = frozenset({"torch.float64", "torch.double", "torch.DoubleTensor", "torch.cuda.DoubleTensor"})
#: The last parts of their names.
_NAMES = frozenset(name.rpartition(".")[2] for name in _HALVES | _DOUBLES)
#: Methods that convert a network to a format.
_CONVERSIONS = ("half", "bfloat16", "double")
#: Functions that give a network in 16 bits on CUDA.
_LOADING_HALVES = ("clip.load",)
#: Methods of a network that need no visible call.
_METHODS = frozenset({"__init__", "__call__", "forward"})


class PrecisionSettings:
    """Answers for one file, from all files of the programs that reach it."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._converting: dict[cst.CSTNode, bool] = {}  #: by part of a network

    @cached_property
    def program(self) -> frozenset[cst.CSTNode]:
        """The files that count. Scripts that only infer are other programs: what they set is not for the training."""
        links, only_infers = self._module.links, self._module.fact(InferenceScripts).only_infers
        scripts = [script for script in links.scripts(self._module.root) if not only_infers(script)]
        return frozenset({self._module.root}).union(*map(links.program, scripts))

    def _counts(self, node: cst.CSTNode) -> bool:
        return self._tree.root_of(node) in self.program

    @cached_property
    def allows_tf32(self) -> bool:
        """Whether a statement allows TF32 for matrix products."""
        for call in self._calls("torch.set_float32_matmul_precision"):
            if any(isinstance(item.value, cst.SimpleString) and item.value.value[1:-1] in _FAST for item in call.args):
                return True
        return any(_is_on(value) for target, value in self._switches if not _is_of_cudnn(target))

    @cached_property
    def are_for_all(self) -> bool:
        """Whether a statement sets a format for the whole process."""
        if any(map(self._runs, self._calls(*_SETTERS))):
            return True
        if any(self._runs(call) and self._is_other(call) for call in self._calls(*_DEFAULTS)):
            return True
        if any(self._runs(target) for target, _ in self._switches):
            return True
        return any(self._is_entered(found) for found in self._autocasts)

    def concern(self, network: cst.BaseExpression) -> bool:
        """Whether a network computes in another format than float32: by its class, or because something converts it."""
        if self._may_be_loaded_in_halves(network):
            return True
        if not self._name_formats:
            return False
        value = self._module.value(network)
        layers = self._module.fact(NetworkLayers).of(network)
        if layers is not None:
            if any(map(self._is_converting, (*value.origins, *layers.places))):
                return True
        elif any(self._is_in_network(found) for found in self._autocasts):
            return True
        return any(self._is_of(call, network) for call in self._conversions)

    # -- the whole process

    def _calls(self, *names: str) -> list[cst.Call]:
        found = Forest.calls(self._module, *names)
        return [call.node for call in found if self._counts(call.node)]

    def _methods(self, *names: str) -> list[cst.Call]:
        found = self._tree.calls_named(*names)
        return [call for call in found if isinstance(call.func, cst.Attribute) and self._counts(call)]

    @cached_property
    def _switches(self) -> list[tuple[cst.Attribute, cst.CSTNode | None]]:
        """What is stored on switches for TF32, and where."""
        return [
            (target, value)
            for target, value, _ in self._tree.stores
            if isinstance(target, cst.Attribute) and target.attr.value in _SWITCHES_OF_TF32 and self._counts(target)
        ]

    def _is_other(self, call: cst.Call) -> bool:
        """Whether a default is another format than float32, or an unknown one."""
        if not call.args:
            return False
        given = call.args[0].value
        value = self._module.value(given)
        name = value.constant if isinstance(value.constant, str) else value.name or self._module.name_of(given) or ""
        return bool(_FORMATS.search(str(name or self._module.code(given)).lower()))

    @cached_property
    def _autocasts(self) -> list[Autocast]:
        """The autocasts of the program that may be on."""
        return [
            found
            for found in self._module.fact(Autocasts).all
            if found.enabled is not False and found.device is not Device.CPU and self._counts(found.call.node)
        ]

    def _is_entered(self, found: Autocast) -> bool:
        """``torch.autocast("cuda").__enter__()``: on until the process ends."""
        above = self._tree.parent(found.call.node)
        return isinstance(above, cst.Attribute) and above.attr.value == "__enter__" and self._runs(found.call.node)

    def _runs(self, node: cst.CSTNode) -> bool:
        """Whether something runs a place: it is at the top level, or in a function with a caller."""
        function = self._module.function_of(node)
        if function is None or function.name.value in _METHODS:
            return True
        return bool(self._module.callers(function).calls)

    # -- one network

    @cached_property
    def _name_formats(self) -> bool:
        """Whether anything names a format, or enters an autocast: what networks are made of takes longer to find."""
        if self._autocasts or self._methods(*_CONVERSIONS):
            return True
        tables = (self._tree.attributes_by_name, self._tree.names)
        named = (node for name in _NAMES for table in tables for node in table.get(name, ()))
        return any(self._module.name_of(node) in _HALVES | _DOUBLES and self._counts(node) for node in named)

    def _may_be_loaded_in_halves(self, network: cst.BaseExpression) -> bool:
        """Whether a network may be, or contain, one that a library loads in 16 bits: ``clip.load("ViT-B/32")``."""
        if not self._loaded_in_halves:
            return False
        value, layers = self._module.value(network), self._module.fact(NetworkLayers).of(network)
        if layers is None or not value.sure:
            return True
        parts = {*value.origins, *layers.places}
        if any(self._tree.within(load, part) for load in self._loaded_in_halves for part in parts):
            return True
        return any(
            call in parts or not self._module.value(call).origins.isdisjoint(parts) for call in self._given_halves
        )

    @cached_property
    def _loaded_in_halves(self) -> frozenset[cst.CSTNode]:
        """The calls of the program that give a network in 16 bits."""
        return frozenset(self._calls(*_LOADING_HALVES))

    @cached_property
    def _given_halves(self) -> list[cst.Call]:
        """The calls that such a network, or a part of it, is passed to under a name."""
        statements = map(self._tree.statement_of, self._loaded_in_halves)
        targets = (item.target for line in statements if isinstance(line, cst.Assign) for item in line.targets)
        bound = {name.value for target in targets for name in self._tree.inside(target, cst.Name)} - {"self"}
        found = []
        uses = (use for name in bound for use in (*self._tree.names.get(name, ()), *self._tree.attributes_named(name)))
        for node in uses:
            above = self._tree.parent(node)
            while isinstance(above, cst.Attribute):
                above = self._tree.parent(above)
            call = self._tree.parent(above) if isinstance(above, cst.Arg) else None
            found += [call] if isinstance(call, cst.Call) else []
        return found

    def _is_in_network(self, found: Autocast) -> bool:
        """Whether the class of a network enters an autocast while gradients are recorded."""
        owner = nearest(self._tree, found.call.node, cst.ClassDef)
        if owner is None or self._module.values.instance(owner).kind is not Kind.MODULE:
            return False
        return self._runs(found.call.node) and not self._module.fact(GradModes).of(found.call.node).is_off

    def _is_converting(self, place: cst.CSTNode) -> bool:
        """Whether a constructor call or a part of a network makes 16-bit tensors, parameters in float64, or casts."""
        known = self._converting.get(place)
        if known is None:
            calls = self._tree.calls_in(place)
            known = self._converting[place] = any(self._converts(call) and self._runs(call) for call in calls)
        return known

    def _converts(self, call: cst.Call) -> bool:
        name = self._module.name_of(call.func) or ""
        if name in AUTOCASTS:
            return any(found.call.node is call for found in self._autocasts)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("half", "bfloat16") and not call.args:
            return not name.startswith("torch.")
        formats = self._formats_in(call)
        is_weight = name.startswith("torch.nn.") and not name.startswith("torch.nn.functional.")
        return not formats.isdisjoint(_HALVES) or (is_weight and not formats.isdisjoint(_DOUBLES))

    def _formats_in(self, call: cst.Call) -> set[str]:
        """The formats that a call is given: as an argument, or by the call that makes the data of a parameter."""
        is_cast = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("to", "type")
        given = [
            item.value
            for item in call.args
            if (item.keyword.value.endswith("dtype") if item.keyword is not None else is_cast)
        ]
        if self._module.name_of(call.func) == "torch.nn.Parameter":
            given += [
                item.value
                for made in (item.value for item in call.args[:1])
                if isinstance(made, cst.Call)
                for item in made.args
                if item.keyword is not None and item.keyword.value == "dtype"
            ]
        return {self._module.name_of(node) or "" for node in given}

    @cached_property
    def _conversions(self) -> list[cst.Call]:
        """The calls that convert something to another format than float32, outside of classes of networks."""
        found = []
        for call in self._methods(*_CONVERSIONS, "to", "type"):
            assert isinstance(call.func, cst.Attribute)
            if call.func.attr.value in _CONVERSIONS:
                is_one = not call.args
            else:
                is_one = any(self._module.name_of(item.value) in _HALVES | _DOUBLES for item in call.args)
            if is_one and self._runs(call) and not self._module.fact(GradModes).of(call).is_off:
                found.append(call)
        return found

    def _is_of(self, conversion: cst.Call, network: cst.BaseExpression) -> bool:
        """Whether a conversion is that of a network: by its constructor call, else by its name."""
        assert isinstance(conversion.func, cst.Attribute)
        converted, value = self._module.value(conversion.func.value), self._module.value(network)
        if converted.kind not in (Kind.MODULE, Kind.UNKNOWN):
            return False
        if converted.origins and value.origins:
            return not converted.origins.isdisjoint(value.origins)
        statement = self._tree.statement_of(conversion)
        targets = [item.target for item in statement.targets] if isinstance(statement, cst.Assign) else []
        return last_name(network) in {last_name(item) for item in (conversion.func.value, *targets)} - {""}


def _is_on(value: cst.CSTNode | None) -> bool:
    return isinstance(value, (cst.Name, cst.SimpleString)) and value.value in ("True", '"tf32"', "'tf32'")


def _is_of_cudnn(target: cst.Attribute) -> bool:
    return "cudnn" in (dotted_name(target) or "")
