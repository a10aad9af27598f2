"""What the text formats share: paths, headers, counts, and characters that a terminal must not act upon."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.findings.conflicts import applicable
from torchlint.findings.diagnostic import Applicability, Diagnostic, Fix, Note, Severity, Share
from torchlint.rule import evidence
from torchlint.source import reading
from torchlint.source.ranges import Place
from torchlint.source.source import Source

# Control characters could move the cursor or recolour the terminal, bidirectional ones could reorder the line, and
# the halves of surrogate pairs cannot be encoded.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` with characters that would act upon a terminal made visible, one for one."""
    return _UNPRINTABLE.sub(_picture, text)


def write_diff(diff: str, out: TextIO) -> None:
    """Write a diff as it is, for programs; on a terminal without characters that would act upon it."""
    for line in diff.splitlines(keepends=True) if out.isatty() else [diff]:
        end = len(line.rstrip("\r\n")) if out.isatty() else 0
        out.write(printable(line[:end]) + line[end:])


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def display_path(path: str) -> str:
    """A path, relative to the current folder if it is below it."""
    if os.path.isabs(path):
        relative = os.path.relpath(path)
        path = path if relative.startswith("..") else relative
    return printable(path)


def location(source: Source, diagnostic: Diagnostic) -> str:
    """``path:row:column`` of a diagnostic, in a notebook ``path:cell 3:row:column``."""
    cell, row, column = source.position(diagnostic.start)
    return f"{display_path(source.path)}:{in_cell(cell)}{row}:{column}"


def in_cell(cell: int | None) -> str:
    """ "cell 3:", which precedes a row of a notebook; nothing elsewhere"""
    return "" if cell is None else f"cell {cell}:"


def offer(fix: Fix) -> str:
    """What a fix does, and what it may change: "help: add `...` (unsafe: changes ...)"."""
    kind = "" if fix.applicability is Applicability.SAFE else fix.applicability.value
    remark = ": ".join(filter(None, (kind, fix.caution)))
    return f"help: {fix.message} ({remark})" if remark else f"help: {fix.message}"


def where(source: Source, diagnostic: Diagnostic, place: Place) -> str:
    """A place as a note of a finding names it: "line 7", "line 7 of cell 3" (another cell), "engine.py:7"."""
    text = reading.containing(source, place)
    if text is None:
        return display_path(place.path)
    cell, row, _ = text.position(place.start)
    if place.path:
        return f"{display_path(place.path)}:{in_cell(cell)}{row}"
    return f"line {row}" if cell == source.position(diagnostic.start).cell else f"line {row} of cell {cell}"


def noted(source: Source, diagnostic: Diagnostic, note: Note) -> str:
    """A note with its place: "note: batches are copied at line 7"."""
    place = f" at {where(source, diagnostic, note.place)}" if note.place is not None else ""
    return f"note: {note.message}{place}"


def remarks(source: Source, diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    """The lines below a finding's message, each with its colour: notes, help, benchmark."""
    for note in diagnostic.notes:
        yield noted(source, diagnostic, note), ""
    yield from closing_remarks(diagnostic)


def closing_remarks(diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    """The lines below the notes of a finding, each with its colour: help, benchmark."""
    if diagnostic.fix is not None:
        yield offer(diagnostic.fix), "green"
    benchmark = evidence.benchmark(diagnostic.name)
    if benchmark:
        yield f"benchmark: {benchmark}", "magenta"


def share_in_words(share: Share) -> str:
    """A share of a profile in one line: "41 % of the step, 38 ms; copies 12 ms"."""
    if not share.where:
        return "not in the profiled steps"
    kernels = f"{share.kernels:.0f} kernels and copies" if share.kernels else ""
    parts = [f"{label} {duration(time)}" for label, time in share.parts]
    where = "" if share.where in ("statement", "block", "function") else f" in `{share.where}`"
    head = f"{percent(share.fraction)} of the step, {duration(share.microseconds)}{where}"
    return "; ".join(filter(None, (head, *parts, kernels)))


def percent(fraction: float) -> str:
    """ "41 %", "3.2 %", "< 0.1 %" """
    value = 100 * fraction
    return f"{value:.0f} %" if value >= 10 else f"{value:.1f} %" if value >= 0.1 else "< 0.1 %"


def duration(microseconds: float) -> str:
    """ "1.24 s", "38.2 ms", "650 us" """
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.2f} s"
    return f"{microseconds / 1e3:.1f} ms" if microseconds >= 1e3 else f"{microseconds:.0f} us"


def marks(diagnostic: Diagnostic, *, fixable: bool) -> str:
    """What is shown after a code: ``[info]`` for a finding that is not a warning, ``[*]`` for one that can be fixed."""
    info = "[info] " if diagnostic.severity is Severity.INFO else ""
    return f"{info}[*] " if fixable else info


def plural(count: int, noun: str) -> str:
    """ "1 file", "2 files" """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def summary(results: Sequence[Result], unsafe: bool) -> str:
    """The line that closes a run: files, findings, and how many can be fixed in which way."""
    found = [diagnostic for result in results for diagnostic in result.diagnostics]
    fixed = sum(len(result.applied) for result in results)
    head = f"Fixed {plural(fixed, 'finding')}. " if fixed else ""
    if not found:
        return f"{head}No findings{' left' if fixed else ''} in {plural(len(results), 'file')}."
    files = sum(1 for result in results if result.diagnostics)
    info = sum(diagnostic.severity is Severity.INFO for diagnostic in found)
    count = plural(len(found), "finding") + (f" ({info} info)" if info else "")
    line = f"{head}{count}{' left' if fixed else ''} in {files} of {plural(len(results), 'file')}"
    safe = sum(applicable(diagnostic, unsafe=unsafe) for diagnostic in found)
    more = sum(applicable(diagnostic, unsafe=True) for diagnostic in found) - safe
    offers = []
    if safe:
        offers.append(f"{safe} fixable with --fix")
    if more:
        offers.append(f"{more} {'more ' if safe else 'fixable '}with --fix --unsafe-fixes")
    return f"{line}; {', '.join(offers)}." if offers else f"{line}."


def statistics(results: Sequence[Result], unsafe: bool) -> list[tuple[int, str, str, int]]:
    """Count, code, name and number of findings that ``--fix`` would fix, the most frequent first."""
    found = [diagnostic for result in results for diagnostic in result.diagnostics]
    counts = Counter((diagnostic.code, diagnostic.name) for diagnostic in found)
    fixable = Counter(diagnostic.code for diagnostic in found if applicable(diagnostic, unsafe))
    rows = [(count, code, name, fixable[code]) for (code, name), count in counts.items()]
    return sorted(rows, key=lambda row: (-row[0], row[1]))


def write_statistics(results: Sequence[Result], out: TextIO, *, unsafe: bool) -> None:
    """Write the statistics as a table; ``[*]``: all can be fixed, ``[-]``: some can."""
    rows = statistics(results, unsafe)
    width = max((len(str(count)) for count, *_ in rows), default=0)
    for count, code, name, fixable in rows:
        mark = "[*]" if fixable == count else "[-]" if fixable else "[ ]"
        print(f"{count:>{width}}  {code}  {mark}  {name}", file=out)


def applied_lines(results: Sequence[Result]) -> list[str]:
    """The fixes that were made, by file."""
    lines = []
    for result in results:
        if result.applied:
            lines.append(f"{display_path(result.path)}:")
            lines += [f"    {code}: {printable(message)}" for code, message in result.applied]
    return lines
