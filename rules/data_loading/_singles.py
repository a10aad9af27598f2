"""Batches of size 1: where one is created, and the rows of a tensor or array that its sample is one of."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Role
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.scopes import unpacked

#: Methods and functions that return the same sample, on another device or in another form.
_SAME = frozenset(
    "to cuda cpu float half double bfloat16 type contiguous detach clone requires_grad_ pin_memory permute transpose "
    "div div_ sub sub_ mul mul_ add add_ clamp clamp_ astype copy".split()
)
_SAME_FUNCTIONS = frozenset(
    {
        "torch.autograd.Variable",
        "torch.from_numpy",
        "torch.tensor",
        "torch.as_tensor",
        "torch.FloatTensor",
        "torch.nn.functional.interpolate",
        "numpy.transpose",
        "numpy.ascontiguousarray",
    }
)
_INSERTING = frozenset({"torch.unsqueeze", "numpy.expand_dims"})
#: Functions that make a batch of a list of samples.
_STACKING = frozenset(
    {"torch.stack", "numpy.stack", "numpy.array", "numpy.asarray", "torch.tensor", "torch.FloatTensor"}
)
#: Functions and methods that cut a tensor into parts of many rows each.
_CUTTING = frozenset({"split", "chunk", "tensor_split", "split_with_sizes"})
#: Functions that give samples of one size another one.
_RESAMPLING = frozenset({"zoom", "resize", "rescale", "interpolate"})
#: Attributes and methods of tensors and arrays that lists do not have.
_OF_SHAPES = frozenset({"shape", "size", "dim", "ndim"})
_DEPTH = 12


class Singles:
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def single(self, node: cst.CSTNode | None, body: cst.CSTNode, depth: int = _DEPTH) -> cst.CSTNode | None:
        """The ``x.unsqueeze(0)``, ``x[None]`` or ``xs[i : i + 1]`` behind an argument of a network."""
        if node is None or depth <= 0:
            return None
        if isinstance(node, cst.Name):
            reached = self._forest.values.reaching.of(node)
            inside = [item for item in reached if self._tree.within(item.node, body)]
            found = [self.single(unpacked(item.value, item.path), body, depth - 1) for item in inside]
            return next((item for item in found if item is not None), None)
        if isinstance(node, cst.IfExp):
            return self.single(node.body, body, depth - 1)
        if isinstance(node, cst.BinaryOperation):
            return self.single(node.left, body, depth - 1)
        if isinstance(node, cst.Subscript):
            return node if self._adds_axis(node) or self._takes_one(node) else None
        if not isinstance(node, cst.Call):
            return None
        return node if self._makes_single(node) else self.single(self.changed(node), body, depth - 1)

    def _makes_single(self, call: cst.Call) -> bool:
        """``torch.unsqueeze(x, 0)``, ``np.stack([x])``, ``x.unsqueeze(0)``, ``x.view(1, 3, 64, 64)``."""
        name = self._forest.name_of(call.func)
        if name in _INSERTING:
            return len(call.args) > 1 and self._forest.value(call.args[1].value).constant == 0
        if name in _STACKING:
            return bool(call.args) and self._only_element(call.args[0].value) is not None
        if not isinstance(call.func, cst.Attribute) or name is not None or not call.args:
            return False
        method = call.func.attr.value
        if method in ("view", "reshape"):  # `x.view(1, -1)` is often one row of a batch that is too short
            return len(call.args) > 2 and self._forest.value(call.args[0].value).constant == 1
        return method in ("unsqueeze", "unsqueeze_") and self._forest.value(call.args[0].value).constant == 0

    def changed(self, call: cst.Call) -> cst.BaseExpression | None:
        """What ``call`` returns on another device or in another form."""
        name = self._forest.name_of(call.func)
        if name in _SAME_FUNCTIONS or name in _STACKING:
            return call.args[0].value if call.args else None
        is_method = name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value in _SAME
        return call.func.value if is_method and isinstance(call.func, cst.Attribute) else None

    def rows(self, single: cst.CSTNode | None) -> cst.CSTNode | None:
        """``xs`` of ``xs[i].unsqueeze(0)``, or of ``x[None]`` in ``for x in xs``, if all its rows are of one size."""
        found = self._rows(single)
        if found is None or self._are_cut(found) or self.varies(single):
            return None
        value = self._forest.value(found)
        if value.kind is Kind.TENSOR and (value.sure or value.role is Role.BATCH):
            return found
        above = self._tree.parent(found)
        if value.kind is Kind.ARRAY and value.sure and not (isinstance(above, cst.Subscript) and _is_window(above)):
            return found
        if isinstance(above, cst.Subscript) and above.value is found and self._takes_whole_rows(above):
            return found
        return found if self._has_shape(found) else None

    def is_measured(self, single: cst.CSTNode | None, body: cst.CSTNode) -> bool:
        """Whether ``body`` asks for the size of the sample ``xs[i]`` itself, as if they differed."""
        row = self._row(single)
        if row is None:
            return False
        code = self._forest.code(row)
        return any(
            self._tree.within(node, body) and self._forest.code(node.value) == code
            for node in self._tree.attributes_named(*_OF_SHAPES)
        )

    def varies(self, single: cst.CSTNode | None) -> bool:
        """Whether the sample is a part of a row up to a length of its own: ``sounds[i, :, : lengths[i]]``."""
        row = self._row(single)
        loop = nearest(self._tree, row, cst.For) if row is not None else None
        bounds = [
            bound
            for item in (row.slice if row is not None and self._takes_row(row) and not self._takes_one(row) else ())
            if isinstance(item.slice, cst.Slice)
            for bound in (item.slice.lower, item.slice.upper)
            if bound is not None
        ]
        return loop is not None and any(
            self._tree.within(binding.node, loop)
            for bound in bounds
            for name in self._tree.inside(bound, cst.Name)
            for binding in self._forest.values.reaching.of(name)
        )

    def _row(self, single: cst.CSTNode | None) -> cst.Subscript | None:
        """The ``xs[i]`` of which a batch of size 1 is made."""
        row = single
        while isinstance(row, cst.Call) or (isinstance(row, cst.Subscript) and self._adds_axis(row)):
            inner = row.func.value if isinstance(row, cst.Call) and isinstance(row.func, cst.Attribute) else None
            row = row.value if isinstance(row, cst.Subscript) else inner
        if isinstance(row, cst.Name):
            reached = self._forest.values.reaching.of(row)
            row = reached[0].value if len(reached) == 1 and not reached[0].path else None
        return row if isinstance(row, cst.Subscript) else None

    def _has_shape(self, rows: cst.CSTNode) -> bool:
        """Whether the function takes a shape of ``rows``, which a list does not have: ``range(xs.size(0))``."""
        code, function = self._forest.code(rows), self._tree.function_of(rows)
        return any(
            self._tree.function_of(node) is function and self._forest.code(node.value) == code
            for node in self._tree.attributes_named(*_OF_SHAPES)
        )

    def _adds_axis(self, node: cst.Subscript) -> bool:
        """``x[None]``, ``x[np.newaxis, ...]``."""
        index = node.slice[0].slice
        if not isinstance(index, cst.Index):
            return False
        return is_none(index.value) or self._forest.name_of(index.value) == "numpy.newaxis"

    def _takes_one(self, node: cst.Subscript) -> bool:
        """``xs[i : i + 1]``."""
        part = node.slice[0].slice
        return (
            isinstance(part, cst.Slice)
            and isinstance(part.lower, cst.Name)
            and isinstance(part.upper, cst.BinaryOperation)
            and isinstance(part.upper.operator, cst.Add)
            and self._forest.code(part.upper.left) == part.lower.value
            and self._forest.code(part.upper.right) == "1"
        )

    def _takes_row(self, node: cst.Subscript) -> bool:
        """``xs[i]``, ``xs[i, :]``, ``xs[i : i + 1]``; not ``xs[:n]``, ``xs[:, :height]``, ``image[..., [2, 1, 0]]``."""
        return self._takes_one(node) or any(
            isinstance(item.slice, cst.Index)
            and not isinstance(item.slice.value, (cst.List, cst.Integer))  # channels of one sample
            and not (isinstance(item.slice.value, cst.Tuple) and not item.slice.value.elements)  # `data[()]`: all of it
            for item in node.slice
        )

    def _only_element(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        if isinstance(node, (cst.List, cst.Tuple)) and len(node.elements) == 1:
            element = node.elements[0]
            return element.value if isinstance(element, cst.Element) else None
        return None

    def _takes_whole_rows(self, node: cst.Subscript) -> bool:
        """Whether an index is one of an array or tensor, not of a list: ``volume[i, :, :]``, ``pairs[i, k]``."""
        parts = [item.slice for item in node.slice]
        return len(parts) > 1 and all(
            isinstance(part, cst.Index)
            if not isinstance(part, cst.Slice)
            else part.lower is None and part.upper is None and part.step is None
            for part in parts
        )

    def _rows(self, node: cst.CSTNode | None, depth: int = _DEPTH) -> cst.CSTNode | None:
        while isinstance(node, (cst.Call, cst.Subscript)):
            if isinstance(node, cst.Subscript):
                if not self._adds_axis(node):
                    return node.value if self._takes_row(node) else None
                node = node.value
            elif isinstance(node.func, cst.Attribute) and self._forest.name_of(node.func) is None:
                node = node.func.value
            else:
                first = node.args[0].value if node.args else None
                node = (self._only_element(first) or first) if first is not None else None
        if not isinstance(node, cst.Name) or depth <= 0:
            return None
        bindings = self._forest.names.bindings(node)
        looped = [item.value for item in bindings if item.kind is BindingKind.FOR]
        if not looped:
            reached = self._forest.values.reaching.of(node)
            made = [item.value for item in reached if item.kind is BindingKind.ASSIGN and not item.path]
            first_made = [value for value in made if not self._is_resampled(value, node.value)] or made
            if len(first_made) == 1 and len(made) == len(reached):
                return self._rows(first_made[0], depth - 1)
            return None
        rows = looped[0] if len(looped) == 1 else None
        while isinstance(rows, cst.Call) and rows.args and last_name(rows.func) not in _CUTTING:  # enumerate(tqdm(xs))
            rows = rows.args[0].value
        return rows

    def _is_resampled(self, value: cst.CSTNode | None, name: str) -> bool:
        """``x = zoom(x, factors)``: of samples of one size, the results are of one size too."""
        return (
            isinstance(value, cst.Call)
            and last_name(value.func) in _RESAMPLING
            and bool(value.args)
            and self._forest.code(value.args[0].value) == name
        )

    def _are_cut(self, rows: cst.CSTNode) -> bool:
        """Whether a loop goes over parts of a tensor, of many rows each: ``for part in torch.split(points, 4096)``."""
        made = self._forest.values.reaching.of(rows) if isinstance(rows, cst.Name) else []
        return any(
            isinstance(item, cst.Call) and last_name(item.func) in _CUTTING
            for item in (rows, *(binding.value for binding in made))
        )


def _is_window(node: cst.Subscript) -> bool:
    """Whether an index takes a part of one image, whose size may differ: ``image[top:bottom, left:right]``."""
    return all(isinstance(item.slice, cst.Slice) for item in node.slice[:2]) and len(node.slice) > 1
