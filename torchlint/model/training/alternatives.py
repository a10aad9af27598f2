"""Settings that a program may have for a reason: one of several branches, and words in the files around it."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.module import Module
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
