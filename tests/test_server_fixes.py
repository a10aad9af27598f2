"""The code actions of the language server: fixes and suppressions."""

from __future__ import annotations

from pathlib import Path

import pytest
import server_client
from conftest import RunTorchlint
from lsprotocol import types
from server_client import FIX_ALL, editor, uri_of

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

folder = server_client.folder


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
