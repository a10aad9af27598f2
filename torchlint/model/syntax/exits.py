"""How a block ends."""

from __future__ import annotations

import libcst as cst


def ends_with(block: cst.BaseSuite, *kinds: type[cst.BaseSmallStatement]) -> bool:
    """Whether the last statement of ``block`` is of one of these kinds, such as ``cst.Return``."""
    last = block.body[-1] if block.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, kinds)
