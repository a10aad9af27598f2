"""An editor for the tests of the language server: a real client that talks to the real process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features
from torchlint_processes import can_fork, environment, forks

SETTINGS = 'plugins = ["demo_pack", "server_pack"]\nselect = ["ZZ", "ZY", "TL001"]\nignore = ["ZZ301"]\n'
ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}

FIX_ALL = ": fix all safely fixable findings"


#: Seconds, less than a test may take: a busy machine answers late.
PATIENCE_S = 120.0


class Editor(LanguageClient):
    """A client that remembers what it was told, and can apply edits to the texts that it has open."""

    def __init__(self) -> None:
        super().__init__(converter_factory=default_converter)
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.published: list[types.PublishDiagnosticsParams] = []
        self.watched: list[str] = []
        self.encoding = "utf-16-le"
        self.server_capabilities = types.ServerCapabilities()
        self._news = asyncio.Event()
        register_lsp_features(self, {**DEFAULT_CLIENT_FEATURES, **self._features()})

    def _features(self) -> dict[str, Callable[..., Any]]:
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.append(params)
            self._news.set()

        def register(params: types.RegistrationParams) -> None:
            self.watched += [item.method for item in params.registrations]

        def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
            self.apply(params.edit)
            return types.ApplyWorkspaceEditResult(applied=True)

        return {
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: publish,
            types.CLIENT_REGISTER_CAPABILITY: register,
            types.WORKSPACE_APPLY_EDIT: apply,
        }

    # -- what a user does

    def open(self, uri: str, text: str, language: str = "python") -> None:
        self.texts[uri], self.versions[uri] = text, 1
        item = types.TextDocumentItem(uri, language, 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, uri: str, text: str, before: str | None = None) -> None:
        """Type a text before another; without one, replace everything."""
        old = self.texts[uri]
        change: types.TextDocumentContentChangeEvent = types.TextDocumentContentChangeWholeDocument(text)
        if before is not None:
            place = self.position(uri, old.index(before))
            change = types.TextDocumentContentChangePartial(types.Range(place, place), text)
            text = old.replace(before, text + before, 1)
        self.change(uri, text, change)

    def change(self, uri: str, text: str, change: types.TextDocumentContentChangeEvent) -> None:
        self.texts[uri] = text
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        self.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def close(self, uri: str) -> None:
        self.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    async def actions(
        self, uri: str, word: str, only: list[types.CodeActionKind | str] | None = None
    ) -> dict[str, types.CodeAction]:
        """The code actions at a word, by their titles without the prefix."""
        start = self.texts[uri].index(word)
        place = types.Range(self.position(uri, start), self.position(uri, start + len(word)))
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, types.CodeActionContext([], only))
        found = await self.text_document_code_action_async(params) or []
        return {item.title.removeprefix("torchlint "): item for item in found if isinstance(item, types.CodeAction)}

    async def hover(self, uri: str, word: str) -> str:
        place = self.position(uri, self.texts[uri].index(word))
        found = await self.text_document_hover_async(types.HoverParams(types.TextDocumentIdentifier(uri), place))
        if found is None:
            return ""
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    async def pull(self, uri: str, previous: str | None = None) -> Any:
        document = types.TextDocumentIdentifier(uri)
        return await self.text_document_diagnostic_async(
            types.DocumentDiagnosticParams(document, previous_result_id=previous)
        )

    # -- what a user sees

    async def shown(self, uri: str) -> list[str]:
        """The words under the diagnostics of the newest version of a document, with their codes."""
        version = self.versions[uri]
        await self.until(lambda: any(item.uri == uri and item.version == version for item in self.published))
        last = [item for item in self.published if item.uri == uri][-1]
        return [f"{item.code} {self.words(uri, item.range)}" for item in last.diagnostics]

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something that the server tells makes it so."""
        while not true():
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), PATIENCE_S)

    # -- texts

    def words(self, uri: str, place: types.Range) -> str:
        return self.texts[uri][self.offset(uri, place.start) : self.offset(uri, place.end)]

    def position(self, uri: str, offset: int) -> types.Position:
        before = self.texts[uri][:offset].split("\n")
        return types.Position(len(before) - 1, len(before[-1].encode(self.encoding)) // self._unit())

    def offset(self, uri: str, position: types.Position) -> int:
        lines = self.texts[uri].split("\n")
        line = lines[position.line].encode(self.encoding)[: position.character * self._unit()]
        return sum(len(above) + 1 for above in lines[: position.line]) + len(line.decode(self.encoding))

    def _unit(self) -> int:
        return {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}[self.encoding]

    def apply(self, edit: types.WorkspaceEdit | None) -> None:
        """Apply an edit; if it is bound to versions, they must be those that are open."""
        assert edit is not None
        edits: dict[str, Any] = dict(edit.changes or {})
        for change in edit.document_changes or ():
            assert isinstance(change, types.TextDocumentEdit)
            assert change.text_document.version == self.versions[change.text_document.uri]
            edits[change.text_document.uri] = change.edits
        for uri, changes in edits.items():
            text = self.texts[uri]
            places = sorted(
                ((self.offset(uri, item.range.start), self.offset(uri, item.range.end), item.new_text))
                for item in changes
            )
            assert all(one[1] <= two[0] for one, two in pairwise(places))
            for start, end, new in reversed(places):
                text = text[:start] + new + text[end:]
            self.type(uri, text)


def capabilities(
    *, pull: bool = False, encodings: list[str] | None = None, rich: bool = True, related: bool = True
) -> Any:
    """What the client can: everything the server knows of, or (not ``rich``) as little as possible."""
    if not rich:
        return types.ClientCapabilities()
    resolve = types.ClientCodeActionResolveOptions(properties=["edit"])
    kinds = types.ClientCodeActionKindOptions(value_set=["quickfix", "source"])
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=encodings),
        text_document=types.TextDocumentClientCapabilities(
            diagnostic=types.DiagnosticClientCapabilities() if pull else None,
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(related_information=related),
            code_action=types.CodeActionClientCapabilities(
                code_action_literal_support=types.ClientCodeActionLiteralOptions(kinds),
                resolve_support=resolve,
                data_support=True,
                is_preferred_support=True,
            ),
            hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
        ),
        workspace=types.WorkspaceClientCapabilities(
            apply_edit=True,
            configuration=True,
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
            diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True),
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
        ),
        notebook_document=types.NotebookDocumentClientCapabilities(
            types.NotebookDocumentSyncClientCapabilities(dynamic_registration=False)
        ),
    )


@asynccontextmanager
async def editor(
    *roots: Path,
    options: object = None,
    pull: bool = False,
    encodings: list[str] | None = None,
    rich: bool = True,
    related: bool = True,
) -> AsyncIterator[Editor]:
    """An editor with folders open, and its server."""
    client = Editor()
    variables = environment()
    if can_fork(variables):
        command, inherited = forks().command("torchlint", "server")
        await client.start_io(*command, env=variables, pass_fds=[inherited])
    else:
        await client.start_io(sys.executable, "-m", "torchlint", "server", env=variables)
    folders = [types.WorkspaceFolder(root.as_uri(), root.name) for root in roots]
    params = types.InitializeParams(
        capabilities=capabilities(pull=pull, encodings=encodings, rich=rich, related=related),
        root_uri=roots[0].as_uri(),
        workspace_folders=folders,
        initialization_options=options,
    )
    answer = await client.initialize_session(params)
    assert answer.capabilities.position_encoding is not None
    client.encoding = ENCODINGS[answer.capabilities.position_encoding]
    client.server_capabilities = answer.capabilities
    server = client._server
    assert server is not None
    try:
        yield client
    finally:
        await asyncio.wait_for(client.shutdown_session(), PATIENCE_S)
        await client.stop()  # type: ignore[no-untyped-call]
    assert server.returncode == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose settings select the rules of the tests."""
    (tmp_path / "torchlint.toml").write_text(SETTINGS)
    return tmp_path


def uri_of(folder: Path, name: str = "train.py") -> str:
    return (folder / name).as_uri()


def related(client: Editor, item: types.Diagnostic) -> list[tuple[str, str, str]]:
    """What a diagnostic refers to: message, file, and the words there."""
    return [
        (one.message, one.location.uri, client.words(one.location.uri, one.location.range))
        for one in item.related_information or ()
    ]
