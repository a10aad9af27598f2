"""``--output-format gitlab``: a code quality report, which GitLab shows in merge requests."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any, TextIO

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Severity
from torchlint.findings.fingerprints import fingerprints
from torchlint.output.places import Span, absolute, message, relative, span

_SEVERITIES = {Severity.WARNING: "minor", Severity.INFO: "info"}


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings."""
    folder = os.environ.get("CI_PROJECT_DIR") or os.getcwd()
    print(json.dumps([item for result in results for item in _items(result, folder)], indent=2), file=out)


def _items(result: Result, folder: str) -> list[dict[str, Any]]:
    if result.source is None:
        return []
    path = result.path if result.path == "-" else relative(absolute(result.path), folder) or absolute(result.path)
    items = []
    identities = fingerprints(result.source, result.diagnostics)
    for diagnostic, identity in zip(result.diagnostics, identities, strict=True):
        place = span(result.source, diagnostic) or Span(1, 1, 1, 1)
        items.append(
            {
                "check_name": diagnostic.code,
                # GitLab shows the description alone.
                "description": f"{diagnostic.code}: {message(result.source, diagnostic)}",
                "severity": _SEVERITIES[diagnostic.severity],
                "fingerprint": hashlib.sha256(f"{path}\0{identity}".encode("utf-8", "surrogatepass")).hexdigest()[:32],
                "location": {
                    "path": path,
                    "positions": {
                        "begin": {"line": place.row, "column": place.column},
                        "end": {"line": place.end_row, "column": place.end_column},
                    },
                },
            }
        )
    return items
