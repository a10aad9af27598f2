"""What findings take of the steps of a profile, and which lines without a finding take most."""

from __future__ import annotations

import ast
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torchlint.engine.results import Result
from torchlint.findings.diagnostic import Diagnostic, Share
from torchlint.profile.activity import Activity
from torchlint.profile.code import File, Files, header, whole
from torchlint.profile.times import Interval, Times
from torchlint.profile.trace import EventKind, Trace
from torchlint.source import reading
from torchlint.source.source import Source

#: The parts of the time of a finding that are shown, with the beginnings of the names of their events.
_PARTS = {
    "DataLoader": ("enumerate(DataLoader)#",),
    "reads and waits": (
        "aten::_local_scalar_dense",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "hipStreamSynchronize",
        "hipDeviceSynchronize",
        "hipEventSynchronize",
    ),
    "copies": ("aten::copy_", "cudaMemcpy", "hipMemcpy"),
}
#: Less than this is not a hot place.
_HOT = 0.01
_BLOCKS = (ast.With, ast.AsyncWith)


@dataclass(frozen=True)
class HotPlace:
    """A statement without a finding that takes much of the steps."""

    path: str
    row: int  #: 0: somewhere in the function
    function: str
    fraction: float
    microseconds: float  #: per step
    text: str


class Profile:
    """A trace and the files that were checked.

    ``events`` are, by code, the beginnings of the names of what rules are about that flag code run before the steps.
    """

    def __init__(self, trace: Trace, results: Sequence[Result], events: Mapping[str, str]) -> None:
        self._trace = trace
        self._results = results
        self._events = events
        self._timed: dict[str, tuple[str, list[Interval]]] = {}
        self._files = Files(result.path for result in results)
        self._activity = Activity(trace, self._files)
        self._gpu = Gpu(trace)
        self._parts = {
            label: Times(
                trace.interval(event)
                for kind in (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME)
                for event in trace.of_kind(kind)
                if trace.threads[event] == self._activity.thread and trace.name(event).startswith(names)
            )
            for label, names in _PARTS.items()
        }

    @property
    def steps(self) -> int:
        """How many steps the trace has."""
        return self._activity.count

    @property
    def microseconds(self) -> float:
        """How long a step takes."""
        return self._activity.steps.length / self.steps

    def with_shares(self) -> list[Result]:
        """The results, with the share of each finding."""
        found = []
        for file, result in zip(self._files.all, self._results, strict=True):
            shares = [self._share(file, result.source, one) for one in result.diagnostics]
            diagnostics = [replace(one, share=share) for one, share in zip(result.diagnostics, shares, strict=True)]
            found.append(replace(result, diagnostics=tuple(diagnostics)))
        return found

    def _share(self, file: File, source: Source | None, finding: Diagnostic) -> Share:
        if source is None or source.cells:  # a trace does not say which cell of a notebook runs
            return Share()
        if finding.code in self._events:
            where, intervals = self._of_events(file, source, finding)
        else:
            where, intervals = "statement", []
            for one in (finding, *finding.others):
                where, more = self._of_statement(file, source, one)
                intervals += more
        covered = Times(intervals).intersection(self._activity.steps)
        if not covered.length:
            return Share()
        parts = [(label, covered.common(union)) for label, union in self._parts.items()]
        kernels, busy = self._gpu.started_in(covered)
        if self._gpu.busy.length:
            parts += [("GPU work started", busy), ("GPU idle", covered.length - covered.common(self._gpu.busy))]
        return Share(
            min(covered.length / self._activity.steps.length, 1.0),
            covered.length / self.steps,
            where,
            tuple((label, time / self.steps) for label, time in parts if time > 0),
            kernels / self.steps,
        )

    def _of_statement(self, file: File, source: Source, finding: Diagnostic) -> tuple[str, list[Interval]]:
        """When the flagged statement runs; a block or a function as a whole where that is what is flagged."""
        activity = self._activity
        first, last = finding.rows
        row, column = source.location(finding.start)
        statement = file.statements.get(row)
        if statement is None:
            return "statement", activity.of_rows(file, first, last)
        is_flagged = (row, column - 1) == (statement.lineno, statement.col_offset)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            return "function", activity.functions[file, statement] + activity.of_rows(file, *whole(statement))
        if isinstance(statement, _BLOCKS) or (is_flagged and header(statement) != whole(statement)):
            return "block", activity.of_rows(file, *whole(statement))
        return "statement", activity.of_rows(file, first, last)

    def _of_events(self, file: File, source: Source, finding: Diagnostic) -> tuple[str, list[Interval]]:
        """When the events of a rule take place: in the loops that the notes name, or else anywhere."""
        begin = self._events[finding.code]
        if begin not in self._timed:
            self._timed[begin] = self._named(begin)
        name, intervals = self._timed[begin]
        loops = list(self._noted_loops(file, source, finding))
        if loops:
            runs = Times(one for path, loop in loops for one in self._activity.of_rows(path, *header(loop)))
            intervals = Times(intervals).intersection(runs).intervals
        return name, intervals

    def _named(self, begin: str) -> tuple[str, list[Interval]]:
        """When the thread runs what has such a name, or starts it on the GPU; and one of the names."""
        trace, name = self._trace, begin
        intervals = []
        for kind in (EventKind.ANNOTATION, EventKind.GPU):
            for event in trace.of_kind(kind):
                if trace.name(event).startswith(begin):
                    host = self._gpu.launch(event) if kind is EventKind.GPU else event
                    if host is not None and trace.threads[host] == self._activity.thread:
                        intervals.append(trace.interval(host))
                        name = trace.name(event)
        return name, intervals

    def _noted_loops(self, file: File, source: Source, finding: Diagnostic) -> Iterator[tuple[File, ast.stmt]]:
        """The loops that the notes of a finding name."""
        for note in finding.notes:
            text = reading.containing(source, note.place) if note.place is not None else None
            if text is None or note.place is None:
                continue
            path = note.place.path
            other = file if not path else next((one for one in self._files.all if _is_same(one.path, path)), None)
            loop = other.statements.get(text.location(note.place.start)[0]) if other is not None else None
            if other is not None and isinstance(loop, ast.For | ast.AsyncFor):
                yield other, loop

    def hot_places(self, limit: int = 5) -> list[HotPlace]:
        """The statements without a finding that take most of the steps, without checked functions that they call."""
        activity, flagged, events = self._activity, set(self._flagged()), self._events_of_findings()
        found: list[HotPlace] = []
        for (file, row, function), time in sorted(activity.own.items(), key=lambda item: -item[1]):
            fraction = time / activity.steps.length
            if fraction < _HOT or len(found) == limit:
                break
            statement = file.statements.get(row)
            if statement is not None:
                runs = Times(activity.of_rows(file, *header(statement)))
                if (file, statement) in flagged or any(runs.contains(*event) for event in events):
                    continue
            text = file.source.line(row).strip() if statement else ""
            found.append(HotPlace(file.path, row, function, min(fraction, 1.0), time / self.steps, text))
        return found

    def _flagged(self) -> Iterator[tuple[File, ast.stmt | None]]:
        """The statements that findings are about."""
        for file, result in zip(self._files.all, self._results, strict=True):
            for finding in result.diagnostics:
                for one in (finding, *finding.others):
                    yield from ((file, file.statements.get(row)) for row in range(one.rows[0], one.rows[1] + 1))

    def _events_of_findings(self) -> list[Interval]:
        """When the events take place that findings are about."""
        codes = {finding.code for result in self._results for finding in result.diagnostics}
        begins = {self._events[code] for code in codes if code in self._events}
        return [one for begin in begins for one in self._timed.get(begin, ("", []))[1]]


class Gpu:
    """What the GPU does, and which calls of the host start it."""

    def __init__(self, trace: Trace) -> None:
        launches = {trace.links[event]: event for event in trace.of_kind(EventKind.RUNTIME) if trace.links[event] > 0}
        self._launches = {event: launches.get(trace.links[event]) for event in trace.of_kind(EventKind.GPU)}
        self.busy = Times(trace.interval(event) for event in self._launches)
        started = [(host, event) for event, host in self._launches.items() if host is not None]
        self._started = sorted((trace.starts[host], *trace.interval(event)) for host, event in started)
        self._times = [start for start, *_ in self._started]

    def launch(self, event: int) -> int | None:
        """The call of the host that starts some work of the GPU."""
        return self._launches[event]

    def started_in(self, covered: Times) -> tuple[int, float]:
        """How many pieces of GPU work the host starts during some time, and how long the GPU works on them."""
        intervals: list[Interval] = []
        for start, end in covered.intervals:
            low, high = bisect_left(self._times, start), bisect_left(self._times, end)
            intervals += [(begin, finish) for _, begin, finish in self._started[low:high]]
        return len(intervals), Times(intervals).length


def _is_same(one: str, other: str) -> bool:
    return os.path.abspath(one) == os.path.abspath(other)
