"""Answers that need each other are the same, whichever is asked for first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst
import pytest

from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.value import Value, is_settled

#: What each answer consists of: its own letter, and those of the answers that it needs, in this order.
_NEEDED = {"a": "bc", "b": "a", "c": "b", "d": "c", "e": "a"}


def _finder(memo: CyclicMemo[str, str]) -> Callable[[str], str]:
    """What finds the letters that an answer comes to, with those that ``memo`` gives for what it needs."""

    def find(key: str) -> str:
        found = {key}
        for needed in _NEEDED[key]:
            found |= set(memo.get(needed, find))
        return "".join(sorted(found))

    return find


def _reached(start: str, *asked_before: str) -> str:
    """The letters that an answer comes to, after other questions were asked."""
    memo: CyclicMemo[str, str] = CyclicMemo("", 60)
    find = _finder(memo)
    for key in asked_before:
        memo.get(key, find)
    return memo.get(start, find)


def test_an_answer_from_a_provisional_one_is_provisional() -> None:
    # `b` is cut short while `a` is looked for, and `c` takes that answer of `b`: neither may stay
    assert _reached("c", "a") == _reached("c") == "abc"
    assert _reached("d", "a") == _reached("d") == "abcd"
    assert _reached("c", "e") == "abc"  # `e` is outside of the cycle that it needs


def test_a_guarded_question_is_unknown_to_itself() -> None:
    memo: CyclicMemo[str, str] = CyclicMemo("", 60)
    finals: list[bool] = []

    def listed() -> str:
        found, is_final = memo.guard("list", lambda: memo.get("a", find) + "l", "?")
        finals.append(is_final)
        return found

    def find(key: str) -> str:
        return key + listed()

    assert listed() == "a?l"  # `a` needs the list, which is being made
    assert finals == [False, True]
    assert memo.get("a", find) == "al"  # that answer of `a` was provisional; now the list is within `a`
    assert finals[2:] == [False]


def test_a_failed_question_leaves_nothing_provisional() -> None:
    memo: CyclicMemo[str, str] = CyclicMemo("", 60)
    find = _finder(memo)

    def fail(key: str) -> str:
        memo.get("a", find)  # needs `b`, which is open
        raise RuntimeError

    with pytest.raises(RuntimeError):
        memo.get("b", fail)
    assert memo.get("a", find) == "abc"


@pytest.mark.parametrize("answer", [None, False, ""])
def test_an_answer_that_is_none_or_false_is_kept(answer: object) -> None:
    memo: CyclicMemo[str, object] = CyclicMemo("unknown")
    asked: list[str] = []

    def find(key: str) -> object:
        asked.append(key)
        return answer

    assert [memo.get("a", find), memo.get("a", find)] == [answer, answer]
    assert [memo.once("b", lambda: find("b")), memo.once("b", lambda: find("b"))] == [answer, answer]
    assert asked == ["a", "b"]


@pytest.mark.parametrize("first", ["a", "b"])
def test_within_a_cycle_the_other_parts_decide(first: str) -> None:
    memo: CyclicMemo[str, bool] = CyclicMemo(False)

    def find(key: str) -> bool:
        return any(memo.get(needed, find) if needed in _NEEDED else True for needed in {"a": "b.", "b": "a"}[key])

    memo.get(first, find)
    assert memo.get("a", find) is True
    assert memo.get("b", find) is True  # through `a`, also if it was asked for while `b` was unknown


def test_a_value_is_settled_if_nothing_in_it_may_be_unknown_because_of_a_cycle() -> None:
    iterated = Value(Kind.OTHER, definition=cst.ClassDef(cst.Name("Loader"), cst.IndentedBlock([])))
    assert iterated.sure
    assert not is_settled(iterated)  # what an iteration over it gives is not known yet
    assert is_settled(replace(iterated, each=Value(Kind.BATCH)))
    assert not is_settled(Value(Kind.SEQUENCE))
    assert is_settled(Value(Kind.SEQUENCE, elements=(Value(Kind.NUMBER),)))
