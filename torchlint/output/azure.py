"""``--output-format azure``: logging commands, which Azure Pipelines shows as issues of a build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Severity
from torchlint.output.places import absolute, findings, message, span
from torchlint.output.text import printable


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings. Azure knows errors and warnings: findings of severity info are warnings too, which say so."""
    for source, diagnostic in findings(results):
        place = span(source, diagnostic)
        row, column = (place.row, place.column) if place else (1, 1)
        facts = {
            "type": "warning",
            "sourcepath": absolute(source.path),
            "linenumber": row,
            "columnnumber": column,
            "code": diagnostic.code,
        }
        properties = "".join(f"{name}={_escaped(str(value))};" for name, value in facts.items())
        info = "info: " if diagnostic.severity is Severity.INFO else ""
        text = _escaped(f"{info}{diagnostic.name}: {message(source, diagnostic)}", ends=False)
        print(f"##vso[task.logissue {properties}]{text}", file=out)


def _escaped(text: str, *, ends: bool = True) -> str:
    """A text in which nothing ends a property or the command, and no control character is left."""
    text = text.replace("%", "%AZP25").replace("\r", "%0D").replace("\n", "%0A")
    if ends:
        text = text.replace(";", "%3B").replace("]", "%5D")
    return printable(text)
