"""Whether a network computes something else in evaluation mode than in training mode."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import last_part


class ModeDependence(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._tree = module.tree
        self._names = module.names
        self._definitions = module.definitions
        self._values = module.values

    def of(self, constructor: cst.Call) -> bool:
        """Whether the network that ``constructor`` builds depends on its mode; a class out of sight counts as yes."""
        for definition in self._definitions.called(constructor, self._values):
            if isinstance(definition, cst.ClassDef):
                return self._class_depends(definition, set())
        name = self._names.resolve(constructor.func) or ""
        if name == "torch.nn.Sequential":
            inner = [call for call in self._tree.calls_in(constructor) if call is not constructor]
            return any(self._call_depends(call, set()) for call in inner)
        return self._depends_by_name(name) or _has_dropout(constructor) if name.startswith("torch.nn.") else True

    def _class_depends(self, definition: cst.ClassDef, seen: set[cst.CSTNode]) -> bool:
        if definition in seen:
            return False
        seen.add(definition)
        return (
            any(
                self._call_depends(call, seen)
                for current in self._definitions.lineage(definition)
                for call in self._tree.calls_in(current)
            )
            or any(self._class_depends(part, seen) for part in self._parts(definition))
            or self._reads_training(definition)
        )

    def _parts(self, definition: cst.ClassDef) -> Iterator[cst.ClassDef]:
        """The classes of the networks that a network is given: ``self.encoder = encoder``."""
        for current in self._definitions.lineage(definition):
            for bindings in self._tree.scopes[current].attributes.values():
                for value in (self._values.of(item.value) for item in bindings if isinstance(item.value, cst.Name)):
                    if value.kind is Kind.MODULE and isinstance(value.definition, cst.ClassDef):
                        yield value.definition

    def _reads_training(self, definition: cst.ClassDef) -> bool:
        return any(
            node.attr.value == "training" and self._tree.within(node, definition) for node in self._tree.attributes
        )

    def _call_depends(self, call: cst.Call, seen: set[cst.CSTNode]) -> bool:
        name = self._names.resolve(call.func)
        if name is not None:
            if name.startswith("torch.nn.") and not name.startswith(("torch.nn.functional.", "torch.nn.init.")):
                return self._depends_by_name(name) or _has_dropout(call)
            if last_part(name).startswith("dropout"):
                return True
            return not name.startswith(("torch.", "builtins.", "math.", "numpy.", "einops.", "functools.", "typing."))
        for definition in self._definitions.called(call, self._values):
            if isinstance(definition, cst.ClassDef) and self._class_depends(definition, seen):
                return True
        return False

    def _depends_by_name(self, name: str) -> bool:
        last = last_part(name)
        return name in knowledge.MODE_DEPENDENT_WHOLE or any(word in last for word in knowledge.MODE_DEPENDENT)


def _has_dropout(call: cst.Call) -> bool:
    """``nn.LSTM(..., dropout=0.1)``."""
    return any(
        argument.keyword is not None
        and argument.keyword.value == "dropout"
        and not (isinstance(argument.value, (cst.Float, cst.Integer)) and float(argument.value.value) == 0)
        for argument in call.args
    )
