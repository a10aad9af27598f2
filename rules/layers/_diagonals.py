"""Diagonal matrices with a name: made by `torch.diag` of a vector, and multiplied in later statements."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import called_name, dotted_name, last_name
from torchlint.model.syntax.scopes import Binding
from torchlint.model.training.step_places import StepPlaces

_BATCHES = frozenset({"diag_embed"})
_DIAGONALS = _BATCHES | {"diag"}
#: Products of matrices only, which raise for a vector.
_OF_MATRICES = frozenset({"mm", "bmm"})
_MOVING = frozenset("to cuda cpu float double half bfloat16 type type_as detach clone contiguous".split())
#: Functions whose result for a diagonal matrix is diagonal; programs set the zeros that become infinite back to zero.
_KEEPING = _MOVING | {"sqrt", "pow", "inverse", "inv", "abs", "square"}
#: Elementwise functions.
_OF_NUMBERS = _MOVING | frozenset(
    "abs exp log neg pow pow_ reciprocal reciprocal_ relu rsqrt rsqrt_ sigmoid softmax softplus sqrt sqrt_ square tanh "
    "clamp clamp_ clamp_min clip masked_fill masked_fill_ nan_to_num".split()
)
#: Functions that remove a dimension.
_REDUCING = frozenset("sum mean norm vector_norm prod amax amin std var logsumexp".split())
#: Functions whose result is a vector, for a matrix or numbers ...
_VECTORS = frozenset("svdvals eigvalsh linspace logspace arange".split())
#: ... or without further arguments, or with `-1`.
_FLAT = frozenset({"flatten", "ravel", "diag", "diagonal"})
_SHAPING = frozenset({"view", "reshape"})
#: Functions of which one result is a vector, with its position.
_PARTS = {"svd": 1, "svd_lowrank": 1, "pca_lowrank": 1, "eigh": 0, "symeig": 0}
#: A small number, by its name.
_EPSILON = re.compile(r"(\b|_)eps")
_DEPTH = 6


class Diagonals:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def of(self, factor: cst.BaseExpression, product: cst.BaseExpression) -> Binding | None:
        """The assignment of the diagonal matrix that is a factor of ``product``, if the product is repeated."""
        binding = self._made(factor) if isinstance(factor, cst.Name) else None
        if binding is None or self._module.function_of(binding.node) is not self._module.function_of(product):
            return None
        certain = isinstance(product, cst.Call) and called_name(product) in _OF_MATRICES
        if not self._is_diagonal(binding.value, certain, _DEPTH):
            return None
        return binding if self._module.fact(StepPlaces).per_batch(product) is not None else None

    def _made(self, name: cst.Name) -> Binding | None:
        """The only assignment of a variable, if nothing changes its value but by storing zeros in it."""
        binding, scope = self._module.values.reaching.only(name), self._module.names.home_of(name)
        if binding is None or binding.path or not isinstance(binding.node, cst.Assign) or scope is None:
            return None
        return None if any(map(self._changes, self._module.values.reaching.uses_of(binding, scope))) else binding

    def _changes(self, use: cst.Name) -> bool:
        owner = self._tree.parent(use)
        if isinstance(owner, cst.Attribute):
            return owner.attr.value.endswith("_")
        target = self._tree.parent(owner) if isinstance(owner, cst.Subscript) and owner.value is use else None
        statement = self._tree.parent(target) if isinstance(target, cst.AssignTarget) else target
        if not isinstance(statement, (cst.Assign, cst.AugAssign)):
            return False
        is_zero = isinstance(statement.value, (cst.Integer, cst.Float)) and float(statement.value.evaluated_value) == 0
        return not is_zero or isinstance(statement, cst.AugAssign)

    def _is_diagonal(self, node: cst.BaseExpression | None, certain: bool, depth: int) -> bool:
        """Whether an expression is a diagonal matrix; ``certain`` if it is a matrix."""
        if depth <= 0 or not isinstance(node, (cst.Call, cst.Name)):
            return False
        if isinstance(node, cst.Name):
            binding = self._made(node)
            return binding is not None and self._is_diagonal(binding.value, certain, depth - 1)
        name, given = called_name(node), list(self._given(node))
        if name in _DIAGONALS and len(given) == 1:
            return certain or name in _BATCHES or self._is_vector(given[0], depth)
        return name in _KEEPING and bool(given) and self._is_diagonal(given[0], certain, depth - 1)

    def _given(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The arguments of a function of torch, or the object of a method and its arguments."""
        name = self._module.name_of(call.func)
        if name is None and isinstance(call.func, cst.Attribute):
            yield call.func.value
        elif name is None or not name.startswith("torch."):
            return
        yield from (item.value for item in call.args if not item.star)

    def _is_vector(self, node: cst.BaseExpression | None, depth: int) -> bool:
        """Whether an expression has one dimension: a sum over the rows of a matrix, singular values, numbers of such.

        Not what has other dimensions for tensors that are not matrices, which nobody gives to `torch.diag`.
        """
        if depth <= 0 or node is None:
            return False
        if isinstance(node, cst.Name):
            bindings = self._module.values.reaching.of(node)
            return bool(bindings) and all(self._is_bound_to_vector(item, depth - 1) for item in bindings)
        if isinstance(node, cst.UnaryOperation):
            return self._is_vector(node.expression, depth)
        if isinstance(node, cst.BinaryOperation):
            others = [item for item in (node.left, node.right) if not self._is_vector(item, depth - 1)]
            return len(others) < 2 and all(map(self._is_number, others))
        if isinstance(node, cst.Subscript):
            index = node.slice[0].slice
            return len(node.slice) == 1 and isinstance(index, cst.Slice) and self._is_vector(node.value, depth - 1)
        if not isinstance(node, cst.Call):
            return False
        name, given = called_name(node), list(self._given(node))
        if name in _REDUCING:
            return bool(given) and self._reduces(node)
        if name in _SHAPING:
            return [self._module.code(item) for item in given[1:]] == ["-1"]
        if name in _FLAT:
            return len(given) == 1
        return name in _VECTORS or (name in _OF_NUMBERS and bool(given) and self._is_vector(given[0], depth - 1))

    def _is_bound_to_vector(self, binding: Binding, depth: int) -> bool:
        if binding.kind is not BindingKind.ASSIGN or binding.value is None:
            return False
        if not binding.path:
            return self._is_vector(binding.value, depth)
        call = binding.value
        position = _PARTS.get(called_name(call)) if isinstance(call, cst.Call) and list(self._given(call)) else None
        return binding.path == (position,)

    def _reduces(self, call: cst.Call) -> bool:
        """Whether a sum or the like is over one dimension, which the result no longer has."""
        named = keywords_of(call)
        if "keepdim" in named and last_name(named["keepdim"]) != "False":
            return False
        plain = [item.value for item in call.args if item.keyword is None and not item.star]
        is_method = self._module.name_of(call.func) is None
        place = (0 if is_method else 1) + (1 if "norm" in called_name(call) else 0)
        given = named.get("dim", named.get("axis", plain[place] if len(plain) > place else None))
        number = given.expression if isinstance(given, cst.UnaryOperation) else given
        return isinstance(number, cst.Integer) and len(plain) <= place + 1

    def _is_number(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, (cst.UnaryOperation, cst.BinaryOperation)):
            parts = (node.expression,) if isinstance(node, cst.UnaryOperation) else (node.left, node.right)
            return all(map(self._is_number, parts))
        is_literal = isinstance(node, (cst.Integer, cst.Float))
        return is_literal or _is_named_epsilon(node) or self._module.value(node).kind is Kind.NUMBER


def _is_named_epsilon(node: cst.BaseExpression) -> bool:
    return _EPSILON.search(dotted_name(node) or "") is not None
