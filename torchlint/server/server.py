"""The server: what the editor tells and asks, and when the answers are worked out."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer

from torchlint import __version__
from torchlint.engine.fixer import Fixed
from torchlint.project.context import forget as forget_projects
from torchlint.server import actions
from torchlint.server.analysis import Checked, Worker, check_snapshot, fix_snapshot
from torchlint.server.configuration import Configuration, Options
from torchlint.server.documents import Documents, open_uris, path_of, root_of, snapshot_of
from torchlint.server.findings import SOURCE, as_shown, by_document, hover

Handler = TypeVar("Handler", bound=Callable[..., Any])

#: What settings depend on: settings files and what they extend, and where a project says which torch it needs.
_WATCHED = ("**/*.toml", "**/setup.cfg", "**/setup.py", "**/requirements.txt")
#: Every how many seconds of Python code another thread gets its turn: the reader must not wait for an analysis.
_SWITCH_INTERVAL = 0.001
#: An exception may show a whole syntax tree.
_LONGEST_LINE = 2000


@dataclass
class Job:
    """The check of one state of a document or notebook."""

    stamp: tuple[object, ...]
    result: asyncio.Future[Checked]
    cancelled: threading.Event


class TorchlintServer(LanguageServer):
    """Holds what is open, and the newest check of each."""

    def __init__(self) -> None:
        cells = types.NotebookDocumentFilterWithNotebook("*", [types.NotebookCellLanguage("python")])
        super().__init__(
            SOURCE,
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=types.NotebookDocumentSyncOptions(notebook_selector=[cells], save=True),
        )
        self.worker = Worker()
        self.options = Options()
        self.configuration = Configuration(self.options, os.getcwd())
        self.generation = 0  #: counts changes of settings
        self.was_shut_down = False
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
        if job is None or job.stamp != stamp:
            self.forget(snapshot.uri)
            cancelled = threading.Event()
            future = self.worker.submit(partial(check_snapshot, snapshot, self.configuration, cancelled.is_set))
            job = self._jobs[snapshot.uri] = Job(stamp, asyncio.wrap_future(future), cancelled)
            job.result.add_done_callback(self._tell)
        return job

    def forget(self, uri: str) -> None:
        """Give up the check of a document or notebook, and its result."""
        job = self._jobs.pop(uri, None)
        if job is not None:
            job.cancelled.set()
            job.result.cancel()

    async def checked(self, uri: str) -> Checked | None:
        """The check of what is open when it ends, however often it changes meanwhile; None if it is closed."""
        while (job := self.start_check(uri)) is not None:
            await asyncio.wait([job.result])  # unlike `await`, does not cancel it with this request
            if not job.result.cancelled() and self.start_check(uri) is job:
                return job.result.result()
        return None

    async def fixed(self, uri: str) -> tuple[Checked, Fixed] | None:
        """What all fixes make of what is open; None if there is nothing to fix."""
        while (checked := await self.checked(uri)) is not None and checked.settings is not None:
            fixed = await asyncio.wrap_future(self.worker.submit(partial(fix_snapshot, checked, checked.settings)))
            job = self.start_check(uri)
            if job is None or not job.result.done() or job.result.result() is not checked:
                continue  # it has changed meanwhile
            for text in fixed.errors:
                self.log(text, types.MessageType.Warning)
            return checked, fixed
        return None

    def _tell(self, result: asyncio.Future[Checked]) -> None:
        """Log what went wrong, each thing once; show what is wrong with settings."""
        if result.cancelled():
            return
        if (error := result.exception()) is not None:
            self.log(f"a check crashed: {type(error).__name__}: {error}; please report it")
            return
        for text in result.result().crashes:
            self.log(text)
        for text in result.result().complaints:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"torchlint: {text}"))

    def log(self, text: str, kind: types.MessageType = types.MessageType.Error) -> None:
        """Log a line at the client, once."""
        text = text[:_LONGEST_LINE]
        if text not in self._logged:
            self._logged.add(text)
            self.window_log_message(types.LogMessageParams(kind, text))

    # -- diagnostics

    def changed(self, uri: str) -> None:
        """Something was opened or changed."""
        job = self.start_check(uri)
        notebook = self.workspace.get_notebook_document(notebook_uri=uri) is not None
        if self.pulls and not notebook:
            return  # which cells a client asks for is not agreed upon: cells are always told
        if job is None:
            self.publish(uri, None, [])
        elif uri not in self._publishing:
            self._publishing[uri] = asyncio.ensure_future(self._publish_newest(uri))

    def publish(self, uri: str, version: int | None, diagnostics: list[types.Diagnostic]) -> None:
        """Show the diagnostics of a document."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    async def _publish_newest(self, uri: str) -> None:
        try:
            checked = await self.checked(uri)
            if checked is not None:
                found = by_document(checked, self.shows_related)
                for part in checked.snapshot.parts:
                    self.publish(part.uri, part.version, found[part.uri])
        finally:
            del self._publishing[uri]  # at once: a change that comes next must start another

    # -- settings

    def reload(self) -> None:
        """Read all settings anew, and check everything again."""
        forget_projects()
        self.generation += 1
        self.configuration = Configuration(self.options, root_of(self.workspace), self.configuration)
        for uri in open_uris(self.workspace):
            self.changed(uri)
        if self.pulls and self.supports("workspace.diagnostics.refresh_support"):
            self.background(self.workspace_diagnostic_refresh_async(None))

    def background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something whose outcome nobody waits for."""

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


def make_server() -> TorchlintServer:
    """A server with all its handlers."""
    server = TorchlintServer()

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        before = server.workspace
        server.protocol._workspace = Documents(
            before.root_uri, types.TextDocumentSyncKind.Incremental, params.workspace_folders, before.position_encoding
        )
        server.options = Options.of(params.initialization_options)
        server.configuration = Configuration(server.options, root_of(server.workspace))

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        if server.supports("workspace.did_change_watched_files.dynamic_registration"):
            watchers = [types.FileSystemWatcher(glob_pattern=pattern) for pattern in _WATCHED]
            await register(
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES, types.DidChangeWatchedFilesRegistrationOptions(watchers)
            )
        if server.supports("workspace.did_change_configuration.dynamic_registration"):
            await register(
                types.WORKSPACE_DID_CHANGE_CONFIGURATION, types.DidChangeConfigurationRegistrationOptions(SOURCE)
            )

    async def register(method: str, options: object) -> None:
        registration = types.Registration(id=f"torchlint-{method}", method=method, register_options=options)
        await server.client_register_capability_async(types.RegistrationParams([registration]))

    @server.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:
        server.was_shut_down = True

    # -- documents

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        server.forget(params.text_document.uri)  # whose version it was does not matter any more
        server.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        server.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        forget_projects()  # open files that depend on this one are checked with it from their next change on
        saved = path_of(params.text_document.uri) or ""
        if saved.endswith((".toml", ".cfg", ".txt")) or not server.supports(
            "workspace.did_change_watched_files.dynamic_registration"
        ):
            server.reload()  # the client does not tell of settings files, so that they are looked at again now

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)
        if not server.pulls:
            server.publish(params.text_document.uri, None, [])

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_did_open(params: types.DidOpenNotebookDocumentParams) -> None:
        server.forget(params.notebook_document.uri)
        server.changed(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_did_change(params: types.DidChangeNotebookDocumentParams) -> None:
        structure = params.change.cells.structure if params.change.cells else None
        for cell in (structure.did_close if structure else None) or []:
            server.publish(cell.uri, None, [])
        server.changed(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_did_close(params: types.DidCloseNotebookDocumentParams) -> None:
        server.forget(params.notebook_document.uri)
        for cell in params.cell_text_documents:
            server.publish(cell.uri, None, [])

    # -- settings

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(params: types.DidChangeWatchedFilesParams) -> None:
        server.reload()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        sent = params.settings
        if not sent and server.supports("workspace.configuration"):
            items = [types.ConfigurationItem(section=SOURCE)]
            sent = next(iter(await server.workspace_configuration_async(types.ConfigurationParams(items))), None)
        if isinstance(sent, dict) and sent:
            server.options = Options.of(sent)
        server.reload()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def did_change_workspace_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        server.reload()

    # -- requests

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, types.DiagnosticOptions(False, False, identifier=SOURCE))
    async def diagnostic(
        params: types.DocumentDiagnosticParams,
    ) -> types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport:
        checked = await server.checked(params.text_document.uri)
        if checked is None or checked.snapshot.is_notebook:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        items = [as_shown(checked.snapshot, found, server.shows_related) for found in checked.diagnostics]
        result_id = f"{checked.snapshot.version}.{server.generation}"
        if params.previous_result_id == result_id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id)
        return types.RelatedFullDocumentDiagnosticReport(items, result_id=result_id)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def show_hover(params: types.HoverParams) -> types.Hover | None:
        checked = await server.checked(params.text_document.uri)
        if checked is None:
            return None
        formats = get_capability(server.client_capabilities, "text_document.hover.content_format") or []
        markdown = not formats or types.MarkupKind.Markdown in formats
        return hover(checked, params.text_document.uri, params.position, markdown)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=actions.KINDS, resolve_provider=True),
    )
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        checked = await server.checked(params.text_document.uri)
        if checked is None:
            return []
        found: list[types.CodeAction] = []
        if actions.wanted(types.CodeActionKind.QuickFix.value, params.context):
            found += actions.quick_fixes(checked, params, versioned_edits())
        # Of a notebook each cell is asked for `source.fixAll`, and each would mend all of it.
        kind = actions.FIX_ALL_NOTEBOOK if checked.snapshot.is_notebook else actions.FIX_ALL
        if actions.wanted(kind, params.context) and actions.can_fix(checked):
            found.append(await fix_all_action(checked, kind, asked_for=params.context.only is not None))
        return found

    async def fix_all_action(checked: Checked, kind: str, asked_for: bool) -> types.CodeAction:
        """The action, with its edit if it is asked for: it takes several checks, too long for every move."""
        action = types.CodeAction(title=actions.FIX_ALL_TITLE, kind=kind)
        resolved = get_capability(server.client_capabilities, "text_document.code_action.resolve_support.properties")
        if "edit" in (resolved or ()):
            action.data = checked.snapshot.uri
        elif asked_for:
            action.edit = await fix_all_edit(checked.snapshot.uri)
        else:
            action.command = types.Command(
                actions.FIX_ALL_TITLE, actions.FIX_ALL_COMMAND, arguments=[checked.snapshot.uri]
            )
        return action

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(params: types.CodeAction) -> types.CodeAction:
        if params.kind in (actions.FIX_ALL, actions.FIX_ALL_NOTEBOOK) and isinstance(params.data, str):
            params.edit = await fix_all_edit(params.data)
        return params

    @server.command(actions.FIX_ALL_COMMAND)
    async def apply_fix_all(uri: str) -> None:
        edit = await fix_all_edit(uri)
        if edit is not None:
            await server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, actions.FIX_ALL_TITLE))

    async def fix_all_edit(uri: str) -> types.WorkspaceEdit | None:
        done = await server.fixed(uri)
        return actions.fix_all(*done, versioned_edits()) if done is not None else None

    def versioned_edits() -> bool:
        return server.supports("workspace.workspace_edit.document_changes")

    return server


def serve() -> int:
    """Serve one client over standard input and output until it ends the server; the exit status.

    The protocol has both streams for itself: what a plugin prints goes to standard error.
    """
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # what matters is logged at the client
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    forget_working_directory()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    server = make_server()
    server.start_io(stdin, stdout)
    return 0 if server.was_shut_down else 1


def forget_working_directory() -> None:
    """Keep the folder in which ``python -m`` was started off the import path.

    It may be a workspace that nobody trusts, whose settings must not make a module of its own run as a plugin.
    """
    if sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
