"""Whether a program computes on a GPU, and whether a library places its tensors."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import last_name

#: Libraries that move a network and its batches to the device.
_TRAINER_LIBRARIES = ("pytorch_lightning", "lightning", "accelerate", "deepspeed", "composer", "colossalai", "ignite")
#: Calls that only a program for CUDA needs.
_PREPARATIONS = (
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.cuda.is_available",
    "torch.cuda.device_count",
    "torch.cuda.empty_cache",
)
_SWITCHES = frozenset(f"torch.backends.cudnn.{name}" for name in ("benchmark", "deterministic", "enabled"))


class Devices(ForestFact):
    """Signs of a device in a forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module

    @cached_property
    def uses_cuda(self) -> bool:
        """Whether the file puts something on a CUDA device, or may: `.cuda(`, "cuda", `torch.cuda...Tensor`.

        The accelerator that `torch.accelerator` finds counts as one.
        """
        if self.uses_accelerator or self._moves_to_rank or self._moves_to_setting:
            return True
        for string in self._module.tree.strings:
            if "cuda" in string.value:
                text = string.evaluated_value
                if isinstance(text, str) and (text == "cuda" or re.fullmatch(r"cuda(:.*)?", text)):
                    return True
        for node in self._module.tree.attributes:
            if node.attr.value == "cuda" and isinstance(self._module.tree.parent(node), cst.Call):
                return True
            if node.attr.value.endswith("Tensor") and (self._module.name_of(node) or "").startswith("torch.cuda."):
                return True
            if node.attr.value in ("set_device", "current_device"):
                if self._module.name_of(node) in ("torch.cuda.set_device", "torch.cuda.current_device"):
                    return True
        for part in self._module.tree.nodes:
            if isinstance(part, cst.FormattedStringText) and part.value.startswith("cuda"):
                return True
            if isinstance(part, cst.IfExp) and self._falls_back_to_cpu(part):
                return True
        return False

    @cached_property
    def uses_accelerator(self) -> bool:
        """Whether the file gets its device from `torch.accelerator`, whatever make that is."""
        return any(self._module.calls(*knowledge.ACCELERATORS))

    @cached_property
    def _moves_to_rank(self) -> bool:
        """Whether a process that `mp.spawn` starts moves something to its rank: `model.to(rank)`."""
        return any(self._module.calls(knowledge.SPAWN)) and any(
            self._module.value(argument.value).kind is Kind.NUMBER
            for call in self._module.methods("to")
            for argument in call.args[:1]
            if isinstance(argument.value, cst.Name)
        )

    @cached_property
    def _moves_to_setting(self) -> bool:
        """Whether a program that prepares CUDA, by a seed or a switch of cuDNN, moves something to a device of its
        settings: `model.to(config.device)`."""
        return (
            self._prepares_cuda
            and not self._names_cpu
            and any(
                "device" in last_name(argument.value) and self._module.value(argument.value).device is None
                for call in self._module.methods("to")
                for argument in call.args[:1]
            )
        )

    @cached_property
    def _prepares_cuda(self) -> bool:
        if any(self._module.calls(*_PREPARATIONS)):
            return True
        if any(self._module.name_of(target) in _SWITCHES for target, _, _ in self._module.tree.stores):
            return True
        return any(string.evaluated_value == "CUDA_VISIBLE_DEVICES" for string in self._module.tree.strings)

    @cached_property
    def _names_cpu(self) -> bool:
        """Whether the CPU may be the device; where a file is loaded to is not meant."""
        loaded = {
            item.value
            for call in self._module.tree.calls
            for item in call.args
            if item.keyword is not None and item.keyword.value == "map_location"
        }
        return any(string.evaluated_value == "cpu" and string not in loaded for string in self._module.tree.strings)

    def _falls_back_to_cpu(self, node: cst.IfExp) -> bool:
        """``args.device if torch.cuda.is_available() else "cpu"``."""
        asks = any(
            self._module.name_of(call.func) == "torch.cuda.is_available"
            for call in self._module.tree.calls_in(node.test)
        )
        return asks and any(self._module.value(part).constant == "cpu" for part in (node.body, node.orelse))

    @cached_property
    def uses_trainer(self) -> bool:
        """Whether a library that places and casts by itself is used: Lightning, Accelerate, Fabric, ..."""
        return any(map(self._module.imports, _TRAINER_LIBRARIES)) or any(
            name in knowledge.TRAINERS for name in self._module.imported_names
        )
