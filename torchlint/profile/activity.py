"""When each line of the checked files runs, on the thread that trains."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence

from torchlint.profile.code import File, Files, Frame, is_within, whole
from torchlint.profile.sites import Sites, name_of, rows_of_calls, sites_of
from torchlint.profile.times import Interval, Times
from torchlint.profile.trace import STEP, EventKind, Trace

#: Of so many calls in a call, the names are kept.
_INNER = 12


class _Call:
    """What a function of the checked files calls: an event, and all that it calls."""

    def __init__(self, name: str, interval: Interval, row: int) -> None:
        self.name = name
        self.interval = interval
        self.row = row  #: of the call; 0: not known
        self.inner: list[str] = []  #: the names of the first calls in it
        self.own: list[Interval] = []  #: functions of the checked files that it runs


class _Run:
    """One run of a function of the checked files."""

    def __init__(self, frame: Frame, interval: Interval, *, is_older: bool) -> None:
        self.frame = frame
        self.interval = interval
        self.is_older = is_older  #: it ran already when the recording began, and `frame.row` is where it was
        self.calls: list[_Call] = []


class Activity:
    """By file: when its lines and functions run, and what takes time that no other checked function takes."""

    def __init__(self, trace: Trace, files: Files) -> None:
        thread = trace.main_thread()
        self.thread = thread
        self.steps = Times(trace.steps(thread))
        self.count = len(trace.steps(thread))
        self.lines: dict[tuple[File, int], list[Interval]] = defaultdict(list)
        self.functions: dict[tuple[File, object], list[Interval]] = defaultdict(list)
        #: by statement (its first row) and function: microseconds within the steps
        self.own: dict[tuple[File, int, str], float] = defaultdict(float)
        self._sites: dict[tuple[File, object], Sites] = {}
        if EventKind.PYTHON in trace.kinds:
            self._follow_calls(trace, files)
        else:
            self._read_stacks(trace, files)

    def of_rows(self, file: File, first: int, last: int) -> list[Interval]:
        """When any of some rows runs."""
        return [one for row in range(first, last + 1) for one in self.lines.get((file, row), ())]

    # -- traces with Python functions

    def _follow_calls(self, trace: Trace, files: Files) -> None:
        """Each event is in the last one that has begun and not ended."""
        counted = (EventKind.PYTHON, EventKind.OPERATOR, EventKind.RUNTIME)
        events = _sorted(trace, self.thread, counted)
        open_runs: list[_Run] = []
        # What is open: its end, the run around it, and the call of that run that it is in; None: it is the run.
        stack: list[tuple[float, _Run | None, _Call | None]] = []
        has_ended = False  # whether any call has
        for event in events:
            start, end = trace.interval(event)
            while stack and stack[-1][0] <= start:
                has_ended = True
                _, run, call = stack.pop()
                if run is not None and call is None:
                    self._close(open_runs.pop())
            around, run, call = stack[-1] if stack else (end, None, None)
            end = min(end, around)
            name = trace.name(event)
            frame = files.frame(name) if trace.kinds[event] == EventKind.PYTHON else None
            if run is not None and call is None:
                row = _row(trace, event)
                if not row and frame is not None and frame.is_comprehension and frame.file is run.frame.file:
                    row = frame.row
                call = _Call(name, (start, end), row)
                run.calls.append(call)
            elif call is not None and len(call.inner) < _INNER and trace.kinds[event] == EventKind.PYTHON:
                call.inner.append(name)
            if frame is None:
                stack.append((end, run, call))
                continue
            if call is not None:
                call.own.append((start, end))
            is_older = not has_ended and frame.row > getattr(frame.node, "lineno", 1)
            open_runs.append(_Run(frame, (start, end), is_older=is_older))
            stack.append((end, open_runs[-1], None))
        while open_runs:
            self._close(open_runs.pop())

    def _close(self, run: _Run) -> None:
        frame, file = run.frame, run.frame.file
        if frame.node is None:
            self.lines[file, frame.row].append(run.interval)
            inner = [interval for call in run.calls for interval in call.own]
            self._add_own(frame, frame.row, run.interval, inner)
            return
        key = (file, frame.node)
        self.functions[key].append(run.interval)
        if key not in self._sites:
            self._sites[key] = sites_of(frame)
        if run.is_older and run.calls and not run.calls[0].row:
            run.calls[0].row = frame.row
        named = [(name_of(call.name, call.inner), call.row if _is_in(call.row, frame) else 0) for call in run.calls]
        for call, row in zip(run.calls, rows_of_calls(self._sites[key], named), strict=True):
            if row:
                self.lines[file, row].append(call.interval)
            self._add_own(frame, row, call.interval, call.own)

    def _add_own(self, frame: Frame, row: int, interval: Interval, inner: Sequence[Interval]) -> None:
        """Count the time of a call that is not that of other checked functions."""
        taken = self.steps.within(*interval) - sum(self.steps.within(*one) for one in inner)
        statement = frame.file.statements.get(row)
        if taken > 0:
            self.own[frame.file, statement.lineno if statement else row, frame.name] += taken

    # -- older traces: operators with call stacks

    def _read_stacks(self, trace: Trace, files: Files) -> None:
        ended = float("-inf")
        for event in _sorted(trace, self.thread, (EventKind.OPERATOR, EventKind.ANNOTATION)):
            if trace.stacks[event] < 0 or trace.name(event).startswith(STEP):
                continue
            interval = trace.interval(event)
            frames = files.stack(trace.texts[trace.stacks[event]])
            for frame in frames:
                self.lines[frame.file, frame.row].append(interval)
                if frame.node is not None:
                    self.functions[frame.file, frame.node].append(interval)
            if interval[0] >= ended and frames:
                ended = interval[1]
                self._add_own(frames[0], frames[0].row, interval, ())


def _sorted(trace: Trace, thread: int, kinds: Sequence[EventKind]) -> list[int]:
    """The events of a thread, outer ones before those in them."""
    wanted = frozenset(map(int, kinds))
    events = [
        event
        for event, (kind, number) in enumerate(zip(trace.kinds, trace.threads, strict=True))
        if number == thread and kind in wanted
    ]
    events.sort(key=trace.ends.__getitem__, reverse=True)
    events.sort(key=trace.starts.__getitem__)
    return events


def _row(trace: Trace, event: int) -> int:
    """The line that makes a Python call, if the trace has it."""
    number = trace.links[event] if trace.kinds[event] == EventKind.PYTHON else 0
    return max(trace.callers[number - 1], 0) if 0 < number <= len(trace.callers) else 0


def _is_in(row: int, frame: Frame) -> bool:
    """Whether a row is in a function: a trace may be older than the file."""
    return isinstance(frame.node, ast.Module) or (frame.node is not None and is_within(row, whole(frame.node)))
