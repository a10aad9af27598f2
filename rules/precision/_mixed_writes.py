"""Writes by index under autocast: they raise where a 16-bit result goes into a float32 tensor, or the reverse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import called_name, last_part
from torchlint.model.training.data_flow import DataFlow

#: Methods and functions that write a tensor into another by index, and want both in one format.
_WRITES = re.compile(r"index_(?:add|copy|put|reduce)_?|scatter(?:_add|_reduce)?_?|masked_scatter_?|put_")
#: What autocast runs in 16 bits.
_LOW = re.compile(r"mm|bmm|matmul|einsum|addmm|baddbmm|linear|conv\w+|scaled_dot_product_attention")
#: What autocast runs in float32, or leaves in the format of float32 weights.
_FULL = re.compile(
    r"(?:log_)?softmax|exp|pow|sum|prod|cumsum|norm|layer_norm|group_norm|embedding|float|rand|randn|normal"
)
_FULL_LAYERS = re.compile(r"Embedding(?:Bag)?|LayerNorm|GroupNorm|(?:Log)?Softmax")
#: Layers that compute in the format of their input.
_NEUTRAL_LAYERS = re.compile(r"\w*Dropout\w*|\w*(?:LU|Tanh|Sigmoid|Pool\d|Norm\d)\w*|Identity|(?:Unf|F)latten")
_MAKES = re.compile(r"zeros|ones|empty|full|tensor")
_MAKES_LIKE = re.compile(r"(?:zeros|ones|empty|full|rand|randn)_like|new_(?:zeros|ones|empty|full|tensor)")
#: What gives integers, truth values, numbers or a format that the code chooses.
_OTHERS = re.compile(
    r"arange|randint|randperm|argmax|argmin|argsort|long|int|bool|byte|half|bfloat16|double|type|type_as|nonzero|eq|ne|lt"
    r"|gt|le|ge|isnan|size|numel|item|tolist|numpy|one_hot|multinomial"
)
#: Arguments before what is written, of a method: ``x.scatter_(dim, index, src)``.
_BEFORE_SOURCE = {"index_put": 1, "index_put_": 1, "masked_scatter": 1, "masked_scatter_": 1, "put_": 1}

_FLOAT32 = frozenset({"full"})
_BITS16 = frozenset({"low"})
_UNKNOWN: frozenset[str] = frozenset()


class MixedWrites(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._known: CyclicMemo[cst.BaseExpression, frozenset[str]] = CyclicMemo(_UNKNOWN)

    @cached_property
    def first(self) -> cst.CSTNode | None:
        """The first write by index that raises under autocast: 16 bits into a float32 tensor, or the reverse."""
        for node, target, source in self._writes:
            if self._is_of_dataset(node):
                continue
            written, into = self._formats(source), self._formats(target)
            if written and into and len(written | into) > 1:
                return node
        return None

    def _is_of_dataset(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in a method of a dataset, which no autocast surrounds."""
        function = self._forest.tree.function_of(node)
        owner = self._forest.tree.class_of(function) if function is not None else None
        return owner is not None and not knowledge.DATASET_BASES.isdisjoint(self._forest.definitions.base_names(owner))

    @property
    def _writes(self) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, cst.BaseExpression]]:
        """Each write by index, with the tensor that is written to and what is written."""
        for target, value, statement in self._forest.tree.stores:
            if isinstance(target, cst.Subscript) and value is not None and isinstance(statement, cst.Assign):
                if any(self._is_tensor_index(item.slice) for item in target.slice):
                    yield statement, target.value, value
        for call in self._forest.tree.calls_where(_WRITES.fullmatch):
            name = called_name(call)
            given = [item.value for item in call.args if item.keyword is None and not item.star]
            named = keywords_of(call)
            owner = call.func.value if isinstance(call.func, cst.Attribute) else None
            if owner is None or (self._forest.name_of(call.func) or "").startswith("torch."):
                owner = given.pop(0) if given else None
            place = _BEFORE_SOURCE.get(name, 2)
            source = given[place] if len(given) > place else named.get("src", named.get("source", named.get("values")))
            if owner is not None and source is not None:
                yield call, owner, source

    def _is_tensor_index(self, index: cst.BaseSlice) -> bool:
        if not isinstance(index, cst.Index) or isinstance(index.value, (cst.Integer, cst.Ellipsis, cst.BaseString)):
            return False
        return self._forest.value(index.value).kind not in (Kind.NUMBER, Kind.STRING, Kind.NONE)

    def _formats(self, node: cst.BaseExpression | None) -> frozenset[str]:
        """In which formats ``node`` may be under autocast: "low", "full", both, or none that can be seen."""
        return _UNKNOWN if node is None else self._known.get(node, self._followed)

    def _followed(self, node: cst.BaseExpression) -> frozenset[str]:
        if isinstance(node, cst.Subscript):
            return self._formats(node.value)
        if isinstance(node, cst.UnaryOperation):
            return self._formats(node.expression)
        if isinstance(node, cst.IfExp):
            return self._formats(node.body) | self._formats(node.orelse)
        if isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.MatrixMultiply):
                return _BITS16
            return _promoted(self._formats(node.left), self._formats(node.right))
        if isinstance(node, cst.Call):
            return self._formats_of_call(node)
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self._formats_of_name(node)
        return _UNKNOWN

    def _formats_of_name(self, node: cst.Name | cst.Attribute) -> frozenset[str]:
        if isinstance(node, cst.Attribute) and node.attr.value in ("data", "T", "mT"):
            return self._formats(node.value)
        value = self._forest.value(node)
        if value.kind in (Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.ARRAY):
            return _UNKNOWN
        if isinstance(node, cst.Name) and any(
            item.kind is BindingKind.PARAM for item in self._forest.values.reaching.of(node)
        ):
            return _FLOAT32  # an input, most often
        found = _UNKNOWN
        for source, _ in self._forest.fact(DataFlow).sources(node):
            if isinstance(source, cst.BaseExpression):
                found |= self._formats(source)
        return found

    def _formats_of_call(self, call: cst.Call) -> frozenset[str]:
        forest, func, name = self._forest, call.func, called_name(call)
        first = call.args[0].value if call.args else None
        callee = forest.value(func)
        if callee.kind is Kind.MODULE:
            layer = last_part(callee.name) if callee.name.startswith("torch.nn.") else ""
            if _FULL_LAYERS.fullmatch(layer):
                return _FLOAT32
            return self._formats(first) if _NEUTRAL_LAYERS.fullmatch(layer) else _BITS16
        full_name = forest.name_of(func) or ""
        if full_name in knowledge.PARAMETER:
            return _FLOAT32
        owner = func.value if isinstance(func, cst.Attribute) and not full_name else None
        if full_name and not full_name.startswith("torch."):
            return _UNKNOWN
        chosen = [item.value for item in call.args if item.keyword is not None and item.keyword.value == "dtype"]
        if chosen:
            return _FLOAT32 if forest.name_of(chosen[0]) in ("torch.float32", "torch.float") else _UNKNOWN
        if (not full_name and owner is None) or (isinstance(owner, cst.Name) and owner.value == "self"):
            returned = [item for item, _ in forest.fact(DataFlow).sources(call) if isinstance(item, cst.BaseExpression)]
            return _UNKNOWN.union(*(self._formats(item) for item in returned))
        if _OTHERS.fullmatch(name) or (name == "to" and self._gives_format(call)):
            return _UNKNOWN
        if _LOW.fullmatch(name):
            return _BITS16
        if _FULL.fullmatch(name) or (full_name and _MAKES.fullmatch(name)):
            return _FLOAT32
        if _MAKES_LIKE.fullmatch(name) or owner is not None:
            return self._formats(owner if owner is not None else first)
        elements = first.elements if isinstance(first, (cst.List, cst.Tuple)) else ()
        parts = [item.value for item in elements] or [item.value for item in call.args]
        found = _UNKNOWN
        for part in parts:
            found = _promoted(found, self._formats(part))
        return found

    def _gives_format(self, call: cst.Call) -> bool:
        """``x.to(torch.float32)``, ``x.to(y.dtype)``, ``x.to(y)``."""
        return any(
            (self._forest.name_of(item.value) or "").startswith("torch.")
            or (isinstance(item.value, cst.Attribute) and item.value.attr.value == "dtype")
            or self._forest.value(item.value).kind is Kind.TENSOR
            for item in call.args
        )


def _promoted(a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
    """The formats of what is computed from two tensors: float32 if one of them has it."""
    return _FLOAT32 if "full" in a | b else a | b
