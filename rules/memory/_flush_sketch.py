"""Whether the sketch of a file shows a call that may flush at every step; no heavy imports."""

from __future__ import annotations

import ast
import re
from functools import cache

from torchlint.model.training.function_words import measuring
from torchlint.rule.bindings import FUNCTIONS, LOOPS
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name
from torchlint.source.lexemes import names

#: The name of a function that may flush, or that may do nothing else.
_FLUSHING = re.compile(
    r"empty_cache|_(?:cache|memory|mem|gpu|cuda|vram|ram)|"
    r"(?:clean|clear|collect|empty|flush|free|garbage|release|purge)(?:_?up|_?all|_garbage|[A-Z]\w*)?$"
)
_DIRECT = frozenset({"empty_cache", "collect"})
#: Functions that want an empty cache: they measure memory, or bring in and take out networks.
PURPOSES = measuring(
    "memory|max_batch|batch_size|offload|quanti|calibrat|prune|convert|export|load|merge|compare|sweep|search|trial|fold|"
    "warm|_oom|oom_"
)


@cache
def may_flush(name: str) -> bool:
    """Whether a function of this name may flush."""
    return _FLUSHING.search(name) is not None


def may_flush_per_step(sketch: Sketch) -> bool:
    """Whether a file flushes, or calls a function that may do only that, other than for a purpose or after an error."""
    direct = _calls(sketch, _DIRECT)
    if any(_may_be_step(sketch, statement) for statement, _ in direct):
        return True
    helpers = {function.name for statement, _ in direct if (function := sketch.function_of(statement)) is not None}
    called = set(filter(may_flush, names(sketch.text))) - _DIRECT
    return any(
        _drops_result(statement) and _may_be_step(sketch, statement)
        for statement, call in _calls(sketch, called)
        if not sketch.alone or sketch.may_be(call.func, helpers)
    )


def _calls(sketch: Sketch, called: frozenset[str] | set[str]) -> list[tuple[ast.stmt, ast.Call]]:
    return [
        (statement, call)
        for statement in sketch.containing(*called)
        for call in sketch.calls(statement)
        if called_name(call) in called
    ]


def _drops_result(statement: ast.stmt) -> bool:
    """Whether nothing takes the result of a call: a function that only flushes has none."""
    return isinstance(statement, ast.Expr) or (isinstance(statement, ast.Assign) and _is_unnamed(statement.targets[0]))


def _is_unnamed(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "_"


def _may_be_step(sketch: Sketch, statement: ast.stmt) -> bool:
    """Whether a loop may run a statement each time, and the functions around it are not there for a purpose."""
    is_repeated = False
    inner = statement
    for above in sketch.around(statement):
        if isinstance(above, FUNCTIONS):
            is_repeated = True
            if PURPOSES.search(above.name):
                return False
        elif isinstance(above, LOOPS):
            is_repeated = True
        elif isinstance(above, ast.Try) and not is_repeated and any(inner in item.body for item in above.handlers):
            return False
        inner = above
    return is_repeated
