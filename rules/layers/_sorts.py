"""Sorts of which only the first items are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.data_flow import DataFlow, Search
from torchlint.model.training.step_places import StepPlaces
from torchlint.source.lexemes import without_suppressions

_SORTS = frozenset({"torch.sort", "torch.argsort"})
#: Names of a number of items that is there as a bound, and seldom reached.
_BOUNDS = re.compile(r"max|nms|limit|pre_|size\(|shape|len\(|keep|self\.top_k|ratio|frac", re.IGNORECASE)
#: ... what a function is named that has one,
_BOUNDED = re.compile(r"nms", re.IGNORECASE)
#: ... and how one is computed, other than by `min(count, 5)`.
_COMPUTED = re.compile(r"\b(min|int|round|len|size|shape|numel|sum|ceil)\b|max|ratio|frac|[*/%]", re.IGNORECASE)
#: The largest number of leading items for which a sort is surely more than is needed.
_FEW = 256
#: Libraries whose arrays have an ``argsort`` as well.
_ARRAYS = frozenset("cupy cv2 dask jax numpy pandas polars pyarrow scipy sklearn tensorflow xarray".split())
#: A comment that says why a sort is there.
_REASON = re.compile(r"topk|\bfaster|\bstable", re.IGNORECASE)
#: What the uses of a name take that has none.
_UNUSED = "0"
#: How many expressions a value is followed through.
_DEPTH = 20


@dataclass(frozen=True, eq=False)
class Leading:
    """A sort of which only the first items are read."""

    node: cst.BaseExpression  #: the sort, with the slice behind it
    count: str  #: how many are read: "1", "5", "`k`"


class Sorts:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def leading(self, call: cst.Call) -> Leading | None:
        """What is read of what ``call`` sorts, if that is only the first items."""
        sort = self._sorts(call)
        if sort is None or "rand" in self._module.code(call) or self._has_reason(call):
            return None
        node: cst.CSTNode = call
        parent = self._tree.parent(node)
        is_pair = sort == "sort"
        if is_pair and isinstance(parent, cst.Subscript) and parent.value is call and _takes_item(parent):
            node, is_pair = parent, False
            parent = self._tree.parent(node)
        if isinstance(parent, cst.Subscript) and parent.value is node:
            count = None if is_pair else self._count(parent, call)
            return Leading(parent, count) if count is not None else None
        if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
            return None
        counts = {self._of_uses(name, parent, call) for name in _targets(parent.targets[0].target, is_pair)}
        counts.discard(_UNUSED)
        if not counts or None in counts:
            return None
        return Leading(call, next((count for count in sorted(filter(None, counts)) if count != "1"), "1"))

    def _of_uses(self, name: cst.Name, statement: cst.Assign, call: cst.Call) -> str | None:
        """How many leading items the uses of a name take; None if one of them takes others."""
        scope = self._tree.scope_of(name)
        if not isinstance(scope.node, cst.FunctionDef) or name.value in scope.outer_names:
            return None
        found = _UNUSED
        reaching = self._module.values.reaching
        bound = (item for item in scope.bindings[name.value] if item.node is statement)
        for use in (use for item in bound for use in reaching.uses_of(item, scope)):
            parent = self._tree.parent(use)
            if self._tree.is_target(use):
                continue
            count = None
            if isinstance(parent, cst.Subscript) and parent.value is use:
                count = self._count(parent, call)
            if count is None:
                return None
            if found in (_UNUSED, "1"):
                found = count
        return found

    # -- what sorts

    def _sorts(self, call: cst.Call) -> str | None:
        """Which sort of torch a call is: "sort" gives values and indices, "argsort" indices."""
        name = self._module.name_of(call.func)
        if name in _SORTS:
            return "sort" if name == "torch.sort" else "argsort"
        if name is not None or not isinstance(call.func, cst.Attribute):
            return None
        keywords = keywords_of(call).keys()
        method = call.func.attr.value
        if method not in ("sort", "argsort") or "stable" in keywords:
            return None
        owner = call.func.value
        if keywords & {"dim", "descending"} or self._module.value(owner).kind is Kind.TENSOR:
            return method
        return method if not keywords and self._is_tensor(call, owner) else None

    def _is_tensor(self, call: cst.Call, owner: cst.BaseExpression) -> bool:
        """Whether an unknown value is a tensor: the file uses no other library with arrays, or a network has it."""
        module = self._module
        if module.value(owner) or self._arrays.finds(owner):
            return False
        root = self._tree.root_of(call)
        imported = {name.partition(".")[0] for name in module.imported_by(root)}
        if "torch" in imported and not imported & _ARRAYS and not self._tree.scopes[root].star_imports:
            return True
        function = module.function_of(call)
        return function is not None and function.name.value == "forward" and self._steps.is_forward(function)

    @cached_property
    def _arrays(self) -> Search:
        """Whether a value comes from another library."""
        return self._module.fact(DataFlow).search(self._is_array, lambda part: False, outward=True, depth=_DEPTH)

    def _is_array(self, part: cst.CSTNode) -> bool:
        if not isinstance(part, cst.Call):
            return self._module.value(part).kind is Kind.ARRAY
        library = (self._module.name_of(part.func) or "").partition(".")[0]
        return library in _ARRAYS or (isinstance(part.func, cst.Attribute) and part.func.attr.value == "numpy")

    @cached_property
    def _steps(self) -> StepPlaces:
        return self._module.fact(StepPlaces)

    def _has_reason(self, call: cst.Call) -> bool:
        """Whether a comment says why ``call`` sorts."""
        row = self._module.row(call)
        lines = (self._module.line(number) for number in range(max(1, row - 1), row + 1))
        return any(_REASON.search(without_suppressions(line).partition("#")[2]) for line in lines)

    # -- what is read

    def _count(self, node: cst.Subscript, call: cst.Call) -> str | None:
        """How many leading items are taken along the sorted dimension; None where it is not few."""
        last = node.slice[-1].slice
        if not self._is_sorted(len(node.slice) - 1, call):
            return None
        if isinstance(last, cst.Index):
            return "1" if self._is_item(node, call) and self._module.code(last.value) in ("0", "-1") else None
        if not isinstance(last, cst.Slice) or last.upper is None or last.lower is not None or last.step is not None:
            return None
        if isinstance(last.upper, cst.Integer):
            return last.upper.value if int(last.upper.value) <= _FEW else None
        return None if (name := dotted_name(last.upper)) is None or self._is_bound(last.upper) else f"`{name}`"

    def _is_item(self, node: cst.Subscript, call: cst.Call) -> bool:
        """Whether an index takes an item of each row, and not the whole order of a batch of one: ``order[0, 0]``."""
        others = [item.slice for item in node.slice[:-1]]
        is_of_batch = all(isinstance(item, cst.Index) and isinstance(item.value, cst.Integer) for item in others)
        return bool(others) and (not is_of_batch or isinstance(self._dim(call), cst.Integer))

    def _is_sorted(self, position: int, call: cst.Call) -> bool:
        """Whether ``call`` may sort along the dimension that is at a position of an index."""
        given = self._dim(call)
        return not isinstance(given, cst.Integer) or int(given.value) == position

    def _dim(self, call: cst.Call) -> cst.BaseExpression | None:
        """The dimension that ``call`` is given."""
        is_method = self._module.name_of(call.func) is None
        given = next((item.value for item in call.args if item.keyword and item.keyword.value == "dim"), None)
        positional = [item.value for item in call.args if item.keyword is None]
        if given is None and len(positional) > 1 - is_method:
            given = positional[1 - is_method]
        return given

    def _is_bound(self, node: cst.BaseExpression) -> bool:
        """Whether a number of items, by its name or by what it is computed from, is only their largest number."""
        function = self._module.function_of(node)
        if _BOUNDS.search(self._module.code(node)) or (function and _BOUNDED.search(function.name.value)):
            return True
        bound = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else []
        values = (item.value for item in bound if item.kind is BindingKind.ASSIGN and item.value is not None)
        return any(_COMPUTED.search(self._module.code(value)) and not self._is_few(value) for value in values)

    def _is_few(self, value: cst.BaseExpression) -> bool:
        """Whether a number is small for certain: ``min(len(names), 5)``."""
        if not isinstance(value, cst.Call) or self._module.name_of(value.func) != "builtins.min":
            return False
        return any(isinstance(item.value, cst.Integer) and int(item.value.value) <= _FEW for item in value.args)


def _targets(target: cst.BaseExpression, is_pair: bool) -> list[cst.Name]:
    """The names of the sorted values and their indices: of ``values, order = x.sort()``, of ``order = x.argsort()``."""
    if not is_pair:
        return [target] if isinstance(target, cst.Name) else []
    elements = [item.value for item in target.elements] if isinstance(target, cst.Tuple) else []
    names = [item for item in elements if isinstance(item, cst.Name)]
    return names if len(names) == 2 == len(elements) else []


def _takes_item(node: cst.Subscript) -> bool:
    """``pair[0]`` or ``pair[1]``."""
    index = node.slice[0].slice
    is_item = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) and index.value.value in ("0", "1")
    return is_item and len(node.slice) == 1
