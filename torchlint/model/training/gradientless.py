"""Expressions whose result has no gradient, whatever they are computed from: sizes, integers, samples."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.syntax.dotted import last_name

#: Methods that return the size of a tensor ...
_SIZES = frozenset({"size", "dim", "ndimension", "numel", "nelement", "element_size", "stride"})
#: ... and attributes that say what kind of tensor it is.
_PROPERTIES = frozenset({"shape", "dtype", "device", "ndim"})
#: Functions whose result has no graph; those of torch only take the shape of a tensor.
_PLAIN = frozenset(
    f"builtins.{name}" for name in ("float", "int", "len", "str", "bool", "print", "round", "isinstance", "range")
) | {f"torch.{name}_like" for name in ("zeros", "ones", "empty", "full", "rand", "randn", "randint")}
#: Methods that return integers or booleans.
_INTEGERS = frozenset({"argmax", "argmin", "argsort", "multinomial", "long", "int", "bool", "byte"})
#: Methods and functions that return values and their indices.
WITH_INDICES = frozenset({"max", "min", "topk", "sort", "median", "kthvalue", "mode"})
#: Methods that convert to a type that they are given, and the types of integers and booleans.
_CONVERTING = frozenset({"to", "type"})
_INTEGER_TYPES = frozenset(
    f"torch.{name}"
    for name in "bool uint8 int8 int16 short int32 int int64 long ByteTensor IntTensor LongTensor".split()
)


class Gradientless(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def is_size(self, part: cst.CSTNode) -> bool:
        """Whether an expression asks for the size or another property of a tensor."""
        if type(part) is cst.Attribute:
            return part.attr.value in _PROPERTIES
        return type(part) is cst.Call and type(part.func) is cst.Attribute and part.func.attr.value in _SIZES

    def is_plain(self, part: cst.CSTNode) -> bool:
        """Whether an expression takes no more than the size of a tensor, or makes a number of Python of it."""
        return self.is_size(part) or (type(part) is cst.Call and self._forest.name_of(part.func) in _PLAIN)

    def is_discrete(self, part: cst.CSTNode) -> bool:
        """Whether an expression returns integers, or what ``sample()`` draws from a distribution of torch."""
        if type(part) is cst.Name:
            return part.value in self._names_of_indices and self._has_indices(part)
        if type(part) is not cst.Call or type(part.func) is not cst.Attribute:
            return False
        if part.func.attr.value == "sample":
            return self._forest.fact(TensorForms).is_distribution(part.func.value)
        if part.func.attr.value in _CONVERTING:
            return any(self._forest.name_of(argument.value) in _INTEGER_TYPES for argument in part.args)
        return part.func.attr.value in _INTEGERS

    def gives_indices(self, call: cst.Call) -> bool:
        """Whether an assignment unpacks values and their indices: ``_, predicted = torch.max(scores, 1)``."""
        return self._indices_of(call) is not None

    def _indices_of(self, call: cst.Call) -> cst.Name | None:
        """The name that an assignment gives the indices."""
        assignment = self._forest.tree.parent(call)
        if not isinstance(assignment, cst.Assign) or last_name(call.func) not in WITH_INDICES:
            return None
        target = assignment.targets[0].target
        second = target.elements[1].value if isinstance(target, cst.Tuple) and len(target.elements) == 2 else None
        return second if isinstance(second, cst.Name) else None

    @cached_property
    def _names_of_indices(self) -> frozenset[str]:
        found = map(self._indices_of, self._forest.tree.calls_named(*WITH_INDICES))
        return frozenset(name.value for name in found if name is not None)

    def _has_indices(self, name: cst.Name) -> bool:
        bound = [(item.value, item.path) for item in self._forest.values.reaching.of(name)]
        return bool(bound) and all(
            isinstance(value, cst.Call) and path == (1,) and self.gives_indices(value) for value, path in bound
        )
