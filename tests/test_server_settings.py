"""The settings of the language server: those of folders, and those of the editor."""

from __future__ import annotations

from pathlib import Path

import pytest
import server_client
from lsprotocol import types
from server_client import SETTINGS, Editor, editor, uri_of

from torchlint.server.configuration import Configuration, Options, Session
from torchlint.server.documents import Snapshot
from torchlint.settings.resolver import Given
from torchlint.source.source import Source

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

folder = server_client.folder


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


def test_the_command_line_chooses_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text('select = ["TL101"]\n')
    (tmp_path / "other.toml").write_text('select = ["TL102"]\n')
    path = str(tmp_path / "a.py")
    snapshot = Snapshot(uri_of(tmp_path, "a.py"), path, True, Source.from_text("", path), (), None)
    sent = Options(configuration={"extend-select": ["TL103"]})
    for given, codes in (
        (Given(), {"TL101", "TL103"}),
        (Given(config=str(tmp_path / "other.toml")), {"TL102", "TL103"}),
    ):
        settings = Configuration(sent, str(tmp_path), Session(given)).settings_for(snapshot)
        assert settings is not None
        assert settings.codes - {"TL002"} == codes
    settings = Configuration(Options(), str(tmp_path), Session(Given(isolated=True))).settings_for(snapshot)
    assert settings is not None
    assert len(settings.codes) > 10


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
        assert "torchlint.toml:1:1: unknown setting `selcet`; did you mean `select`?" in message.message
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
