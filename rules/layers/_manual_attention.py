"""Attention that is computed by a product, a softmax and another product, whose weights have no other use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name, dotted_name, is_attribute_of_self, last_part
from torchlint.model.syntax.scopes import Binding

from ._product_sketch import MASK, SAME, SCALE, fills, shifts
from ._products import BATCHED, Factors, factors_of

_SOFTMAX = ("torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax")
_DEPTH = 12
#: Ends of the source of a call that swaps the last two dimensions.
_SWAP = re.compile(r"\.(transpose\((-2, ?-1|-1, ?-2|2, ?3|3, ?2|1, ?2|2, ?1)\)|permute\((0, ?2, ?1|0, ?1, ?3, ?2)\))")


@dataclass(eq=False)
class Attention:
    """One attention that is written out."""

    softmax: cst.Call
    scores: cst.BaseExpression  #: the product of queries and keys
    outputs: list[cst.BaseExpression]  #: the products with the values
    masked: bool = False
    steps: list[cst.BaseExpression] = field(default_factory=list)  #: what is applied to the scores, last first
    drops: list[cst.Call] = field(default_factory=list)  #: dropout of the weights
    names: list[tuple[cst.Name, Binding]] = field(default_factory=list)  #: the names that the scores have had


class AttentionFinder:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[Attention]:
        """The attentions of a file, in order."""
        for call in self._tree.calls_in(self._module.root):
            scores = self._softmax_of(call)
            if scores is not None:
                found = Attention(call, scores, [])
                product = self._product_behind(scores, found, _DEPTH)
                if product is None or not self._is_last(call, product):
                    continue
                found.scores = product
                if not self._is_consumed(call, found, _DEPTH) or not found.outputs or not self._fits(found):
                    continue
                if not self._keeps_scores(found):
                    yield found

    # -- the softmax

    def _softmax_of(self, call: cst.Call) -> cst.BaseExpression | None:
        """What ``call`` takes the softmax of; None if it is not a softmax."""
        name = self._module.name_of(call.func)
        if name in _SOFTMAX:
            return call.args[0].value if call.args and call.args[0].keyword is None else None
        if name is not None or not isinstance(call.func, (cst.Attribute, cst.Name, cst.Call)):
            return None
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "softmax" and _dim(call, 0) is not None:
            return call.func.value
        called = dotted_name(call.func) or called_name(call.func if isinstance(call.func, cst.Call) else call)
        may_be = "softmax" in called.lower() or (
            is_attribute_of_self(call.func) and call.func.attr.value in self._layer_names
        )
        return call.args[0].value if may_be and len(call.args) == 1 and self._layers(call) else None

    @cached_property
    def _layer_names(self) -> frozenset[str]:
        """``attend`` of ``self.attend = nn.Softmax(dim=-1)``."""
        made = (self._tree.parent(call.node) for call in self._module.own_calls("torch.nn.Softmax"))
        targets = [item.target for above in made if isinstance(above, cst.Assign) for item in above.targets]
        return frozenset(target.attr.value for target in targets if isinstance(target, cst.Attribute))

    def _layers(self, call: cst.Call) -> list[cst.Call]:
        """The ``nn.Softmax(...)`` that a call runs."""
        value = self._module.value(call.func)
        if value.name != "torch.nn.Softmax":
            return []
        return [item for item in value.origins if isinstance(item, cst.Call)]

    def _is_last(self, call: cst.Call, product: cst.BaseExpression) -> bool:
        """Whether the softmax is over the last dimension of a product."""
        if self._module.name_of(call.func) in _SOFTMAX:
            dims = [_dim(call, 1)]
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "softmax" and _dim(call, 0) is not None:
            dims = [_dim(call, 0)]
        else:
            dims = [_dim(layer, 0) for layer in self._layers(call)]
        of_batches = isinstance(product, cst.Call) and last_part(self._module.code(product.func)) == "bmm"
        return bool(dims) and all(dim in ("-1", "3") or (dim == "2" and of_batches) for dim in dims)

    # -- before it

    def _product_behind(self, node: cst.BaseExpression, found: Attention, depth: int) -> cst.BaseExpression | None:
        """The one product of two tensors that the scores come from by scaling and masking alone."""
        if depth <= 0:
            return None
        if self._is_product(node):
            return node
        if isinstance(node, cst.Name):
            return self._product_bound(node, found, depth)
        if isinstance(node, cst.BinaryOperation):
            inner = self._scaled(node, found)
            if inner is not None:
                found.steps.append(node)
            return None if inner is None else self._product_behind(inner, found, depth - 1)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            method = node.func.attr.value
            if method in ("masked_fill", "masked_fill_"):
                found.masked = True
            elif method in ("mul", "div", "mul_", "div_"):
                if not (node.args and SCALE.search(self._module.code(node.args[0].value))):
                    return None
            elif method not in SAME:
                return None
            found.steps.append(node)
            return self._product_behind(node.func.value, found, depth - 1)
        return None

    def _product_bound(self, node: cst.Name, found: Attention, depth: int) -> cst.BaseExpression | None:
        """The product that a name was given, whatever was done to it under conditions."""
        products: set[cst.BaseExpression] = set()
        for binding in self._module.values.reaching.of(node):
            found.names.append((node, binding))
            before = binding.value
            if binding.kind is BindingKind.AUGMENT and isinstance(binding.node, cst.AugAssign):
                before = binding.node.target if self._may_augment(binding.node, found) else None
            elif binding.kind is not BindingKind.ASSIGN or binding.path:
                return None
            product = None if before is None else self._product_behind(before, found, depth - 1)
            if product is None:
                return None
            products.add(product)
        return products.pop() if len(products) == 1 else None

    def _keeps_scores(self, found: Attention) -> bool:
        """Whether the scores are also returned or stored, under a name that they had before the softmax."""
        for name, binding in found.names:
            home = self._module.names.home_of(name)
            for use in self._module.values.reaching.uses_of(binding, home) if home is not None else ():
                if self._tree.within(use, found.softmax) or self._is_in_call_or_attribute(use):
                    continue
                statement = self._tree.statement_of(use)
                is_kept = isinstance(statement, cst.Return) or (
                    isinstance(statement, cst.Assign)
                    and statement.value is use
                    and isinstance(statement.targets[0].target, (cst.Attribute, cst.Subscript))
                )
                if is_kept:
                    return True
        return False

    def _is_in_call_or_attribute(self, use: cst.Name) -> bool:
        return isinstance(self._tree.parent(use), (cst.Attribute, cst.Arg))

    def _may_augment(self, statement: cst.AugAssign, found: Attention) -> bool:
        text = self._module.code(statement.value)
        if isinstance(statement.operator, cst.AddAssign):
            found.masked = True
            return MASK.search(text) is not None
        if isinstance(statement.operator, cst.SubtractAssign):
            return shifts(text, self._module.code(statement.target))
        return isinstance(statement.operator, (cst.MultiplyAssign, cst.DivideAssign)) and bool(SCALE.search(text))

    def _scaled(self, node: cst.BinaryOperation, found: Attention) -> cst.BaseExpression | None:
        """The scores of ``scores * scale``, ``scores / sqrt(d)``, ``scores + mask`` and ``scores - largest score``."""
        left, right = node.left, node.right
        code = self._module.code
        if isinstance(node.operator, (cst.Add, cst.Subtract)) and isinstance(left, cst.BinaryOperation):
            if isinstance(left.operator, cst.Multiply) and fills(code(right), code(left.right)):
                found.masked = True
                return left.left
        if isinstance(node.operator, cst.Subtract):
            return left if shifts(code(right), code(left)) else None
        if isinstance(node.operator, cst.Divide):
            return left if SCALE.search(self._module.code(right)) else None
        if isinstance(node.operator, cst.Multiply):
            if SCALE.search(self._module.code(right)):
                return left
            return right if SCALE.search(self._module.code(left)) and not self._is_product(left) else None
        if isinstance(node.operator, cst.Add) and MASK.search(self._module.code(right)):
            found.masked = True
            return left
        return None

    # -- products

    def _is_product(self, node: cst.BaseExpression) -> bool:
        operands = self.operands(node)
        return operands is not None and not any(self._is_weight(item) for item in operands)

    def operands(self, node: cst.BaseExpression) -> Factors | None:
        """The two factors of a product of batches of matrices, which may be an ``einsum``."""
        if not isinstance(node, cst.Call) or self._module.name_of(node.func) != "torch.einsum":
            return factors_of(self._module, node, BATCHED)
        given = [item.value for item in node.args]
        if any(item.star or item.keyword is not None for item in node.args):
            return None
        if len(given) == 2 and isinstance(given[1], (cst.List, cst.Tuple)):
            given = [given[0], *(item.value for item in given[1].elements)]
        return (given[1], given[2]) if len(given) == 3 and isinstance(given[0], cst.SimpleString) else None

    def _equation(self, node: cst.BaseExpression) -> tuple[str, str, str] | None:
        """The indices of the two factors and of the result of an ``einsum``."""
        if not isinstance(node, cst.Call) or self._module.name_of(node.func) != "torch.einsum":
            return None
        text = node.args[0].value
        if not isinstance(text, cst.SimpleString) or not isinstance(text.evaluated_value, str):
            return None
        found = re.fullmatch(r"(\w+),(\w+)->(\w+)", text.evaluated_value.replace(" ", "").replace("...", "Z"))
        return None if found is None else (found[1], found[2], found[3])

    def _is_weight(self, node: cst.BaseExpression) -> bool:
        """Whether a factor is a parameter of the network: ``torch.matmul(hidden, self.w)``."""
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.func.value
        return (dotted_name(node) or "").startswith("self.")

    # -- after it

    def _is_consumed(self, node: cst.BaseExpression, found: Attention, depth: int, is_turned: bool = False) -> bool:
        """Whether the weights in ``node`` only go through dropout into products with values.

        ``is_turned``: their last two dimensions are swapped, as in ``torch.bmm(v, weights.transpose(1, 2))``.
        """
        tree = self._tree
        above = tree.parent(node)
        if depth <= 0 or above is None:
            return False
        if isinstance(above, cst.BinaryOperation):
            return self._takes(above, node, found, is_turned)
        if isinstance(above, cst.Element):  # of the list of factors that `einsum` takes
            listed = tree.parent(above)
            above = tree.parent(listed) if isinstance(listed, (cst.List, cst.Tuple)) else None
        if isinstance(above, cst.Arg):
            call = tree.parent(above)
            if not isinstance(call, cst.Call):
                return False
            if self._drops(call) and call.args[0] is above:
                found.drops.append(call)
                return self._is_consumed(call, found, depth - 1, is_turned)
            return self._takes(call, node, found, is_turned)
        if isinstance(above, cst.Attribute):
            return self._is_consumed_by_method(above, node, found, depth, is_turned)
        if isinstance(above, cst.Assign) and len(above.targets) == 1 and isinstance(above.targets[0].target, cst.Name):
            uses = list(self._uses(above, above.targets[0].target))
            return bool(uses) and all(self._is_consumed(use, found, depth - 1, is_turned) for use in uses)
        return False

    def _is_consumed_by_method(
        self, method: cst.Attribute, node: cst.BaseExpression, found: Attention, depth: int, is_turned: bool
    ) -> bool:
        """The same for weights of which ``method`` is called or read."""
        name = method.attr.value
        if name in ("dtype", "shape", "device"):
            return True
        call = self._tree.parent(method)
        if not isinstance(call, cst.Call) or call.func is not method:
            return False
        if name in SAME:
            return self._is_consumed(call, found, depth - 1, is_turned)
        if _is_swap(self._module.code(call)):
            return self._is_consumed(call, found, depth - 1, not is_turned)
        return name in BATCHED and self._takes(call, node, found, is_turned)

    def _takes(self, product: cst.BaseExpression, node: cst.BaseExpression, found: Attention, is_turned: bool) -> bool:
        """Whether a product takes the weights as its first factor, and values as its second; or the reverse, turned."""
        operands = self.operands(product)
        if operands is None:
            return False
        weights, values = reversed(operands) if is_turned else operands
        if weights is not node or self._is_weight(values):
            return False
        found.outputs.append(product)
        return True

    def _drops(self, call: cst.Call) -> bool:
        return "drop" in last_part(self._module.code(call.func)).lower()

    def _uses(self, statement: cst.Assign, target: cst.Name) -> Iterator[cst.Name]:
        """Where the value that ``statement`` gives a name is read."""
        home, reaching = self._module.names.home_of(target), self._module.values.reaching
        if home is None or target.value not in home.bindings:
            return
        begin, end = self._tree.index(statement), self._tree.last(statement)
        bound = reaching.between(home, target.value, begin - 1, end + 1)
        binding: Binding | None = next((item for item in bound if item.node is statement), None)
        for use in reaching.uses_of(binding, home) if binding is not None else ():
            if not isinstance(self._tree.parent(use), cst.AssignTarget):
                yield use

    def _fits(self, found: Attention) -> bool:
        """Whether the indices are those of attention: products over the width, then over the keys."""
        scores = self._equation(found.scores)
        if scores is not None:
            left, right, result = scores
            queries, keys = result[-2:-1], result[-1:]
            inner = set(left) & set(right) - set(result)
            if not (
                queries in left and queries not in right and keys in right and keys not in left and len(inner) == 1
            ):
                return False
        for product in found.outputs:
            output = self._equation(product)
            if output is not None:
                left, right, result = output
                if left[-1] in result or left[-1] not in right or left[-2] not in result or left[-2] in right:
                    return False
        return True


def _is_swap(text: str) -> bool:
    """Whether a call, given by its source, ends in a swap of the last two dimensions."""
    return _SWAP.fullmatch(text, text.rfind(".")) is not None


def _dim(call: cst.Call, position: int) -> str | None:
    """The dimension argument of a softmax, as it is written."""
    for index, item in enumerate(call.args):
        if item.star:
            return None
        if (item.keyword is not None and item.keyword.value == "dim") or (item.keyword is None and index == position):
            value = item.value
            minus = isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Minus)
            number = value.expression if minus and isinstance(value, cst.UnaryOperation) else value
            return f"{'-' if minus else ''}{number.value}" if isinstance(number, cst.Integer) else None
    return None
