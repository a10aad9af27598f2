"""Losses whose arguments are both selected by one boolean mask, of which only the GPU knows the number of items."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import bare, called_name, last_part
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._host_reads import HostReads
from ._mask_words import COPYING, SHAPING

#: Losses of one number per item, by the last part of their function or class.
_BY_ITEM = frozenset(
    {
        "smooth_l1_loss", "l1_loss", "mse_loss", "huber_loss", "kl_div",
        "binary_cross_entropy", "binary_cross_entropy_with_logits",
        "SmoothL1Loss", "L1Loss", "MSELoss", "HuberLoss", "KLDivLoss", "BCELoss", "BCEWithLogitsLoss",
    }
)  # fmt: skip
_BY_CLASS = frozenset({"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"})
#: Methods that compare tensors or make masks of them.
_COMPARES = frozenset({"eq", "ne", "gt", "ge", "lt", "le", "bool", "isfinite", "isnan", "logical_and", "logical_not"})
_COMPARING = frozenset(f"torch.{name}" for name in (*_COMPARES - {"bool"}, "logical_or"))
#: A reshape to rows of classes.
_ROWS = re.compile(r"\.(view|reshape)\(\s*-\s*1\s*,[^()]*(\([^()]*\))?[^()]*\)|\.flatten\(0, *1\)")
_DEPTH = 4
_MAX_CALLERS = 24  #: callers of a function that are asked for the mask that they pass


@dataclass(frozen=True, eq=False)
class MaskedLoss:
    """A loss of selected items."""

    call: cst.Call
    mask: cst.BaseExpression
    selected: tuple[cst.BaseExpression, cst.BaseExpression]  #: output and target before the selection
    by_class: bool  #: whether the loss can ignore an index
    is_direct: bool  #: whether the selections are in the call
    repeated: StepPlace


class MaskedLosses:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[MaskedLoss]:
        """The losses of the file in training, in order."""
        if not self._module.uses_torch:
            return
        for call in self._tree.calls:
            if self._module.is_own(call) and len(call.args) >= 2:
                found = self._at(call)
                if found is not None:
                    yield found

    def _at(self, call: cst.Call) -> MaskedLoss | None:
        loss = self._loss_of(call)
        given = [item.value for item in call.args[:2]]
        if not loss or any(item.star or item.keyword is not None for item in call.args[:2]):
            return None
        output, target = map(self._selection, given)
        if output is None or target is None:
            return None
        mask = _index(output)
        other = _index(target)
        if mask is None or other is None or self._selected_by(mask) != self._selected_by(other):
            return None
        mask = min(mask, other, key=lambda item: len(self._module.code(item)))
        if not self._is_mask(mask, _DEPTH) or self._module.fact(GradModes).of(call).is_off:
            return None
        repeated = self._module.fact(StepPlaces).repeating(call) or self._forward(call)
        if repeated is None or not self._is_in_training(call, repeated):
            return None
        is_direct = output is given[0] and target is given[1]
        return MaskedLoss(call, mask, (output.value, target.value), loss in _BY_CLASS, is_direct, repeated)

    def _forward(self, call: cst.Call) -> StepPlace | None:
        """The ``forward`` around a call, of a class whose base is not seen."""
        function = self._module.function_of(call)
        if function is None or function.name.value != "forward" or self._tree.class_of(function) is None:
            return None
        return StepPlace(function, (), trains=True)

    def _is_in_training(self, call: cst.Call, repeated: StepPlace) -> bool:
        """Whether a loss on a GPU is part of a backward pass, or is computed in a `forward`, wherever that runs."""
        if isinstance(repeated.step, cst.FunctionDef):
            return repeated.step.name.value in ("forward", "training_step", "compute_loss")
        return self._module.fact(HostReads).on_gpu and self._module.fact(Gradients).reaches_backward(call)

    def _loss_of(self, call: cst.Call) -> str:
        """The name of the loss that a call computes; empty if it is none of these."""
        name = self._module.name_of(call.func)
        if name is not None:
            return _known(name)
        value = self._module.value(call.func)
        if value.kind in (Kind.LOSS, Kind.MODULE) and _known(value.name):
            return _known(value.name)
        # one of several that an option chooses
        reached = self._module.values.reaching.of(call.func) if isinstance(call.func, cst.Name) else []
        chosen = [self._module.value(item.value) for item in reached if item.value is not None and not item.path]
        return next((known for item in chosen if item.kind is Kind.LOSS and (known := _known(item.name))), "")

    def _selection(self, node: cst.BaseExpression) -> cst.Subscript | None:
        """``logits[mask]``, also where it was stored in a name, and ``labels[mask].detach()``."""
        node = bare(node, COPYING, (), with_arguments=True)
        if isinstance(node, cst.Subscript):
            return node
        if not isinstance(node, cst.Name):
            return None
        reached = self._module.values.reaching.of(node)
        value = (
            reached[0].value
            if len(reached) == 1 and reached[0].kind is BindingKind.ASSIGN and not reached[0].path
            else None
        )
        return self._selection(value) if isinstance(value, (cst.Subscript, cst.Call)) else None

    def _selected_by(self, mask: cst.BaseExpression) -> str:
        """What a mask compares, whatever its shape: of ``mask`` and of ``labels.view(n, 1).repeat(1, c) >= 0``."""
        mask = _unshaped(mask)
        if isinstance(mask, cst.Name):
            reached = self._module.values.reaching.of(mask)
            value = reached[0].value if len(reached) == 1 and reached[0].kind is BindingKind.ASSIGN else None
            return self._selected_by(value) if isinstance(value, cst.Comparison) else mask.value
        if isinstance(mask, cst.Comparison):
            return " ".join(map(self._module.code, (_unshaped(mask.left), *mask.comparisons)))
        return self._module.code(mask)

    def _is_mask(self, node: cst.BaseExpression, depth: int) -> bool:
        """Whether an index is a boolean tensor for certain; nobody inverts the bits of other indices."""
        if depth <= 0:
            return False
        if isinstance(node, cst.Comparison):
            return len(node.comparisons) == 1 and isinstance(
                node.comparisons[0].operator,
                (cst.Equal, cst.NotEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.LessThan, cst.LessThanEqual),
            )
        if isinstance(node, cst.UnaryOperation):
            return isinstance(node.operator, cst.BitInvert) and not self._module.value(node.expression).is_on_host
        if isinstance(node, cst.BinaryOperation):
            both = isinstance(node.operator, (cst.BitAnd, cst.BitOr, cst.Multiply))
            return both and self._is_mask(node.left, depth - 1) and self._is_mask(node.right, depth - 1)
        if isinstance(node, cst.Call):
            inner = _unshaped(node)
            if inner is not node:
                return self._is_mask(inner, depth)
            name = self._module.name_of(node.func)
            return name in _COMPARING or (name is None and called_name(node) in _COMPARES)
        if isinstance(node, cst.Name):
            reached = self._module.values.reaching.of(node)
            return bool(reached) and all(
                self._is_given_mask(item.node, depth)
                if isinstance(item.node, cst.Param)
                else item.kind is BindingKind.ASSIGN
                and not item.path
                and item.value
                and self._is_mask(item.value, depth - 1)
                for item in reached
            )
        return False

    def _is_given_mask(self, param: cst.Param, depth: int) -> bool:
        """Whether all callers, which are seen, pass a mask for a parameter."""
        given = self._module.passed_by_all(param, _MAX_CALLERS) if depth > 0 else []
        return bool(given) and all(item is not None and self._is_mask(item, depth - 1) for item in given)


def _unshaped(node: cst.BaseExpression) -> cst.BaseExpression:
    """``mask`` of ``mask.view(n, 1).repeat(1, c)``."""
    return bare(node, SHAPING, (), with_arguments=True)


def _known(name: str) -> str:
    last = last_part(name)
    return last if name.startswith("torch.nn") and last in _BY_ITEM | _BY_CLASS else ""


def as_ignored(module: Module, found: MaskedLoss) -> str | None:
    """The arguments of a cross entropy of all items, which ignores those that the mask drops; None if unsure."""
    output, target = found.selected
    if not found.by_class or not found.is_direct or len(found.call.args) != 2:
        return None
    if not _ROWS.search(module.code(output)) or not isinstance(found.mask, cst.Name):
        return None
    if not (module.name_of(found.call.func) or "").endswith(".cross_entropy"):
        value = module.value(found.call.func)
        made = next(iter(value.origins)) if len(value.origins) == 1 else None
        if not isinstance(made, cst.Call) or made.args or not value.name.endswith("CrossEntropyLoss"):
            return None
    return f"{module.code(output)}, {module.code(target)}.masked_fill(~{found.mask.value}, -100)"


def _index(node: cst.Subscript) -> cst.BaseExpression | None:
    """``mask`` of ``x[mask]`` and ``x[mask, :]``."""
    inner, *others = (item.slice for item in node.slice)
    if any(not isinstance(item, cst.Slice) or item.lower or item.upper or item.step for item in others):
        return None
    return inner.value if isinstance(inner, cst.Index) else None
