"""A client of a language server: messages over the standard streams of its process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: The type of a message about an error, in the protocol.
_ERROR = 1


class Client:
    """Starts a server and speaks to it, one message at a time."""

    def __init__(self, command: Sequence[str], folder: Path | str) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
        assert self.process.stdin is not None and self.process.stdout is not None
        self._to, self._from = self.process.stdin, self.process.stdout

    def send(self, method: str, params: object, number: int | None = None) -> None:
        """Send a notification, or with a number a request."""
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if number is None else {"id": number})}
        body = json.dumps(message).encode()
        self._to.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._to.flush()

    def receive(self) -> dict[str, Any]:
        """The next message. Raises SystemExit if the server has ended, or logs an error: it has not told all."""
        length = 0
        while (line := self._from.readline()) != b"\r\n":
            if not line:
                raise SystemExit("the server has ended")
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._from.read(length))
        if message.get("method") == "window/logMessage" and message["params"]["type"] == _ERROR:
            raise SystemExit(f"the server logs an error: {message['params']['message']}")
        return message
