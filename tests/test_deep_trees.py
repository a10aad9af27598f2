"""Deeply nested code: it is checked, or told to be too deep in one line; nothing crashes."""

from __future__ import annotations

import sys
import threading

import libcst as cst
import pytest

import torchlint
from torchlint.source.parsing import parse_texts
from torchlint.source.stack import StackError, with_large_stack

HEAD = """\
from torch.utils.data import DataLoader
from p import Photos

def train(model, opt):
    loader = DataLoader(Photos(), batch_size=64)
    for x, y in loader:
        loss = model(x.cuda(), y.cuda())
        loss.backward()
        opt.step()
"""
DEEP = {
    "elif": "if a == 0:\n            pass\n"
    + "".join(f"        elif a == {i}:\n            pass\n" for i in range(500)),
    "sum": "q = " + " + ".join(["'a'"] * 600),
    "implicit sum": "q = (" + "\n            'a'" * 600 + ")",
    "calls": "q = b" + ".add(1)" * 260,
    "attributes": "q = b" + ".a" * 600,
    "items": "q = b" + "[0]" * 600,
    "lambdas": "q = " + "lambda: " * 600 + "1",
    "not": "q = " + "not " * 600 + "1",
    "power": "q = " + " ** ".join(["2"] * 600),
    "conditions": "q = " + "1 if a else " * 600 + "1",
    "operands": "q = " + " and ".join(["a"] * 600),
}


@pytest.mark.parametrize("statement", DEEP.values(), ids=DEEP)
def test_deep_code_is_checked(statement: str) -> None:
    codes = [found.code for found in torchlint.check_text(HEAD)]
    assert codes == ["TL101", "TL102", "TL301"]
    found = torchlint.check_text(f"{HEAD}        {statement}\n")
    assert [one.code for one in found] == codes


@pytest.mark.parametrize("depth", [3_000, 20_000])
def test_what_is_too_deep_for_python_is_one_finding(depth: int) -> None:
    (found,) = torchlint.check_text(HEAD + "        q = " + "not " * depth + "1\n")
    assert (found.code, found.message) == ("TL002", "the file cannot be checked: nested too deeply to be analysed")


def test_a_deep_file_leaves_others_alone() -> None:
    limit = sys.getrecursionlimit()
    torchlint.check_text(f"{HEAD}        {DEEP['sum']}\n")
    assert sys.getrecursionlimit() == limit
    assert len(torchlint.check_text(HEAD)) == 3


def test_room_passes_on_what_happens() -> None:
    def depth(levels: int) -> int:
        return 0 if levels == 0 else 1 + depth(levels - 1)

    def fail() -> None:
        raise KeyError("x")

    assert with_large_stack(lambda: depth(20_000)) == 20_000
    with pytest.raises(RecursionError):
        depth(20_000)
    with pytest.raises(KeyError):
        with_large_stack(fail)


def test_without_memory_for_the_stack_there_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(StackError):
        with_large_stack(lambda: 1)
    (found,) = torchlint.check_text(f"{HEAD}        größe = 1  # only libcst's parser reads such a name\n")
    assert found.message.startswith("the file cannot be checked: there is not enough memory to parse it")


@pytest.mark.parametrize("statement", ["assert(a if b else c)", "return(a if b else c)", "del(a)", "x = (yield)"])
def test_what_python_reads_is_read(statement: str) -> None:
    (tree,) = parse_texts([f"def f(a, b, c):\n    {statement}\n"])
    assert statement in tree.code


def test_trees_that_others_build_are_validated() -> None:
    parse_texts(["assert(a if b else c)\n"])
    with pytest.raises(cst.CSTValidationError):
        cst.Name("")
