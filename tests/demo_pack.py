"""A rule pack for tests: each rule looks for one word and does one thing about it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from torchlint.rule import Applicability, Default, Diagnostic, Edit, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class _WordRule(Rule):
    word: ClassVar[str]
    applicability: ClassVar[Applicability | None] = None
    caution: ClassVar[str] = ""

    def check(self, module: Module) -> Iterator[Diagnostic]:
        for match in re.finditer(rf"\b{self.word}\b", module.text):
            fix = None
            if self.applicability is not None:
                edits = self.edits(match.start(), match.end())
                fix = Fix(f"write it otherwise: {self.word}", edits, self.applicability, self.caution)
            yield Diagnostic(
                code=self.code,
                name=self.name,
                message=f"{self.word} is found",
                start=match.start(),
                end=match.end(),
                label="here",
                notes=(Note(f"the word {self.word}"),),
                severity=self.severity(),
                fix=fix,
            )

    def edits(self, start: int, end: int) -> tuple[Edit, ...]:
        return (Edit(start, end, self.word.lower()),)


class Loud(_WordRule):
    """A loud word.

    ## What it does
    Finds `LOUD`.
    """

    code = "ZZ101"
    name = "loud-word"
    word = "LOUD"
    words = ("LOUD",)
    applicability = Applicability.SAFE


class Risky(_WordRule):
    """A risky word."""

    code = "ZZ102"
    name = "risky-word"
    default = Default.INFO
    word = "RISKY"
    words = ("RISKY",)
    applicability = Applicability.UNSAFE
    caution = "the tone changes"


class Crashing(_WordRule):
    """A rule with a bug."""

    code = "ZZ103"
    name = "crashing-rule"
    words = ("CRASH",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        raise KeyError("a bug")


class Breaking(_WordRule):
    """A rule whose fix is not Python."""

    code = "ZZ104"
    name = "breaking-fix"
    word = "BREAK"
    words = ("BREAK",)
    applicability = Applicability.SAFE

    def edits(self, start: int, end: int) -> tuple[Edit, ...]:
        return (Edit(start, end, ")("),)


class Flip(_WordRule):
    """One half of two rules that undo each other."""

    code = "ZZ105"
    name = "flip-word"
    word = "FLIP"
    words = ("FLIP",)
    applicability = Applicability.SAFE

    def edits(self, start: int, end: int) -> tuple[Edit, ...]:
        return (Edit(start, end, "FLOP"),)


class Flop(_WordRule):
    """The other half."""

    code = "ZZ106"
    name = "flop-word"
    word = "FLOP"
    words = ("FLOP",)
    applicability = Applicability.SAFE

    def edits(self, start: int, end: int) -> tuple[Edit, ...]:
        return (Edit(start, end, "FLIP"),)


class Importing(_WordRule):
    """A rule whose fix needs an import."""

    code = "ZZ107"
    name = "importing-fix"
    word = "NEEDS"
    words = ("NEEDS",)
    applicability = Applicability.SAFE

    def edits(self, start: int, end: int) -> tuple[Edit, ...]:
        return (Edit(0, 0, "import os\n"), Edit(start, end, "os.sep"))


class Opted(_WordRule):
    """A rule that is off unless it is selected."""

    code = "ZZ201"
    name = "opted-word"
    default = Default.OPT_IN
    word = "OPTED"
    words = ("OPTED",)
    options = {"count": 3, "label": "x", "strict": False, "ratio": 0.5}


class New(_WordRule):
    """Advice for torch 2.4 and later."""

    code = "ZZ202"
    name = "new-word"
    word = "NEWER"
    words = ("NEWER",)
    since = (2, 4)


class Deadly(Rule):
    """A rule that takes the process with it, as a fault in native code does."""

    code = "ZZ301"
    name = "deadly-rule"
    default = Default.OPT_IN
    words = ("DEADLY",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        os._exit(70)
