"""What a rule is: its code, its page, when it applies, and ``check``.

Nothing here imports libcst or rich, so that listing the rules stays quick.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from torchlint.findings.diagnostic import Cause, Diagnostic, Fix, Note, Severity
from torchlint.model.option import Option
from torchlint.rule.words import Words, contains

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch


class Default(str, Enum):
    """Whether a rule runs when nothing is selected."""

    ON = "on"
    INFO = "info"  #: on, reported at information level
    OPT_IN = "opt-in"  #: only when selected


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
#: A heading that a docstring may have before the last one: a list of figures that others measured, each with its
#: device, its year and its source.
REPORTED = "Reported elsewhere"


@dataclass(frozen=True)
class Page:
    """A rule's docstring taken apart: a one-line summary and the text under each heading (Markdown)."""

    summary: str
    sections: Mapping[str, str] = field(default_factory=dict)


class Rule:
    """One performance anti-pattern: subclass it in ``rules/<family>/<rule_name>.py``.

    The docstring is the rule's documentation page. ``check`` asks the model of a file and yields diagnostics; it
    never walks the tree itself and keeps no state between files.
    """

    code: ClassVar[str]  #: "TL101"
    name: ClassVar[str]  #: "single-process-dataloader"
    default: ClassVar[Default] = Default.ON
    #: A file that lacks one of these cannot violate the rule and is not even parsed for it.
    #: A string must occur in the text, comments and triple-quoted strings left out; of a tuple of strings at least one;
    #: a pattern must match somewhere.
    words: ClassVar[Words] = ()
    #: The same for the text of the file together with what it is analysed with: the evidence may be in another file.
    #: `words` name the place that is reported; words that only show why, such as `torch`, belong here.
    project_words: ClassVar[Words] = ()
    #: Whether it reports in code whose speed does not matter: files that test code (in a folder `tests`, or with a test
    #: library), and functions and classes that nothing in their program uses.
    in_tests: ClassVar[bool] = False
    #: Oldest torch version whose users profit from the advice, e.g. (2, 4); None: any.
    since: ClassVar[tuple[int, int] | None] = None
    #: The first release of torchlint (of the plugin) that has the rule.
    added: ClassVar[str] = "0.1.0"
    #: Where a finding is in code that runs before the steps, how the names of the events of torch.profiler begin whose
    #: time it is about: `enumerate(DataLoader)#`.
    events: ClassVar[str] = ""
    #: Where its effect can be shown by the before/after pair: "GPU", "CPU".
    demo: ClassVar[tuple[str, ...]] = ()
    #: Whether it is new and may still change: it runs only where `preview` is set.
    preview: ClassVar[bool] = False
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
    def may_concern(cls, code: str) -> bool:
        """Whether the rule may report anything in a file, by its text without comments and triple-quoted strings.

        A rule that overrides it looks at the words closer, and calls it first.
        """
        return contains(code, cls.words)

    @classmethod
    def may_apply(cls, text: str) -> bool:
        """Whether the text of a file and its context contains the words without which the rule cannot fire."""
        return contains(text, cls.project_words)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether the rule may report anything in a file, by its syntax tree, whatever its context contains."""
        return True

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
