"""Sizes of linear layers that keep tensor cores from reading and writing aligned rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.configuration import Configuration
from torchlint.model.syntax.calls import Call
from torchlint.model.tensors.devices import Devices
from torchlint.source.lexemes import code_of

from ._alignment_words import FIXED, HALF, TRAINS

_LINEAR = "torch.nn.Linear"
#: The parameters of a linear layer that are dimensions of its products.
_SIZES = ("in_features", "out_features")
#: 8 numbers of 16 bits are 16 bytes, as much as a thread reads or writes at once.
ALIGNED = 8
_LOADS = re.compile(
    r"(?<!optimizer)(?<!optim)(?<!opt)(?<!scheduler)(?<!scaler)\.load_state_dict\(|load_from_checkpoint"
)
_RESUMES = re.compile(r"(?:optimizer|optim|opt)\w*\.load_state_dict\(|\bresume")


@dataclass(frozen=True, eq=False)
class Unaligned:
    """A literal size of linear layers that is not a multiple of 8."""

    literal: cst.Integer
    size: int
    layer: cst.Call


class Alignment:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def unaligned(self, smallest: int) -> Iterator[Unaligned]:
        """The sizes of at least ``smallest`` that the file sets, each once."""
        if not self._trains_in_half:
            return
        seen: set[cst.CSTNode] = set()
        for call in self._module.calls(_LINEAR):
            for size in self._sizes(call):
                for literal, number in self._literals(size):
                    if number < smallest or number % ALIGNED == 0 or literal in seen:
                        continue
                    seen.add(literal)
                    if self._module.is_own(literal):
                        yield Unaligned(literal, number, call.node)

    def _sizes(self, call: Call) -> Iterator[cst.BaseExpression]:
        positional = [item.value for item in call.node.args if item.keyword is None and not item.star]
        for position, name in enumerate(_SIZES):
            given = call.argument(name).value or (positional[position] if position < len(positional) else None)
            if given is not None:
                yield given

    def _literals(self, size: cst.BaseExpression) -> list[tuple[cst.Integer, int]]:
        """The literals that ``size`` may be set to; none if it may also be computed."""
        found = self._module.fact(Configuration).sources(size)
        if found is None:
            return []
        literals = [item for item in found.values if isinstance(item, cst.Integer)]
        if len(literals) < len(found.values):
            return []
        return [(item, int(item.evaluated_value)) for item in literals]

    @cached_property
    def _trains_in_half(self) -> bool:
        """Whether the program trains a network from scratch in 16 bits on a GPU, without a compiler."""
        if not (self._module.fact(Devices).uses_cuda or self._module.fact(Devices).uses_trainer):
            return False
        texts = [code_of(self._module.file_of_root[root].text) for root in self._module.related]
        if not any(map(HALF.search, texts)) or not any(map(TRAINS.search, texts)):
            return False
        if any(map(FIXED.search, texts)):
            return False
        return not any(map(_LOADS.search, texts)) or any(map(_RESUMES.search, texts))
