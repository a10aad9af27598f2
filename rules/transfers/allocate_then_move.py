from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.model.semantics.knowledge import Kind
from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Rule, Severity

from ._move_words import moves_what_it_makes

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.edits import Edits
    from torchlint.model.data.placement import Fresh, Move
    from torchlint.model.module import Module


class AllocateThenMove(Rule):
    """A tensor is made on the host and moved to the device right away.

    ## What it does
    Flags `torch.zeros(...)`, `ones`, `empty`, `full`, `eye`, `arange`, `linspace`, `logspace`, `rand`, `randn`,
    `randint` and `randperm` without a device whose result is moved by `.to(device)` or `.cuda()` in the same
    expression, also behind a cast, a change of shape, arithmetic with numbers or `.scatter_(...)`; or in a later
    statement of the same block, `x = x.to(device)`, if nothing else uses it before. Also
    `torch.FloatTensor(rows, columns)` of sizes that the same expression fills by `.zero_()`, `.fill_(...)`,
    `.normal_()` or the like. A cast to a type of CUDA, `.type(torch.cuda.FloatTensor)` or `.type_as(x)` of an `x` on a
    CUDA device, is a move, too; so is the call of a function of the program that returns its first argument moved.
    Left alone are tensors made once: in `__init__`, and at module level outside of loops. In a function or method
    that its program calls once they are reported at information level. Left alone are also tensors of data
    (`torch.tensor([...])`), which come from the host in any case; code under `if __name__ == "__main__":` that
    tries out a network of its file; and programs that set a default device. The tensors of one function whose fixes
    are equally safe are one finding, at the first of them; notes show the others.

    ## Why it is slow
    The host fills the memory, then copies it to the device: from pageable memory, and waiting for the copy. Given a
    device, the factory launches one kernel there and the host goes on.

    ## Example
    ```python
    state = torch.zeros(layers, len(batch), width).to(device)
    ```

    ## Use instead
    ```python
    state = torch.zeros(layers, len(batch), width, device=device)
    ```

    ## Fix safety
    Safe or unsafe: safe for constants and for `arange` in whole steps. Unsafe for random numbers, which then come from
    the generator of the device: other numbers for the same seed. Unsafe for `linspace`, `logspace` and fractional
    `arange`, whose last digits may differ. Unsafe where only the name of a variable says that it is a device, for
    `.to(x)` also takes a dtype or a tensor. Unsafe behind `expand`: the copy gives every element its own memory, and
    without it they share memory. No fix is offered for `.cuda(index)` where the index may be None,
    for `torch.FloatTensor` and its like, with `.scatter_(...)`, whose indices must be moved first, nor where the move
    is a statement of its own, a call of a function of the program, or a cast to a type of CUDA; before `.type_as(x)`,
    `device=x.device` is passed, and the cast is kept.

    ## When to ignore
    When the same random numbers must come on every device.

    ## References
    - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [Tensor creation](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
    """

    code = "TL206"
    name = "allocate-then-move"
    words = (("torch", "import *"),)
    project_words = ("torch", (".cuda", ".to(", "device"))
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a move follows a factory closely, too: many files use both, few in one expression."""
        return super().may_concern(text) and moves_what_it_makes(text)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.placement import DEFAULT_SETTERS, Placement
        from torchlint.model.semantics.value import Device
        from torchlint.model.training.purpose import Purposes

        from ._indirect import IndirectMoves

        purposes, placement = module.fact(Purposes), module.fact(Placement)
        if any(map(placement.sets_default_device, module.calls(*DEFAULT_SETTERS))):
            return
        for move in (*placement.moves, *module.fact(IndirectMoves).all()):
            function = module.function_of(move.call)
            once = purposes.runs_once(move.call)
            if move.device is Device.CPU or (once and (function is None or purposes.is_constructor(function))):
                continue
            fresh = placement.fresh(move.source)
            if fresh is None or purposes.is_self_test(move.call):
                continue
            factory = "torch.empty" if fresh.legacy else module.code(fresh.factory.node.func)
            fix = None if fresh.named or fresh.legacy or fresh.scattered else self._fix(module, move, fresh)
            yield self.diagnostic(
                module,
                move.call,
                "a tensor is made on the host, then copied to the device",
                label=f"`{factory}` could make it there",
                fix=fix,
                severity=Severity.INFO if once else None,
                cause=self._cause(module, function, fix, once),
            )

    def _cause(self, module: Module, function: cst.FunctionDef | None, fix: Fix | None, once: bool) -> Cause:
        """One for all in a function that run as often, and whose fixes can be trusted alike."""
        key = None if function is None else module.tree.index(function)
        trust = None if fix is None else fix.applicability
        return Cause((key, trust, once), "also made on the host", "make all of them on the device")

    def _fix(self, module: Module, move: Move, fresh: Fresh) -> Fix | None:
        device = self._device(module, move)
        if device is None:
            return None
        added = edits.add_keyword(module, fresh.factory.node, "device", device)
        removed = self._without_move(module, move)
        if added is None or removed is None:
            return None
        message = f"pass `device={device}` to `{module.code(fresh.factory.node.func)}`"
        cautions = list(self._cautions(module, move, fresh))
        if not cautions:
            return Fix(message, (*added, *removed), Applicability.SAFE)
        return Fix(message, (*added, *removed), Applicability.UNSAFE, "; ".join(cautions))

    def _cautions(self, module: Module, move: Move, fresh: Fresh) -> Iterator[str]:
        """What the fix may change."""
        from ._known_devices import goes_to_device

        if not fresh.exact:
            yield "draws other random numbers" if fresh.drawn else "may round the last digits differently"
        if fresh.expanded:
            yield "the elements of an expanded tensor share memory: writing to it or `view` may raise"
        if move.method == "to" and move.target is not None and not goes_to_device(module, move):
            yield f"it raises if `{module.code(move.target.value)}` is a dtype or a tensor"

    def _without_move(self, module: Module, move: Move) -> Edits | None:
        """The edits that leave of a move what else it does: a cast."""
        if move.method == "type_as":
            return ()
        others = [
            item
            for item in move.call.args
            if item is not move.target and not (item.keyword is not None and item.keyword.value == "non_blocking")
        ]
        if not others:
            return edits.remove_method_call(module, move.call)
        if move.target is not None and not move.is_cuda and all(self._may_stay(module, item) for item in others):
            return edits.remove_argument(module, move.call, move.target)
        return None

    def _may_stay(self, module: Module, argument: cst.Arg) -> bool:
        """Whether ``to`` takes ``argument`` without a device before it."""
        value = argument.value
        return (
            argument.keyword is not None
            or module.value(value).kind is Kind.DTYPE
            or module.code(value)[-6:] == ".dtype"
        )

    def _device(self, module: Module, move: Move) -> str | None:
        """What to pass as ``device``."""
        from torchlint.model.syntax.dotted import dotted_name

        method = move.method
        if method == "type_as":
            tensor = dotted_name(move.call.args[0].value)
            return None if tensor is None else f"{tensor}.device"
        if method not in ("to", "cuda"):
            return None
        if move.target is None:
            return '"cuda"'
        text = module.code(move.target.value)
        if "\n" in text or "#" in text:
            return None
        if not move.is_cuda:
            return text
        if text.isdigit():
            return f'"cuda:{text}"'
        return text if module.value(move.target.value).kind is Kind.DEVICE else None
