"""The state of the server: what is checked, when, and what is sent to the client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer

from torchlint import __version__
from torchlint.engine.fixer import Fixed
from torchlint.project.context import forget as forget_projects
from torchlint.project.context import read_again
from torchlint.server.analysis import Checked, OpenTexts, Worker, check_snapshot, fix_snapshot
from torchlint.server.configuration import Configuration, Options, Session
from torchlint.server.documents import folders_of, open_texts, open_uris, root_of, snapshot_of
from torchlint.server.earlier import EarlierResults
from torchlint.server.findings import SOURCE, by_document
from torchlint.settings.resolver import Given

#: An exception may show a whole syntax tree.
_LONGEST_LINE = 2000
#: For how long nothing must have changed until other open files that depend on a change are checked again.
QUIET_SECONDS = 0.3
#: How long the end of the server may take, so that results are written.
_WRITE_SECONDS = 1.0
#: If more files have changed on disk at once, whole projects are read again.
_MANY_FILES = 50


@dataclass
class Job:
    """The check of one state of a document or notebook, and of the files around it."""

    stamp: tuple[object, ...]  #: the state of the document and of the settings
    edits: int  #: the state of all files
    before: Checked | None  #: a check of the same document and settings, with an earlier state of other files
    result: asyncio.Future[Checked]
    cancelled: threading.Event

    @property
    def newest(self) -> Checked | None:
        """The newest check that has ended."""
        ended = self.result.done() and not self.result.cancelled() and self.result.exception() is None
        return self.result.result() if ended else self.before

    def cancel(self) -> None:
        """Give up the check unless it has ended."""
        self.cancelled.set()
        self.result.cancel()


class TorchlintServer(LanguageServer):
    """Holds what is open, and the newest check of each."""

    def __init__(self, given: Given, *, caches: bool = True) -> None:
        """``given`` is what the command line says; ``caches`` is whether results are kept between runs."""
        cells = types.NotebookDocumentFilterWithNotebook("*", [types.NotebookCellLanguage("python")])
        super().__init__(
            SOURCE,
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=types.NotebookDocumentSyncOptions(notebook_selector=[cells], save=True),
        )
        self.earlier = EarlierResults()
        self.worker = Worker(self.earlier.write)
        self.caches = caches
        self.options = Options()
        self.configuration = Configuration(self.options, os.getcwd(), Session(given))
        self.generation = 0  #: counts changes of settings
        self.edits = 0  #: counts changes of open texts and of files
        self.was_shut_down = False
        self.texts = OpenTexts()
        self.in_background = threading.Event()  #: ends the check of a file that is not open
        self._shown: dict[str, Checked] = {}
        self._change = asyncio.Event()  #: set, and replaced, when files or settings change
        self._others: asyncio.Task[None] | None = None
        self._jobs: dict[str, Job] = {}
        self._publishing: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: set[str] = set()

    # -- what the client can

    def supports(self, capability: str) -> bool:
        """Whether the client has a capability, by its place: ``workspace.workspace_edit.document_changes``."""
        return bool(get_capability(self.client_capabilities, capability))

    @property
    def pulls(self) -> bool:
        """Whether the client asks for diagnostics; else they are sent. Never both: they would be shown twice."""
        return get_capability(self.client_capabilities, "text_document.diagnostic") is not None

    @property
    def shows_related(self) -> bool:
        """Whether the client shows the places that a diagnostic refers to."""
        return any(
            self.supports(f"text_document.{kind}.related_information") for kind in ("diagnostic", "publish_diagnostics")
        )

    # -- checks

    def start_check(self, uri: str) -> Job | None:
        """Begin to check what is open now, unless that is under way or done. An older check is given up."""
        snapshot = snapshot_of(self.workspace, uri)
        if snapshot is None:
            self.forget(uri)
            return None
        stamp = (*snapshot.stamp, self.generation)
        job = self._jobs.get(snapshot.uri)
        if job is None or job.stamp != stamp or job.edits != self.edits:
            before = job.newest if job is not None and job.stamp == stamp else None
            if job is not None:
                job.cancel()
            self.in_background.set()
            cancelled = threading.Event()
            opened = open_texts(self.workspace)
            future = self.worker.submit(
                partial(
                    check_snapshot,
                    snapshot,
                    self.configuration,
                    cancelled.is_set,
                    self.texts,
                    self.earlier,
                    opened,
                    before,
                )
            )
            job = Job(stamp, self.edits, before, asyncio.wrap_future(future), cancelled)
            job.result.add_done_callback(self._notify)
            self._jobs[snapshot.uri] = job
        return job

    def forget(self, uri: str) -> None:
        """Give up the check of a document or notebook, and its result."""
        self._shown.pop(uri, None)
        job = self._jobs.pop(uri, None)
        if job is not None:
            job.cancel()

    async def checked(self, uri: str) -> Checked | None:
        """The check of what is open when it ends, however often it changes meanwhile; None if it is closed."""
        while (job := self.start_check(uri)) is not None:
            await asyncio.wait([job.result])  # unlike `await`, does not cancel it with this request
            if not job.result.cancelled() and self.start_check(uri) is job:
                return job.result.result()
        return None

    async def analysed(self, uri: str) -> Checked | None:
        """The same, but with fixes that do not come from a cache."""
        while (checked := await self.checked(uri)) is not None and checked.is_kept and checked.diagnostics:
            self.worker.submit(partial(self.earlier.ignore, checked.snapshot.path))
            self._jobs.pop(checked.snapshot.uri, None)
        return checked

    async def fixed(self, uri: str) -> tuple[Checked, Fixed] | None:
        """What all fixes make of what is open; None if there is nothing to fix."""
        while (checked := await self.checked(uri)) is not None and checked.settings is not None:
            work = self.worker.submit(partial(fix_snapshot, checked, checked.settings))
            fixed, crashes = await asyncio.wrap_future(work)
            job = self.start_check(uri)
            if job is None or not job.result.done() or job.result.result() is not checked:
                continue  # it has changed meanwhile
            for text in crashes:
                self.log(text)
            for text in fixed.errors:
                self.log(text, types.MessageType.Warning)
            return checked, fixed
        return None

    def _notify(self, result: asyncio.Future[Checked]) -> None:
        """Log what went wrong, each thing once; show what is wrong with settings."""
        if result.cancelled():
            return
        if (error := result.exception()) is not None:
            self.log(f"a check crashed: {type(error).__name__}: {error}; please report it")
            return
        for text in result.result().crashes:
            self.log(text)
        for text in result.result().problems:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"torchlint: {text}"))

    def log(self, text: str, kind: types.MessageType = types.MessageType.Error) -> None:
        """Log a line at the client, once."""
        text = text[:_LONGEST_LINE]
        if text not in self._logged:
            self._logged.add(text)
            self.window_log_message(types.LogMessageParams(kind, text))

    # -- diagnostics

    def edited(self, uri: str) -> None:
        """Something was opened or changed: check it, and then the open files that depend on it."""
        self._files_change()
        self.changed(uri)

    def files_changed(self, paths: Sequence[str], *, on_disk: bool = True) -> None:
        """Files may have changed on disk, or are not open any more: check the open files that depend on them."""
        if len(paths) > _MANY_FILES:
            self._read_projects_again()
        else:
            if on_disk:
                self.worker.submit(self.earlier.changed)
            for path in paths:
                self.worker.submit(partial(read_again, path))
        self._files_change()

    def _files_change(self) -> None:
        """Give up checks that are under way, which began with other texts, and check other open files soon."""
        self._notify_of_change()
        for job in self._jobs.values():
            job.cancel()
        if self._others is not None:
            self._others.cancel()
        self._others = asyncio.ensure_future(self._check_others())

    def _notify_of_change(self) -> None:
        self.edits += 1
        self._change.set()
        self._change = asyncio.Event()

    async def next_change(self, state: tuple[int, int]) -> None:
        """Wait until files or settings are not what they were at `edits` and `generation`."""
        while (self.edits, self.generation) == state:
            await self._change.wait()

    def is_open(self, uri: str) -> bool:
        """Whether a document is open."""
        return uri in open_uris(self.workspace)

    async def _check_others(self) -> None:
        """When nothing has changed for a while, check what is open where it depends on what has changed."""
        await asyncio.sleep(QUIET_SECONDS)
        refresh = False
        for uri in open_uris(self.workspace):
            if uri in self._publishing:
                continue
            if not self._is_pulled(uri):
                await self._publish(uri)
            elif uri in self._shown:
                refresh |= await self.checked(uri) is not self._shown.get(uri)
        if refresh:
            self._ask_to_pull()

    def _is_pulled(self, uri: str) -> bool:
        """Whether the client asks for a document's diagnostics; it is sent those of cells.

        Which cells a client asks for is not agreed upon.
        """
        return self.pulls and self.workspace.get_notebook_document(notebook_uri=uri) is None

    def _ask_to_pull(self) -> None:
        if self.pulls and self.supports("workspace.diagnostics.refresh_support"):
            self.background(self.workspace_diagnostic_refresh_async(None))

    def answered(self, checked: Checked) -> None:
        """The client has the diagnostics of a document."""
        self._shown[checked.snapshot.uri] = checked

    def changed(self, uri: str) -> None:
        """Check what is open, and publish its diagnostics."""
        job = self.start_check(uri)
        if self._is_pulled(uri):
            return
        if job is None:
            self.publish(uri, None, [])
        elif uri not in self._publishing:
            self._publishing[uri] = asyncio.ensure_future(self._publish_newest(uri))

    def publish(self, uri: str, version: int | None, diagnostics: list[types.Diagnostic]) -> None:
        """Show the diagnostics of a document."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    async def _publish_newest(self, uri: str) -> None:
        try:
            await self._publish(uri)
        finally:
            del self._publishing[uri]  # at once: a change that comes next must start another

    async def _publish(self, uri: str) -> None:
        """Show the newest diagnostics of what is open, unless they are shown."""
        checked = await self.checked(uri)
        if checked is not None and self._shown.get(uri) is not checked:
            self.answered(checked)
            found = by_document(checked, self.shows_related)
            for part in checked.snapshot.parts:
                self.publish(part.uri, part.version, found[part.uri])

    # -- settings

    def configure(self, session: Session | None = None) -> None:
        """Use the options and folders of the client."""
        folders = folders_of(self.workspace) if self.caches else []
        self.configuration = Configuration(self.options, root_of(self.workspace), session, folders)

    def _read_projects_again(self) -> None:
        self.worker.submit(forget_projects)
        self.worker.submit(self.earlier.forget)

    def reload(self) -> None:
        """Read all settings again, and check everything again."""
        self._read_projects_again()
        self.generation += 1
        self._notify_of_change()
        if self._others is not None:
            self._others.cancel()  # it would ask to pull a second time
        self.configure(self.configuration.session)
        for uri in open_uris(self.workspace):
            self.changed(uri)
        self._ask_to_pull()

    def store_results(self) -> None:
        """Write what was found to the caches, unless an analysis is under way."""
        with contextlib.suppress(Exception):  # also a timeout: the client does not wait for this
            self.worker.submit(self.earlier.write).result(_WRITE_SECONDS)

    def background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something in the background."""

        async def logged() -> None:
            try:
                await work
            except Exception as error:
                self.log(f"{type(error).__name__}: {error}", types.MessageType.Warning)

        task = asyncio.ensure_future(logged())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A handler raised: that costs its answer and a line in the log, nothing else."""
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, f"{type(error).__name__}: {error}"))
