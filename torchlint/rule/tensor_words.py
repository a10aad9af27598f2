"""Which expressions of a text may be tensors, for the screens of rules; no heavy imports."""

from __future__ import annotations

import re
from functools import lru_cache

from torchlint.source.lexemes import arguments, behind, is_in_name

_NAME = re.compile(r"(?:\w+\.)*(\w+)(?:\[[^\[\]\n]*\])*\Z")
#: The beginning of a value that is not a tensor.
_PLAIN = re.compile(
    r"\[(?!.*\.(?:to|cuda)\()|[{'\"]|-?\d[-+\d()., */%_eE]*(?:[#;].*)?\Z|\([\d., -]*\)|[rbf]{1,2}['\"]"
    r"|(?:None|True|False)\b"
    r"|(?:len|list|tuple|dict|set|int|float|bool|str|range|sorted|zip|map|getattr|isinstance|os\.\w+|np\.\w+|"
    r"numpy\.\w+|math\.\w+|random\.\w+|json\.\w+|to_\dtuple|to_ntuple|re\.\w+)\("
)
#: A value that is another name.
_ALIAS = re.compile(r"(?:\w+\.)*(\w+)\s*(?:[,)]|\Z)")
#: What follows a name to which a value is assigned.
_VALUE = re.compile(r"\b([^=\n]{0,160})=(?!=)[ \t]*([^\n]*)")
#: ... and one that is the variable of a loop, or has an annotation.
_BOUND = re.compile(r"\b(?:(?=[\w\s,)]{0,80}\bin\b)|\s{0,3}:[^=\n,()\[]{0,80}(?:\[[^=\n()\]]{0,80})?Tensor)")
_FUNCTION = re.compile(r"def \w+\(")
#: The targets of a loop before another one.
_FOR = re.compile(r"\bfor\s[\w\s,(*]*\Z")
_BEFORE = 80  #: characters of such targets
_PARAMETERS = 4000  #: characters of the parameters of a function
_DEPTH = 2  #: names in a row that are followed


def may_be_tensor(text: str, expression: str) -> bool:
    """Whether an expression may be a tensor: a name only if the text gives it a value that may be one."""
    name = _NAME.match(expression.strip())
    if name is None:
        return _PLAIN.match(expression.strip()) is None
    return not name[1].isdigit() and _may_be_set(text, name[1], _DEPTH)


@lru_cache(maxsize=64)  # of one text after the other, of which more would be kept
def _may_be_set(text: str, name: str, depth: int) -> bool:
    """Whether a text gives a variable, parameter or attribute of this name a value that may be a tensor."""
    if depth == 0 or name in parameters(text):
        return True
    for at, found in behind(text, name, _VALUE):
        if is_in_name(text, at):
            continue
        between, value = found[1].strip(), found[2].strip()
        if "Tensor" in between:
            return True
        if between and not between.startswith((",", ":")):
            continue
        alias = _ALIAS.match(value)
        if alias is not None:
            if alias[1] != name and _may_be_set(text, alias[1], depth - 1) and not _PLAIN.match(value):
                return True
        elif not _PLAIN.match(value):
            return True
    return any(_is_bound(text, at, found) for at, found in behind(text, name, _BOUND))


def _is_bound(text: str, at: int, found: re.Match[str]) -> bool:
    """Whether ``x`` is the variable of a loop, or has an annotation."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    if is_in_name(text, at):
        return False
    return "Tensor" in found[0] or _FOR.search(before[-_BEFORE:]) is not None


@lru_cache(maxsize=2)  # several names of one text are asked for
def parameters(text: str) -> frozenset[str]:
    """The parameters without annotation and default, which may be anything."""
    found: set[str] = set()
    for function in _FUNCTION.finditer(text):
        given = arguments(text, function.end(), _PARAMETERS)
        found.update(given if given is not None else [])
    return frozenset(found)
