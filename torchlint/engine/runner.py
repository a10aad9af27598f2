"""Many files, in order: results of an earlier run that are still valid, and the work on the other files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torchlint.engine.results import Mode, Request, Result, digest_of
from torchlint.source import reading
from torchlint.source.parsing import garbage_collection_paused
from torchlint.source.source import Source, SourceError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from torchlint.cache.folder import CacheFolder
    from torchlint.engine.kept import KeptResults
    from torchlint.settings.files import File


def run(
    files: Sequence[File],
    mode: Mode = Mode.CHECK,
    *,
    executor: Executor | None = None,
    progress: Callable[[int], None] | None = None,
    cache: CacheFolder | None = None,
    timing: bool = False,
) -> list[Result]:
    """The results of ``files``, in their order. ``progress`` is called after each step with the number of done files.

    Any ``executor`` works; without one, processes are started if there is work for them. Valid results are taken from
    ``cache``, and new ones are kept there. ``timing`` measures where the time of the others goes.
    """
    _forget_projects()
    with garbage_collection_paused():
        kept = _kept(cache)
        results = {}
        for index, file in enumerate(files if kept is not None else ()):
            if kept is not None and (held := kept.result(file, mode)) is not None:
                results[index] = held
        rest = [index for index in range(len(files)) if index not in results]
        if progress is not None and results:
            progress(len(results))
        keeps = kept is not None and mode is Mode.CHECK
        if rest:
            from torchlint.engine.processes import work_on  # takes long to import

            request = Request(mode, basis=keeps, timing=timing)
            for index, result in work_on([files[index] for index in rest], request, executor):
                results[rest[index]] = result
                if progress is not None:
                    progress(len(results))
        if kept is not None and keeps:
            kept.keep((files[index], results[index]) for index in rest)
    return [results[index] for index in range(len(files))]


def run_text(source: Source, file: File, mode: Mode, *, cache: CacheFolder | None = None) -> tuple[Result, Source]:
    """The result of a file with this text in place of what is on disk; and the text as fixed.

    It is taken from ``cache`` if it is valid there, and kept there if the text is what is on disk.
    """
    _forget_projects()
    with garbage_collection_paused():
        kept = _kept(cache) if os.path.isfile(file.path) else None
        held = kept.result(file, mode, source) if kept is not None else None
        if held is not None:
            return held, source
        from torchlint.engine.work import run_source, with_basis

        result, fixed = run_source(source, file.settings, mode)
        if kept is not None and mode is Mode.CHECK and not result.errors and _is_saved(source):
            kept.keep([(file, with_basis(result, source, file.settings))])
    return result, fixed


def _is_saved(source: Source) -> bool:
    """Whether a text is that of the file on disk."""
    try:
        return digest_of(reading.read(source.path)) == digest_of(source)
    except (OSError, SourceError):
        return False


def _forget_projects() -> None:
    """Have projects read again: files may have changed since the last run of this process, if there was one."""
    context = sys.modules.get("torchlint.project.context")
    if context is not None:
        context.forget()


def _kept(cache: CacheFolder | None) -> KeptResults | None:
    if cache is None:
        return None
    from torchlint.engine.kept import KeptResults

    return KeptResults(cache)
