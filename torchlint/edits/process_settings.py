"""Settings of the whole process, such as ``torch.backends.cudnn.benchmark = True``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.edits.imports import insert_behind_imports
from torchlint.edits.text import Edits, newline_of
from torchlint.source.ranges import Edit

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module


def insert_setting(module: Module, line: str, at: cst.CSTNode) -> Edits | None:
    """Put ``line`` behind the imports of torch, between blank rows; None unless the file is a script.

    A script has a main guard, or runs ``at`` at its top level.
    """
    if not module.has_main_guard and module.function_of(at) is not None:
        return None
    placed = insert_behind_imports(module, "torch", line)
    if not placed:
        return None
    *before, last = placed
    rest = module.text[last.end :]
    newline = newline_of(module)
    following = rest.removeprefix(newline).partition(newline)[0]
    gap = newline if following.strip() else ""
    return (*before, Edit(last.start, last.end, last.content + gap))
