"""The test of ``if __name__ == "__main__":``."""

from __future__ import annotations

import libcst as cst


def is_main_guard(test: cst.BaseExpression) -> bool:
    """Whether a condition compares ``__name__``."""
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"
