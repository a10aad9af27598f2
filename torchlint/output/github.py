"""``--output-format github``: workflow commands, which GitHub shows as annotations of the changed code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Diagnostic, Severity
from torchlint.output.places import absolute, findings, span
from torchlint.output.text import location, printable, remarks
from torchlint.source.source import Source


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings."""
    for source, diagnostic in findings(results):
        print(_command(source, diagnostic), file=out)


def _command(source: Source, diagnostic: Diagnostic) -> str:
    level = "warning" if diagnostic.severity is Severity.WARNING else "notice"
    facts: dict[str, object] = {"title": f"torchlint ({diagnostic.code})", "file": absolute(source.path)}
    place = span(source, diagnostic)
    if place and place.row == place.end_row:
        facts.update(line=place.row, col=place.column, endLine=place.end_row, endColumn=place.end_column)
    elif place:  # columns of a span of several lines are not admitted
        facts.update(line=place.row, endLine=place.end_row)
    head = f"{location(source, diagnostic)}: {diagnostic.code} {diagnostic.name}: {printable(diagnostic.message)}"
    lines = [head, *(f"  {printable(remark)}" for remark, _ in remarks(source, diagnostic))]
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in facts.items())
    return f"::{level} {properties}::{_data(chr(10).join(lines))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return printable(_data(text).replace(":", "%3A").replace(",", "%2C"))
