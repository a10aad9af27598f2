"""The requests and notifications that the server handles."""

from __future__ import annotations

import os

from lsprotocol import types
from pygls.capabilities import get_capability

from torchlint.server import actions
from torchlint.server.analysis import Checked
from torchlint.server.configuration import Options
from torchlint.server.documents import Documents, path_of
from torchlint.server.findings import SOURCE, as_shown, hover
from torchlint.server.server import TorchlintServer
from torchlint.server.workspace import WorkspaceDiagnostics
from torchlint.settings.resolver import Given

#: What settings depend on: settings files and what they extend, and where a project says which torch it needs.
_SETTINGS = ("**/*.toml", "**/setup.cfg", "**/setup.py", "**/requirements.txt")
#: What files are analysed with.
_READ = (".py", ".ipynb", ".yaml", ".yml", ".json")
_WATCHED = (*_SETTINGS, *(f"**/*{ending}" for ending in _READ))


def make_server(given: Given | None = None, *, caches: bool = True) -> TorchlintServer:  # noqa: C901 - a list of handlers
    """A server with all its handlers."""
    server = TorchlintServer(given or Given(), caches=caches)

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        before = server.workspace
        server.protocol._workspace = Documents(  # noqa: SLF001 - pygls has no public way to replace it
            before.root_uri, types.TextDocumentSyncKind.Incremental, params.workspace_folders, before.position_encoding
        )
        server.options = Options.of(params.initialization_options)
        server.configure()

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
        server.store_results()

    # -- documents

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        server.forget(params.text_document.uri)  # whose version it was does not matter any more
        server.edited(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        server.edited(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        saved = path_of(params.text_document.uri) or ""
        server.files_changed([saved] if saved else [])
        if saved.endswith((".toml", ".cfg", ".txt")) or not server.supports(
            "workspace.did_change_watched_files.dynamic_registration"
        ):
            server.reload()  # the client does not tell of settings files, so that they are looked at again now

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)
        if not server.pulls:
            server.publish(params.text_document.uri, None, [])
        closed = path_of(params.text_document.uri)
        server.files_changed([closed] if closed else [], on_disk=False)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_did_open(params: types.DidOpenNotebookDocumentParams) -> None:
        server.forget(params.notebook_document.uri)
        server.edited(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_did_change(params: types.DidChangeNotebookDocumentParams) -> None:
        structure = params.change.cells.structure if params.change.cells else None
        for cell in (structure.did_close if structure else None) or []:
            server.publish(cell.uri, None, [])
        server.edited(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_did_close(params: types.DidCloseNotebookDocumentParams) -> None:
        server.forget(params.notebook_document.uri)
        for cell in params.cell_text_documents:
            server.publish(cell.uri, None, [])

    # -- settings

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(params: types.DidChangeWatchedFilesParams) -> None:
        paths = [path for change in params.changes if (path := path_of(change.uri)) is not None]
        paths = [path for path in paths if not server.configuration.is_in_cache(path)]
        if not paths:
            return
        if all(path.endswith(_READ) and os.path.basename(path) != "setup.py" for path in paths):
            server.files_changed(paths)
        else:
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

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, types.DiagnosticOptions(True, True, identifier=SOURCE))
    async def diagnostic(
        params: types.DocumentDiagnosticParams,
    ) -> types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport:
        checked = await server.checked(params.text_document.uri)
        if checked is None or checked.snapshot.is_notebook:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        items = [as_shown(checked.snapshot, found, server.shows_related) for found in checked.diagnostics]
        server.answered(checked)
        result_id = f"{os.getpid()}.{checked.number}"
        if params.previous_result_id == result_id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id)
        return types.RelatedFullDocumentDiagnosticReport(items, result_id=result_id)

    everything = WorkspaceDiagnostics(server)

    @server.feature(types.WORKSPACE_DIAGNOSTIC)
    async def workspace_diagnostic(params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        return await everything.report(params)

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
        checked = await server.analysed(params.text_document.uri)
        if checked is None:
            return []
        found: list[types.CodeAction] = []
        if actions.wanted(types.CodeActionKind.QuickFix.value, params.context):
            found += actions.quick_fixes(checked, params, versioned_edits())
        # Of a notebook each cell is asked for `source.fixAll`, and each would fix all of it.
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
