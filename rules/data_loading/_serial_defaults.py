"""Settings whose default makes a loader load in the main process, although a user may choose workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.loaders import Loaders
from torchlint.model.data.loading import Consumer, Loading
from torchlint.model.module import Module
from torchlint.model.program.config_files import ConfigFiles
from torchlint.model.program.configuration import Configuration
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import called_name

#: Calls that declare an option with its default.
_DECLARES = re.compile(r"add_argument|DEFINE_|option|set_defaults|[Ff]ield|attrib|add_param", re.IGNORECASE)
#: Words of a help text that gives a reason for 0 workers.
_REASONS = re.compile(r"safe|windows|avoid|mac ?os|deadlock|hang|fork|debug|memory", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class SerialDefault:
    """A default of 0 workers, and the loaders that use it."""

    value: cst.BaseExpression  #: the literal 0
    loaders: tuple[tuple[Call, Consumer], ...]  #: each with what waits for its batches


def serial_defaults(module: Module) -> Iterator[SerialDefault]:
    """The defaults of 0 workers in the file that the loaders of the program take, in order."""
    found: dict[cst.BaseExpression, list[tuple[Call, Consumer]]] = {}
    for call in module.fact(Loaders).calls:
        value = _default_of(module, call)
        if value is None or not module.is_own(value) or _has_reason(module, value):
            continue
        consumer = module.fact(Loading).waits_for(call)
        if consumer is not None:
            found.setdefault(value, []).append((call, consumer))
    for value in sorted(found, key=module.tree.index):
        yield SerialDefault(value, tuple(found[value]))


def _default_of(module: Module, call: Call) -> cst.BaseExpression | None:
    """The 0 that ``num_workers`` has unless a user or a caller out of sight gives another number; None otherwise."""
    prefetch = call.argument("prefetch_factor")
    prefetches = prefetch.node is not None and prefetch.literal() != "None"
    if prefetches or call.argument("persistent_workers").literal() == "True":
        return None  # which raises an error with 0 workers
    given = call.entries("num_workers")
    if len(given.values) != 1 or not given.usual:
        return None
    sources = module.fact(Configuration).sources(given.values[0])
    if sources is None or sources.complete:
        return None  # of a complete one, TL101 reports the loader
    if not all(isinstance(item, cst.Integer) and item.value == "0" for item in sources.values):
        return None
    value = sources.values[0] if len(sources.values) == 1 else None
    if value is None or not _is_default(module, value):
        return None
    param = module.tree.parent(value)
    return None if isinstance(param, cst.Param) and module.fact(ConfigFiles).of_class(param) else value


def _is_default(module: Module, value: cst.BaseExpression) -> bool:
    """Whether a value is the default of an option, of a parameter or of a configuration class."""
    parent = module.tree.parent(value)
    if isinstance(parent, cst.Arg):
        call = module.tree.parent(parent)
        return isinstance(call, cst.Call) and _DECLARES.search(called_name(call)) is not None
    if isinstance(parent, (cst.Assign, cst.AnnAssign)):
        block = nearest(module.tree, parent, cst.ClassDef, cst.FunctionDef, cst.If, cst.Lambda)
        return isinstance(block, cst.ClassDef)
    return isinstance(parent, cst.Param)


def _has_reason(module: Module, value: cst.BaseExpression) -> bool:
    """Whether a comment is on the line of a default, or the help text of its option gives a reason."""
    if module.comment_on(value):
        return True
    call = nearest(module.tree, value, cst.Call, cst.FunctionDef)
    return isinstance(call, cst.Call) and any(
        _REASONS.search(module.code(item.value)) for item in call.args if item.value is not value
    )
