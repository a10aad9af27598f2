"""The language server as an editor sees it: a real client talks to the real process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import TESTS, RunTorchlint
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.exceptions import JsonRpcRequestCancelled
from pygls.protocol import default_converter
from pygls.workspace import PositionCodec
from pytest_lsp import LanguageClient
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features

from torchlint.rule import evidence
from torchlint.rule.evidence import Evidence
from torchlint.rule.registry import load_rules
from torchlint.server import findings
from torchlint.server.documents import Document, Text

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

SETTINGS = 'plugins = ["demo_pack", "server_pack"]\nselect = ["ZZ", "ZY", "TL001"]\nignore = ["ZZ301"]\n'
ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


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
            await asyncio.wait_for(self._news.wait(), 20)

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
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    await client.start_io(sys.executable, "-m", "torchlint", "server", env=environment)
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
        await asyncio.wait_for(client.shutdown_session(), 20)
        await client.stop()  # type: ignore[no-untyped-call]
    assert server.returncode == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose settings select the rules of the tests."""
    (tmp_path / "torchlint.toml").write_text(SETTINGS)
    return tmp_path


def uri_of(folder: Path, name: str = "train.py") -> str:
    return (folder / name).as_uri()


# -- diagnostics


@pytest.mark.asyncio
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_places_are_counted_as_the_client_counts_them(folder: Path, encoding: str) -> None:
    uri = uri_of(folder)
    async with editor(folder, encodings=[encoding]) as client:
        assert client.encoding == ENCODINGS[encoding]
        client.open(uri, "s = '😀漢字é'; LOUD = 1\n'''\x0c\u2028'''; RISKY = 2\n")
        assert await client.shown(uri) == ["ZZ101 LOUD", "ZZ102 RISKY"]
        client.type(uri, "t = '👩‍🚀'; ", before="LOUD")
        client.type(uri, "u = 'ü'; ", before="RISKY")
        assert await client.shown(uri) == ["ZZ101 LOUD", "ZZ102 RISKY"]
        fix = (await client.actions(uri, "LOUD"))["(ZZ101): write it otherwise: LOUD"]
        client.apply(fix.edit)
        assert client.texts[uri] == "s = '😀漢字é'; t = '👩‍🚀'; loud = 1\n'''\x0c\u2028'''; u = 'ü'; RISKY = 2\n"


@pytest.mark.asyncio
async def test_every_change_is_answered_however_soon_after_the_last_answer_it_comes(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = 0\n")
        for number in range(200):
            client.type(uri, "\n" * (number % 3) + f"LOUD = {number}\n")
            assert await client.shown(uri) == ["ZZ101 LOUD"]


@pytest.mark.asyncio
async def test_a_client_that_says_nothing_of_encodings_counts_in_utf_16(folder: Path) -> None:
    async with editor(folder, rich=False) as client:
        assert client.encoding == "utf-16-le"


@pytest.mark.asyncio
async def test_a_finding_says_what_it_is(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = RISKY\n")
        await client.shown(uri)
        loud, risky = client.published[-1].diagnostics
        assert (loud.source, loud.code, loud.severity) == ("torchlint", "ZZ101", types.DiagnosticSeverity.Warning)
        assert loud.message == "LOUD is found (here)"
        assert risky.severity is types.DiagnosticSeverity.Information


def related(client: Editor, item: types.Diagnostic) -> list[tuple[str, str, str]]:
    """What a diagnostic refers to: message, file, and the words there."""
    return [
        (one.message, one.location.uri, client.words(one.location.uri, one.location.range))
        for one in item.related_information or ()
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("pull", [False, True])
async def test_a_finding_leads_to_its_evidence(folder: Path, encoding: str, pull: bool) -> None:
    uri, other = uri_of(folder), uri_of(folder, "other.py")
    text = "s = '😀'; t, FARR = 1, 2\n"
    (folder / "other.py").write_text(text, encoding="utf-8")
    async with editor(folder, encodings=[encoding], pull=pull) as client:
        client.texts[other] = text
        client.open(uri, "POINT = 1\nfor x in y:\n    '😀é'; TARGET = 2\n")
        if pull:
            (item,) = (await client.pull(uri)).items
        else:
            await client.shown(uri)
            (item,) = client.published[-1].diagnostics
        assert related(client, item) == [("here", uri, "TARGET"), ("there", other, "FARR")]


@pytest.mark.asyncio
@pytest.mark.parametrize(("rich", "shows"), [(True, False), (False, False)])
async def test_a_client_that_cannot_show_evidence_is_sent_none(folder: Path, rich: bool, shows: bool) -> None:
    uri = uri_of(folder)
    async with editor(folder, rich=rich, related=shows) as client:
        client.open(uri, "POINT = 1\nTARGET = 2\n")
        assert await client.shown(uri) == ["ZY104 POINT"]
        assert client.published[-1].diagnostics[0].related_information is None


@pytest.mark.asyncio
async def test_diagnostics_follow_the_text_and_go_with_the_document(folder: Path) -> None:
    uri = uri_of(folder)
    (folder / "train.py").write_text("on_disk = 'LOUD'\n")
    async with editor(folder) as client:
        client.open(uri, "x = 1\n")
        assert await client.shown(uri) == []
        client.type(uri, "LOUD = ", before="x")
        assert await client.shown(uri) == ["ZZ101 LOUD"]
        client.close(uri)
        await client.until(lambda: client.published[-1].version is None)
        assert client.published[-1].diagnostics == ()


@pytest.mark.asyncio
async def test_a_client_that_asks_for_diagnostics_is_sent_none(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder, pull=True) as client:
        client.open(uri, "LOUD = 1\n")
        report = await client.pull(uri)
        assert [item.code for item in report.items] == ["ZZ101"]
        assert (await client.pull(uri, report.result_id)).kind == "unchanged"
        client.type(uri, "LOUD = RISKY\n")
        report = await client.pull(uri, report.result_id)
        assert [item.code for item in report.items] == ["ZZ101", "ZZ102"]
        client.close(uri)
        assert (await client.pull(uri)).items == ()
        assert client.published == []


@pytest.mark.asyncio
async def test_a_text_that_is_not_python_yet_has_no_findings(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = 1\n")
        assert await client.shown(uri) == ["ZZ101 LOUD"]
        client.type(uri, "print(", before="LOUD")
        assert await client.shown(uri) == []  # neither what was there before nor TL002
        client.type(uri, "LOUD = 1\nprint(LOUD)\n")
        assert await client.shown(uri) == ["ZZ101 LOUD", "ZZ101 LOUD"]


@pytest.mark.asyncio
async def test_a_document_without_a_file_has_the_settings_of_the_folder(folder: Path) -> None:
    async with editor(folder) as client:
        client.open("untitled:Untitled-1", "LOUD = 1\n")
        assert await client.shown("untitled:Untitled-1") == ["ZZ101 LOUD"]


@pytest.mark.asyncio
async def test_other_languages_are_left_alone(folder: Path) -> None:
    uri = uri_of(folder, "notes.md")
    async with editor(folder) as client:
        client.open(uri, "LOUD\n", language="markdown")
        await client.until(lambda: bool(client.published))
        assert client.published[0].diagnostics == ()
        assert await client.actions(uri, "LOUD") == {}


# -- fixes


@pytest.mark.asyncio
async def test_a_quick_fix_writes_what_the_command_line_writes(folder: Path, torchlint_in: RunTorchlint) -> None:
    text = "x = 'ä'\r\nprint(NEEDS)  # why\r\n"
    uri = uri_of(folder)
    (folder / "train.py").write_bytes(text.encode())
    torchlint_in(folder, "--fix", "--quiet", "train.py")
    async with editor(folder) as client:
        client.open(uri, text)
        actions = await client.actions(uri, "NEEDS")
        fix = actions["(ZZ107): write it otherwise: NEEDS"]
        assert fix.kind == types.CodeActionKind.QuickFix
        assert fix.is_preferred
        assert [item.code for item in fix.diagnostics or ()] == ["ZZ107"]
        client.apply(fix.edit)
        assert client.texts[uri].encode() == (folder / "train.py").read_bytes()
        assert await client.shown(uri) == []


@pytest.mark.asyncio
async def test_what_a_fix_may_change_is_said(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "RISKY = SHOWN = 1\n")
        risky = await client.actions(uri, "RISKY")
        assert list(risky) == [
            "(ZZ102): write it otherwise: RISKY (unsafe: the tone changes)",
            "(ZZ102): suppress on this line",
        ]
        assert not any(action.is_preferred for action in risky.values())
        # A fix that is only to be shown, and one whose result is not Python, are not offered.
        assert list(await client.actions(uri, "SHOWN")) == ["(ZY103): suppress on this line"]
        client.type(uri, "BREAK = 1\n")
        assert list(await client.actions(uri, "BREAK", ["quickfix"])) == ["(ZZ104): suppress on this line"]


@pytest.mark.asyncio
async def test_only_what_is_asked_for_is_offered(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = 1\nx = 2\n")
        everything = await client.actions(uri, "LOUD")
        assert [action.kind for action in everything.values()] == ["quickfix", "quickfix", "source.fixAll.torchlint"]
        assert [item.kind for item in (await client.actions(uri, "LOUD", ["quickfix"])).values()] == ["quickfix"] * 2
        for kind in ("source", "source.fixAll", "source.fixAll.torchlint"):
            found = await client.actions(uri, "x", [kind])
            assert [item.kind for item in found.values()] == ["source.fixAll.torchlint"]
        assert await client.actions(uri, "LOUD", ["refactor", "source.organizeImports", "source.fixAll.ruff"]) == {}
        assert list(await client.actions(uri, "x", ["quickfix"])) == []


FIX_ALL = ": fix all safely fixable findings"
LONG = "def f():\r\n    '''\x0c'''\r\n    return LOUD, NEEDS, RISKY\r\n\r\n# LOUDER 😀\r\nLOUD = BREAK"


@pytest.mark.asyncio
async def test_fix_all_writes_what_the_command_line_writes(folder: Path, torchlint_in: RunTorchlint) -> None:
    uri = uri_of(folder)
    (folder / "train.py").write_bytes(LONG.encode())
    torchlint_in(folder, "--fix", "--quiet", "train.py")
    expected = (folder / "train.py").read_bytes().decode()
    assert "loud" in expected and "os.sep" in expected and "RISKY" in expected
    async with editor(folder) as client:
        client.open(uri, LONG)
        action = (await client.actions(uri, "def", ["source.fixAll"]))["torchlint" + FIX_ALL]
        assert action.edit is None  # it takes time, and is worked out when it is chosen
        client.apply((await client.code_action_resolve_async(action)).edit)
        assert client.texts[uri] == expected
        client.type(uri, "x = RISKY\n")
        assert await client.actions(uri, "x", ["source.fixAll"]) == {}


@pytest.mark.asyncio
async def test_fix_all_for_a_client_that_resolves_nothing(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder, rich=False) as client:
        client.open(uri, "LOUD = 1\nx = 2\nLOUD = 3\n")
        action = (await client.actions(uri, "x", ["source.fixAll"]))["torchlint" + FIX_ALL]
        assert action.edit is not None and action.edit.changes is not None
        assert [(edit.range.start.line, edit.new_text) for edit in action.edit.changes[uri]] == [
            (0, "loud = 1\n"),  # the line between them is left alone
            (2, "loud = 3\n"),
        ]
        # Where nobody asked for it by name, it is a command: to work out its edit at every move takes too long.
        provider = client.server_capabilities.execute_command_provider
        assert provider is not None
        await client.workspace_execute_command_async(types.ExecuteCommandParams(provider.commands[0], [uri]))
        assert client.texts[uri] == "loud = 1\nx = 2\nloud = 3\n"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LOUD = 1\n", "LOUD = 1  # noqa: ZZ101\n"),
        ("LOUD = 1  # noqa: E501\n", "LOUD = 1  # noqa: E501, ZZ101\n"),
        ("x = LOUD + '''a\nb'''\n", "x = LOUD + '''a\nb'''  # noqa: ZZ101\n"),
        ("x = LOUD + \\\n  1\n", "x = LOUD + \\\n  1  # noqa: ZZ101\n"),
    ],
)
async def test_a_finding_can_be_suppressed(folder: Path, before: str, after: str) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, before)
        action = (await client.actions(uri, "LOUD"))["(ZZ101): suppress on this line"]
        assert not action.is_preferred
        client.apply(action.edit)
        assert client.texts[uri] == after
        assert await client.shown(uri) == []


# -- hover


@pytest.mark.asyncio
async def test_a_finding_and_a_suppression_show_the_page_of_their_rule(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = RISKY\nx = 1  # noqa: ZZ102, TL101\ny = 2\n")
        assert (await client.hover(uri, "OUD")).startswith("# ZZ101 loud-word")
        assert (await client.hover(uri, "ISKY")).startswith("# ZZ102 risky-word")
        assert (await client.hover(uri, "ZZ102")).startswith("# ZZ102 risky-word")
        page = await client.hover(uri, "TL101")
        assert page.startswith("# TL101 single-process-dataloader\n\n")
        assert "## Evidence" in page
        assert await client.hover(uri, "y = 2") == ""


@pytest.mark.parametrize("gpu", [True, False])
def test_the_page_of_a_rule_begins_with_its_benchmark_on_a_gpu(gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Evidence("a device", gpu, "2.11", "2026-01-31", "512 photos", "confirmed", "", 3.4, 3.3, 3.5)
    monkeypatch.setattr(evidence, "_evidence", lambda: {"TL101": (one,)})
    (rule,) = (rule for rule in load_rules() if rule.code == "TL101")
    line = "**Benchmark:** 3.4x in the example program (a device, torch 2.11)\n\n" if gpu else ""
    assert findings._page(rule).startswith(f"# TL101 single-process-dataloader\n\n{line}{rule.page().summary}")
    assert "| 512 photos | confirmed | 3.4x [3.3, 3.5] | a device |" in findings._page(rule)


# -- settings


@pytest.mark.asyncio
async def test_each_folder_has_settings_of_its_own(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for root, codes in ((one, '"ZZ101"'), (two, '"ZZ102"')):
        (root / "generated").mkdir(parents=True)
        (root / "torchlint.toml").write_text(
            f'plugins = ["demo_pack"]\nselect = [{codes}]\nextend-exclude = ["generated"]'
        )
    async with editor(one, two) as client:
        for root, expected in ((one, ["ZZ101 LOUD"]), (two, ["ZZ102 RISKY"])):
            client.open(uri_of(root), "LOUD = RISKY\n")
            assert await client.shown(uri_of(root)) == expected
            client.open(uri_of(root, "generated/x.py"), "LOUD = RISKY\n")
            assert await client.shown(uri_of(root, "generated/x.py")) == []


async def change_settings(client: Editor, folder: Path, text: str) -> None:
    (folder / "torchlint.toml").write_text(text)
    event = types.FileEvent((folder / "torchlint.toml").as_uri(), types.FileChangeType.Changed)
    client.published.clear()
    client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))


@pytest.mark.asyncio
async def test_settings_are_read_again_when_they_change(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = RISKY\n")
        assert await client.shown(uri) == ["ZZ101 LOUD", "ZZ102 RISKY"]
        assert types.WORKSPACE_DID_CHANGE_WATCHED_FILES in client.watched
        await change_settings(client, folder, SETTINGS.replace("ZZ301", "ZZ101"))
        assert await client.shown(uri) == ["ZZ102 RISKY"]


@pytest.mark.asyncio
async def test_a_client_that_pulls_is_asked_to_pull_again(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder, pull=True) as client:
        client.open(uri, "LOUD = RISKY\n")
        report = await client.pull(uri)
        await change_settings(client, folder, SETTINGS.replace("ZZ301", "ZZ101"))
        report = await client.pull(uri, report.result_id)
        assert [item.code for item in report.items] == ["ZZ102"]
        assert client.diagnostic_refresh_count == 1


@pytest.mark.asyncio
async def test_without_a_watching_client_settings_are_read_again_when_something_is_saved(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder, rich=False) as client:
        client.open(uri, "LOUD = RISKY\n")
        assert await client.shown(uri) == ["ZZ101 LOUD", "ZZ102 RISKY"]
        (folder / "torchlint.toml").write_text(SETTINGS.replace("ZZ301", "ZZ101"))
        client.published.clear()
        client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
        assert await client.shown(uri) == ["ZZ102 RISKY"]


@pytest.mark.asyncio
async def test_broken_settings_are_told_once_and_the_last_good_ones_serve_on(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = 1\n")
        assert await client.shown(uri) == ["ZZ101 LOUD"]
        for _ in range(2):
            await change_settings(client, folder, "selcet = []\n")
            assert await client.shown(uri) == ["ZZ101 LOUD"]
        client.type(uri, "LOUD = RISKY\n")
        assert await client.shown(uri) == ["ZZ101 LOUD", "ZZ102 RISKY"]
        (message,) = client.messages
        assert message.type is types.MessageType.Error
        assert "torchlint.toml: unknown setting `selcet`; did you mean `select`?" in message.message
        await change_settings(client, folder, SETTINGS)
        await client.shown(uri)
        await change_settings(client, folder, "selcet = []\n")
        await client.shown(uri)
        assert len(client.messages) == 2  # it was right in between


@pytest.mark.asyncio
async def test_the_editor_s_settings_come_on_top(folder: Path) -> None:
    uri = uri_of(folder)
    other = folder / "other.toml"
    other.write_text('plugins = ["demo_pack"]\nselect = ["ZZ102"]\n')
    async with editor(folder, options={"torchlint": {"configuration": {"ignore": ["ZZ101"]}}}) as client:
        client.open(uri, "LOUD = RISKY\n")
        assert await client.shown(uri) == ["ZZ102 RISKY"]
        for settings, expected in (
            ({"configuration": {"ignore": ["ZZ102"], "select": None}}, ["ZZ101 LOUD"]),
            ({"configuration": str(other)}, ["ZZ102 RISKY"]),
            ({"enable": False}, []),
            ({"configuration": {"ignore": 1}}, ["ZZ101 LOUD", "ZZ102 RISKY"]),
        ):
            client.published.clear()
            client.workspace_did_change_configuration(types.DidChangeConfigurationParams({"torchlint": settings}))
            assert await client.shown(uri) == expected
        assert [message.message for message in client.messages] == [
            "torchlint: the editor's `configuration`: `ignore` must be a list of rule codes, prefixes or names, not 1"
        ]
        # What a client does not send can be asked for.
        client.set_configuration({"configuration": {"ignore": ["ZZ102"]}}, section="torchlint")
        client.published.clear()
        client.workspace_did_change_configuration(types.DidChangeConfigurationParams(None))
        assert await client.shown(uri) == ["ZZ101 LOUD"]


# -- notebooks


def open_notebook(client: Editor, uri: str, *texts: str) -> list[str]:
    """Open a notebook; the URIs of its cells, of which the first holds prose."""
    cells = [types.NotebookCell(types.NotebookCellKind.Markup, f"{uri}#prose")]
    documents = [types.TextDocumentItem(f"{uri}#prose", "markdown", 1, "LOUD")]
    for number, text in enumerate(texts):
        cells.append(types.NotebookCell(types.NotebookCellKind.Code, f"{uri}#{number}"))
        documents.append(types.TextDocumentItem(f"{uri}#{number}", "python", 1, text))
    for document in documents:
        client.texts[document.uri], client.versions[document.uri] = document.text, 1
    notebook = types.NotebookDocument(uri, "jupyter-notebook", 1, cells)
    client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(notebook, documents))
    return [document.uri for document in documents[1:]]


def change_cells(client: Editor, uri: str, version: int, cells: types.NotebookDocumentCellChanges) -> None:
    document = types.VersionedNotebookDocumentIdentifier(version=version, uri=uri)
    change = types.NotebookDocumentChangeEvent(cells=cells)
    client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(document, change))


@pytest.mark.asyncio
@pytest.mark.parametrize("pull", [False, True])
async def test_a_notebook_is_one_module_with_findings_in_its_cells(folder: Path, pull: bool) -> None:
    uri = uri_of(folder, "train.ipynb")
    async with editor(folder, pull=pull) as client:
        one, two = open_notebook(client, uri, "%matplotlib inline\ns = '😀'; LOUD = 1", "x = 1\nRISKY = LOUD")
        assert await client.shown(one) == ["ZZ101 LOUD"]
        assert await client.shown(two) == ["ZZ102 RISKY", "ZZ101 LOUD"]
        if pull:
            assert (await client.pull(two)).items == ()  # else they would be shown twice
        document = types.VersionedTextDocumentIdentifier(uri=two, version=2)
        start = types.Position(0, 0)
        edit = types.TextDocumentContentChangePartial(types.Range(start, start), "y = LOUD; ")
        client.texts[two], client.versions[two] = "y = LOUD; " + client.texts[two], 2
        text = types.NotebookDocumentCellContentChanges(document, [edit])
        change_cells(client, uri, 2, types.NotebookDocumentCellChanges(text_content=[text]))
        assert await client.shown(two) == ["ZZ101 LOUD", "ZZ102 RISKY", "ZZ101 LOUD"]
        client.published.clear()
        array = types.NotebookCellArrayChange(start=1, delete_count=1)
        gone = types.NotebookDocumentCellChangeStructure(array, did_close=[types.TextDocumentIdentifier(one)])
        change_cells(client, uri, 3, types.NotebookDocumentCellChanges(structure=gone))
        assert await client.shown(two) == ["ZZ101 LOUD", "ZZ102 RISKY", "ZZ101 LOUD"]
        assert [item.diagnostics for item in client.published if item.uri == one] == [()]
        client.published.clear()
        closing = types.DidCloseNotebookDocumentParams(
            types.NotebookDocumentIdentifier(uri), [types.TextDocumentIdentifier(two)]
        )
        client.notebook_document_did_close(closing)
        await client.until(lambda: bool(client.published))
        assert [(item.uri, item.diagnostics) for item in client.published] == [(two, ())]


@pytest.mark.asyncio
async def test_a_cell_that_is_not_python_yet_leaves_the_findings_of_others(folder: Path) -> None:
    async with editor(folder) as client:
        one, two = open_notebook(client, uri_of(folder, "train.ipynb"), "LOUD = (", "RISKY = 1")
        assert await client.shown(two) == ["ZZ102 RISKY"]
        assert await client.shown(one) == []


@pytest.mark.asyncio
async def test_evidence_may_be_in_another_cell(folder: Path) -> None:
    async with editor(folder) as client:
        one, two = open_notebook(client, uri_of(folder, "train.ipynb"), "x = 1\nTARGET = '😀'", "y = 1\nPOINT = 2")
        assert await client.shown(two) == ["ZY104 POINT"]
        (item,) = client.published[-1].diagnostics
        assert related(client, item) == [("here", one, "TARGET")]


@pytest.mark.asyncio
async def test_fixes_of_a_notebook_edit_its_cells(folder: Path) -> None:
    uri = uri_of(folder, "train.ipynb")
    async with editor(folder) as client:
        one, two, three = open_notebook(client, uri, "import sys", "LOUD = 1", "!ls\nprint(NEEDS, LOUD)")
        await client.shown(three)
        fix = (await client.actions(three, "NEEDS"))["(ZZ107): write it otherwise: NEEDS"].edit
        assert fix is not None and fix.document_changes is not None
        assert {item.text_document.uri for item in fix.document_changes} == {one, three}  # type: ignore[union-attr]
        suppress = (await client.actions(two, "LOUD"))["(ZZ101): suppress on this line"].edit
        assert suppress is not None and suppress.document_changes is not None
        assert [item.text_document.uri for item in suppress.document_changes] == [two]  # type: ignore[union-attr]
        # Each cell is asked for `source.fixAll`, and would mend the notebook once more.
        assert await client.actions(three, "NEEDS", ["source.fixAll"]) == {}
        found = await client.actions(three, "NEEDS", ["notebook.source.fixAll"])
        action = found["torchlint" + FIX_ALL]
        assert action.kind == "notebook.source.fixAll.torchlint"
        edit = (await client.code_action_resolve_async(action)).edit
        assert edit is not None and edit.document_changes is not None
        changed = {
            item.text_document.uri: [change.new_text for change in item.edits]  # type: ignore[union-attr]
            for item in edit.document_changes
        }
        assert changed == {
            one: ["import os\n"],
            two: ["loud = 1"],
            three: ["print(os.sep, loud)"],
        }


# -- what must not happen


@pytest.mark.asyncio
async def test_a_rule_that_raises_costs_its_findings_and_one_line(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = CRASH\n")
        assert await client.shown(uri) == ["ZZ101 LOUD"]
        client.type(uri, "x = 1; ", before="LOUD")
        assert await client.shown(uri) == ["ZZ101 LOUD"]
        (line,) = [item.message for item in client.log_messages]
        assert "ZZ103 crashed: KeyError: 'a bug'" in line


@pytest.mark.asyncio
async def test_a_rule_that_prints_does_not_disturb_the_protocol(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "PRINT = 1\n")
        assert await client.shown(uri) == ["ZY102 PRINT"]
        assert await client.hover(uri, "PRINT") != ""


@pytest.mark.asyncio
async def test_a_request_can_be_cancelled_and_others_are_heard_meanwhile(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder, pull=True) as client:
        client.open(uri, "SLOW = 1\n")
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
        send: Any = client.protocol.send_request_async
        asked = asyncio.ensure_future(send(types.TEXT_DOCUMENT_DIAGNOSTIC, params, msg_id="slow"))
        await asyncio.sleep(0.1)
        client.cancel_request(types.CancelParams("slow"))
        with pytest.raises(JsonRpcRequestCancelled):
            await asked
        assert [item.code for item in (await client.pull(uri)).items] == ["ZY101"]


@pytest.mark.asyncio
async def test_findings_of_a_text_that_has_changed_are_never_shown(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "SLOW = 1\n")
        await asyncio.sleep(0.1)
        client.type(uri, "LOUD = 1\n")
        client.type(uri, "RISKY = 1\n")
        assert await client.shown(uri) == ["ZZ102 RISKY"]
        assert [item.version for item in client.published] == [3]


@pytest.mark.asyncio
async def test_odd_documents_and_requests_do_no_harm(folder: Path) -> None:
    async with editor(folder) as client:
        for number, text in enumerate(("\0LOUD", "x = '\ud800'; LOUD", "(" * 5000 + "LOUD", "", "LOUD" * 3_000_000)):
            uri = uri_of(folder, f"{number}.py")
            client.open(uri, text)
            await client.until(lambda uri=uri: any(item.uri == uri for item in client.published))  # type: ignore[misc]
        gone = uri_of(folder, "gone.py")
        client.texts[gone], client.versions[gone] = "LOUD", 0
        assert await client.actions(gone, "LOUD") == {}
        assert await client.hover(gone, "LOUD") == ""
        assert (await client.code_action_resolve_async(types.CodeAction("other", data={"of": "another"}))).edit is None
        client.type(gone, "LOUD")  # it was never opened
        client.close(gone)
        uri = uri_of(folder)
        client.open(uri, "LOUD = 1\n")
        assert await client.shown(uri) == ["ZZ101 LOUD"]


def run_server(code: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", f"{code}from torchlint.cli import main; sys.exit(main(['server']))"],
        input=stdin,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        timeout=60,
        check=False,
    )


def message(text: str) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text.encode())


@pytest.mark.parametrize("stdin", [b"", message('{"jsonrpc": "2.0", "method": "exit"}')])
def test_an_end_without_a_shutdown_is_an_error(stdin: bytes) -> None:
    outcome = run_server("import sys; ", stdin)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (1, b"", b"")


def test_without_pygls_the_user_is_told_what_to_install() -> None:
    outcome = run_server("import sys; sys.modules['pygls'] = None; ", b"")
    assert outcome.returncode == 2
    assert outcome.stderr.decode().splitlines() == ["error: the language server needs pygls: pip install 'pygls>=2'"]


def test_a_workspace_cannot_bring_a_plugin_along(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("open('ran', 'w').close()\n")
    (tmp_path / "torchlint.toml").write_text('plugins = ["evil"]\n')
    code = (
        "from torchlint.server.process import forget_working_directory as f; f(); "
        "from torchlint.settings.resolver import Resolver; Resolver().for_folder('.')"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"rule pack 'evil' cannot be imported" in outcome.stderr
    assert not (tmp_path / "ran").exists()


# -- positions

TEXTS = st.text(st.sampled_from("aé漢😀\n\r\t\f\u2028"), max_size=30)


@given(text=TEXTS, encoding=st.sampled_from(list(types.PositionEncodingKind)), data=st.data())
def test_every_place_has_one_position(text: str, encoding: types.PositionEncodingKind, data: st.DataObject) -> None:
    converted = Text(text, PositionCodec(encoding))
    offset = data.draw(st.integers(0, len(text)))
    position = converted.position(offset)
    if text[offset - 1 : offset + 1] != "\r\n":  # no place lies within a newline
        assert converted.offset(position) == offset
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert position.line == len(before) - 1 or text[offset - 1 : offset + 1] == "\r\n"


@given(
    text=TEXTS,
    inserted=TEXTS,
    encoding=st.sampled_from(list(types.PositionEncodingKind)),
    places=st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_an_edit_of_the_client_is_made_where_the_client_made_it(
    text: str, inserted: str, encoding: types.PositionEncodingKind, places: tuple[int, int]
) -> None:
    start, end = sorted(min(place, len(text)) for place in places)
    if "\r\n" in (text[start - 1 : start + 1], text[end - 1 : end + 1]):
        return
    codec = PositionCodec(encoding)
    converted = Text(text, codec)
    document = Document("file:///x.py", text, 1, "python", position_codec=codec)
    place = types.Range(converted.position(start), converted.position(end))
    document.apply_change(types.TextDocumentContentChangePartial(place, inserted))
    assert document.source == text[:start] + inserted + text[end:]
