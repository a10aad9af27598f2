"""The command-line options that the parsers of a program declare, with their defaults."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import UNKNOWN, Device, Value, named_device
from torchlint.model.syntax.tree import Tree


class DeclaredOptions:
    """Answers for one forest."""

    def __init__(self, tree: Tree, values: Evaluator) -> None:
        self._tree = tree
        self._values = values

    def device(self, name: str) -> Value:
        """What the option ``name`` is if all parsers give it a GPU by default; unknown for any other option."""
        defaults = self.defaults.get(name, [])
        if defaults and all(named_device(self._values.of(default)) is Device.CUDA for default in defaults):
            return Value(Kind.DEVICE, device=Device.CUDA, sure=False)
        return UNKNOWN

    @cached_property
    def defaults(self) -> dict[str, list[cst.BaseExpression | None]]:
        """By option the defaults that parsers give it; None where a parser gives none."""
        found: dict[str, list[cst.BaseExpression | None]] = {}
        for call in self._methods("add_argument"):
            keywords = {item.keyword.value: item.value for item in call.args if item.keyword is not None}
            name = self._destination(call, keywords.get("dest"))
            if name is not None:
                found.setdefault(name, []).append(keywords.get("default"))
        for call in self._methods("set_defaults"):
            for item in call.args:
                if item.keyword is not None and item.keyword.value in found:
                    before = [value for value in found[item.keyword.value] if value is not None]
                    found[item.keyword.value] = [*before, item.value]
        return found

    def _methods(self, name: str) -> list[cst.Call]:
        return [
            call for call in self._tree.calls if isinstance(call.func, cst.Attribute) and call.func.attr.value == name
        ]

    def _destination(self, call: cst.Call, given: cst.BaseExpression | None) -> str | None:
        """The attribute that argparse makes of it: ``dest``, or the first long option, or the first of all."""
        texts = [given] if given is not None else [item.value for item in call.args if item.keyword is None]
        names = [self._values.of(text).constant for text in texts]
        if not names or not all(isinstance(name, str) for name in names):
            return None
        words = [str(name) for name in names]
        chosen = next((word for word in words if word.startswith("--")), words[0])
        return chosen.lstrip("-").replace("-", "_")
