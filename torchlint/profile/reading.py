"""A file of Chrome's trace events -> ``Trace``. It is read piece by piece, and trusted in nothing."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from typing import IO, Any

from torchlint.profile.trace import KINDS, EventKind, Trace, TraceError

#: Next to the events: the line of each Python call, in the order of their ids (`profile/injected.py`).
CALLERS = "torchlintCallers"
_CHUNK = 1 << 20
#: Characters of one value: an event, or the list of callers.
_MAX_VALUE = 64 << 20
#: Microseconds; no time is larger.
_LATEST = 1e18
#: Characters of a file.
_MAX_SIZE = 16 << 30
_SPACE = " \t\r\n"


def read_trace(path: str) -> Trace:
    """The events of a trace, from JSON that may be compressed by gzip. Raises TraceError."""
    try:
        with open(path, "rb") as file:
            stream: Any = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
            trace = _parsed(_Text(io.TextIOWrapper(stream, "utf-8", errors="replace")))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError("is damaged or truncated: gzip cannot read it to its end") from error
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}") from error
    if not trace.starts:
        raise TraceError("is not a trace of torch.profiler: it has no events")
    if not trace.has_stacks:
        raise TraceError("names no lines of Python code: record it with `with_stack=True`")
    return trace


class _Text:
    """The text of a file, of which a part is in memory, and a position in it."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._held = ""
        self._position = 0
        self._size = 0
        self._decode = json.JSONDecoder(strict=False).raw_decode

    def peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            while self._position < len(self._held):
                if self._held[self._position] not in _SPACE:
                    return self._held[self._position]
                self._position += 1
            if not self._more():
                return ""

    def take(self, wanted: str) -> bool:
        """Whether the next character is ``wanted``, which is then passed."""
        if self.peek() != wanted:
            return False
        self._position += 1
        return True

    def value(self) -> Any:
        """The next JSON value. Raises TraceError."""
        first = self.peek()
        while True:
            try:
                value, end = self._decode(self._held, self._position)
                if end < len(self._held) or first in '{["':
                    self._position = end
                    return value
            except RecursionError as error:
                raise TraceError("is not a trace of torch.profiler: its JSON is nested too deeply") from error
            except ValueError as error:
                if len(self._held) - self._position > _MAX_VALUE:
                    raise TraceError("is not valid JSON") from error
            if not self._more():
                raise TraceError("is not valid JSON, or is truncated")

    def _more(self) -> bool:
        """Read on, and drop what has been passed; False at the end of the file."""
        chunk = self._stream.read(_CHUNK)
        self._size += len(chunk)
        if self._size > _MAX_SIZE:
            raise TraceError("is too large: record fewer steps")
        self._held = self._held[self._position :] + chunk
        self._position = 0
        return bool(chunk)


def _parsed(text: _Text) -> Trace:
    trace = Trace()
    if text.peek() == "[":
        _read_events(text, trace)
    elif text.take("{"):
        has_events = False
        while not text.take("}"):
            key = text.value()
            if not text.take(":"):
                raise TraceError("is not valid JSON, or is truncated")
            if key == "traceEvents":
                _read_events(text, trace)
                has_events = True
            elif key == CALLERS:
                trace.callers = _lines(text.value())
            else:
                text.value()
            if not text.take(",") and text.peek() != "}":
                raise TraceError("is not valid JSON, or is truncated")
        if not has_events:
            raise TraceError("is not a trace of torch.profiler: it has no `traceEvents`")
    else:
        raise TraceError("is not JSON")
    return trace


def _read_events(text: _Text, trace: Trace) -> None:
    if not text.take("["):
        raise TraceError("is not a trace of torch.profiler: its `traceEvents` are not a list")
    while not text.take("]"):
        _add(trace, text.value())
        if not text.take(",") and text.peek() != "]":
            raise TraceError("is not valid JSON, or is truncated")


def _add(trace: Trace, event: object) -> None:
    """Keep an event if it is of a kind that counts, and if it is what it should be."""
    if not isinstance(event, dict) or event.get("ph") != "X":
        return
    kind = KINDS.get(str(event.get("cat")).lower())
    name, start, duration = event.get("name"), event.get("ts"), event.get("dur", 0)
    if kind is None or not isinstance(name, str) or not isinstance(start, int | float):
        return
    if not isinstance(duration, int | float) or not 0 <= duration < _LATEST or not abs(start) < _LATEST:
        return
    arguments = event.get("args")
    arguments = arguments if isinstance(arguments, dict) else {}
    link = arguments.get("Python id" if kind is EventKind.PYTHON else "correlation")
    stack = arguments.get("Call stack", arguments.get("stack")) if kind is EventKind.OPERATOR else None
    trace.add(
        kind,
        name,
        f"{_short(event.get('pid'))} {_short(event.get('tid'))}",
        (float(start), float(start + duration)),
        link if isinstance(link, int) and 0 <= link < 1 << 62 else -1,
        stack if isinstance(stack, str) and ".py" in stack else "",
    )


def _short(number: object) -> str:
    """The id of a process or thread, which some versions write as a text."""
    return str(number)[:40] if isinstance(number, int | str) else ""


def _lines(value: object) -> list[int]:
    if not isinstance(value, list) or not all(type(line) is int for line in value):
        return []
    return value
