"""Words without which a text writes no tensor row by row; no heavy imports."""

from __future__ import annotations

import re

from torchlint.model.program.tensor_methods import METHODS
from torchlint.source.lexemes import places

#: The head of a loop; a pattern that begins with a literal is quick.
_HEAD = re.compile(r"for\s([^:\n]{1,120}?)\sin\b([^\n]{1,200}):[^\S\n]*(?:#[^\n]*)?\n")
#: A write to an item in one of the first lines of the body.
_WRITE = re.compile(r"^[^\S\n]*[\w.]+(\[[^\n]{1,200}?\])(?: ?[-+*/]?=(?!=)|\.\w{4,12}_\()", re.MULTILINE)
#: A call that writes places of a whole tensor.
_SCATTER = re.compile(r"^[^\S\n]*[\w.]+\.(?:scatter_|index_add_)", re.MULTILINE)
_BODY = 800  #: characters of the body in which the first write is
#: Methods that write the items of a tensor that an index names.
SCATTERING = frozenset({"index_add_", "index_copy_", "index_fill_", "scatter_", "scatter_add_"})
#: ... of the whole tensor, where the order of the calls does not matter.
SCATTERING_AT_ONCE = frozenset({"index_add_", "scatter_", "scatter_add_"})
#: Methods that set all items of what an index selects to a number.
FILLING = frozenset({"fill_", "zero_"})
#: What there are only a few of.
FEW = re.compile(
    r"layer|block|scale|level|head|crop|gpu|device|view|key|stage|group|branch|conv|set|split|chunk|expert|stream|"
    r"modalit|flow|anchor|dim|channel|depth|fold|aug|kernel|task|worker|rank|class|cls|label_values|part|pathway|axis|_c$|"
    r"thresh|thrs?$",
    re.IGNORECASE,
)
#: Functions that compute each row of their arguments from that row alone.
ROWWISE = frozenset(
    "abs acos add asin atan2 bmm ceil clamp cos cross cumsum diag dist div dot einsum eq erf exp floor ge gt le log "
    "log1p logical_and logical_not logical_or lt matmul max mean min mm mul ne norm outer pow reciprocal relu "
    "round rsqrt sigmoid sign sin softmax sort sqrt square std sub sum tan tanh topk trace where mv argmax "
    "argmin var logsumexp cosine_similarity log_softmax normalize tril triu cat amax amin pad".split()
)
#: Methods that compute each row from that row alone.
ROWWISE_METHODS = (METHODS - {"cpu", "cuda", "to", "clone"}) | (
    {"dot", "matmul", "mm", "mv", "t", "transpose", "pow", "item", "size"}
)
#: Functions of Python that give the number of a tensor of one element, or the smallest or largest of several numbers.
CONVERTING = frozenset({"int", "float", "bool", "abs", "min", "max"})
#: Functions and methods that give for a row up to a length what they give for it with a mask.
REDUCING_UP_TO = frozenset({"mean", "sum", "std", "var", "max", "min", "amax", "amin", "logsumexp"})
#: Methods whose result shares its memory with the tensor.
VIEWS = frozenset({"unsqueeze", "squeeze", "view", "reshape", "transpose", "permute", "t", "flatten"})
#: Methods that give numbers, which are on the host.
SIZES = frozenset({"size", "dim", "numel", "stride"})
#: Methods that cast to integers.
COUNTING_IN = frozenset({"long", "int"})
#: What writing to a tensor does not change.
FORMS = frozenset({"shape", "size", "ndim", "dtype", "device"})
#: The names of functions that set up something, unless a step calls them.
ONCE = re.compile(r"init|reset|build|create_|make_|load")
_WORD = re.compile(r"\w+")
#: A name as the first argument.
_NAMED = re.compile(r"\s*(?:tensors\s*=\s*)?(\w+)\s*[,)]")
_BEFORE = re.compile(r"\w+$")
_ARGUMENTS = 400  #: characters of the arguments of a call, in which a comprehension is


def writes_rows(text: str) -> bool:
    """Whether the body of a loop may begin with an assignment to an item that the loop variable names."""
    scatters = any(f".{name}(" in text for name in SCATTERING_AT_ONCE)
    for head in _HEAD.finditer(text):
        if ".items()" in head[2] or ".keys()" in head[2]:
            continue
        bound = set(_WORD.findall(head[1]))
        if scatters and _SCATTER.search(text, head.end(), head.end() + _BODY):
            return True
        for write in _WRITE.finditer(text, head.end(), head.end() + _BODY):
            if "'" in write[1] or '"' in write[1]:
                continue
            if not bound.isdisjoint(_WORD.findall(write[1])):
                return True
    return False


def joins_rows(text: str) -> bool:
    """Whether ``stack`` or ``cat`` may join a list of rows: a comprehension, or what a loop appends."""
    appended = {found[0] for at in places(text, ".append(") if (found := _BEFORE.search(text, max(0, at - 60), at))}
    for at in places(text, "stack(", "cat("):
        named = _NAMED.match(text, text.index("(", at) + 1)
        if named[1] in appended if named is not None else "for " in text[at : at + _ARGUMENTS]:
            return True
    return False
