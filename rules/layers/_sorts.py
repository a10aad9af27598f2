"""Sorts of which only the first or the last items are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import called_name, dotted_name
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
#: The parts of what a sort returns, and comparisons of its items, which keep their order.
_PARTS = frozenset({"values", "indices"})
_COMPARING = frozenset({"eq", "ne"})
#: How many expressions a value is followed through.
_DEPTH = 20


@dataclass(frozen=True, eq=False)
class Leading:
    """A sort of which only the first or the last items are read."""

    node: cst.BaseExpression  #: the sort, with the slice behind it
    count: str  #: how many are read: "1", "first 5", "last `k`"


class Sorts:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def leading(self, call: cst.Call) -> Leading | None:
        """What is read of what ``call`` sorts, if that is only the first items, or only the last ones."""
        sort = self._sorts(call)
        if sort is None or "rand" in self._module.code(call) or self._has_reason(call):
            return None
        node: cst.CSTNode = call
        parent = self._tree.parent(node)
        is_pair = sort == "sort"
        if is_pair and parent is not None and _is_part(parent, call):
            node, is_pair = parent, False
            parent = self._tree.parent(node)
        if not is_pair and (taken := self._taken(node, call)) is not None:
            return Leading(*taken)
        if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
            return None
        counts = {self._of_uses(name, parent, call) for name in _targets(parent.targets[0].target, is_pair)}
        counts.discard(_UNUSED)
        if not counts or None in counts:
            return None
        return Leading(call, next((count for count in sorted(filter(None, counts)) if count != "1"), "1"))

    def _taken(self, node: cst.CSTNode, call: cst.Call) -> tuple[cst.BaseExpression, str] | None:
        """What takes a few of the sorted items in ``node`` by a slice, an index or ``narrow``, and how many."""
        parent = self._tree.parent(node)
        if isinstance(parent, cst.Subscript) and parent.value is node:
            count = self._count(parent, call)
            return (parent, count) if count is not None else None
        method = self._method_of(node)
        if method is None or called_name(method) != "narrow" or len(method.args) != 3:
            return None
        dim, start, length = (item.value for item in method.args)
        if not isinstance(dim, cst.Integer) or not self._is_sorted(int(dim.value), call):
            return None
        count = self._length(length, "first") if self._module.code(start) == "0" else None
        return (method, count) if count is not None else None

    def _method_of(self, node: cst.CSTNode) -> cst.Call | None:
        """The call of a method of ``node``."""
        above = self._tree.parent(node)
        call = self._tree.parent(above) if isinstance(above, cst.Attribute) and above.value is node else None
        return call if isinstance(call, cst.Call) and call.func is above else None

    def _of_uses(self, name: cst.Name, statement: cst.Assign, call: cst.Call) -> str | None:
        """How many first or last items the uses of a name take; None if one of them takes others."""
        scope = self._tree.scope_of(name)
        if not isinstance(scope.node, cst.FunctionDef) or name.value in scope.outer_names:
            return None
        found = _UNUSED
        reaching = self._module.values.reaching
        bound = (item for item in scope.bindings[name.value] if item.node is statement)
        for use in (use for item in bound for use in reaching.uses_of(item, scope)):
            if self._tree.is_target(use):
                continue
            count = self._of_use(use, call)
            if count is None or not _is_one_end(found, count):
                return None
            if found in (_UNUSED, "1"):
                found = count
        return found

    def _of_use(self, node: cst.CSTNode, call: cst.Call) -> str | None:
        """How many items are taken of a name, or of what its items are compared with: ``order.eq(labels)[:, :5]``."""
        taken = self._taken(node, call)
        if taken is not None:
            return taken[1]
        method, parent = self._method_of(node), self._tree.parent(node)
        compared: cst.CSTNode | None = method if method is not None and called_name(method) in _COMPARING else None
        if compared is None and isinstance(parent, cst.Comparison) and parent.left is node:
            compared = parent
        if compared is None:
            return None
        statement = self._tree.parent(compared)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return taken[1] if (taken := self._taken(compared, call)) is not None else None
        target = statement.targets[0].target
        count = self._of_uses(target, statement, call) if isinstance(target, cst.Name) else None
        return None if count == _UNUSED else count

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
        if not isinstance(last, cst.Slice) or last.step is not None:
            return None
        lower, upper = last.lower, last.upper
        if upper is not None and (lower is None or self._module.code(lower) == "0"):
            return self._length(upper, "first")
        if upper is None and isinstance(lower, cst.UnaryOperation) and isinstance(lower.operator, cst.Minus):
            return self._length(lower.expression, "last")
        return None

    def _length(self, length: cst.BaseExpression, end: str) -> str | None:
        """``first 5``: how many items are at one end of those sorted; None where it is not few."""
        if isinstance(length, cst.Integer):
            few = 0 < int(length.value) <= _FEW
            return (f"{end} {length.value}" if length.value != "1" else "1") if few else None
        if self._is_few(length):
            return f"{end} `{self._module.code(length)}`"
        return None if (name := dotted_name(length)) is None or self._is_bound(length) else f"{end} `{name}`"

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


def _is_part(node: cst.CSTNode, call: cst.Call) -> bool:
    """``pair[0]``, ``pair[1]``, ``pair.values`` or ``pair.indices`` of what ``call`` returns."""
    if isinstance(node, cst.Attribute):
        return node.value is call and node.attr.value in _PARTS
    if not isinstance(node, cst.Subscript) or node.value is not call:
        return False
    index = node.slice[0].slice
    is_item = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) and index.value.value in ("0", "1")
    return is_item and len(node.slice) == 1


def _is_one_end(one: str, other: str) -> bool:
    """Whether two uses take items at the same end; single items may be at either."""
    ends = {count.partition(" ")[0] for count in (one, other)} - {_UNUSED, "1"}
    return len(ends) < 2
