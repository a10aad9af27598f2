"""``--output-format junit``: JUnit XML, which most CI servers show as test results. A finding is a failed test."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TextIO
from xml.etree import ElementTree

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Diagnostic
from torchlint.output.places import absolute, message, span
from torchlint.output.text import printable, remarks
from torchlint.source.source import Source

_PACKAGE = "org.torchlint"
# Beside the control characters, which `printable` has replaced, these have no place in XML.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings."""
    total = sum(len(result.diagnostics) for result in results)
    root = ElementTree.Element("testsuites", name="torchlint", tests=str(total or 1), skipped="0")
    root.attrib.update(failures=str(total), errors="0")
    for result in results:
        if result.source is not None and result.diagnostics:
            suite = _suite(root, absolute(result.path), len(result.diagnostics))
            for diagnostic in result.diagnostics:
                _case(suite, result.source, diagnostic)
    if not total:  # some servers treat a report without any test as a failure
        ElementTree.SubElement(_suite(root, "torchlint", 0), "testcase", name="No findings", classname="torchlint")
    ElementTree.indent(root, "    ")
    # Other characters than ASCII are written as references: right in whatever encoding the stream has.
    body = ElementTree.tostring(root, encoding="us-ascii", xml_declaration=False).decode("ascii")
    print(f'<?xml version="1.0" encoding="UTF-8"?>\n{body}', file=out)


def _suite(root: ElementTree.Element, name: str, failures: int) -> ElementTree.Element:
    count = {"tests": str(failures or 1), "skipped": "0", "errors": "0", "failures": str(failures)}
    return ElementTree.SubElement(root, "testsuite", {"name": _xml(name), **count, "package": _PACKAGE})


def _case(suite: ElementTree.Element, source: Source, diagnostic: Diagnostic) -> None:
    names = {"name": f"{_PACKAGE}.{diagnostic.code}", "classname": _xml(os.path.splitext(absolute(source.path))[0])}
    case = ElementTree.SubElement(suite, "testcase", names)
    said = _xml(printable(message(source, diagnostic)))
    place = span(source, diagnostic)
    if place:
        case.attrib.update(line=str(place.row), column=str(place.column))
    properties = ElementTree.SubElement(case, "properties")
    ElementTree.SubElement(properties, "property", name="severity", value=diagnostic.severity.value)
    failure = ElementTree.SubElement(case, "failure", message=said, type=diagnostic.name)
    head = f"line {place.row}, col {place.column}, {said}" if place else said
    failure.text = "\n".join([head, *(_xml(printable(remark)) for remark, _ in remarks(source, diagnostic))])


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
