"""Iterables: which of them a loop takes the parts of its variables from, through ``zip``, ``enumerate``, ``tqdm``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.names import Names

#: Methods that give pairs, of which the first is a key or a name.
_NAMING = frozenset({"items", "named_children", "named_modules", "named_parameters", "named_buffers"})


def iterables(
    names: Names, over: cst.BaseExpression, path: tuple[int, ...]
) -> Iterator[tuple[cst.BaseExpression, tuple[int, ...]]]:
    """What a loop over ``over`` takes its variable at ``path`` from: each iterable, and the path in an item of it.

    The numbers of ``enumerate`` and the keys of ``items()`` come from none.
    """
    name = names.resolve(over.func) if isinstance(over, cst.Call) else None
    if isinstance(over, cst.Call):
        given = [item.value for item in takewhile(lambda item: not item.star, over.args) if item.keyword is None]
        if name == "builtins.zip" and path and 0 <= path[0] < len(given):
            yield from iterables(names, given[path[0]], path[1:])
            return
        if name == "builtins.zip" and not path and len(given) == len(over.args):
            for item in given:
                yield from iterables(names, item, ())
            return
        if name == "builtins.enumerate" and given and path[:1] != (-1,):
            if path[:1] != (0,):
                yield from iterables(names, given[0], path[1:])
            return
        if name in knowledge.ITERATION_WRAPPERS and given:
            yield from iterables(names, given[0], path)
            return
        if isinstance(over.func, cst.Attribute) and over.func.attr.value in _NAMING and path[:1] == (0,):
            return
    yield over, path
