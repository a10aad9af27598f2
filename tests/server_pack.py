"""A rule pack for the tests of the language server: rules that behave badly, or slowly."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Place, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class _Word(Rule):
    def found(self, module: Module, message: str, fix: Fix | None = None) -> Diagnostic:
        start = module.text.index(self.name.upper())
        return Diagnostic(self.code, self.name, message, start, start + len(self.name), fix=fix)


class Slow(_Word):
    """A rule that takes its time."""

    code = "ZY101"
    name = "slow"
    words = ("SLOW",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        time.sleep(1)
        yield self.found(module, "slow")


class Printing(_Word):
    """A rule that prints, as nobody should."""

    code = "ZY102"
    name = "print"
    words = ("PRINT",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        print("Content-Length: 5\r\n\r\nhello", flush=True)
        yield self.found(module, "printed")


class Displayed(_Word):
    """A rule whose fix is only shown."""

    code = "ZY103"
    name = "shown"
    words = ("SHOWN",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        yield self.found(module, "shown", Fix("think about it", (Edit(0, 0, "# "),), Applicability.DISPLAY))


class Pointing(_Word):
    """A rule whose evidence is elsewhere."""

    code = "ZY104"
    name = "point"
    words = ("POINT",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        found = self.found(module, "pointed")
        target = module.text.index("TARGET")
        other = Place(12, 16, os.path.join(os.path.dirname(module.path), "other.py"))
        gone = Place(0, 1, os.path.join(os.path.dirname(module.path), "gone.py"))
        notes = Note("no place"), Note("here", Place(target, target + 6)), Note("there", other), Note("gone", gone)
        yield replace(found, notes=notes)


class Late(_Word):
    """A rule that crashes on what the fix of another rule has changed."""

    code = "ZY105"
    name = "late"
    words = ("LATE",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        if "LOUD" not in module.text:
            raise KeyError("after the fix")
        yield from ()
