"""Words without which a text makes no tensor of a list of arrays; no heavy imports."""

from __future__ import annotations

import re
from functools import lru_cache

from torchlint.source.lexemes import behind, is_in_name

#: A constructor, and what its argument begins with. A pattern that begins with a literal is quick.
_LIST = re.compile(r"ensor\((?:(?<!\wtensor\()(?<=tensor\()|(?<=as_tensor\()|(?<=Tensor\())\s*(\(?\[|\(|\w+\s*[,)])")
_ARRAY = re.compile(r"\b(?:np|numpy|cv2|librosa)\.[a-z]\w*\(|linear_sum_assignment\(|\.numpy\(\)|\.(?:row|col)\b")
#: A constructor that gets several arrays of indices.
_INDICES = re.compile(r"ensor\(\s*(?:\w+\.)*(?:nonzero|where|\w+_indices|linear_sum_assignment)\(")
_ELEMENT = re.compile(r"\s*[^\n,\[\]]{0,120}")
#: A list that is filled: `rows.append(`, `rows = [`.
_FILLED = re.compile(r"\b([A-Za-z_]\w*)(?:\.append\(|\s*=\s*\[)")
#: What follows a name to which an array is assigned, or what a function returns, also as one of several values.
_MADE = re.compile(
    r"[ \t]*=[ \t]*[^\n]{0,120}?(?:\b(?:np|numpy)\.|\.numpy\()|"
    r"(?:[ \t]*,[ \t]*\w{1,60}){0,8}[ \t]*=[ \t]*[\w.]{1,120}\("
)
#: What is behind a name in a tuple that a function returns: ``inputs, masks = data.batch(i)``.
_RETURNED = re.compile(r"((?:[ \t]*,[ \t]*\w{1,60}){0,8})[ \t]*=[ \t]*[\w.]{1,120}\(")
#: What observations of an environment are called, and what is kept with them.
OBSERVATION = re.compile(
    r"(?:(?:batch|b|next|new|cur|curr|current|last|prev|old|non_final|final|replay|mb)_)*"
    r"(?:state|observation|obs|ob|ns|s)(?:e?s)?(?:_?(?:batch|b|t|t1|tp1|next|prime|1|2))*_?"
)
OUTCOME = re.compile(r"(?:(?:batch|b|mb)_)*(?:action|act|reward|rew|rwd|a|r)s?(?:_?(?:batch|b|t))*")
#: A list of them: `tensor([t.state for`, `tensor([s]`, `tensor(batch.state,`.
_OBSERVED = re.compile(rf"\s*\[?\s*(?:\w+\.)?{OBSERVATION.pattern}(?:\s+for\b|\s*[\],)])")
_CONSTRUCTORS = ("tensor(", "Tensor(")
#: A name that is the first element of a list, or the left side of it: `[image / 255`.
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*[,)\]*/+-]")


def builds_from_arrays(text: str) -> bool:
    """Whether a constructor of tensors is given a list with arrays, or a name for one."""
    if any(any(behind(text, word, _OBSERVED)) for word in _CONSTRUCTORS) or _INDICES.search(text):
        return True
    names: set[str] = set()
    for found in _LIST.finditer(text):
        data = found[1].rstrip(" ,)\t\r\n")
        if data[-1] not in "[(":
            names.add(data)
        elif _is_array(text, found.end()):
            return True
    if any(made[1] in names and _is_array(text, made.end()) for made in (_FILLED.finditer(text) if names else ())):
        return True
    return any(_is_returned(text, name) for name in names)


def _is_returned(text: str, name: str) -> bool:
    """Whether a name is one of several that a function returns."""
    return any(
        at and not is_in_name(text, at) and ("," in found[1] or text[max(0, at - 3) : at].rstrip().endswith(","))
        for at, found in behind(text, name, _RETURNED)
    )


def _is_array(text: str, start: int) -> bool:
    """Whether the first element of a list is an array, or a name to which one is assigned."""
    element = _ELEMENT.match(text, start)
    if element is not None and _ARRAY.search(element[0]) is not None:
        return True
    name = _NAME.match(text, start)
    return name is not None and (OBSERVATION.fullmatch(name[1]) is not None or _is_made(text, name[1]))


@lru_cache(maxsize=256)  # many lists may begin with the same name
def _is_made(text: str, name: str) -> bool:
    return any(at and not is_in_name(text, at) for at, _ in behind(text, name, _MADE))
