"""What a run finds in a file, and what that depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from torchlint.cache.folder import digest
from torchlint.findings.diagnostic import Diagnostic
from torchlint.project.state import Dependencies
from torchlint.source.source import Source
from torchlint.source.timing import Timing


class Mode(Enum):
    """What is done with fixes."""

    CHECK = "check"
    FIX = "fix"
    DIFF = "diff"


@dataclass(frozen=True)
class Request:
    """What is asked of each file of a run, in addition to its findings."""

    mode: Mode
    basis: bool = False  #: what its result depends on, so that it can be kept
    timing: bool = False  #: where the time goes
    run: int = 0  #: tells runs apart that one process may serve


@dataclass(frozen=True)
class Basis:
    """What the result of a file depends on, in addition to its path and its settings."""

    digest: str  #: of the file itself, as it was analysed
    shape: str  #: of what the import graph of the project takes from the file
    concerned: bool  #: whether a rule may report something in the file
    dependencies: Dependencies | None = None  #: what else of the project counts; None: nothing


def digest_of(source: Source) -> str:
    """A short name of all that a source was read as."""
    cells = [(cell.start, cell.end) for cell in source.cells] or ""
    return digest(f"{source.encoding} {source.bom} {cells} {source.text}")


@dataclass(frozen=True)
class Result:
    """What came out of one file."""

    path: str
    diagnostics: tuple[Diagnostic, ...] = ()
    #: the text the diagnostics are about; None if there are none
    source: Source | None = None
    applied: tuple[tuple[str, str], ...] = ()  #: code and message of each fix that was made
    diff: str = ""
    errors: tuple[str, ...] = ()  #: one line each: crashed rules, files that cannot be read or written
    resolved: int = 0  #: how many findings the baseline lists that are no longer there
    basis: Basis | None = None  #: None if the result is not to be kept
    #: where the time went, if that was asked for; equal results may have taken different times
    timing: Timing | None = field(default=None, compare=False)
