"""Products, traces, inverses and sorts of which most of the result is discarded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import dotted_name

_PRODUCTS = frozenset({"torch.matmul", "torch.mm", "torch.bmm"})
_INVERSES = frozenset({"torch.inverse", "torch.linalg.inv"})
_SORTS = frozenset({"torch.sort", "torch.argsort"})
#: Names of a number of items that is there as a bound, and seldom reached.
_BOUNDS = re.compile(r"max|nms|limit|pre_|size\(|shape|len\(|keep|self\.top_k|ratio|frac", re.IGNORECASE)
#: The largest number of leading items for which a sort is surely more than is needed.
_FEW = 256


@dataclass(frozen=True, eq=False)
class Waste:
    """An expression for which there is a cheaper one."""

    node: cst.BaseExpression
    message: str
    label: str
    better: str = ""  #: the cheaper expression, where it can take the place of ``node``


class WastefulProducts:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[Waste]:
        """The expressions that compute more than is read, in order."""
        for node in self._tree.inside(self._module.root, cst.BinaryOperation, cst.Call, cst.Subscript):
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
                found = self._product(node, node.left, node.right)
            elif isinstance(node, cst.Call):
                found = self._call(node)
            elif isinstance(node, cst.Subscript):
                found = self._leading(node)
            else:
                continue
            if found is not None:
                yield found

    def _call(self, call: cst.Call) -> Waste | None:
        name = self._module.name_of(call.func)
        given = [item.value for item in call.args if item.keyword is None and not item.star]
        if name in _PRODUCTS and len(given) == 2 == len(call.args):
            return self._product(call, given[0], given[1])
        if name == "torch.trace" and len(given) == 1:
            return self._trace(call, given[0])
        if name in ("torch.diag", "torch.diagonal") and len(given) == 1 == len(call.args):
            return self._diagonal(call, given[0], certain=name == "torch.diagonal")
        return None

    # -- products

    def _product(self, node: cst.BaseExpression, left: cst.BaseExpression, right: cst.BaseExpression) -> Waste | None:
        for factor, other, is_left in ((right, left, False), (left, right, True)):
            if self._name(factor) in ("torch.diag", "torch.diag_embed"):
                found = self._scaling(node, factor, other, is_left)
                if found is not None:
                    return found
        if self._name(left) in _INVERSES and isinstance(left, cst.Call) and len(left.args) == 1:
            inner = self._module.code(left.args[0].value)
            return Waste(
                node,
                "the inverse of a matrix is computed for one product",
                "`torch.linalg.solve` does not compute it",
                self._plain(f"torch.linalg.solve({inner}, {self._module.code(right)})", left),
            )
        return None

    def _scaling(
        self, node: cst.BaseExpression, factor: cst.BaseExpression, other: cst.BaseExpression, is_left: bool
    ) -> Waste | None:
        """``x @ torch.diag(d)``, which multiplies each column by a number."""
        if not isinstance(factor, cst.Call) or len(factor.args) != 1 or factor.args[0].star:
            return None
        vector = factor.args[0].value
        is_batch = self._name(factor) == "torch.diag_embed"
        if not is_batch and self._is_matrix(vector):
            return None
        text, matrix = self._module.code(vector), self._module.code(other)
        better = ""
        if self._is_simple(vector) and self._is_simple(other):
            if is_left and (is_batch or _is_turned(matrix)):
                better = f"{text}.unsqueeze(-1) * {matrix}"
            elif not is_left:
                better = f"{matrix} * {text}.unsqueeze(-2)" if is_batch else f"{matrix} * {text}"
        return Waste(
            node,
            f"product with a diagonal matrix multiplies {'rows' if is_left else 'columns'} by single numbers",
            "a broadcast multiplication computes the same",
            self._plain(better, node),
        )

    def _is_matrix(self, node: cst.BaseExpression) -> bool:
        """Whether ``torch.diag`` of ``node`` takes a diagonal out, or may do so: of a product, of ``cov``."""
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
            return True
        if self._name(node) in _PRODUCTS:
            return True
        return re.search(r"cov|matrix|gram|hess|@|\.mm\(|matmul|[Aa]ffinity|adj", self._module.code(node)) is not None

    def _trace(self, node: cst.Call, of: cst.BaseExpression) -> Waste | None:
        factors = self._factors(of)
        if factors is None:
            return None
        left, right = map(self._module.code, factors)
        better = f"({left} * {self._transposed(right)}).sum()" if all(map(self._is_simple, factors)) else ""
        return Waste(node, "a whole product is computed for its trace", "only its diagonal is read", better)

    def _diagonal(self, node: cst.Call, of: cst.BaseExpression, certain: bool) -> Waste | None:
        factors = self._factors(of)
        is_matrix = certain or self._name(of) in ("torch.mm",) or _is_method(of, "mm")
        if factors is None or not is_matrix:
            return None
        left, right = map(self._module.code, factors)
        better = (
            f"({left} * {self._transposed(right)}).sum(-1)"
            if all(map(self._is_simple, factors)) and not certain
            else ""
        )
        return Waste(node, "a whole product is computed for its diagonal", "only its diagonal is read", better)

    def _transposed(self, matrix: str) -> str:
        """``matrix.mT``, which torch 1.11 introduced."""
        target = self._module.target_torch
        return f"{matrix}.transpose(-1, -2)" if target is not None and target < (1, 11) else f"{matrix}.mT"

    def _factors(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
            return node.left, node.right
        if not isinstance(node, cst.Call) or any(item.star or item.keyword for item in node.args):
            return None
        given = [item.value for item in node.args]
        if self._name(node) in _PRODUCTS and len(given) == 2:
            return given[0], given[1]
        if _is_method(node, "mm") and isinstance(node.func, cst.Attribute) and len(given) == 1:
            return (node.func.value, given[0]) if self._module.name_of(node.func) is None else None
        return None

    # -- sorts

    def _leading(self, node: cst.Subscript) -> Waste | None:
        """``x.argsort(descending=True)[:5]``, ``torch.sort(x, dim=1)[0][:, :8]``."""
        source: cst.BaseExpression = node.value
        is_pair = isinstance(source, cst.Subscript)
        if isinstance(source, cst.Subscript):
            if not _takes_item(source):
                return None
            source = source.value
        if not isinstance(source, cst.Call) or self._sorts(source) != ("sort" if is_pair else "argsort"):
            return None
        count = self._count(node)
        if count is None or "rand" in self._module.code(source):
            return None
        if count == "1":
            return Waste(node, "a whole sort is computed for one item", "`argmax`, `max` or `min` find it")
        return Waste(node, f"a whole sort is computed for its first {count} items", "`topk` finds them")

    def _sorts(self, call: cst.Call) -> str | None:
        """Which sort of torch a call is: "sort" gives values and indices, "argsort" indices."""
        name = self._module.name_of(call.func)
        if name in _SORTS:
            return "sort" if name == "torch.sort" else "argsort"
        if name is not None or not isinstance(call.func, cst.Attribute):
            return None
        keywords = {item.keyword.value for item in call.args if item.keyword is not None}
        method = call.func.attr.value
        if method not in ("sort", "argsort") or "stable" in keywords:
            return None
        is_tensor = bool(keywords & {"dim", "descending"}) or self._module.value(call.func.value).kind is Kind.TENSOR
        return method if is_tensor else None

    def _count(self, node: cst.Subscript) -> str | None:
        """How many leading items are taken along the last index; None where it is not few."""
        last = node.slice[-1].slice
        if isinstance(last, cst.Index):
            return "1" if len(node.slice) > 1 and self._module.code(last.value) in ("0", "-1") else None
        if not isinstance(last, cst.Slice) or last.upper is None or last.lower is not None or last.step is not None:
            return None
        if isinstance(last.upper, cst.Integer):
            return last.upper.value if int(last.upper.value) <= _FEW else None
        name = dotted_name(last.upper)
        return f"`{name}`" if name is not None and not _BOUNDS.search(name) else None

    # -- text

    def _name(self, node: cst.BaseExpression) -> str | None:
        return self._module.name_of(node.func) if isinstance(node, cst.Call) else None

    def _is_simple(self, node: cst.BaseExpression) -> bool:
        """Whether an expression needs no parentheses before a method or an operator."""
        plain = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        return plain and not self._module.is_parenthesized(node)

    def _plain(self, text: str, at: cst.BaseExpression) -> str:
        """``text``, if it is on one row and the file calls torch by its name; in parentheses where it needs them."""
        if (
            "\n" in text
            or "#" in text
            or (text.startswith("torch.") and not self._module.code(at).startswith("torch."))
        ):
            return ""
        alone = isinstance(self._tree.parent(at), (cst.Arg, cst.Assign, cst.AnnAssign, cst.Return, cst.Element))
        return f"({text})" if " * " in text and isinstance(at, cst.Call) and not alone else text


def _is_turned(text: str) -> bool:
    """Whether an expression, by its source, is a transposed matrix, or one of singular vectors."""
    return re.search(r"\.(t\(\)|T|mT|mH|transpose\([^()]*\))$|^(U|V|Vh|Vt|vh|vt|Uh)$", text) is not None


def _takes_item(node: cst.Subscript) -> bool:
    """``pair[0]`` or ``pair[1]``."""
    index = node.slice[0].slice
    is_item = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) and index.value.value in ("0", "1")
    return is_item and len(node.slice) == 1


def _is_method(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name
