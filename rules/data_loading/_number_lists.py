"""Lists of NumPy arrays that contain numbers for certain, and not Python objects."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import called_name

from ._array_lists import ArrayLists

#: Types of numbers, as code writes them: ``np.float32``, ``float``, ``"int64"``, ``"<f4"``.
_NUMBER = re.compile(r"(?:numpy\.|builtins\.)?(?:u?int|float|complex|bool|single|double|half|intp|longlong)\d*_?")
_CODE = re.compile(r"[<>=|]?(?:[fiuc]\d+|[fdbBhHiIlLqQ?])")
#: Functions of NumPy that create numbers if no type is given.
_CREATING = frozenset({"numpy.arange", "numpy.empty", "numpy.eye", "numpy.linspace", "numpy.ones", "numpy.zeros"})
#: Functions that are given the type by position, and its place.
_TYPE_AT = {
    **dict.fromkeys(("numpy.array", "numpy.asarray", "numpy.ascontiguousarray", "numpy.frombuffer"), 1),
    **dict.fromkeys(("numpy.empty", "numpy.ones", "numpy.zeros", "numpy.fromiter"), 1),
    **dict.fromkeys(("numpy.empty_like", "numpy.ones_like", "numpy.zeros_like"), 1),
    **dict.fromkeys(("numpy.full", "numpy.full_like"), 2),
    **dict.fromkeys(("numpy.arange", "numpy.eye"), 3),
}


class NumberLists(ArrayLists):
    """Answers for one file."""

    def contains(self, data: cst.BaseExpression) -> bool:
        """Whether a list contains nothing but arrays of numbers."""
        return self._array_in(data) is not None

    def _makes(self, call: cst.Call) -> bool:
        """Whether a call gives an array of numbers: by its type, by its data, or because a library has no others."""
        if not super()._makes(call):
            return False
        name = self._module.name_of(call.func)
        if name is None or not name.startswith("numpy."):
            return True
        dtype = self._dtype(call, name)
        if dtype is not None:
            return self._is_type_of_numbers(dtype)
        if name in _CREATING or name == "numpy.argsort":
            return True
        given = [item.value for item in call.args if not item.star and item.keyword is None]
        if name in ("numpy.full", "numpy.full_like"):
            given = given[1:2]
        return bool(given) and all(map(self._has_numbers, given if name == "numpy.outer" else given[:1]))

    def _is_changed_array(self, call: cst.Call, depth: int) -> bool:
        """Whether a call gives another form of an array of numbers, or converts one to a type of numbers."""
        if not super()._is_changed_array(call, depth):
            return False
        if called_name(call) != "astype":
            return True
        dtype = keyword(call, "dtype") or (call.args[0].value if call.args else None)
        return dtype is not None and self._is_type_of_numbers(dtype)

    def _is_of_file(self, item: cst.Subscript) -> bool:
        """A file may contain arrays of other types."""
        return False

    def _dtype(self, call: cst.Call, name: str) -> cst.BaseExpression | None:
        given = keyword(call, "dtype")
        place = _TYPE_AT.get(name, len(call.args))
        return call.args[place].value if given is None and place < len(call.args) else given

    def _is_type_of_numbers(self, dtype: cst.BaseExpression) -> bool:
        if isinstance(dtype, cst.SimpleString):
            text = str(dtype.evaluated_value)
            return (_CODE.fullmatch(text) or _NUMBER.fullmatch(text)) is not None
        return _NUMBER.fullmatch(self._module.name_of(dtype) or "") is not None

    def _has_numbers(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a number, an array of numbers, or a list of such."""
        if isinstance(node, (cst.List, cst.Tuple)):
            return bool(node.elements) and all(
                isinstance(item, cst.Element) and self._has_numbers(item.value) for item in node.elements
            )
        if isinstance(node, cst.ListComp):
            return self._has_numbers(node.elt)
        is_list = isinstance(node, cst.Name) and self._array_in(node) is not None
        return is_list or self._is_array(node) or self._module.value(node).kind is Kind.NUMBER

    def _is_combined(self, node: cst.BinaryOperation, depth: int) -> bool:
        """Whether both sides are numbers: the sum of numbers and objects is an array of objects."""
        sides = (node.left, node.right)
        return all(self._is_array(side, depth - 1) or self._module.value(side).kind is Kind.NUMBER for side in sides)
