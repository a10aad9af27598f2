"""The test of ``if __name__ == "__main__":``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.syntax.literals import value_of


def is_main_guard(test: cst.BaseExpression) -> bool:
    """Whether a condition is only true in a script: ``__name__ == "__main__"``, ``__name__ in ("__main__", "train")``.

    With ``"__mp_main__"`` it is also true in the processes that the script spawns.
    """
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
    if isinstance(operator, cst.Equal):
        return any(map(_is_name, (test.left, other))) and "__main__" in map(_text, (test.left, other))
    if not isinstance(operator, cst.In) or not isinstance(other, (cst.Tuple, cst.List, cst.Set)):
        return False
    names = [_text(element.value) for element in other.elements]
    return _is_name(test.left) and "__main__" in names and "__mp_main__" not in names


def _is_name(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "__name__"


def _text(node: cst.BaseExpression) -> object:
    return value_of(node) if isinstance(node, cst.SimpleString) else None
