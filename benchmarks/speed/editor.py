"""An editor that starts the language server, waits for the diagnostics of some files, and ends it.

    python -m benchmarks.speed.editor FOLDER FILE ... [--workspace]

It prints the diagnostics as JSON, and to standard error the seconds from the start of the server to the last answer.
With ``--workspace`` it also asks for the diagnostics of all files of the folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.lsp import Client


class Editor(Client):
    """Waits for the answers of a server."""

    def answer(self, number: int) -> Any:
        """The result of a request, past other messages."""
        while (message := self.receive()).get("id") != number or "method" in message:
            pass
        return message["result"]

    def end(self) -> None:
        """End the server and wait for it."""
        self.send("shutdown", None, 99)
        self.answer(99)
        self.send("exit", None)
        self.process.wait()


def main() -> int:
    """Run the editor."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.editor", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--workspace", action="store_true", help="ask for the diagnostics of all files")
    options = parser.parse_args()
    folder = options.folder.resolve()
    start = time.monotonic()
    editor = Editor([sys.executable, "-m", "torchlint", "server"], folder)
    editor.send(
        "initialize",
        {
            "processId": None,
            "rootUri": folder.as_uri(),
            "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name}],
            "capabilities": {},
            "initializationOptions": {"workspaceDiagnostics": True},
        },
        1,
    )
    editor.answer(1)
    editor.send("initialized", {})
    found: dict[str, Any] = {}
    wanted = [path.resolve().as_uri() for path in options.files]
    for path, uri in zip(options.files, wanted, strict=True):
        text = path.read_bytes().decode("utf-8", "replace")
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        editor.send("textDocument/didOpen", {"textDocument": document})
    while not found.keys() >= set(wanted):
        message = editor.receive()
        if message.get("method") == "textDocument/publishDiagnostics":
            found[message["params"]["uri"]] = message["params"]["diagnostics"]
    opened = time.monotonic() - start
    everything: list[Any] = []
    if options.workspace:
        editor.send("workspace/diagnostic", {"previousResultIds": []}, 2)
        everything = [[item["uri"], item["items"]] for item in editor.answer(2)["items"]]
    print(f"{opened:.2f} s {time.monotonic() - start:.2f} s", file=sys.stderr)
    editor.end()
    json.dump([sorted(found.items()), sorted(everything)], sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
