"""The test of ``if __name__ == "__main__":``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.syntax.tree import Tree


def is_main_guard(test: cst.BaseExpression) -> bool:
    """Whether a condition compares ``__name__``."""
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"


def is_below_main_guard(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether only a file that is run itself runs ``node``, which is in no function."""
    return any(isinstance(item, cst.If) and is_main_guard(item.test) for item in tree.ancestors(node))
