"""What a rule yields: ``Diagnostic``, with ``Note``, ``Fix`` and ``Cause``."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from torchlint.source.ranges import Edit, Place

if TYPE_CHECKING:
    from torchlint.model.module import Module


class Applicability(str, Enum):
    """How far a fix may be trusted; decided per occurrence, not per rule."""

    SAFE = "safe"  #: same values and behaviour on every supported set-up
    UNSAFE = "unsafe"  #: may change numerics, random state or behaviour
    DISPLAY = "display"  #: shown, never applied


class Severity(str, Enum):
    """How loudly a diagnostic speaks."""

    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Fix:
    """Edits that belong together: all of them are applied, or none."""

    message: str  #: what to do, in the imperative: "add `pin_memory=...`"
    edits: tuple[Edit, ...]
    applicability: Applicability
    caution: str = ""  #: what an unsafe fix may change

    def __hash__(self) -> int:
        """Quick for a fix of many edits, which many findings may share."""
        return hash((self.message, len(self.edits), self.edits[:1], self.applicability))


@dataclass(frozen=True)
class Note:
    """One piece of evidence for a finding, with the place where it is seen.

    Every output format adds the place itself, as "MESSAGE at line 7" or as a link, so that the message never names a
    row and reads well before "at".
    """

    message: str
    place: Place | None = None

    @classmethod
    def at(cls, module: Module, node: object | None, message: str) -> Note:
        """A note on ``node`` (a libcst node of ``module``); without a node, one that has no place."""
        return cls(message, None if node is None else Place(*module.place(node)))


@dataclass(frozen=True)
class Cause:
    """What several places have in common: the engine reports them as one finding, at the first that a rule yields.

    A rule yields each place by itself, with its own fix, so that a suppression can exempt one of them.
    """

    key: Hashable  #: tells the causes of a rule in a file apart
    others: str  #: what the note at each of the other places says: "also copied"
    fix: str = ""  #: what the fix of several places does; by default what the fix of the first one does
    whole: bool = False  #: whether the fix is offered only where no place is suppressed


@dataclass(frozen=True)
class Share:
    """What a finding takes of the steps of a profile; nothing if its code does not run in them."""

    fraction: float = 0.0  #: of the steps; at most 1
    microseconds: float = 0.0  #: per step
    where: str = ""  #: what was timed: "statement", "block", "function", or the name of the events
    parts: tuple[tuple[str, float], ...] = ()  #: of that time: what it is spent on, and microseconds per step
    kernels: float = 0.0  #: started on a GPU per step


@dataclass(frozen=True)
class Diagnostic:
    """One finding of one rule at one place of one file, or at several places for one cause."""

    code: str
    name: str
    message: str
    start: int  #: offset of the first flagged character
    end: int  #: offset behind the last flagged character
    label: str = ""  #: shown next to the underlined span
    notes: tuple[Note, ...] = ()  #: why here: the evidence
    severity: Severity = Severity.WARNING
    fix: Fix | None = None
    #: first and last row (from 1) of the flagged statement; a suppression comment on any of them counts
    rows: tuple[int, int] = (0, 0)
    cause: Cause | None = None  #: what it shares with other places; None once they are joined
    others: tuple[Diagnostic, ...] = ()  #: the other places of a joined finding
    share: Share | None = None  #: of the profile that is given; None if there is none
