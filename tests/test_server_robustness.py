"""What must not happen to the language server: rules that fail, odd documents, ends without a shutdown."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import server_client
from conftest import TESTS
from lsprotocol import types
from pygls.exceptions import JsonRpcRequestCancelled
from server_client import FIX_ALL, editor, uri_of

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

folder = server_client.folder


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
async def test_a_rule_that_raises_on_fixed_text_is_logged(folder: Path) -> None:
    uri = uri_of(folder)
    async with editor(folder) as client:
        client.open(uri, "LOUD = LATE\n")
        assert await client.shown(uri) == ["ZZ101 LOUD"]
        assert client.log_messages == []
        action = (await client.actions(uri, "LATE", ["source.fixAll"]))["torchlint" + FIX_ALL]
        client.apply((await client.code_action_resolve_async(action)).edit)
        assert "LOUD" not in client.texts[uri]
        (line,) = [item.message for item in client.log_messages]
        assert "ZY105 crashed: KeyError: 'after the fix'" in line


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
        timeout=240,
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
