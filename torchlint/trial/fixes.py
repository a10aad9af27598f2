"""The fixes of a program's files, by rule; nothing is written but what `apply` is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torchlint.engine.checker import InternalError
from torchlint.engine.fixer import Fixed, content_of, fix, write
from torchlint.findings.diagnostic import Diagnostic
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.source import Source, SourceError


@dataclass(frozen=True)
class FixedFile:
    """A file, and what fixes make of it."""

    source: Source
    fixed: Fixed


class Fixes:
    """What fixes make of some files, with all rules or with a part of them."""

    def __init__(self, paths: Iterable[str], settings_for: Callable[[str], Settings]) -> None:
        """`settings_for` gives the settings of a file. Files that are not valid Python stay as they are."""
        self.errors: list[str] = []
        self.left: list[Diagnostic] = []  #: what the fixes of all rules leave
        self._settings: dict[str, Settings] = {}
        self._sources: list[Source] = []
        for path in sorted(set(paths)):
            try:
                self._sources.append(reading.read(path))
            except (OSError, SourceError):
                continue
            self._settings[path] = settings_for(path)

    def made(self, codes: frozenset[str] | None = None) -> list[FixedFile]:
        """The files that change, with the fixes of all rules or of some."""
        found = []
        left: list[Diagnostic] = []
        for source in self._sources:
            settings = self._settings[source.path]
            wanted = settings if codes is None else replace(settings, codes=settings.codes & codes)
            fixed = fix(source, wanted, on_crash=self._crashed)
            self.errors += [error for error in fixed.errors if error not in self.errors]
            left += fixed.diagnostics
            if fixed.source is not source:
                found.append(FixedFile(source, fixed))
        if codes is None:
            self.left = left
        return found

    def apply(self, codes: frozenset[str]) -> list[str]:
        """Write the fixes of some rules to the user's files; the paths. Raises WriteError."""
        files = self.made(codes)
        for file in files:
            write(file.source, file.fixed.source)
        return [file.source.path for file in files]

    def _crashed(self, crash: InternalError) -> None:
        if str(crash) not in self.errors:
            self.errors.append(str(crash))


def contents(files: Sequence[FixedFile]) -> Mapping[str, bytes]:
    """The new content of each file."""
    return {file.source.path: content_of(file.source, file.fixed.source) for file in files}


def by_rule(files: Sequence[FixedFile]) -> Counter[tuple[str, str]]:
    """How many fixes of each rule were applied, by code and name."""
    return Counter((one.code, one.name) for file in files for one in file.fixed.applied)
