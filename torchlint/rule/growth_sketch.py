"""Which statements in loops append to a tensor by ``cat``, by the sketch of a file; no heavy imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.rule.bindings import Loop
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import dotted_name

CATS = ("cat", "concat", "concatenate", "vstack", "hstack")


@dataclass(frozen=True, eq=False)
class Growth:
    """A statement ``x = torch.cat([x, y])`` in a loop."""

    name: str  #: ``x``
    call: ast.Call
    loops: list[Loop]  #: around it in its function, innermost first


def growths(sketch: Sketch) -> Iterator[Growth]:
    """The statements of a file that append to a tensor in a loop, also in a branch: ``x = y if x is None else ...``."""
    for statement in sketch.containing(*CATS):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        name, value = dotted_name(statement.targets[0]), statement.value
        for call in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            if name is not None and isinstance(call, ast.Call) and _appends(sketch, call, name):
                loops = list(sketch.loops_around(statement))
                if loops:
                    yield Growth(name, call, loops)


def _appends(sketch: Sketch, call: ast.Call, name: str) -> bool:
    """Whether a call puts tensors behind what has a name, or behind rows of that: ``cat([x[beams], y])``."""
    parts = call.args[0].elts if call.args and isinstance(call.args[0], (ast.List, ast.Tuple)) else []
    first = parts[0].value if len(parts) > 1 and isinstance(parts[0], ast.Subscript) else next(iter(parts), None)
    return len(parts) > 1 and dotted_name(first) == name and sketch.may_be(call.func, CATS)
