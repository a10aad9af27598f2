"""A trace of ``torch.profiler``: its events, in little memory."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum

from torchlint.profile.times import Interval

#: More events than this are not read: so many take 640 MB of memory.
MAX_EVENTS = 4_000_000
#: Characters of all different names and stacks.
_MAX_TEXT = 50_000_000
_MAX_NAME = 300

STEP = "ProfilerStep#"
#: What torch annotates by itself; older versions have these among the operators.
_ANNOTATIONS = (STEP, "enumerate(DataLoader)#", "Optimizer.")
#: `<built-in method item of Tensor object at 0x7f7936f6ec60>`
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")


class TraceError(Exception):
    """A file is not a trace that can be used; the text is a one-line reason."""


class EventKind(IntEnum):
    """What an event is about."""

    PYTHON = 0  #: a call of a function: `train.py(12): step`, `<built-in method item of Tensor object>`
    OPERATOR = 1  #: `aten::item`
    ANNOTATION = 2  #: `ProfilerStep#3`, `Optimizer.step#SGD.step`
    RUNTIME = 3  #: a call of the CUDA or HIP runtime
    GPU = 4  #: a kernel, a copy or a fill


#: Categories of events in lower case, by all versions of torch.
KINDS = {
    "python_function": EventKind.PYTHON,
    "python function": EventKind.PYTHON,
    "cpu_op": EventKind.OPERATOR,
    "operator": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME,
    "runtime": EventKind.RUNTIME,
    "kernel": EventKind.GPU,
    "gpu_memcpy": EventKind.GPU,
    "gpu_memset": EventKind.GPU,
    "memcpy": EventKind.GPU,
    "memset": EventKind.GPU,
}


class Trace:
    """The events, as columns: times in microseconds, texts and threads as numbers."""

    def __init__(self) -> None:
        self.starts = array("d")
        self.ends = array("d")
        self.kinds = array("b")
        self.names = array("l")  #: which of ``texts``
        self.stacks = array("l")  #: the call stack of an operator, which of ``texts``; -1: none
        self.threads = array("l")
        #: what relates events: the number of a call in ``callers``; the correlation id of launches and GPU work
        self.links = array("q")
        self.texts: list[str] = []
        #: by the number of a Python call, the line that makes it; empty in traces that `torchlint profile` did not make
        self.callers: list[int] = []
        self._numbers: dict[str, int] = {}
        self._length = 0
        self._threads: dict[str, int] = {}

    def add(self, kind: EventKind, name: str, thread: str, times: Interval, link: int, stack: str) -> None:
        """Keep an event. Raises TraceError if there are too many."""
        if len(self.starts) >= MAX_EVENTS:
            raise TraceError(f"has more than {MAX_EVENTS:,} events: record fewer steps")
        if kind is EventKind.OPERATOR and name.startswith(_ANNOTATIONS):
            kind = EventKind.ANNOTATION
        self.starts.append(times[0])
        self.ends.append(times[1])
        self.kinds.append(kind)
        self.names.append(self._number(_ADDRESS.sub(">", name[:_MAX_NAME]) if " at 0x" in name else name[:_MAX_NAME]))
        self.stacks.append(self._number(stack) if stack else -1)
        self.threads.append(self._threads.setdefault(thread, len(self._threads)))
        self.links.append(link)

    def _number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            self._length += len(text)
            if self._length > _MAX_TEXT:
                raise TraceError("has too many different names for a trace of torch.profiler")
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def name(self, event: int) -> str:
        """The name of an event."""
        return self.texts[self.names[event]]

    def interval(self, event: int) -> Interval:
        """When an event takes place."""
        return self.starts[event], self.ends[event]

    def of_kind(self, kind: EventKind) -> Iterator[int]:
        """The events of one kind, in the order of the file."""
        return (event for event, number in enumerate(self.kinds) if number == kind)

    @property
    def has_stacks(self) -> bool:
        """Whether the trace says which Python code runs."""
        return EventKind.PYTHON in self.kinds or any(number >= 0 for number in self.stacks)

    def main_thread(self) -> int:
        """The thread that trains: it has the annotations of the steps, or else most of the Python code."""
        counts = Counter(self.threads[event] for event in self._step_events())
        if not counts:
            stacks = EventKind.PYTHON not in self.kinds
            counts.update(
                thread
                for thread, kind, stack in zip(self.threads, self.kinds, self.stacks, strict=True)
                if (stack >= 0 if stacks else kind == EventKind.PYTHON)
            )
        return max(counts, key=lambda thread: counts[thread], default=0)

    def steps(self, thread: int) -> list[Interval]:
        """When each step takes place on a thread; without annotations, the whole trace counts as one."""
        found = sorted(self.interval(event) for event in self._step_events() if self.threads[event] == thread)
        if found:
            return found
        events = [event for event, number in enumerate(self.threads) if number == thread]
        return [(min(self.starts[event] for event in events), max(self.ends[event] for event in events))]

    def _step_events(self) -> Iterator[int]:
        return (event for event in self.of_kind(EventKind.ANNOTATION) if self.name(event).startswith(STEP))
