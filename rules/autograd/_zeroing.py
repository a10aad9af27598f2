"""Gradients that are set to zero manually: loops over parameters, and reasons to keep the tensors in `.grad`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.training.loops import BACKWARD, STEP, is_backward, is_step

#: Names of the items of a loop over parameters, or of what it iterates over: `p`, `param`, `self.vars`, `fp32_params`.
_ONE_PARAMETER = re.compile(r"p|par|p\d+|(.*_)?(param|parameter|weight)\d*|(.*[a-z])?Param(eter)?")
_PARAMETERS = re.compile(r"(.*_)?(params|parameters|weights|vars|variables)(_list)?", re.IGNORECASE)
#: A tensor that a file creates for `.grad` itself: a new one, or a piece of a flat buffer.
_OWN_TENSOR = re.compile(r".*\b(zeros|ones|empty)(_like)?\(.*|[\w.]+\[.*\](\.view(_as)?\(.*\))?", re.DOTALL)
#: A comparison of numbers: `(p.grad != p.grad).any()` is a search for NaN.
_COMPARED = re.compile(r"[<>]|[=!]=(?!\s*(?:None|True|False)\b)")
_ZEROES = re.compile(r"(\w+)\.grad(\.data)?\.zero_")
_ADDS = re.compile(r".*\.grad(\.data)?\.add_", re.DOTALL)
#: What may be a step.
_REPEATED = (cst.For, cst.While, cst.FunctionDef, cst.Lambda)
_GRAPHS = (
    "torch.cuda.CUDAGraph",
    "torch.cuda.graph",
    "torch.cuda.make_graphed_callables",
    "torch.compiler.cudagraph_mark_step_begin",
)
#: What is imported to capture graphs, from any library: ``CudaGraphModule``.
_GRAPHED = re.compile(r"cuda_?graph", re.IGNORECASE)
#: Lightning's hooks between backward and step: a gradient that is zeroed there keeps its parameter unchanged.
_BEFORE_STEP = ("on_after_backward", "on_before_optimizer_step", "configure_gradient_clipping")


@dataclass(frozen=True, eq=False)
class ZeroedParameter:
    """``p.grad.zero_()`` in a loop over parameters, or ``p.grad = torch.zeros_like(p)``."""

    call: cst.Call  #: of ``zero_`` or ``zeros_like``
    loop: cst.For
    name: str  #: of the parameter in the loop


class Zeroing:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def loops(self) -> Iterator[ZeroedParameter]:
        """The calls that zero the gradients of the parameters in a loop, before new gradients are computed."""
        for call in self._module.methods("zero_"):
            match = _ZEROES.fullmatch(self._module.code(call.node.func))
            found = self._in_loop(call.node, match[1]) if match is not None and not call.node.args else None
            if found is not None and not self._masks(found.loop):
                yield found
        yield from self._assigned

    @cached_property
    def _assigned(self) -> list[ZeroedParameter]:
        """Where the gradients become new tensors of zeros at every step, to which the backward pass then adds."""
        found = []
        for target, value, statement in self._module.tree.stores:
            name = target.value if isinstance(target, cst.Attribute) and target.attr.value == "grad" else None
            if isinstance(name, cst.Name) and isinstance(value, cst.Call) and isinstance(statement, cst.Assign):
                if self._module.name_of(value.func) == "torch.zeros_like" and self._module.is_own(value):
                    zeroed = self._in_loop(value, name.value)
                    if zeroed is not None and self._only_zeroes(zeroed) and self._is_before_backward(zeroed.loop):
                        found.append(zeroed)
        return found

    def _only_zeroes(self, zeroed: ZeroedParameter) -> bool:
        """Whether a loop asks for no gradient, such as whether there is one, and only sets them."""
        tree = self._module.tree
        return all(
            tree.within(node, zeroed.call) or isinstance(tree.parent(node), cst.AssignTarget)
            for node in tree.attributes_in(zeroed.loop.body)
            if node.attr.value == "grad"
        )

    def _is_before_backward(self, loop: cst.For) -> bool:
        """Whether each run of a block, of a loop or function, begins a backward pass behind ``loop``.

        Nothing in between uses a gradient.
        """
        tree = self._module.tree
        first = bisect_right(self._passes, tree.last(loop), key=tree.index)
        step = nearest(tree, loop, *_REPEATED)
        if step is None or first == len(self._passes) or not is_backward(backward := self._passes[first]):
            return False
        if nearest(tree, backward, *_REPEATED) is not step:
            return False
        used = [tree.index(node) for node in tree.attributes_in(step) if node.attr.value == "grad"]
        is_used = any(tree.last(loop) < place < tree.index(backward) for place in used)
        return tree.dominates(loop, backward) and not is_used

    @cached_property
    def keeps_tensors(self) -> bool:
        """Whether the file needs the tensors in ``.grad``: it replays graphs, adds to them or creates them."""
        module = self._module
        if any(module.calls(*_GRAPHS)) or module.imports("torch_xla"):
            return True
        if any(map(_GRAPHED.search, module.own_imported_names)):
            return True
        if any(_ADDS.fullmatch(module.code(call.node.func)) for call in module.methods("add_")):
            return True
        for target, value, statement in module.tree.stores:
            if not (isinstance(target, cst.Attribute) and target.attr.value == "grad"):
                continue
            if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, cst.AddAssign):
                return True
            is_zeroed = any(value is item.call for item in self._assigned)
            if value is not None and not is_zeroed and _OWN_TENSOR.fullmatch(module.code(value)):
                return True
        return False

    def _in_loop(self, call: cst.Call, name: str) -> ZeroedParameter | None:
        """What zeroes the gradient of ``name``, if a loop binds that to each parameter."""
        for above, below in climb(self._module.tree, call):
            if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.While)):
                return None
            if isinstance(above, cst.If) and (below is not above.body or not self._depends_only_on(above.test, name)):
                return None
            if isinstance(above, cst.For):
                return ZeroedParameter(call, above, name) if _over_parameters(above, name) else None
        return None

    def _depends_only_on(self, test: cst.CSTNode, item: str) -> bool:
        """Whether a condition depends only on the parameter, not on a ``set_to_none`` of the caller or on numbers."""
        text = self._module.code(test)
        words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))
        return words <= {item, "is", "not", "None", "and", "hasattr"} and _COMPARED.search(text) is None

    def _masks(self, loop: cst.For) -> bool:
        """Whether the gradients are zeroed between backward pass and step, to keep parameters unchanged."""
        tree = self._module.tree
        function = self._module.function_of(loop)
        if function is not None and function.name.value in _BEFORE_STEP:
            return True
        behind = bisect_right(self._passes, tree.last(loop), key=tree.index)
        if behind == len(self._passes) or (function is not None and not tree.within(self._passes[behind], function)):
            return False
        return is_step(self._passes[behind])

    @cached_property
    def _passes(self) -> list[cst.Call]:
        """The backward passes and optimizer steps, in order."""
        return [call for call in self._module.tree.calls_named(*BACKWARD, *STEP) if is_backward(call) or is_step(call)]


def _over_parameters(loop: cst.For, item: str) -> bool:
    """Whether ``loop`` binds ``item`` to the parameters, one after the other."""
    if _PARAMETERS.fullmatch(item):
        return False  # each item is a flat tensor of many parameters, whose gradient is a buffer to keep
    target, over = loop.target, loop.iter
    names = [element.value for element in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else [target]
    position = next((i for i, name in enumerate(names) if isinstance(name, cst.Name) and name.value == item), None)
    if position is None:
        return False
    if _ONE_PARAMETER.fullmatch(item):
        return True
    if isinstance(over, cst.Call) and isinstance(over.func, cst.Name) and over.func.value == "zip":
        over = over.args[position].value if position < len(over.args) else over
    elif position != len(names) - 1:
        return False  # of `named_parameters()` and `enumerate(...)` the last is the parameter
    while isinstance(over, cst.Call):
        over = over.func if isinstance(over.func, cst.Attribute) or not over.args else over.args[0].value
    name = over.attr.value if isinstance(over, cst.Attribute) else over.value if isinstance(over, cst.Name) else ""
    return _PARAMETERS.fullmatch(str(name)) is not None
