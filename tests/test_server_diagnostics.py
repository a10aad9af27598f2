"""The diagnostics of the language server as an editor sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
import server_client
from lsprotocol import types
from server_client import ENCODINGS, editor, related, uri_of

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

folder = server_client.folder


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
