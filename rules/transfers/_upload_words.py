"""Words without which a text copies no constant to a device; no heavy imports."""

from __future__ import annotations

import re
from functools import lru_cache

from torchlint.source.lexemes import behind, closing_bracket, is_in_name, places

#: What makes a tensor of given data.
FACTORIES = ("tensor(", "Tensor(", "asarray(", "from_numpy(")
#: The part of a name before ``tensor(``.
_BEGINNING = re.compile(r"\w*\Z")
#: Methods behind a factory, up to one that moves.
_MOVED = re.compile(
    r"(?:\s*\)|\s*\.\w+(?:\([^()]{0,80}(?:\([^()]{0,80}\)[^()]{0,80}){0,3}\))?|\[[^\]\n]{0,40}\]){0,6}?"
    r"\s*\.(?:to|cuda|type_as)\("
)
#: What the settings of a program are kept in.
_SETTINGS = r"(?:\w+_)?(?:args|cf|cfg|configs?|hparams|hps|opts?|options|settings)"
OPTIONS = re.compile(rf"(?:\bself\.)?\b_?(?:{_SETTINGS}|params|flags)\b", re.IGNORECASE)
#: ... as a part of another object: ``model.config``.
OPTIONS_PART = re.compile(_SETTINGS, re.IGNORECASE)
#: ... and what is read from there: ``model.config.tokenizer.bos_id``.
_OF_OPTIONS = re.compile(rf"\b(?:\w+\.)*_?(?:{_SETTINGS}|params|flags)(?:\.\w+)*\b(?!\()", re.IGNORECASE)
#: The last size of a tensor, and all its sizes, which a statement unpacks.
_WIDTH = re.compile(r"\b\w+(?:\.\w+)*(?:\.shape\[-1\]|\.size\(-1\)|\.size\(\)\[-1\])")
_SIZES = re.compile(r"\w+(?:\.\w+)*\.(?:shape|size\(\))\s*(?:[#;]|\Z)")
#: The label that a loss ignores.
IGNORED = re.compile(r"\b(?:\w+\.)+ignore_index\b")
#: ``[i]`` of ``self.sizes[i]``, for each size in a loop.
_INDEX = re.compile(r"(?<=\w)\[\w+\]")
#: ``self.net.head.mean`` and ``batch.size``; ``self.net.mean``, ``math.pi`` and ``loss.ignore_index`` may be constants.
_ATTRIBUTE = re.compile(r"\bself(?:\.\w+){2}\.\w|(?<![\w.])(?!(?:np|numpy|math|torch|self)\.)[a-z_]\w*\.[a-z_]")
#: A name, but not that of an argument.
_NAME = re.compile(r"(?<![\w.\"'])[a-z_]\w*(?![\w\"']|\s*=(?!=))")
_KNOWN = frozenset(
    "self float int bool complex list tuple range len sum min max round abs sorted math np numpy torch for in".split()
)
_PART = re.compile(r"[,()\[\]{}]")
_LITERAL = r"(?:[-\[(\d.]|(?:float|math|np|numpy|torch|True|False|list|tuple|range)\b)"
#: What follows a name to which a literal or a size is assigned.
_SET = re.compile(rf"\b[^=\n]{{0,40}}=\s*((?:{_LITERAL}|[\w.]+\.(?:shape|size)\b|{_OF_OPTIONS.pattern})[^\n]*)")
_EMPTY = re.compile(r"\[\]|\(\)|list\(\)")
#: The beginning of a line that binds a name.
_BOUND = re.compile(r"[ \t]*(\w+) *=(?!=)")
#: The head of a function, up to its parameters, and one of these.
_FUNCTION = re.compile(r"def (\w+)\(")
_PARAMETER = re.compile(r"\s*(\w+)")
#: The only element of a list.
_ONLY = re.compile(r"\A\[\s*(\w+)\s*\]\Z")
#: A type in a conditional expression.
_CHOSEN = re.compile(r"\.cuda\.\w*Tensor\s+if\b|\belse\s+torch\.cuda\.\w*Tensor\b")
_TYPE = 24  #: characters of ``cuda.FloatTensor(``
_NEAR = 1000  #: characters between a factory and the move of what it makes
_ARGUMENTS = 600  #: characters of the arguments of a factory
_DEPTH = 2  #: names that lead to a literal


def uploads_data(text: str) -> bool:
    """Whether a tensor of given data gets a device, or is moved in the same expression."""
    return any(_is_factory(text, at) and _is_uploaded(text, text.index("(", at) + 1) for at in places(text, *FACTORIES))


def _is_factory(text: str, at: int) -> bool:
    """Whether ``tensor(`` is not the end of another name, such as ``to_tensor(``."""
    if text[at] != "t":
        return True
    beginning = _BEGINNING.search(text[max(0, at - 4) : at])
    return beginning is None or beginning[0] in ("", "as_", "new_")


def _is_uploaded(text: str, start: int) -> bool:
    end = closing_bracket(text, start, _ARGUMENTS)
    given = text[start : start + _ARGUMENTS if end is None else end]
    of_cuda = "cuda." in text[max(0, start - _TYPE) : start] or _chooses_type(text)
    is_there = text.endswith(".new_tensor(", 0, start)
    moved = of_cuda or is_there or "device" in given or (end is not None and _MOVED.match(text, end + 1) is not None)
    data = _split(given)[0]
    is_copied = moved or _is_moved_later(text, start)
    return is_copied and (_may_be_constant(text, data) or _may_be_given_constant(text, start, data.strip()))


@lru_cache(maxsize=1)
def _chooses_type(text: str) -> bool:
    """Whether a condition decides which type a name is: ``torch.cuda.FloatTensor if cuda else torch.FloatTensor``."""
    return "cuda." in text and _CHOSEN.search(text) is not None


def _may_be_given_constant(text: str, place: int, name: str) -> bool:
    """Whether the data is a parameter of the function around a place, and a call may pass a constant.

    Calls in other files may, too, if there are none in the text.
    """
    name = _ONLY.sub(r"\1", name)
    found = _FUNCTION.match(text, text.rfind("def ", 0, place))
    end = closing_bracket(text, found.end(), _ARGUMENTS) if found is not None and name.isidentifier() else None
    if found is None or end is None:
        return False
    params = [_PARAMETER.match(item) for item in _split(text[found.end() : end])]
    names = [item[1] for item in params if item is not None and item[1] not in ("self", "cls")]
    if name not in names:
        return False
    calls = [at for at in places(text, f"{found[1]}(") if at + len(found[1]) + 1 != found.end()]
    for at in calls:
        start = at + len(found[1]) + 1
        end = closing_bracket(text, start, _ARGUMENTS)
        given = _split(text[start:end]) if end is not None else []
        behind_name = [item.partition("=")[2] for item in given if item.partition("=")[0].strip() == name]
        passed = (behind_name or given[names.index(name) :])[:1]
        if any(_may_be_constant(text, item) for item in passed if item.strip()):
            return True
    return not calls


def _is_moved_later(text: str, start: int) -> bool:
    """Whether the line of a factory binds a name that a move closely follows, directly or behind other methods."""
    bound = _BOUND.match(text, text.rfind("\n", 0, start) + 1, start)
    if bound is None:
        return False
    nearby = text[start : start + _NEAR]
    return any(not is_in_name(nearby, at) for at, _ in behind(nearby, bound[1], _MOVED))


def _may_be_constant(text: str, data: str, depth: int = _DEPTH) -> bool:
    """Whether the data may be the same at every call: no attribute of an object, and no name but of literals."""
    if "finfo" in data or "iinfo" in data:
        return True
    data = _INDEX.sub("", _OF_OPTIONS.sub("self", IGNORED.sub("self", _WIDTH.sub("1", data))))
    if _ATTRIBUTE.search(data) or _EMPTY.match(data):
        return False
    names = set(_NAME.findall(data)) - _KNOWN
    return all(_is_set_to_literal(text, name, depth) for name in names)


@lru_cache(maxsize=64)  # many tensors of a text may be made of the same name
def _is_set_to_literal(text: str, name: str, depth: int) -> bool:
    """Whether a statement assigns a literal to a name, or what is computed from literals, or a size."""
    if depth == 0:
        return True
    return any(
        _SIZES.match(match[1])
        or (
            _begins_statement(text, at)
            and not match[1].rstrip().endswith(",")
            and not _EMPTY.match(match[1])
            and name not in _NAME.findall(match[1])
            and _may_be_constant(text, match[1], depth - 1)
        )
        for at, match in behind(text, name, _SET)
    )


def _begins_statement(text: str, at: int) -> bool:
    """Whether only blanks, or another statement or target, are before a place in its line; not another argument.

    The default of a parameter counts as a statement.
    """
    before = text[text.rfind("\n", 0, at) + 1 : at].strip()
    return not before or before.startswith("def ") or before.endswith((";", ":", "="))


def _split(given: str) -> list[str]:
    """Some arguments, each as it is written."""
    depth, ends = 0, [-1]
    for found in _PART.finditer(given):
        if found[0] == "," and depth == 0:
            ends.append(found.start())
        depth += {",": 0}.get(found[0], 1 if found[0] in "([{" else -1)
    return [given[start + 1 : end] for start, end in zip(ends, [*ends[1:], len(given)], strict=True)]
