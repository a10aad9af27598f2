"""Places that take one batch of an iterator and no more, also in the whole run of a program."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.training.loops import Loops

#: What creates a new iterator, of which one batch may be taken.
_ITERATORS = frozenset({"builtins.iter", "builtins.enumerate"})


def is_preview(forest: Forest, node: cst.CSTNode) -> bool:
    """Whether ``node`` takes one batch, once: ``next(iter(loader))``, or a loop that always breaks.

    In another loop, or in a function that one calls, it takes a batch of a new iterator each time.
    """
    if not takes_first(forest, node):
        return False
    function = forest.function_of(node)
    places = (node, *(forest.callers(function).calls if function is not None else ()))
    return not any(forest.fact(Loops).around(place) for place in places)


def takes_first(forest: Forest, node: cst.CSTNode) -> bool:
    """Whether ``node`` takes the first batch of a new iterator: ``next(iter(loader))``, a loop that always breaks."""
    return _always_breaks(node) if isinstance(node, cst.For) else _is_fresh_next(forest, node)


def _always_breaks(loop: cst.For) -> bool:
    last = loop.body.body[-1] if isinstance(loop.body, cst.IndentedBlock) and loop.body.body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Break)


def _is_fresh_next(forest: Forest, node: cst.CSTNode) -> bool:
    """Whether ``node`` is ``next(iter(loader))``."""
    if not isinstance(node, cst.Call) or not node.args or forest.name_of(node.func) != "builtins.next":
        return False
    iterator = node.args[0].value
    return isinstance(iterator, cst.Call) and forest.name_of(iterator.func) in _ITERATORS
