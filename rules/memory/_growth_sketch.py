"""Whether the sketch of a file shows a loop that may grow a tensor by ``cat``; no heavy imports."""

from __future__ import annotations

import ast
import re

from torchlint.rule.bindings import Loop
from torchlint.rule.growth_sketch import growths
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name

#: What there are only a few of.
FEW = re.compile(
    r"layer|block|scale|level|head|crop|gpu|device|view|key|stage|group|branch|conv|(?<!data)set|split|chunk\(|expert|"
    r"stream|modalit|flow|frame|radius|anchor|dim|channel|nums\b|depth|fold|aug|kernel|upsample|task|class(?!ification)|worker|rank",
    re.IGNORECASE,
)


def may_grow(sketch: Sketch) -> bool:
    """Whether ``x = torch.cat([x, y])`` is in a loop that may have many iterations."""
    return any(_may_be_long(loop) for growth in growths(sketch) for loop in growth.loops)


def _may_be_long(loop: Loop) -> bool:
    """Whether a loop is not over a few layers, scales or frames."""
    if isinstance(loop, ast.While):
        return True
    if isinstance(loop.iter, ast.Call) and called_name(loop.iter) == "range":
        return FEW.search(ast.unparse(loop.iter)) is None
    return not isinstance(loop.iter, (ast.List, ast.Tuple))
