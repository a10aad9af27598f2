"""The analysis of a snapshot, and the thread that does it."""

from __future__ import annotations

import contextlib
import gc
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

from pygls.workspace import PositionCodec

from torchlint.engine.checker import AbandonedError, check, texts_around
from torchlint.engine.fixer import Fixed, fix
from torchlint.findings.codes import INVALID_SYNTAX
from torchlint.findings.diagnostic import Diagnostic
from torchlint.project.context import use_texts
from torchlint.server.configuration import Configuration
from torchlint.server.documents import Snapshot, snapshot_of_file
from torchlint.server.earlier import EarlierResults
from torchlint.settings.resolver import Resolver
from torchlint.settings.settings import Settings
from torchlint.source.parsing import ParseError, is_python, python_tree

Returned = TypeVar("Returned")

_STACK_BYTES = 64 * 1024 * 1024
_IDLE_SECONDS = 0.1
#: After so long without work, results are written to the cache.
_WRITE_SECONDS = 1.0


class Worker:
    """One thread that does what it is given, in order, and collects garbage only when there is nothing to do.

    It is a daemon, so that a running analysis never delays the end of the server.
    """

    def __init__(self, when_idle: Callable[[], None] = lambda: None) -> None:
        """``when_idle`` is called after some time without work."""
        self._when_idle = when_idle
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        previous = threading.stack_size(_STACK_BYTES)  # rules follow deep trees; some systems give a thread 0.5 MB
        try:
            threading.Thread(target=self._work, name="torchlint-analysis", daemon=True).start()
        finally:
            threading.stack_size(previous)

    def submit(self, work: Callable[[], Returned]) -> Future[Returned]:
        """The future of ``work``, which can be cancelled until it begins."""
        future: Future[Returned] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(run)
        return future

    def _work(self) -> None:
        gc.disable()
        _warm_up()
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                gc.collect()  # little: an analysis takes what it has made apart
                gc.freeze()
                job = self._next()
            job()
            del job  # with what it knows of the document

    def _next(self) -> Callable[[], None]:
        try:
            return self._jobs.get(timeout=_WRITE_SECONDS)
        except queue.Empty:
            with contextlib.suppress(Exception):  # the thread must go on
                self._when_idle()
            return self._jobs.get()


def _warm_up() -> None:
    """Import what an analysis needs before the first request."""
    try:
        import torchlint.model.module  # noqa: F401

        Resolver(isolated=True).for_folder(".").rules()
    except Exception:
        return  # the first check will tell
    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked at again


@dataclass(frozen=True)
class Checked:
    """What there is to say about a snapshot."""

    snapshot: Snapshot
    settings: Settings | None  #: None: it is not to be checked
    diagnostics: tuple[Diagnostic, ...] = ()
    crashes: tuple[str, ...] = ()  #: rules that raised, a line each
    problems: tuple[str, ...] = ()  #: what is wrong with settings
    around: Mapping[str, str] = field(default_factory=dict)  #: by path, the texts that the diagnostics depend on
    is_kept: bool = False  #: whether the diagnostics come from an earlier run; then `around` is not known
    number: int = field(default_factory=count().__next__)  #: tells it from others


class OpenTexts:
    """The texts of open documents, which count in place of those on disk. Used by the worker alone.

    While a text is not Python, its last text that was counts for other files.
    """

    def __init__(self) -> None:
        self._open: Mapping[str, str] = {}
        self.valid: Mapping[str, str] = {}  #: by path

    def update(self, texts: Mapping[str, str]) -> None:
        """These documents are open, by path, and no others."""
        valid = {path: text for path, text in self.valid.items() if path in texts}
        for path, text in texts.items():
            if text != self._open.get(path) and _is_python(text):
                valid[path] = text
        self._open = texts
        if valid != self.valid:
            self.valid = valid
            use_texts(valid)

    def is_python(self, path: str, text: str) -> bool:
        """Whether a text is Python; it is known of those that are open."""
        return self.valid.get(path) == text if self._open.get(path) == text else _is_python(text)


def _is_python(text: str) -> bool:
    with contextlib.suppress(ParseError):
        python_tree(text)  # an analysis needs it in any case
    return is_python(text)


def check_snapshot(
    snapshot: Snapshot,
    configuration: Configuration,
    is_cancelled: Callable[[], bool],
    texts: OpenTexts,
    earlier: EarlierResults,
    opened: Mapping[str, str],
    before: Checked | None = None,
) -> Checked:
    """Check what is open. Raises AbandonedError if the answer is no longer wanted.

    ``opened`` are the texts of all open files, with which the files of projects are up to date from then on. A text
    that is not Python (yet) has no findings: the editor knows that without a linter. ``before`` is an earlier answer
    about the same snapshot and configuration; it is given again if it depends on the same texts. Results of
    ``earlier`` runs are used where they are valid.
    """
    texts.update(opened)
    snapshot = replace(snapshot, others=texts.valid)
    crashes: list[str] = []
    settings = None
    diagnostics: list[Diagnostic] = []
    around: Mapping[str, str] = {}
    found: Sequence[Diagnostic] | None = None
    try:
        settings = configuration.settings_for(snapshot)
        if settings is not None and (snapshot.is_notebook or texts.is_python(snapshot.path, snapshot.source.text)):
            cache = configuration.cache_for(snapshot.path)
            if before is None or before.is_kept:
                found = earlier.find(snapshot, settings, cache, opened)
            if found is not None:
                diagnostics = list(found)
                if before is not None and before.diagnostics == tuple(found):
                    return before
            else:
                around = texts_around(snapshot.source, settings)
                if before is not None and not before.is_kept and around == before.around:
                    return before
                diagnostics = check(
                    snapshot.source,
                    settings,
                    on_crash=lambda crash: crashes.append(str(crash)),
                    is_cancelled=is_cancelled,
                )
                around = texts_around(snapshot.source, settings)  # now with the configuration files that were read
                if not crashes:
                    earlier.add(snapshot, settings, cache, opened, diagnostics)
    except AbandonedError:
        raise
    except Exception as error:
        crashes.append(f"{snapshot.path}: the check crashed: {type(error).__name__}: {error}; please report it")
    return Checked(
        snapshot,
        settings,
        tuple(diagnostic for diagnostic in diagnostics if diagnostic.code != INVALID_SYNTAX.code),
        tuple(crashes),
        tuple(configuration.problems()),
        around,
        is_kept=found is not None,
    )


def check_file(  # noqa: PLR0913, PLR0917 - the arguments of `check_snapshot`, and those that name the file
    path: str,
    uri: str,
    codec: PositionCodec,
    configuration: Configuration,
    is_cancelled: Callable[[], bool],
    texts: OpenTexts,
    earlier: EarlierResults,
    opened: Mapping[str, str],
    before: Checked | None,
) -> Checked | None:
    """Check a file that is not open; None if it cannot be read. The rest is as for `check_snapshot`."""
    snapshot = snapshot_of_file(path, uri, codec)
    if snapshot is None:
        return None
    if before is not None and before.snapshot.source.text != snapshot.source.text:
        before = None
    return check_snapshot(snapshot, configuration, is_cancelled, texts, earlier, opened, before)


def fix_snapshot(checked: Checked, settings: Settings) -> tuple[Fixed, Sequence[str]]:
    """What ``torchlint --fix`` makes of it, and the rules that raised on any text on the way, a line each."""
    crashes: list[str] = []
    fixed = fix(checked.snapshot.source, settings, on_crash=lambda crash: crashes.append(str(crash)))
    return fixed, crashes
