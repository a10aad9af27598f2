"""Products, traces, inverses and sorts of which most of the result is discarded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.scopes import Binding

from ._diagonals import Diagonals
from ._products import factors_of
from ._sorts import Sorts

_INVERSES = frozenset({"torch.inverse", "torch.linalg.inv"})


@dataclass(frozen=True, eq=False)
class Waste:
    """An expression for which there is a cheaper one."""

    node: cst.BaseExpression
    message: str
    label: str
    better: str = ""  #: the cheaper expression, where it can take the place of ``node``
    made: cst.CSTNode | None = None  #: the statement that gives a diagonal matrix its name


class WastefulProducts:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._sorts = Sorts(module)
        self._diagonals = Diagonals(module)

    def all(self) -> Iterator[Waste]:
        """The expressions that compute more than is read, in order; of each statement one with a named matrix."""
        seen: set[cst.CSTNode] = set()
        for node in self._tree.inside(self._module.root, cst.BinaryOperation, cst.Call):
            factors = factors_of(self._module, node)
            if factors is not None:
                found = self._product(node, *factors)
            elif isinstance(node, cst.Call):
                found = self._call(node)
            else:
                continue
            statement = self._tree.statement_of(node) if found is not None and found.made is not None else None
            if found is not None and (statement is None or statement not in seen):
                yield found
            if statement is not None:
                seen.add(statement)

    def _call(self, call: cst.Call) -> Waste | None:
        name = self._module.name_of(call.func)
        given = [item.value for item in call.args if item.keyword is None and not item.star]
        if name == "torch.trace" and len(given) == 1:
            return self._trace(call, given[0])
        if name in ("torch.diag", "torch.diagonal") and len(given) == 1 == len(call.args):
            return self._diagonal(call, given[0], certain=name == "torch.diagonal")
        if name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value == "diag" and not call.args:
            return self._diagonal(call, call.func.value, certain=False)
        return self._sort(call)

    def _sort(self, call: cst.Call) -> Waste | None:
        """``x.argsort(descending=True)[:5]``, ``torch.sort(x, dim=1)[0][:, :8]``, also with a name in between."""
        found = self._sorts.leading(call)
        if found is None:
            return None
        if found.count == "1":
            return Waste(found.node, "a whole sort is computed for one item", "`argmax`, `max` or `min` find it")
        return Waste(found.node, f"a whole sort is computed for its {found.count} items", "`topk` finds them")

    # -- products

    def _product(self, node: cst.BaseExpression, left: cst.BaseExpression, right: cst.BaseExpression) -> Waste | None:
        for factor, other, is_left in ((right, left, False), (left, right, True)):
            if self._name(factor) in ("torch.diag", "torch.diag_embed"):
                found = self._scaling(node, factor, other, is_left)
                if found is not None:
                    return found
            binding = self._diagonals.of(factor, node)
            if binding is not None:
                return self._multiplication(node, is_left, binding)
        if (
            self._name(left) in _INVERSES
            and isinstance(left, cst.Call)
            and len(left.args) == 1
            and not self._sums_over_columns(left.args[0].value, right)
            and not self._is_flat(right)
        ):
            inner = self._module.code(left.args[0].value)
            return Waste(
                node,
                "the inverse of a matrix is computed for one product",
                "`torch.linalg.solve` does not compute it",
                self._plain(f"torch.linalg.solve({inner}, {self._module.code(right)})", left),
            )
        return None

    def _is_flat(self, right: cst.BaseExpression) -> bool:
        """Whether ``right`` has many columns, as all pixels: ``grid.view(b, 3, -1)``, ``grid.flatten(2)``."""
        if not isinstance(right, cst.Call) or not isinstance(right.func, cst.Attribute) or not right.args:
            return False
        last = self._module.code(right.args[-1].value)
        return (right.func.attr.value in ("view", "reshape") and last == "-1") or (
            right.func.attr.value == "flatten" and len(right.args) == 1
        )

    def _sums_over_columns(self, matrix: cst.BaseExpression, right: cst.BaseExpression) -> bool:
        """Whether ``matrix`` is ``b @ b.t() + ridge``, and ``right`` is ``b``, which has many more columns."""
        parts = (node for node in self._tree.nodes_in(matrix) if isinstance(node, cst.BaseExpression))
        products = (factors_of(self._module, node) for node in parts)
        wide = self._module.code(right)
        return any(factors is not None and self._module.code(factors[0]) == wide for factors in products)

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
        return self._multiplication(node, is_left, better=self._plain(better, node))

    def _multiplication(
        self, node: cst.BaseExpression, is_left: bool, binding: Binding | None = None, better: str = ""
    ) -> Waste:
        return Waste(
            node,
            f"product with a diagonal matrix multiplies {'rows' if is_left else 'columns'} by single numbers",
            "a broadcast multiplication computes the same",
            better,
            binding.node if binding is not None else None,
        )

    def _is_matrix(self, node: cst.BaseExpression) -> bool:
        """Whether ``torch.diag`` of ``node`` takes a diagonal out, or may do so: of a product, of ``cov``."""
        if factors_of(self._module, node) is not None:
            return True
        return re.search(r"cov|matrix|gram|hess|@|\.mm\(|matmul|[Aa]ffinity|adj", self._module.code(node)) is not None

    def _trace(self, node: cst.Call, of: cst.BaseExpression) -> Waste | None:
        factors = factors_of(self._module, of)
        if factors is None:
            return None
        left, right = map(self._module.code, factors)
        better = f"({left} * {self._transposed(right)}).sum()" if all(map(self._is_simple, factors)) else ""
        return Waste(node, "a whole product is computed for its trace", "only its diagonal is read", better)

    def _diagonal(self, node: cst.Call, of: cst.BaseExpression, certain: bool) -> Waste | None:
        factors = factors_of(self._module, of)
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


def _is_method(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name
