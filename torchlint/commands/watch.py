"""``--watch``: check, and check again when a file or a setting changes, until Ctrl-C."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from torchlint.commands import CLEAN, UsageError, settings_for
from torchlint.commands.arguments import make_resolver
from torchlint.commands.conclusion import conclude, mode_of
from torchlint.engine.results import Mode, Result
from torchlint.engine.runner import run
from torchlint.output.progress import ProgressBar
from torchlint.settings.files import File, find_files, is_excluded
from torchlint.settings.formats import FOR_PEOPLE
from torchlint.settings.layers import SettingsError
from torchlint.settings.settings import Settings

if TYPE_CHECKING:
    from watchfiles import Change

    from torchlint.cache.folder import CacheFolder

#: Milliseconds between two checks of what is outside the watched folders: named files, settings above.
_INTERVAL = 1000
#: What the names of files end in that are checked, or that settings are read from.
_ENDINGS = (".py", ".ipynb", ".toml", ".cfg", ".txt", ".yml", ".yaml", ".gitignore")
#: Options that are for one run.
_ONCE = ("diff", "output_file")


def watch(options: argparse.Namespace, out: TextIO) -> int:
    """Check and report until the user interrupts. Raises UsageError for what cannot be watched."""
    try:
        # Now, since Python may not forgive an interruption in the middle of an import.
        importlib.import_module("watchfiles")
    except ImportError as error:
        raise UsageError("--watch needs watchfiles: pip install watchfiles") from error
    for name in _ONCE:
        if getattr(options, name):
            raise UsageError(f"--watch and --{name.replace('_', '-')} exclude each other")
    paths = options.paths or ["."]
    if "-" in paths:
        raise UsageError("--watch needs files: standard input cannot be watched")
    for path in paths:
        if not os.path.exists(path):
            raise UsageError(f"{path}: no such file or folder")
    gc.enable()  # unlike one run, this may last
    view = _View(options, out)
    try:
        view.update()
        # Unknown at first, so that what changed between that look and the start of the watch is seen.
        elsewhere: list[object] | None = None
        for events in _events(paths, view.concerns):
            before, elsewhere = elsewhere, _elsewhere(options, paths)
            if events or elsewhere != before:
                try:
                    view.update()
                except UsageError as error:
                    view.show_error(error)
    except KeyboardInterrupt:
        print("Stopped watching.", file=out, flush=True)
    return CLEAN


def _events(paths: Sequence[str], concerns: Callable[[Change, str], bool]) -> Iterator[object]:
    """Changes in the folders among ``paths``, or around the files; an empty set every second."""
    from watchfiles import watch

    folders = [path for path in paths if os.path.isdir(path)]
    try:
        yield from watch(
            *(folders or {os.path.dirname(path) or "." for path in paths}),
            watch_filter=concerns,
            recursive=bool(folders),
            rust_timeout=_INTERVAL,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
    except (OSError, RuntimeError) as error:  # such as: no more inotify watches
        raise UsageError(f"cannot watch {', '.join(paths)}: {error}") from error


def _elsewhere(options: argparse.Namespace, paths: Sequence[str]) -> list[object]:
    """The state of what may be outside the watched folders: the settings of each path, and files that are named."""
    resolver = make_resolver(options)
    state: list[object] = []
    for path in (".", *paths):
        try:
            settings = resolver.for_folder(path if os.path.isdir(path) else os.path.dirname(path) or ".")
            state += settings, _stamp(settings.baseline)
        except SettingsError as error:
            state.append(str(error))
        state.append(None if os.path.isdir(path) else _stamp(path))
    return state


def _stamp(path: str) -> tuple[int, ...] | None:
    """Differs when a file has changed; None if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class _View:
    """What the user sees: the findings as they are now."""

    def __init__(self, options: argparse.Namespace, out: TextIO) -> None:
        self._options = options
        self._out = out
        self._memory = _Memory()
        self._shown: object = None
        self._settings: Settings | None = None

    def update(self) -> None:
        """Check what has changed; show the findings unless nothing has. Raises UsageError for invalid settings."""
        options = self._options
        resolver = make_resolver(options)
        settings = self._settings = settings_for(resolver, "")
        if settings.output_format not in FOR_PEOPLE:
            raise UsageError(f"--watch shows findings to people: use --output-format {' or '.join(sorted(FOR_PEOPLE))}")
        found = find_files(options.paths or ["."], resolver.for_folder)
        cache = None if options.no_cache else resolver.cache(".")
        changed, results = self._memory.results(found.files, mode_of(options, settings), cache)
        seen = (
            settings,
            [*map(str, found.errors)],
            [(result.path, result.diagnostics, result.errors) for result in results],
        )
        if changed or seen != self._shown:
            self._shown = seen
            self._clear()
            conclude(options, settings, found, results, self._out)
            self._close()

    def show_error(self, error: UsageError) -> None:
        """Show why nothing can be checked now."""
        if self._shown != str(error):
            self._shown = str(error)
            self._clear()
            error.report()
            self._close()

    def concerns(self, change: Change, path: str) -> bool:
        """Whether a change on disk may change what is shown."""
        from watchfiles import Change

        if not (path.endswith(_ENDINGS) or change is Change.deleted or os.path.isdir(path)):
            return False
        return self._settings is None or not is_excluded(path, self._settings)

    def _clear(self) -> None:
        if self._out.isatty():
            from rich.console import Console

            Console(file=self._out).clear()

    def _close(self) -> None:
        if not self._options.quiet:
            now = time.strftime("%H:%M:%S")
            print(f"[{now}] Watching for changes; Ctrl-C ends.", file=self._out)
        self._out.flush()


class _Memory:
    """Results, each kept until its file or the settings for it change.

    With a cache, those that depend on a changed file are found again as well.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, Result]] = {}
        self._fixed: set[str] = set()

    def results(self, files: Sequence[File], mode: Mode, cache: CacheFolder | None) -> tuple[bool, list[Result]]:
        """Whether any of ``files`` was changed by someone else than the last run, and the results of all."""
        baselines = {path: _stamp(path) for path in {file.settings.baseline for file in files}}
        states = {file.path: (_stamp(file.path), baselines[file.settings.baseline], file, mode) for file in files}
        changed = [file for file in files if self._kept.get(file.path, (None,))[0] != states[file.path]]
        # The cache knows which of the others depend on what has changed; it has nothing of files with plugins.
        asked = files if changed and cache is not None else changed
        paths = {file.path for file in changed}
        asked = [file for file in asked if file.path in paths or not file.settings.plugins]
        with ProgressBar(len(asked)) as progress:
            new = {result.path: result for result in run(asked, mode, progress=progress, cache=cache)}
        by_others = any(file.path not in self._fixed for file in changed)
        # A fixed file is checked once more: someone may have changed it since.
        self._fixed = {path for path, result in new.items() if result.applied}
        self._kept = {path: (state, new.get(path) or self._kept[path][1]) for path, state in states.items()}
        return by_others, [self._kept[file.path][1] for file in files]
