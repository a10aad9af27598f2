"""Optimizers that step in a loop in which nothing clears the gradients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import called_name, dotted_name, last_name
from torchlint.model.syntax.exits import ends_with
from torchlint.model.training.loops import Loops, is_backward, is_step

#: Names of functions that may clear gradients.
_CLEARS = re.compile(r"zero_?grad|(reset|clear|zero|init)_?(the_)?(all_)?grad|zero_optim", re.IGNORECASE)
_MAY_CLEAR = re.compile(f"{_CLEARS.pattern}|^(zero_|fill_|mul_|copy_)$|^_foreach_zero", re.IGNORECASE)
#: Libraries whose functions leave gradients as they are, or only change their values.
_HARMLESS = ("torch.", "builtins.", "tqdm.", "numpy.", "math.", "time.", "logging.", "wandb.", "os.", "random.")
#: Words of code that has other ways to clear gradients, or that needs them afterwards.
_HOOKS = re.compile(
    r"register_(optimizer_)?step_(pre|post)_hook|register_post_accumulate_grad_hook|set_to_none|deepspeed|colossalai"
)


@dataclass(frozen=True, eq=False)
class UnclearedStep:
    """A step of an optimizer whose gradients are never cleared in the loop around it."""

    call: cst.Call
    optimizer: cst.BaseExpression
    loop: cst.For | cst.While  #: that runs backward passes and steps
    backward: cst.Call
    before: cst.CSTNode | None  #: what clears the gradients once, before the loop


class Clearing:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[UnclearedStep]:
        """The steps after which the gradients stay, in order: the first of each optimizer and loop."""
        if any(file.contains(_HOOKS) for file in self._module.files):
            return
        seen: set[tuple[frozenset[cst.CSTNode], cst.CSTNode]] = set()
        for call in self._module.own_methods("step"):
            optimizer = self._stepped(call) if is_step(call.node) else None
            loops = self._module.fact(Loops).around(call.node) if optimizer is not None else ()
            if optimizer is None or not loops:
                continue
            key = (self._module.value(optimizer).origins, loops[0].node)
            if key not in seen:
                seen.add(key)
                yield from self._at(call.node, optimizer, loops[0].node)

    def _at(self, call: cst.Call, optimizer: cst.BaseExpression, loop: cst.For | cst.While) -> Iterator[UnclearedStep]:
        backward = next((item for item in self._tree.calls_in(loop.body) if is_backward(item)), None)
        value = self._module.value(optimizer)
        if backward is None or not self._is_kept(value, loop):
            return
        if ends_with(loop.body, cst.Break, cst.Return, cst.Raise):
            return  # one iteration
        if any(self._is_inner(item, loop) for item in self._tree.calls_in(loop.body) if is_backward(item)):
            return
        if any(not self._is_of_another(clear, value) for clear in self._tree.among(self._clears, loop)):
            return
        clears = [clear for clear in self._clears if not self._is_of_another(clear, value)]
        if not all(self._is_before(clear, loop) for clear in clears) or self._may_clear(loop, optimizer):
            return
        yield UnclearedStep(call, optimizer, loop, backward, clears[-1] if clears else None)

    def _stepped(self, call: Call) -> cst.BaseExpression | None:
        """The optimizer that ``call`` steps, also through a scaler; None with a closure."""
        given = call.node.args
        if not given:
            return call.receiver
        is_scaler = self._module.value(call.receiver).kind is Kind.SCALER or "scaler" in last_name(call.receiver)
        return given[0].value if is_scaler and len(given) == 1 else None

    def _is_kept(self, optimizer: Value, loop: cst.For | cst.While) -> bool:
        """Whether an optimizer is one of torch, made before ``loop``."""
        return (
            optimizer.is_optimizer_of_torch
            and optimizer.sure
            and bool(optimizer.origins)
            and not any(self._tree.within(origin, loop) for origin in optimizer.origins)
        )

    def _is_inner(self, backward: cst.Call, loop: cst.For | cst.While) -> bool:
        """Whether a backward pass is in a loop inside of ``loop``."""
        around = self._module.fact(Loops).around(backward)
        return bool(around) and around[0].node is not loop

    # -- what clears gradients

    @cached_property
    def _clears(self) -> list[cst.CSTNode]:
        """What may clear gradients in the file and its related files, in order."""
        module = self._module
        calls = filter(self._clears_by_name, self._tree.calls_where(_MAY_CLEAR.search))
        stores = [
            statement
            for target, _, statement in self._tree.stores
            if isinstance(target, cst.Attribute) and target.attr.value == "grad"
        ]
        found = [item for item in (*calls, *stores) if self._tree.root_of(item) in module.related]
        return sorted(found, key=self._tree.index)

    def _clears_by_name(self, call: cst.Call) -> bool:
        """``x.zero_grad()``, ``reset_gradients(x)``, ``p.grad.zero_()``, ``p.grad.data.fill_(0)``."""
        name = called_name(call)
        if _CLEARS.search(name):
            return not any(
                isinstance(item, cst.FunctionDef) for item in self._module.definitions.called(call, self._module.values)
            )
        if name in ("zero_", "fill_", "mul_", "copy_") and isinstance(call.func, cst.Attribute):
            return ".grad" in self._module.code(call.func)
        return name.startswith("_foreach_zero")

    def _is_of_another(self, clear: cst.CSTNode, optimizer: Value) -> bool:
        """Whether ``clear`` clears the gradients of another optimizer alone."""
        if not isinstance(clear, cst.Call) or not isinstance(clear.func, cst.Attribute):
            return False
        owner = self._module.value(clear.func.value)
        return (
            owner.kind is Kind.OPTIMIZER
            and owner.sure
            and bool(owner.origins)
            and not owner.origins & optimizer.origins
            and not self._shares_parameters(owner.origins, optimizer.origins)
        )

    def _shares_parameters(self, first: frozenset[cst.CSTNode], second: frozenset[cst.CSTNode]) -> bool:
        """Whether two optimizers may have the same parameters: unless each is given those of another object."""
        return any(
            not one or not other or f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
            for one in map(self._given, first)
            for other in map(self._given, second)
        )

    def _given(self, made: cst.CSTNode) -> str:
        """``net_g`` of ``Adam(net_g.parameters())``; empty if unknown."""
        given = made.args[0].value if isinstance(made, cst.Call) and made.args else None
        if not isinstance(given, cst.Call) or last_name(given.func) != "parameters" or given.args:
            return ""
        return (dotted_name(given.func) or "").rpartition(".")[0]

    def _is_before(self, clear: cst.CSTNode, loop: cst.For | cst.While) -> bool:
        """Whether ``clear`` runs before ``loop`` and not inside of it."""
        function = self._module.function_of(loop)
        if self._module.function_of(clear) is not function or self._tree.within(clear, loop):
            return False
        same_file = self._tree.root_of(clear) is self._tree.root_of(loop)
        return same_file and self._tree.index(clear) < self._tree.index(loop)

    def _may_clear(self, loop: cst.For | cst.While, optimizer: cst.BaseExpression) -> bool:
        """Whether code out of sight gets the optimizer or its network, or is a method of an object that has them."""
        owned = {"self", self._module.code(optimizer), *map(self._given, self._module.value(optimizer).origins)}
        for call in self._tree.calls_in(loop.body):
            name = self._module.name_of(call.func)
            if (name is not None and name.startswith(_HARMLESS)) or self._module.fact(Dispatch).functions(call):
                continue
            if any(self._module.code(item.value) in owned for item in call.args):
                if isinstance(call.func, cst.Attribute) and "scaler" in last_name(call.func.value):
                    continue
                if self._module.value(call.func).kind is not Kind.SCALER and "clip_grad" not in last_name(call.func):
                    return True
            of_self = isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) == "self"
            if of_self and not self._module.value(call.func):
                return True
        return any(isinstance(above, cst.With) and self._is_unknown(above) for above, _ in climb(self._tree, loop))

    def _is_unknown(self, block: cst.With) -> bool:
        """Whether a ``with`` around a loop gets something that may hook into the optimizer: a profiler does not."""
        return any("accumulate" in self._module.code(item.item) for item in block.items)
