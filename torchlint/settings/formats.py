"""The names of the output formats, as ``output-format`` takes them, and what each is for."""

from __future__ import annotations

FORMATS = (
    "full",
    "concise",
    "grouped",
    "json",
    "json-lines",
    "sarif",
    "github",
    "gitlab",
    "junit",
    "pylint",
    "rdjson",
    "azure",
)
#: Those that a person reads; a summary follows the report.
FOR_PEOPLE = frozenset({"full", "concise", "grouped"})
#: Those that name each file once, and whose readers sort findings themselves.
BY_FILE = frozenset({"gitlab", "junit", "sarif"})
#: Those in which statistics can be written.
STATISTICS = FOR_PEOPLE | {"json", "json-lines"}
