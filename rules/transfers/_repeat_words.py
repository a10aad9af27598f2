"""Words without which a text moves nothing to a device that stays the same at every step; no heavy imports."""

from __future__ import annotations

import re
import string
from functools import lru_cache

from torchlint.model.semantics.knowledge import RUNNING_METHODS
from torchlint.rule.loop_words import loop_around
from torchlint.source.lexemes import closing_bracket, places

#: Characters of a dotted name.
_OF_NAMES = f"{string.ascii_letters}{string.digits}_."
#: The arguments of a move to another number format only.
_FORMAT = re.compile(r"(?:dtype=)?(?:torch\.(?!device)\w+|[\w.]*dtype)\)")
_DEFINED = re.compile(r"\bdef (\w+)\(")
_CALLED = re.compile(r"(?<![\w.])[\w.]+(?=\()")
_WHOLE = re.compile(r"(?<![\w.])(?:(?:self\.)?\w+(?=\[|\.\w+\(|\.data\b|\.m?T\b)|self\.\w+(?=\s*,))")
#: The names of functions that may move a tensor, and a call that gives one what may be kept.
MOVERS = re.compile(r"\w*(?:to|2|move|send|put|copy)\w*_(?:device|cuda|gpu)")
_MOVED = re.compile(rf"\b{MOVERS.pattern}\(\s*(self\.\w+)")
_FUNCTION = re.compile(r"(?<!\w)\w+(?=\()")
_LONGEST = 200  #: characters of a name
#: Methods by which modules compute, and which tensors do not have.
RUNNING = RUNNING_METHODS | {"forward", "recognize", "synthesize"}
#: Methods of modules alone, of what a statement moves: it would move a copy of a tensor, and tokens have no mode.
OF_MODULES = frozenset(
    "eval train requires_grad_ parameters named_parameters modules state_dict load_state_dict zero_grad".split()
)
#: Methods that move or cast.
MOVING = frozenset("to cuda cpu to_empty half float double bfloat16 type".split())


def moves_repeatedly(text: str) -> bool:
    """Whether a loop moves a module or what a function of torch has made, or a move takes what is kept."""
    made = {_name_before(text, at) for at in places(text, " = torch.")}
    for at in places(text, ".to(", ".cuda(", ".type_as(", ".type("):
        if _FORMAT.match(text, text.index("(", at) + 1):
            continue
        name = _name_before(text, at)
        wholes = {name} if name else _whole_before(text, at)
        if any(_is_kept(text, item, at) for item in wholes) or (name and _is_called_behind(text, at)):
            return True
        if text.startswith(".type", at):
            continue
        if not name:
            if not wholes.isdisjoint(made) and loop_around(text, at) is not None:
                return True
            continue
        is_made = name in made and name not in _set_from_itself(text)
        start = text.rfind("\n", 0, at) + 1
        before = text[start : at - len(name)].strip()
        line = text[start : text.find("\n", start) % (len(text) + 1)].rstrip()
        alone = not before and line.endswith(")")
        assigned = before == f"{name} =" and (_may_be_module(text, name) or _is_run(text, name))
        if (is_made or assigned or alone) and loop_around(text, at) is not None:
            return True
        if not (assigned or alone) or not text[start : start + 1].isspace():
            continue
        if _is_run(text, name) or (alone and _has_other_methods(text, name)):
            return True
    return any(_is_kept(text, call[1], call.start(1)) for call in _MOVED.finditer(text))


def _is_called_behind(text: str, at: int) -> bool:
    """Whether the result of the move at a place is called, as modules are: ``net.to(x.device)(x)``."""
    end = closing_bracket(text, text.index("(", at) + 1, _LONGEST)
    return end is not None and text.startswith("(", end + 1)


def _may_be_module(text: str, name: str) -> bool:
    """Whether something is called, or has a mode that is switched."""
    return name in _called(text) or f"{name}.train" in _called(text) or f"{name}.eval" in _called(text)


def _is_run(text: str, name: str) -> bool:
    """Whether something is called as a module, so that a function may move it each time."""
    return name in _called(text) or any(f"{name}.{method}" in _called(text) for method in RUNNING)


def _has_other_methods(text: str, name: str) -> bool:
    """Whether a method of an attribute of ``self`` is called that does not only move it."""
    methods = (item.rpartition(".")[2] for item in _called(text) if item.startswith(f"{name}."))
    return name.startswith("self.") and not MOVING.issuperset(methods)


def _is_kept(text: str, name: str, at: int) -> bool:
    """Whether an attribute is set to something that is not called, and not set from itself where it is moved.

    Or a name is given such an attribute, the module sets it, or it is that of a function.
    """
    if name.endswith("("):
        return name[:-1] in _defined(text)
    if not name.startswith("self."):
        if name.rpartition(".")[2].isupper():
            return True  # a constant, maybe of another file
        return name in _aliases(text) or (name in _of_module(text) and name not in _called(text))
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip()
    return name in _set(text) and name not in _called(text) and not line.startswith(f"{name} =")


@lru_cache(maxsize=1)  # several moves of one text are asked for
def _defined(text: str) -> frozenset[str]:
    """The names of functions."""
    return frozenset(_DEFINED.findall(text))


@lru_cache(maxsize=1)  # several moves of one text are asked for
def _aliases(text: str) -> frozenset[str]:
    """The names that are given an attribute of ``self``, or a form of one."""
    return frozenset(_name_before(text, at) for at in places(text, " = self."))


@lru_cache(maxsize=1)
def _of_module(text: str) -> frozenset[str]:
    """The names that statements outside of functions and classes set to the result of a call."""
    rows = (row.partition(" = ") for row in text.split("\n") if row[:1] not in (" ", "\t", "#"))
    return frozenset(target.partition(":")[0] for target, _, value in rows if "(" in value)


@lru_cache(maxsize=1)  # several moves of one text are asked for
def _set(text: str) -> frozenset[str]:
    """The names that are set."""
    return frozenset(_name_before(text, at) for at in places(text, " = ", ": torch.Tensor = "))


@lru_cache(maxsize=1)  # several moves of one text are asked for
def _set_from_itself(text: str) -> frozenset[str]:
    """The names that are set to a method or part of what they name: ``x = x.float()``."""
    named = ((at, _name_before(text, at)) for at in places(text, " = "))
    return frozenset(name for at, name in named if text.startswith(f"{name}.", at + 3))


@lru_cache(maxsize=1)
def _called(text: str) -> frozenset[str]:
    """The names that are called, as modules are, and not only as parts of longer names."""
    return frozenset(_CALLED.findall(text))


def _whole_before(text: str, at: int) -> set[str]:
    """The names shortly before a place of which an expression may select elements or ask for another form.

    And those of functions that it may call, with ``(``.
    """
    before = text[max(0, at - _LONGEST) : at]
    if not before.endswith((")", "]")):
        return set()
    return {*_WHOLE.findall(before), *(f"{name}(" for name in _FUNCTION.findall(before))}


def _name_before(text: str, at: int) -> str:
    """The dotted name that ends at a place; empty if there is none."""
    before = text[max(0, at - _LONGEST) : at]
    return before[len(before.rstrip(_OF_NAMES)) :].lstrip(f"{string.digits}.")
