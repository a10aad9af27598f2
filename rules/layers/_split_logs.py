"""Logarithms and entropies of probabilities that were just computed from logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint import edits
from torchlint.model.module import Module
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.dotted import called_name

_SOFTMAX = frozenset({"torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax"})
_SIGMOID = frozenset({"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"})
_ENTROPY = "torch.nn.functional.binary_cross_entropy"
#: Functions and methods that only change the shape.
_SHAPING = frozenset({"squeeze", "unsqueeze", "view", "reshape", "flatten"})
#: Functions and methods that limit numbers.
_LIMITING = frozenset({"clamp", "clamp_min", "clip"})
#: The largest number that is added to keep a logarithm finite.
_EPSILON = 1e-3
#: How many names it may have: an attribute, a parameter of the constructor, an argument.
_DEPTH = 4


@dataclass(frozen=True, eq=False)
class SplitLog:
    """A logarithm of probabilities."""

    node: cst.Call  #: the logarithm, or the loss
    probabilities: cst.Call  #: the softmax or sigmoid
    written: str  #: ``log(softmax(x))``
    better: str  #: the function that computes it at once
    edited: edits.Edits | None


class SplitLogs:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[SplitLog]:
        """The logarithms of the file that are computed from probabilities, in order."""
        for call in self._tree.calls_in(self._module.root):
            found = self._logarithm(call) or self._entropy(call)
            if found is not None:
                yield found

    def _logarithm(self, call: cst.Call) -> SplitLog | None:
        plain = self._operand(call)
        of = plain or self._operand_of_helper(call)
        if of is None:
            return None
        inner, is_direct = self._computed(self._without_small(of))
        is_direct = is_direct and plain is not None
        if inner is None:
            return None
        if self._is(inner, _SOFTMAX, "softmax", "torch.nn.Softmax"):
            edited = self._with_log_softmax(call, inner) if is_direct else None
            return SplitLog(call, inner, "log(softmax(x))", "log_softmax", edited)
        edited = self._with_logsigmoid(call, inner) if is_direct else None
        return SplitLog(call, inner, "log(sigmoid(x))", "logsigmoid", edited)

    def _entropy(self, call: cst.Call) -> SplitLog | None:
        """``F.binary_cross_entropy(torch.sigmoid(x), y)``, or the same with ``nn.BCELoss``."""
        is_function = self._module.name_of(call.func) == _ENTROPY
        if not call.args or call.args[0].star or call.args[0].keyword is not None:
            return None
        if not is_function and (self._mentions_loss is False or not self._is_loss(call.func)):
            return None
        inner, is_direct = self._computed(call.args[0].value)
        if inner is None or not self._is(inner, _SIGMOID, "sigmoid", "torch.nn.Sigmoid"):
            return None
        edited = self._with_logits(call, inner) if is_function and is_direct else None
        better = "binary_cross_entropy_with_logits" if is_function else "BCEWithLogitsLoss"
        return SplitLog(call, inner, "the binary cross entropy of sigmoid(x)", better, edited)

    @cached_property
    def _mentions_loss(self) -> bool:
        return any("BCELoss" in self._module.file_of_root[root].text for root in self._module.related)

    def _is_loss(self, func: cst.BaseExpression) -> bool:
        if not isinstance(func, (cst.Name, cst.Attribute, cst.Call)):
            return False
        value = self._module.value(func)
        return value.name == "torch.nn.BCELoss" and value.definition is None

    def _is_small(self, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
        """``1e-8``, ``self.eps``: added so that a logarithm stays finite; whatever its name is."""
        if isinstance(node, (cst.Float, cst.Integer)):
            return 0 <= float(node.value.replace("_", "")) <= _EPSILON
        is_named = depth > 0 and isinstance(node, (cst.Name, cst.Attribute))
        found = self._module.written.sources(node) if is_named else None
        return found is not None and all(self._is_small(value, depth - 1) for value in found.values)

    # -- probabilities

    def _operand(self, call: cst.Call) -> cst.BaseExpression | None:
        """``p`` of ``torch.log(p)`` and ``p.log()``."""
        if self._module.name_of(call.func) == "torch.log":
            is_plain = len(call.args) == 1 and call.args[0].keyword is None and not call.args[0].star
            return call.args[0].value if is_plain else None
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "log" and not call.args:
            return call.func.value if self._module.name_of(call.func) is None else None
        return None

    def _computed(self, node: cst.BaseExpression) -> tuple[cst.Call | None, bool]:
        """The call that computes probabilities, and whether it is ``node`` itself.

        Otherwise it is what a local name is bound to that is used nowhere else.
        """
        shaped, node = node, self._unshaped(node)
        if isinstance(node, cst.Call):
            return (node, node is shaped) if self._is_probability(node) else (None, False)
        if not isinstance(node, cst.Name):
            return None, False
        assigned = self._module.values.reaching.assigned(node)
        home = self._module.names.home_of(node)
        made = self._unshaped(assigned) if assigned is not None else None
        if home is None or not isinstance(made, cst.Call) or not self._is_probability(made):
            return None, False
        if self._module.function_of(node) is not self._module.function_of(made):
            return None, False
        uses = [
            use
            for use in self._module.names.uses_in(home, node.value)
            if not isinstance(self._tree.parent(use), cst.AssignTarget)
        ]
        return (made, False) if uses == [node] else (None, False)

    def _operand_of_helper(self, call: cst.Call) -> cst.BaseExpression | None:
        """``p`` of ``log(p)``, a function of the program that returns ``torch.log(p + eps)``."""
        if "log" not in called_name(call) or self._module.name_of(call.func) is not None:
            return None
        called = self._module.definitions.called(call, self._module.values)
        function = called[0] if len(called) == 1 else None
        returned = self._module.definitions.returns(function) if isinstance(function, cst.FunctionDef) else []
        only = returned[0] if len(returned) == 1 else None
        of = self._operand(only) if isinstance(only, cst.Call) else None
        param = self._module.names.parameter(self._unshaped(self._without_small(of))) if of is not None else None
        if param is None or not isinstance(function, cst.FunctionDef):
            return None
        return self._module.definitions.argument_of(call, function, param)

    def _without_small(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``p`` of ``p + 1e-8``."""
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return node.left if self._is_small(node.right) else node.right if self._is_small(node.left) else node
        return node

    def _is_limited(self, call: cst.Call) -> bool:
        """``p.clamp(min=1e-8)``, ``torch.clamp_min(p, 1e-8)``."""
        named = keywords_of(call)
        plain = [item.value for item in call.args if item.keyword is None and not item.star]
        plain = plain[self._module.name_of(call.func) is not None :]
        if called_name(call) not in _LIMITING or len(plain) + len(named) != 1:
            return False
        low = plain[0] if plain else named.get("min")
        return low is not None and self._is_small(low)

    def _unshaped(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``p`` of ``p.squeeze()``, ``torch.squeeze(p, 1)``, ``p.view(-1)`` or ``p.clamp(min=1e-8)``."""
        while isinstance(node, cst.Call) and (called_name(node) in _SHAPING or self._is_limited(node)):
            name = self._module.name_of(node.func)
            if name is not None and name.startswith("torch.") and node.args:
                node = node.args[0].value
            elif name is None and isinstance(node.func, cst.Attribute):
                node = node.func.value
            else:
                break
        return node

    def _is_probability(self, node: cst.Call) -> bool:
        return self._is(node, _SOFTMAX, "softmax", "torch.nn.Softmax") or self._is(
            node, _SIGMOID, "sigmoid", "torch.nn.Sigmoid"
        )

    def _is(self, node: cst.Call, functions: frozenset[str], method: str, layer: str) -> bool:
        """Whether a call is one of a function of torch, a method of a tensor, or a layer."""
        name = self._module.name_of(node.func)
        if name is not None:
            return name in functions and bool(node.args)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == method:
            if self._module.value(node.func).name == layer:
                return True
            owner = self._module.value(node.func.value)
            own = self._module.definitions.called(node, self._module.values)
            is_self = isinstance(node.func.value, cst.Name) and node.func.value.value == "self"
            few = len(node.args) <= 1 if method == "softmax" else not node.args
            return not own and not is_self and few and owner.kind.value in ("tensor", "unknown")
        if isinstance(node.func, (cst.Name, cst.Attribute, cst.Call)):
            value = self._module.value(node.func)
            return value.name == layer and value.definition is None
        return False

    # -- edits

    def _with_log_softmax(self, call: cst.Call, inner: cst.Call) -> edits.Edits | None:
        """``F.log_softmax(x, dim)`` in the place of the logarithm."""
        func = inner.func
        is_layer = self._module.name_of(func) is None and not self._is_method(inner, "softmax")
        if is_layer or not isinstance(func, cst.Attribute) or self._module.name_of(func) == "torch.special.softmax":
            return None
        begin, end = self._module.span(inner)
        at = self._module.span(func.attr)[0]
        return self._replaced(call, f"{self._module.text[begin:at]}log_{self._module.text[at:end]}")

    def _with_logsigmoid(self, call: cst.Call, inner: cst.Call) -> edits.Edits | None:
        """``F.logsigmoid(x)`` in the place of the logarithm."""
        of = self._logits(inner)
        if of is None:
            return None
        if self._module.name_of(inner.func) == "torch.nn.functional.sigmoid" and isinstance(inner.func, cst.Attribute):
            return self._replaced(call, f"{self._module.code(inner.func.value)}.logsigmoid({self._module.code(of)})")
        named = edits.name_functional(self._module, call)
        if named is None or named[1]:
            return None
        return self._replaced(call, f"{named[0]}.logsigmoid({self._module.code(of)})")

    def _with_logits(self, call: cst.Call, inner: cst.Call) -> edits.Edits | None:
        """``F.binary_cross_entropy_with_logits(x, y)`` in the place of the loss."""
        of = self._logits(inner)
        func = call.func
        if of is None or not isinstance(func, cst.Attribute) or self._module.comment_on(inner):
            return None
        renamed = edits.replace(self._module, func.attr, "binary_cross_entropy_with_logits")
        return (*renamed, *edits.replace(self._module, inner, self._module.code(of)))

    def _logits(self, inner: cst.Call) -> cst.BaseExpression | None:
        """``x`` of ``torch.sigmoid(x)`` and ``x.sigmoid()``."""
        if self._module.name_of(inner.func) in _SIGMOID:
            is_plain = len(inner.args) == 1 and inner.args[0].keyword is None and not inner.args[0].star
            return inner.args[0].value if is_plain else None
        if self._is_method(inner, "sigmoid") and isinstance(inner.func, cst.Attribute):
            return inner.func.value
        return None

    def _is_method(self, inner: cst.Call, name: str) -> bool:
        """Whether a call is one of a method of a tensor, and not of a layer with this name."""
        is_named = isinstance(inner.func, cst.Attribute) and inner.func.attr.value == name
        return is_named and not self._module.value(inner.func).name.startswith("torch.nn.")

    def _replaced(self, call: cst.Call, text: str) -> edits.Edits | None:
        if self._module.comment_on(call) or "\n" in text:
            return None
        return edits.replace(self._module, call, text)
