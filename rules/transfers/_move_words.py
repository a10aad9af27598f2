"""Words without which a text contains no move of a newly created tensor; without heavy imports."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from operator import itemgetter

from torchlint.model.tensors.creation import FACTORIES, JOINING, WINDOWS
from torchlint.source.lexemes import places

_FACTORY = (
    r"\b(?:zeros|ones|empty|full|eye|identity|tri|arange|linspace|logspace|rand|randn|randint|randperm|normal|r?sample|\w+_window|tri[lu]_indices|"
    r"(?:Bool|Byte|Char|Double|Float|Half|Int|Long|Short)?Tensor|(?:tensor|repeat)\(\s*(?:list\(\s*|\[[\[\s]*)?range|"
    r"(?<=[\w)\]] )for \w+ in range)\("
)
#: A list of one number, which is repeated.
_REPEATED = r"\b(?:tensor|Tensor|array)\(\s*\[{1,2}[^\[\]]{1,120}\]{1,2}\s*[*+]"
_MADE = re.compile(f"{_FACTORY}|{_REPEATED}")
#: Functions and methods of several tensors.
_JOINED = JOINING | {"scatter_"}
_CREATING = (
    *(f"{name}(" for name in FACTORIES - WINDOWS),
    "_window(",
    "Tensor(",
    "normal(",
    "identity(",
    "tri(",
    "tensor([",
    "array([",
    "tensor(range(",
    "tensor(list(range(",
    "repeat(range(",
)
_JOINING = (*(f".{name}(" for name in _JOINED), "Variable(")
_NAME = re.compile(r"\w+")
_CALLED = re.compile(r"\b\w+ *\(")
_METHODS = (".cuda(", ".to(", ".type(", ".type_as(")
#: A method that moves, but not ``.to(torch.float16)``, ``.to(dtype=x.dtype)`` or ``.type(torch.FloatTensor)``
_MOVE = re.compile(
    r"\.(?:cuda|type_as|to(?!\(\s*(?:dtype=[^(),]{0,80}|torch\.\w{1,80}|[\w.]{0,80}dtype)\))"
    r"|type(?!\(\s*(?:torch\.(?!cuda\b)|[\"'])))\("
)
#: The names of functions that move their argument.
_MOVERS = r"\w*(?:cuda|gpu|device|to_|_to|var)\w*"
_MOVES = re.compile(_MOVERS, re.IGNORECASE)
#: The names of functions of other files that may make a tensor of sizes.
MAKERS = re.compile(
    r"grid|mask|coord|position|hot|noise|window|anchor|prior|latent|gauss|random|normal(?!i)|kernel|(^|_)z_?[0t]?$|"
    r"_ids$",
    re.IGNORECASE,
)
#: What is before the name of a factory: a function that is given its result, or a name that is.
_GIVEN = re.compile(r"\b(\w+)\(+\s*\w+\.\w*$")
_BINDS = re.compile(r"\b(\w+) *= *\w+\.\w*$")
_PASSED = re.compile(r"\b(?P<function>\w+)\((?P<name>\w+)[,)]")

_CHAIN = 340  #: characters of a factory call, its arguments and the methods before the move
_NEAR = 1000  #: characters between a factory call and the statement that moves its result
_WORD = 60


def moves_created_tensors(text: str) -> bool:
    """Whether a move follows a factory call: in one expression, or closely and under one name. Linear in the text.

    So may a call of a function that contains a factory call, and ``copy_`` may copy to a buffer.
    """
    if any(_is_moved_by(method, text) for method in _METHODS) or _is_passed(text):
        return True
    return ".copy_(" in text and "register_buffer(" in text and any(word in text for word in _CREATING)


def _is_moved_by(method: str, text: str) -> bool:
    at = text.find(method)
    while at >= 0:
        if _MOVE.match(text, at) and (_is_chained(text, at) or _is_named(text, at)):
            return True
        at = text.find(method, at + 1)
    return False


def _is_chained(text: str, at: int) -> bool:
    """Whether the expression before a method begins with a factory call without a device."""
    before = text[max(0, at - _CHAIN) : at].rstrip(" \t\r\n\\")
    if not before.endswith((")", "]")):
        return False
    begin = max(before.rfind("device="), before.rfind("\n\n")) + 1
    if _MADE.search(before, begin) is not None:
        return True
    called = {name.rstrip(" (") for name in _CALLED.findall(before, begin)}
    return not _makers(text).isdisjoint(called) or any(map(MAKERS.search, called))


def _is_named(text: str, at: int) -> bool:
    """Whether a method follows a name that lines shortly before give the result of a factory, or its line joins one."""
    names = _near(_bound(text), at)
    used = _NAME.findall(text, max(text.rfind("\n", 0, at) + 1, at - _CHAIN), at) if names else []
    is_moved = bool(used) and used[-1] in names and text.endswith(used[-1], 0, at)
    rebinds = bool(used) and used[0] in names and used[0] in used[1:]
    return is_moved or rebinds or not (names.isdisjoint(used) or _JOINED.isdisjoint(used))


@lru_cache(maxsize=1)  # several moves of one text are asked for
def _makers(text: str) -> frozenset[str]:
    """The names of the functions that contain a factory call."""
    return _containing(text, *_CREATING)


@lru_cache(maxsize=1)
def _movers(text: str) -> frozenset[str]:
    """The names of the functions that move something."""
    return _containing(text, ".cuda(", ".to(")


def _containing(text: str, *words: str) -> frozenset[str]:
    """The names of the functions that contain one of some words."""
    defined = list(places(text, "def "))
    last = (bisect_left(defined, at) - 1 for at in places(text, *words)) if defined else ()
    return frozenset(
        found[0]
        for index in dict.fromkeys(last)
        if index >= 0 and (found := _NAME.match(text, defined[index] + len("def "))) is not None
    )


def _near(bound: list[tuple[int, str]], at: int) -> set[str]:
    """The names that are bound shortly before a place."""
    first, behind = (bisect_left(bound, place, key=itemgetter(0)) for place in (at - _NEAR, at))
    return {name for _, name in bound[first:behind]}


@lru_cache(maxsize=1)  # several moves of one text are asked for
def _bound(text: str) -> list[tuple[int, str]]:
    """The names that lines give the result of a factory, or of joining such names, each with its place, in order."""
    creating = (*_CREATING, " in range(", *(f"{name}(" for name in _makers(text)))
    made = sorted((at, name) for at in places(text, *creating) for name in _targets(text, at))
    joined = (
        (at, name)
        for at in places(text, *_JOINING)
        if (names := _near(made, at)) and not names.isdisjoint(_NAME.findall(text, at - _WORD, at + _CHAIN))
        for name in _targets(text, at)
    )
    return sorted([*made, *joined]) if made else []


def _targets(text: str, at: int) -> list[str]:
    """The names before ``=`` in the line of a place."""
    targets, equals, _ = text[max(text.rfind("\n", 0, at) + 1, at - _CHAIN) : at].partition("=")
    return _NAME.findall(targets) if equals else []


def _is_passed(text: str) -> bool:
    """Whether the result of a factory is passed, directly or by name, to a function that moves by its name."""
    for begin in places(text, *_CREATING):
        given = _GIVEN.search(text, max(0, begin - _WORD), begin)
        if given and _may_move(text, given[1]):
            return True
        bound = _BINDS.search(text, max(0, begin - _WORD), begin)
        if bound and any(
            item["name"] == bound[1] and _may_move(text, item["function"])
            for item in _PASSED.finditer(text, begin, begin + _NEAR)
        ):
            return True
    return False


def _may_move(text: str, function: str) -> bool:
    """Whether a function moves its argument, by its name or by what it contains."""
    return _MOVES.fullmatch(function) is not None or function in _movers(text)
