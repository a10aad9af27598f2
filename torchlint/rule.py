"""What a rule is and what it yields: Rule, Diagnostic, Note, Place, Fix, Edit, Applicability.

Nothing here imports libcst or rich, so that listing the rules stays quick.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from torchlint.model.module import Module

#: The value of a rule's option in the settings.
Option: TypeAlias = "str | int | float | bool"


class Applicability(str, Enum):
    """How far a fix may be trusted; decided per occurrence, not per rule."""

    SAFE = "safe"  #: same values and behaviour on every supported set-up
    UNSAFE = "unsafe"  #: may change numerics, random state or behaviour
    DISPLAY = "display"  #: shown, never applied


class Severity(str, Enum):
    """How loudly a diagnostic speaks."""

    WARNING = "warning"
    INFO = "info"


class Default(str, Enum):
    """Whether a rule runs when nothing is selected."""

    ON = "on"
    INFO = "info"  #: on, reported at information level
    OPT_IN = "opt-in"  #: only when selected


@dataclass(frozen=True)
class Edit:
    """Replace the characters ``[start, end)`` of the source text by ``content``.

    Offsets count characters of the decoded text (no byte-order mark), newlines as they stand in the file.
    """

    start: int
    end: int
    content: str


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
class Place:
    """The characters ``[start, end)`` of a file, as offsets into its decoded text."""

    start: int
    end: int
    path: str = ""  #: empty: the file of the finding


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
class Diagnostic:
    """One finding of one rule at one place of one file, or at several places for one cause."""

    code: str
    name: str
    message: str
    start: int  #: offset of the first flagged character
    end: int  #: offset behind the last flagged character
    label: str = ""  #: said beside the underlined span
    notes: tuple[Note, ...] = ()  #: why here: the evidence
    severity: Severity = Severity.WARNING
    fix: Fix | None = None
    #: first and last row (from 1) of the flagged statement; a suppression comment on any of them counts
    rows: tuple[int, int] = (0, 0)
    cause: Cause | None = None  #: what it shares with other places; None once they are joined
    others: tuple[Diagnostic, ...] = ()  #: the other places of a joined finding


#: Headings every rule's docstring has, in this order.
HEADINGS = (
    "What it does",
    "Why it is slow",
    "Example",
    "Use instead",
    "Fix safety",
    "When to ignore",
    "References",
)


@dataclass(frozen=True)
class Page:
    """A rule's docstring taken apart: a one-line summary and the text under each heading (Markdown)."""

    summary: str
    sections: Mapping[str, str] = field(default_factory=dict)


#: Strings that a text must contain; of a tuple of strings, at least one.
Words = tuple[str | tuple[str, ...], ...]


def _contains(text: str, words: Words) -> bool:
    return all(
        word in text if isinstance(word, str) else any(alternative in text for alternative in word) for word in words
    )


class Rule:
    """One performance anti-pattern: subclass it in ``rules/<family>/<rule_name>.py``.

    The docstring is the rule's documentation page. ``check`` asks the model of a file and yields diagnostics; it
    never walks the tree itself and keeps no state between files.
    """

    code: ClassVar[str]  #: "TL101"
    name: ClassVar[str]  #: "single-process-dataloader"
    default: ClassVar[Default] = Default.ON
    #: A file that lacks one of these cannot violate the rule and is not even parsed for it.
    #: A string must occur in the text, comments and triple-quoted strings left out; of a tuple of strings at least one.
    words: ClassVar[Words] = ()
    #: The same for the text of the file together with what it is analysed with: the evidence may be in another file.
    project_words: ClassVar[Words] = ()
    #: Oldest torch version whose users profit from the advice, e.g. (2, 4); None: any.
    since: ClassVar[tuple[int, int] | None] = None
    #: Where its effect can be shown by the before/after pair: "GPU", "CPU".
    demo: ClassVar[tuple[str, ...]] = ()
    #: Options of ``[tool.torchlint.rules.<name>]`` with their defaults.
    options: ClassVar[Mapping[str, Option]] = {}

    def check(self, module: Module) -> Iterator[Diagnostic]:
        """Yield what is wrong in ``module``."""
        raise NotImplementedError

    @classmethod
    def family(cls) -> str:
        """The folder the rule lives in: ``data_loading``, ``precision``, ..."""
        return cls.__module__.rpartition(".")[0].rpartition(".")[2]

    @classmethod
    def severity(cls) -> Severity:
        """The level its diagnostics are reported at."""
        return Severity.INFO if cls.default is Default.INFO else Severity.WARNING

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a file's text contains the words without which the rule cannot report anything in it."""
        return _contains(text, cls.words)

    @classmethod
    def may_apply(cls, text: str) -> bool:
        """Whether the text of a file and its context contains the words without which the rule cannot fire."""
        return _contains(text, cls.project_words)

    @classmethod
    def page(cls) -> Page:
        """The docstring as a page."""
        text = inspect.cleandoc(cls.__doc__ or "")
        head, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
        sections = {parts[i].strip(): parts[i + 1].strip() for i in range(0, len(parts), 2)}
        return Page(" ".join(head.split()), sections)

    def diagnostic(
        self,
        module: Module,
        node: object,
        message: str,
        *,
        label: str = "",
        notes: tuple[Note, ...] = (),
        fix: Fix | None = None,
        severity: Severity | None = None,
        cause: Cause | None = None,
    ) -> Diagnostic:
        """A diagnostic of this rule on ``node`` (a libcst node of ``module``)."""
        start, end = module.span(node)
        return Diagnostic(
            code=self.code,
            name=self.name,
            message=message,
            start=start,
            end=end,
            label=label,
            notes=notes,
            severity=severity or self.severity(),
            fix=fix,
            rows=module.statement_rows(node),
            cause=cause,
        )
