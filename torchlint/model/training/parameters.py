"""Classes of networks that have no parameters with gradients for certain, such as metrics: they record nothing."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self, last_name, last_part
from torchlint.model.syntax.literals import is_constant_name, is_none

#: Calls by which a network gets parameters without an assignment.
_ADDING = frozenset({"add_module", "register_module", "register_parameter", "Parameter", "setattr"})
#: Libraries of whose calls it is known whether they make a network.
_LIBRARIES = frozenset({"torch", "builtins", "numpy", "math"})
#: Methods of every network.
_METHODS = frozenset({"register_buffer", "to", "cuda", "cpu", "eval", "train", "float", "half", "forward"})
_PLAIN = (Kind.NUMBER, Kind.STRING, Kind.DEVICE, Kind.DTYPE, Kind.TENSOR, Kind.ARRAY)


class Parameters(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._known: dict[cst.ClassDef, bool] = {}

    def has_none(self, model: cst.BaseExpression) -> bool:
        """Whether ``model`` is of a class of the program whose objects have no parameters for certain."""
        definition = self._forest.value(model).definition
        if not isinstance(definition, cst.ClassDef):
            return False
        if definition not in self._known:
            self._known[definition] = self._defines_none(definition)
        return self._known[definition]

    def _defines_none(self, definition: cst.ClassDef) -> bool:
        forest = self._forest
        if set(forest.definitions.base_names(definition)) != {"torch.nn.Module"}:
            return False
        classes = forest.definitions.lineage(definition)
        calls = [call for item in classes for call in forest.tree.calls_in(item)]
        if any(last_name(call.func) in _ADDING and not self._records_nothing(call) for call in calls):
            return False
        scopes = [forest.tree.scopes[item] for item in classes]
        names = {name for scope in scopes for name in (*scope.attributes, *scope.bindings)} | _METHODS
        if any(is_attribute_of_self(call.func) and last_name(call.func) not in names for call in calls):
            return False  # a layer that is set out of sight
        bindings = [binding for scope in scopes for found in scope.attributes.values() for binding in found]
        return all(binding.value is not None and self._is_plain(binding.value) for binding in bindings)

    def _is_plain(self, made: cst.BaseExpression) -> bool:
        """Whether an expression is a number, a text, a tensor or a layer without parameters, or made of such."""
        if _is_constant(made) or isinstance(made, cst.FormattedString):
            return True
        if isinstance(made, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)):
            return True
        if isinstance(made, (cst.Tuple, cst.List)):
            return all(self._is_plain(element.value) for element in made.elements)
        if isinstance(made, cst.Name):
            return self._forest.value(made).kind in _PLAIN or self._defaults_to_constant(made)
        if not isinstance(made, cst.Call):
            return False
        if self._records_nothing(made):
            return True
        name = self._forest.name_of(made.func) or ""
        if name.partition(".")[0] not in _LIBRARIES:
            return False
        is_layer = self._forest.value(made).kind is Kind.MODULE
        return last_part(name).startswith(knowledge.PARAMETERLESS) if is_layer else not name.startswith("torch.nn.P")

    def _records_nothing(self, call: cst.Call) -> bool:
        """``nn.Parameter(x, requires_grad=False)``."""
        records = keyword(call, "requires_grad")
        return (
            self._forest.name_of(call.func) in knowledge.PARAMETER
            and records is not None
            and dotted_name(records) == "False"
        )

    def _defaults_to_constant(self, name: cst.Name) -> bool:
        """Whether a name is that of a parameter with a number, a text or a flag as its default value."""
        bound = [binding.node for binding in self._forest.values.reaching.of(name)]
        return bool(bound) and all(
            isinstance(item, cst.Param)
            and item.default is not None
            and _is_constant(item.default)
            and not is_none(item.default)
            for item in bound
        )


def _is_constant(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.SimpleString, cst.Integer, cst.Float)) or is_constant_name(node)
