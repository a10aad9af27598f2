"""The diagnostics of all files of the workspace, for clients that ask for them."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.uris import from_fs_path

from torchlint.engine.checker import AbandonedError
from torchlint.server.analysis import Checked, check_file
from torchlint.server.documents import folders_of, open_texts
from torchlint.server.findings import as_shown
from torchlint.server.server import QUIET_SECONDS, TorchlintServer

#: The result of a file that has no findings any more, or is not there any more.
_GONE = "none"

Report = types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport


class WorkspaceDiagnostics:
    """Checks the files that are not open, one at a time, after what is open.

    Clients ask again as soon as they are answered, so that an answer without news waits until something changes.
    """

    def __init__(self, server: TorchlintServer) -> None:
        self._server = server
        self._answered: object = None  #: the state of all files that the last answer was given for
        self._checked: dict[str, tuple[int, Checked]] = {}  #: by path, with the state of the settings

    async def report(self, params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        """What has changed since the client asked before, as soon as there is anything."""
        known = {item.uri: item.value for item in params.previous_result_ids}
        while True:
            state = self._server.edits, self._server.generation
            if not known or self._answered != state:
                items = await self._reports(known)
                if any(item.kind == "full" for item in items) or (not known and self._answered != state):
                    self._answered = state
                    return types.WorkspaceDiagnosticReport(items)
                self._answered = state
            await self._server.next_change(state)
            await asyncio.sleep(QUIET_SECONDS)

    async def _reports(self, known: dict[str, str]) -> list[Report]:
        server = self._server
        folders = folders_of(server.workspace) if server.options.workspace else []
        paths = await asyncio.wrap_future(server.worker.submit(partial(server.configuration.files_in, folders)))
        found: list[Report] = []
        reported = set()
        for path in paths:
            uri = from_fs_path(path)
            if uri is None or path in open_texts(server.workspace):
                continue  # an open document is asked for by itself
            checked = await self._check(path, uri)
            if checked is None or not checked.diagnostics:
                continue
            reported.add(uri)
            number = f"{os.getpid()}.{checked.number}"
            if known.get(uri) == number:
                found.append(types.WorkspaceUnchangedDocumentDiagnosticReport(uri, number))
            else:
                shown = [as_shown(checked.snapshot, item, server.shows_related) for item in checked.diagnostics]
                found.append(types.WorkspaceFullDocumentDiagnosticReport(uri, shown, result_id=number))
        for uri in known.keys() - reported:
            if known[uri] != _GONE and not server.is_open(uri):
                found.append(types.WorkspaceFullDocumentDiagnosticReport(uri, [], result_id=_GONE))
        return found

    async def _check(self, path: str, uri: str) -> Checked | None:
        """The check of a file, begun again after anything that is more urgent; None if it cannot be read."""
        server = self._server
        while True:
            state = server.edits, server.generation
            generation, before = self._checked.get(path, (state[1], None))
            cancelled = server.in_background = threading.Event()
            work = partial(
                check_file,
                path,
                uri,
                server.workspace.position_codec,
                server.configuration,
                cancelled.is_set,
                server.texts,
                server.earlier,
                open_texts(server.workspace),
                before if generation == state[1] else None,
            )
            ended = asyncio.wrap_future(server.worker.submit(work))
            changed = asyncio.ensure_future(server.next_change(state))
            try:
                either: list[asyncio.Future[Any]] = [ended, changed]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    cancelled.set()
                    await asyncio.wait([ended])
                checked = ended.result()
            except AbandonedError:
                await asyncio.sleep(QUIET_SECONDS)
                continue
            finally:  # the request may be cancelled
                cancelled.set()
                changed.cancel()
            if checked is None:
                self._checked.pop(path, None)
            else:
                self._checked[path] = (state[1], checked)
            return checked
