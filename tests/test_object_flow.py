"""Which objects an expression may refer to, through names that are unpacked from each other."""

from __future__ import annotations

import libcst as cst
import pytest

from torchlint.model.module import Module
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.semantics.object_parts import Objects

SEARCH = """\
from torch import nn


def pick(first, second):
    if first:
        return first
    return second


def search(first, second):
    for _ in range(8):
        third, fourth = pick(first, second)
        first, second = pick(third, fourth)
    return first


def main():
    return search((nn.ReLU(), nn.GELU()), nn.Tanh())
"""


class _EndlessError(Exception):
    pass


def test_variables_that_are_unpacked_from_each_other_are_followed_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    find = ObjectFlow._find
    asked = 0

    def counted(self: ObjectFlow, part: tuple[cst.CSTNode, tuple[int, ...]]) -> Objects:
        nonlocal asked
        asked += 1
        if asked > 5000:  # without a bound it doubles with each step, sixty times
            raise _EndlessError
        return find(self, part)

    monkeypatch.setattr(ObjectFlow, "_find", counted)
    module = Module.parse(SEARCH)
    returned = module.tree.of_kind(cst.Return)[2].value
    found = module.fact(ObjectFlow).of(returned)
    assert {module.code(item) for item in found if isinstance(item, cst.Call)} >= {"nn.ReLU()", "nn.GELU()"}
