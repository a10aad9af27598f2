"""Settings that a program may have for a reason: one of several branches, and words in the files around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.nodes import HANDLERS, TRIES


def mentions(module: Module, words: re.Pattern[str]) -> bool:
    """Whether the file, one that it imports, or one that imports it contains one of these words."""
    return any(words.search(module.file_of_root[root].text) for root in module.related)


def is_alternative(module: Module, node: cst.CSTNode) -> bool:
    """Whether ``node`` is one of several branches, or is there for when something fails."""
    for above, child in climb(module.tree, node):
        if isinstance(above, cst.If) and child is not above.test:
            if above.orelse is not None or isinstance(module.tree.parent(above), cst.If):
                return True
        if isinstance(above, cst.Else) and isinstance(module.tree.parent(above), cst.If):
            return True
        if isinstance(above, (cst.IfExp, *TRIES, *HANDLERS, cst.MatchCase)):
            return True
    return False


def without_reason(
    module: Module, calls: Iterable[Call], option: str, literals: tuple[str, ...], reasons: re.Pattern[str]
) -> Iterator[tuple[Call, cst.BaseExpression]]:
    """The calls that set ``option`` to one of ``literals``, each with that value, if nothing shows a reason for it.

    A reason is a comment, another branch, or one of the words ``reasons`` in the files around the call.
    """
    for call in calls:
        argument = call.argument(option)
        value = argument.value
        if value is None or argument.literal() not in literals or not module.is_own(value):
            continue
        if any(map(module.comment_on, (call.node, value))) or is_alternative(module, call.node):
            continue
        if not mentions(module, reasons):
            yield call, value
