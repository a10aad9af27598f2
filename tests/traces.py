"""Small traces of torch.profiler, for tests: events by their names and times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Name, start, end.
Call = tuple[str, float, float]
_MAIN = {"pid": 1, "tid": 1}


def event(category: str, call: Call, **arguments: object) -> dict[str, Any]:
    """One event of the main thread."""
    name, start, end = call
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": end - start, **_MAIN, "args": arguments}


def python(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Calls of Python functions, numbered as torch numbers them."""
    return [event("python_function", call, **{"Python id": index + 1}) for index, call in enumerate(calls)]


def steps(*ends: float) -> list[dict[str, Any]]:
    """Steps from 0 to the first end, and so on."""
    starts = (0.0, *ends)
    return [
        event("user_annotation", (f"ProfilerStep#{index}", start, end))
        for index, (start, end) in enumerate(zip(starts, ends, strict=False))
    ]


def write(path: Path, events: Sequence[Mapping[str, Any]], **more: object) -> Path:
    """A trace with these events."""
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events), **more}))
    return path
