"""Whether a program computes on a GPU, and whether a library places its tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.config_files import ConfigFiles
from torchlint.model.program.configuration import Configuration
from torchlint.model.program.options import Options
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.moves import moved_to
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import called_name, index_of, key_of, last_name

#: Libraries that move a network and its batches to the device.
_TRAINER_LIBRARIES = ("pytorch_lightning", "lightning", "accelerate", "deepspeed", "composer", "colossalai", "ignite")
#: Calls that only a program for CUDA needs.
_PREPARATIONS = (
    "torch.nn.DataParallel",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.cuda.is_available",
    "torch.cuda.device_count",
    "torch.cuda.empty_cache",
)
#: Calls that give the device that they are given.
_SAME_DEVICE = ("torch.device", "copy.copy", "copy.deepcopy")
#: How many names a device is followed through.
_DEPTH = 4
_HELD = (cst.Name, cst.Attribute, cst.Subscript)
#: What has an attribute `device` that tells where it is.
_WITH_DEVICE = (Kind.MODULE, Kind.TENSOR, Kind.BATCH)
#: Options that are the index of a GPU.
_INDICES = re.compile(r"device|gpu|cuda", re.IGNORECASE)
_SWITCHES = frozenset(f"torch.backends.cudnn.{name}" for name in ("benchmark", "deterministic", "enabled"))


class Devices(ForestFact):
    """Signs of a device in a forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @cached_property
    def uses_cuda(self) -> bool:
        """Whether the program puts something on a CUDA device, or may: `.cuda(`, "cuda", `torch.cuda...Tensor`.

        The accelerator that `torch.accelerator` finds counts as one.
        """
        if self.uses_accelerator or any(self._forest.calls(*knowledge.ON_CUDA)):
            return True
        for string in self._forest.tree.strings:
            if "cuda" in string.value:
                text = string.evaluated_value
                if isinstance(text, str) and (text == "cuda" or re.fullmatch(r"cuda(:.*)?", text)):
                    return True
        tree = self._forest.tree
        if any(isinstance(tree.parent(node), cst.Call) for node in tree.attributes_named("cuda")):
            return True
        named = [name for name in tree.attributes_by_name if name.endswith("Tensor")]
        if any((self._forest.name_of(node) or "").startswith("torch.cuda.") for node in tree.attributes_named(*named)):
            return True
        for node in tree.attributes_named("set_device", "current_device"):
            if self._forest.name_of(node) in ("torch.cuda.set_device", "torch.cuda.current_device"):
                return True
        if any(part.value.startswith("cuda") for part in tree.of_kind(cst.FormattedStringText)):
            return True
        if any(map(self._falls_back_to_cpu, tree.of_kind(cst.IfExp))):
            return True
        return self._moves_to_index or self._moves_to_setting  # these take longest

    def is_move_to_cuda(self, call: cst.Call) -> bool:
        """Whether a call such as ``x.to(device)`` or ``x.cuda()`` copies to a CUDA device.

        A device that is not known, as configuration files set it, counts as one in a program that uses CUDA.
        """
        device = moved_to(call, self._forest.values)
        if device is not None or not isinstance(call.func, cst.Attribute) or call.func.attr.value != "to":
            return device is Device.CUDA
        target = keyword(call, "device") or next((item.value for item in call.args if item.keyword is None), None)
        if target is None:
            return False
        if self._is_of_moved_network(target):
            return True
        return self._is_set_elsewhere(target) and (self.uses_cuda or self._prepares_cuda)

    def _is_of_moved_network(self, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
        """Whether a device is that of a network which a statement moved: ``net.cuda()``.

        So ``next(net.parameters()).device`` and ``net.device``, and one of them by a condition.
        """
        if isinstance(node, cst.IfExp):
            return all(self._is_of_moved_network(side, depth) for side in (node.body, node.orelse))
        if isinstance(node, cst.Attribute) and node.attr.value == "device":
            found = [call.func for call in self._forest.tree.calls_in(node.value) if called_name(call) == "parameters"]
            networks = [func.value for func in found if isinstance(func, cst.Attribute)]
            if not networks and self._forest.value(node.value).kind is Kind.MODULE:
                networks = [node.value]
            if any(not self._identities(network).isdisjoint(self._moved_networks) for network in networks):
                return True
        written = self._forest.fact(Configuration).step(node) if depth and isinstance(node, _HELD) else None
        held = [item for item in written.values if item is not node] if written is not None else []
        return any(self._is_of_moved_network(item, depth - 1) for item in held)

    @cached_property
    def _moved_networks(self) -> frozenset[object]:
        """What identifies the networks, or other objects, that statements move to a CUDA device."""
        moved = (
            call.receiver
            for call in self._forest.methods("cuda", "to")
            if isinstance(self._forest.tree.parent(call.node), cst.Expr)
            and moved_to(call.node, self._forest.values) is Device.CUDA
        )
        return frozenset().union(*map(self._identities, moved))

    def _identities(self, node: cst.BaseExpression) -> frozenset[object]:
        """The calls that made an object, and the variable that it is in."""
        variable = self._forest.names.variable(node)
        return frozenset((*self._forest.value(node).origins, *((variable,) if variable is not None else ())))

    def _is_set_elsewhere(self, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
        """Whether a device is one of settings that are out of sight: ``self.device``, ``config["device"]``.

        Or one of settings that another function stores: ``settings["device"] = torch.device("cuda")``. Where several
        store one, it is enough that one is a CUDA device, and none the CPU.
        An option of the command line is not: its default is known.
        """
        if isinstance(node, cst.Call):
            is_device = self._forest.name_of(node.func) in _SAME_DEVICE and bool(node.args)
            return is_device and self._is_set_elsewhere(node.args[0].value, depth)
        value = self._forest.value(node)
        if value.device is not None:
            return value.device is Device.CUDA
        if value.kind not in (Kind.UNKNOWN, Kind.NONE, Kind.OTHER, Kind.DEVICE, Kind.SEQUENCE):
            return False
        if not isinstance(node, _HELD):
            return False
        if isinstance(node, cst.Subscript) and isinstance(index_of(node), cst.Integer):
            return self._is_set_elsewhere(node.value, depth)  # the first of several: ``config["device"][0]``
        written = self._forest.fact(Configuration).step(node) if depth else None
        if written is not None:
            values = [item for item in written.values if item is not node]
            may_be_cpu = any(self._forest.value(item).device is Device.CPU for item in values)
            return not may_be_cpu and any(self._is_set_elsewhere(item, depth - 1) for item in values)
        name = key_of(node) if isinstance(node, cst.Subscript) else last_name(node)
        is_option = not _is_nested(node) and self._forest.fact(Options).is_declared(name)
        if "device" not in name.lower() or is_option:
            return False
        around = [part for part in self._forest.tree.nodes_in(node) if isinstance(part, (cst.Name, cst.Attribute))]
        return all(self._forest.value(part).kind not in _WITH_DEVICE for part in around)  # not `model.body.device`

    @cached_property
    def uses_accelerator(self) -> bool:
        """Whether the file gets its device from `torch.accelerator`, whatever make that is."""
        return any(self._forest.calls(*knowledge.ACCELERATORS))

    @cached_property
    def _moves_to_index(self) -> bool:
        """Whether something is moved to the GPU with a number: ``model.to(int(os.environ["LOCAL_RANK"]))``."""
        return any(self._forest.value(device).kind is Kind.NUMBER for device in self._devices_of_moves)

    @cached_property
    def _moves_to_setting(self) -> bool:
        """Whether the program moves something to a device of its settings, one of CUDA: `model.to(config.device)`.

        Its configuration files say so, or it prepares CUDA with a seed, a switch of cuDNN or `nn.DataParallel`.
        """
        settings = (device for device in self._devices_of_moves if self._forest.value(device).device is None)
        if self._prepares_cuda and not self._names_cpu:
            return any("device" in last_name(device) for device in settings)
        files = self._forest.fact(ConfigFiles)
        return bool(files.behind(settings, files.cuda))

    @property
    def _devices_of_moves(self) -> Iterator[cst.BaseExpression]:
        """What ``x.to(...)`` is given as the device, in order."""
        devices = (call.argument("device").value for call in self._forest.methods("to"))
        return (device for device in devices if device is not None)

    @cached_property
    def _prepares_cuda(self) -> bool:
        if any(self._forest.calls(*_PREPARATIONS)):
            return True
        if any(self._forest.name_of(target) in _SWITCHES for target, _, _ in self._forest.tree.stores):
            return True
        named = [string for string in self._forest.tree.strings if "CUDA_VISIBLE_DEVICES" in string.value]
        return any(string.evaluated_value == "CUDA_VISIBLE_DEVICES" for string in named)

    @cached_property
    def _names_cpu(self) -> bool:
        """Whether the CPU may be the device; where a file is loaded to is not meant."""
        loaded = {item.value for item in self._forest.tree.keywords.get("map_location", ())}
        named = (item for item in self._forest.tree.strings if "cpu" in item.value and item.evaluated_value == "cpu")
        return any(item not in loaded for item in named)

    def _falls_back_to_cpu(self, node: cst.IfExp) -> bool:
        """``args.device if torch.cuda.is_available() else "cpu"``, ``args.gpu if args.gpu >= 0 else "cpu"``."""
        asks = self._is_index(node.test) or any(
            self._forest.name_of(call.func) == "torch.cuda.is_available"
            for call in self._forest.tree.calls_in(node.test)
        )
        return asks and any(self._forest.value(part).constant == "cpu" for part in (node.body, node.orelse))

    def _is_index(self, test: cst.BaseExpression) -> bool:
        """Whether a condition asks if an option is the index of a GPU: ``args.device >= 0``."""
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return False
        compared = test.comparisons[0]
        is_zero = isinstance(compared.operator, cst.GreaterThanEqual) and self._forest.code(compared.comparator) == "0"
        return is_zero and bool(_INDICES.search(last_name(test.left)))

    @cached_property
    def uses_trainer(self) -> bool:
        """Whether a library that places and casts by itself is used: Lightning, Accelerate, Fabric, ..."""
        return any(map(self._forest.imports, _TRAINER_LIBRARIES)) or any(
            name in knowledge.TRAINERS for name in self._forest.imported_names
        )


def _is_nested(node: cst.BaseExpression) -> bool:
    """Whether ``node`` is an item of a dict in a dict, ``config["meta"]["device"]``, which no option of a parser is."""
    return isinstance(node, cst.Subscript) and isinstance(node.value, cst.Subscript)
