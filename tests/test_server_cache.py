"""The language server uses results of earlier runs, its own and those of the command line, while they are valid."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import RunTorchlint
from lsprotocol import types
from server_client import Editor, editor, uri_of
from test_server_projects import EVERYTHING, SCRIPT, codes, opened, project, times
from torchlint_processes import run_module

from torchlint.cache.folder import CacheFolder

__all__ = ["project"]

NAMES = ("data", "engine", "main", "alone")
PLANTED = "planted by nobody"


def kept_in(folder: Path) -> list[Path]:
    """The results that a cache contains."""
    return [path for path in folder.glob(".torchlint_cache/*/*.json") if path.stem != "settings"]


def plant(folder: Path) -> None:
    """Change a message and an edit in the cache, so that one can see where a finding comes from."""
    cache = CacheFolder(str(folder / ".torchlint_cache"))
    for path in kept_in(folder):
        text = json.dumps(cache.read(path.stem))
        assert "feeds a CUDA device" in text and "is_available()" in text
        cache.write(
            path.stem, json.loads(text.replace("feeds a CUDA device", PLANTED).replace("is_available()", "evil()"))
        )


def aged(folder: Path) -> None:
    """Times of files that have just changed are not trusted."""
    for path in folder.glob("*.py"):
        os.utime(path, (1, 1))


def messages(client: Editor, uri: str) -> str:
    """The messages shown last for a document."""
    last = [item for item in client.published if item.uri == uri][-1]
    return "\n".join(item.message for item in last.diagnostics)


async def shown(folder: Path, **more: Any) -> list[Any]:
    """All that a new server shows of the files, as data."""
    async with editor(folder, **more) as client:
        uris = await opened(client, folder, *NAMES)
        await asyncio.sleep(1)
        return [next(item.diagnostics for item in reversed(client.published) if item.uri == uri) for uri in uris]


@pytest.mark.asyncio
async def test_a_run_of_the_command_line_serves_the_server(project: Path) -> None:
    aged(project)
    without = await shown(project)
    assert run_module("torchlint", project, "--exit-zero", "--quiet").returncode == 0
    assert kept_in(project)
    assert await shown(project) == without
    plant(project)
    async with editor(project) as client:
        data, *_ = await opened(client, project, "data", "main")
        assert PLANTED in messages(client, data)


@pytest.mark.asyncio
async def test_fixes_never_come_from_a_cache(project: Path) -> None:
    aged(project)
    run_module("torchlint", project, "--exit-zero", "--quiet")
    plant(project)
    async with editor(project) as client:
        (data,) = await opened(client, project, "data")
        assert PLANTED in messages(client, data)
        found = await client.actions(data, "DataLoader(dataset")
        fixes = [item for title, item in found.items() if "pin_memory" in title]
        assert fixes
        assert "evil" not in str(found)
        client.apply(fixes[0].edit)
        assert "is_available()" in client.texts[data]
        assert "TL102" not in await client.shown(data)


@pytest.mark.asyncio
async def test_a_second_server_uses_what_the_first_has_found(project: Path) -> None:
    aged(project)
    first = await shown(project)
    async with editor(project) as client:
        await opened(client, project, *NAMES)
        until = time.monotonic() + 60
        while not kept_in(project) and time.monotonic() < until:
            await asyncio.sleep(0.1)
    assert await shown(project) == first
    plant(project)
    assert PLANTED in str(await shown(project))


@pytest.mark.asyncio
async def test_a_server_that_ends_at_once_has_stored_its_results(project: Path) -> None:
    aged(project)
    async with editor(project) as client:
        await opened(client, project, *NAMES)
    assert kept_in(project)


@pytest.mark.asyncio
async def test_nothing_is_stored_where_caches_are_off(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHLINT_NO_CACHE", "1")
    async with editor(project) as client:
        await opened(client, project, *NAMES)
        await asyncio.sleep(2)
    assert not (project / ".torchlint_cache").exists()


@pytest.mark.asyncio
async def test_an_unsaved_text_makes_the_cache_invalid(project: Path) -> None:
    aged(project)
    run_module("torchlint", project, "--exit-zero", "--quiet")
    plant(project)
    async with editor(project) as client:
        (data,) = await opened(client, project, "data")
        assert PLANTED in messages(client, data)
        before = times(client, data)
        main = uri_of(project, "main.py")
        client.open(main, SCRIPT.replace('"cuda"', '"cpu"'))
        await client.until(lambda: times(client, data) > before)
        assert "TL102" not in codes(client, data)
        assert PLANTED not in messages(client, data)


@pytest.mark.asyncio
async def test_a_change_on_disk_makes_the_cache_invalid(project: Path) -> None:
    aged(project)
    run_module("torchlint", project, "--exit-zero", "--quiet")
    plant(project)
    (project / "main.py").write_text(SCRIPT.replace('"cuda"', '"cpu"'))
    async with editor(project) as client:
        data, main = await opened(client, project, "data", "main")
        assert "TL102" not in codes(client, data)
        before = times(client, data)
        (project / "main.py").write_text(SCRIPT)
        client.close(main)
        event = types.FileEvent(main, types.FileChangeType.Changed)
        client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
        await client.until(lambda: times(client, data) > before)
        assert "TL102" in codes(client, data)


@pytest.mark.asyncio
async def test_the_workspace_is_answered_from_the_cache(project: Path, torchlint_in: RunTorchlint) -> None:
    aged(project)
    run_module("torchlint", project, "--exit-zero", "--quiet")
    plant(project)
    async with editor(project, options=EVERYTHING, pull=True) as client:
        answer = await client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
        assert PLANTED in str(answer)
