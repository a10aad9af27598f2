"""The language server on projects: what is open and not saved counts for the other files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RunTorchlint
from lsprotocol import types
from notebook_files import document
from pygls.exceptions import JsonRpcRequestCancelled
from server_client import Editor, editor, uri_of
from whole_program import DATA, ENGINE, MAIN

from torchlint.project.context import forget, project_file, use_texts

SCRIPT = MAIN.format(data="data", engine="engine")
ON_CPU = SCRIPT.replace('"cuda"', '"cpu"')
#: Longer than the server waits before it checks other files, and than such a check takes.
LATER = 2.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A program of three files whose loader feeds a CUDA device, and a script that has nothing to do with it."""
    (tmp_path / ".git").mkdir()
    for name, text in {
        "data": DATA,
        "engine": ENGINE,
        "main": SCRIPT,
        "alone": DATA + "\nprint(build_loader([]))\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.fixture
def texts() -> Iterator[None]:
    """What is known of projects is forgotten before and after."""
    forget()
    use_texts({})
    yield
    forget()
    use_texts({})


def codes(client: Editor, uri: str) -> set[object]:
    """The codes shown last for a document."""
    last = [item for item in client.published if item.uri == uri][-1]
    return {item.code for item in last.diagnostics}


def times(client: Editor, uri: str) -> int:
    """How often diagnostics of a document were sent."""
    return sum(item.uri == uri for item in client.published)


async def opened(client: Editor, folder: Path, *names: str) -> list[str]:
    """Open files as they are on disk, and wait for their diagnostics."""
    uris = [uri_of(folder, f"{name}.py") for name in names]
    for uri, name in zip(uris, names, strict=True):
        client.open(uri, (folder / f"{name}.py").read_text())
        await client.shown(uri)
    return uris


@pytest.mark.asyncio
async def test_a_change_of_one_open_file_changes_the_findings_of_another(
    project: Path, torchlint_in: RunTorchlint
) -> None:
    async with editor(project) as client:
        data, alone, main = await opened(client, project, "data", "alone", "main")
        assert "TL102" in codes(client, data)
        before, alone_before = times(client, data), times(client, alone)
        client.type(main, ON_CPU)
        await client.until(lambda: times(client, data) > before)
        assert "TL102" not in codes(client, data)
        client.type(main, SCRIPT)
        await client.until(lambda: times(client, data) > before + 1)
        assert "TL102" in codes(client, data)
        client.type(main, ON_CPU)
        await client.until(lambda: times(client, data) > before + 2)
        await asyncio.sleep(LATER)
        assert times(client, alone) == alone_before  # it does not depend on what has changed
        assert times(client, data) == before + 3
        shown = codes(client, data)
    (project / "main.py").write_text(ON_CPU)
    done = torchlint_in(project, "--output-format", "json", "data.py")
    assert {item["code"] for item in json.loads(done.stdout)} == shown


@pytest.mark.asyncio
async def test_a_check_sees_the_unsaved_text_of_a_file_that_was_opened_before(project: Path) -> None:
    async with editor(project) as client:
        (main,) = await opened(client, project, "main")
        client.type(main, ON_CPU)
        (data,) = await opened(client, project, "data")
        assert "TL102" not in codes(client, data)


@pytest.mark.asyncio
async def test_a_file_that_is_closed_counts_as_it_is_on_disk(project: Path) -> None:
    async with editor(project) as client:
        main, data = await opened(client, project, "main", "data")
        client.type(main, ON_CPU)
        await client.until(lambda: "TL102" not in codes(client, data))
        client.close(main)
        await client.until(lambda: "TL102" in codes(client, data))


@pytest.mark.asyncio
async def test_a_change_to_what_is_not_python_yet_changes_no_findings_of_others(project: Path) -> None:
    async with editor(project) as client:
        main, data = await opened(client, project, "main", "data")
        before = times(client, data)
        client.type(main, "print(", before="import torch")
        assert await client.shown(main) == []
        await asyncio.sleep(LATER)
        assert times(client, data) == before
        client.type(main, ON_CPU)
        await client.until(lambda: times(client, data) > before)
        assert "TL102" not in codes(client, data)


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["saved", "watched", "new", "removed"])
async def test_what_changes_on_disk_counts_from_then_on(project: Path, how: str) -> None:
    main = project / "main.py"
    if how == "new":
        main.unlink()
    async with editor(project) as client:
        (data,) = await opened(client, project, "data")
        before = "TL102" in codes(client, data)
        assert before is (how != "new")
        if how == "removed":
            main.unlink()
        else:
            main.write_text(SCRIPT if how == "new" else ON_CPU)
        if how == "saved":
            document = types.TextDocumentIdentifier(main.as_uri())
            client.text_document_did_save(types.DidSaveTextDocumentParams(document))
        else:
            event = types.FileEvent(main.as_uri(), types.FileChangeType.Changed)
            client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
        await client.until(lambda: ("TL102" in codes(client, data)) is not before)


@pytest.mark.asyncio
async def test_a_notebook_that_becomes_a_caller_counts(project: Path) -> None:
    (project / "main.py").unlink()
    notebook = project / "main.ipynb"
    async with editor(project) as client:
        (data,) = await opened(client, project, "data")
        assert "TL102" not in codes(client, data)
        notebook.write_text(document(SCRIPT), encoding="utf-8")
        event = types.FileEvent(notebook.as_uri(), types.FileChangeType.Created)
        client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
        await client.until(lambda: "TL102" in codes(client, data))
        notebook.write_text(document(ON_CPU), encoding="utf-8")
        event = types.FileEvent(notebook.as_uri(), types.FileChangeType.Changed)
        client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
        await client.until(lambda: "TL102" not in codes(client, data))


@pytest.mark.asyncio
async def test_evidence_is_shown_in_the_unsaved_text(project: Path) -> None:
    async with editor(project) as client:
        data, engine = await opened(client, project, "data", "engine")
        before = times(client, data)
        client.type(engine, "# one more row\n", before="import")
        await client.until(lambda: times(client, data) > before)
        last = [item for item in client.published if item.uri == data][-1]
        places = [
            client.words(engine, one.location.range)
            for item in last.diagnostics
            if item.code == "TL102"
            for one in item.related_information or ()
            if one.location.uri == engine
        ]
        assert places in (["images = images.to(device)"], ["images.to(device)"])


@pytest.mark.asyncio
async def test_a_client_that_asks_is_answered_for_the_newest_texts_of_all_files(project: Path) -> None:
    async with editor(project, pull=True) as client:
        provider: Any = client.server_capabilities.diagnostic_provider
        assert provider.inter_file_dependencies
        data, main = uri_of(project, "data.py"), uri_of(project, "main.py")
        client.open(data, DATA)
        client.open(main, SCRIPT)
        first = await client.pull(data)
        assert "TL102" in {item.code for item in first.items}
        client.type(main, SCRIPT.replace('"cuda"', "'cuda'").replace("lr=0.1", "lr=0.2") + "\n")
        client.type(main, ON_CPU)
        second = await client.pull(data, first.result_id)
        assert "TL102" not in {item.code for item in second.items}
        client.type(main, "print(", before="import torch")
        assert (await client.pull(data, second.result_id)).kind == "unchanged"
        client.type(main, SCRIPT)
        for _ in range(50):
            await asyncio.sleep(0.1)
            if client.diagnostic_refresh_count:
                break
        assert client.diagnostic_refresh_count == 1


def test_what_a_change_does_not_concern_is_not_chosen_again(project: Path, texts: None) -> None:
    def chosen(name: str, text: str) -> object:
        found = project_file(str(project / f"{name}.py"), text)
        assert found is not None
        return found.context

    data, alone = chosen("data", DATA), chosen("alone", (project / "alone.py").read_text())
    assert chosen("data", DATA) is data
    use_texts({str(project / "main.py"): ON_CPU})
    changed = chosen("data", DATA)
    assert changed is not data
    assert chosen("main", ON_CPU) is changed
    assert chosen("alone", (project / "alone.py").read_text()) is alone
    use_texts({str(project / "main.py"): ""})
    file = project_file(str(project / "data.py"), DATA)
    assert file is not None and not file.is_in_program  # no script imports it any more
    use_texts({})
    assert chosen("data", DATA) is data


EVERYTHING = {"workspaceDiagnostics": True}


async def ask_for_all(client: Editor, previous: types.WorkspaceDiagnosticReport | None = None) -> dict[str, Any]:
    """The reports about all files, by file name, after an earlier answer; the answer itself under an empty name."""
    ids = [types.PreviousResultId(item.uri, item.result_id or "") for item in (previous.items if previous else ())]
    report = await asyncio.wait_for(
        client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(ids)), 20 if previous is None else 30
    )
    return {"": report, **{item.uri.rpartition("/")[2]: item for item in report.items}}


@pytest.mark.asyncio
async def test_all_files_of_the_workspace_are_reported_when_they_are_asked_for(project: Path) -> None:
    (project / "torchlint.toml").write_text('exclude = ["engine.py"]\n')
    async with editor(project, pull=True, options=EVERYTHING) as client:
        provider: Any = client.server_capabilities.diagnostic_provider
        assert provider.workspace_diagnostics
        first = await ask_for_all(client)
        assert "engine.py" not in first  # it is excluded
        assert "TL102" in {item.code for item in first["data.py"].items}
        waiting = asyncio.ensure_future(ask_for_all(client, first[""]))
        await asyncio.sleep(LATER)
        assert not waiting.done()  # there is nothing new
        client.open(uri_of(project, "main.py"), ON_CPU)
        second = await waiting
        assert second["data.py"].kind == "full"
        assert "TL102" not in {item.code for item in second["data.py"].items}


@pytest.mark.asyncio
async def test_a_request_for_all_files_can_be_cancelled(project: Path) -> None:
    async with editor(project, pull=True, options=EVERYTHING) as client:
        first = await ask_for_all(client)
        ids = [types.PreviousResultId(item.uri, item.result_id) for item in first[""].items]
        send: Any = client.protocol.send_request_async
        params = types.WorkspaceDiagnosticParams(ids)
        asked = asyncio.ensure_future(send(types.WORKSPACE_DIAGNOSTIC, params, msg_id="all"))
        await asyncio.sleep(0.2)
        client.cancel_request(types.CancelParams("all"))
        with pytest.raises(JsonRpcRequestCancelled):
            await asked
        client.open(uri_of(project, "data.py"), DATA)
        assert "TL102" in {item.code for item in (await client.pull(uri_of(project, "data.py"))).items}


@pytest.mark.asyncio
async def test_files_that_are_not_open_are_reported_only_if_that_is_set(project: Path) -> None:
    async with editor(project, pull=True) as client:
        assert not (await ask_for_all(client))[""].items
