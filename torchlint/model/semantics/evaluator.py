"""What a part of the model needs in order to ask for the values of expressions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

import libcst as cst

from torchlint.model.semantics.reaching import Reaching
from torchlint.model.semantics.value import Value

_Found = TypeVar("_Found")


class Evaluator(Protocol):
    """Evaluates expressions; `Values` is the one that does."""

    def of(self, node: cst.CSTNode | None) -> Value:
        """The value of expression ``node``."""

    def instance(self, definition: cst.ClassDef) -> Value:
        """What an instance of a class of the program is."""

    def returned(self, function: cst.FunctionDef) -> Value:
        """What calling a function of the program gives."""

    def attempt(self, find: Callable[[], _Found]) -> tuple[_Found, bool]:
        """What ``find`` gives, and whether it is final: no cycle cut short a value that it may have used."""

    def guard(self, key: Hashable, find: Callable[[], _Found], unknown: _Found) -> tuple[_Found, bool]:
        """The same; ``unknown`` while the same ``key`` is being looked for."""


class FlowEvaluator(Evaluator, Protocol):
    """An evaluator that also knows which bindings of a name may be seen at a place."""

    reaching: Reaching
