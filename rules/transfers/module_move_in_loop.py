from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._repeat_sketch import may_move_again
from ._repeat_words import moves_repeatedly

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

    from ._invariant_moves import InvariantMove


class ModuleMoveInLoop(Rule):
    """A module, or a tensor that never changes, is moved to the GPU at every step.

    ## What it does
    Flags `.to(device)` and `.cuda()` in a training, validation or inference loop that run at every step, or at every
    step that a condition around the whole iteration selects, of

    - a network or criterion that is the same at every step;
    - a tensor that is seen to be created on the host before the loop, such as class weights.

    Also flags a network that a function moves and runs, if a loop calls the function each time with the same network,
    and layers that the `forward` of their network, or the training step of a Lightning module, moves, other than single
    layers of torch. They may be parts of another network: `self.model.encoder.to(x.device)`. The class of such a layer
    may be unknown, if the code calls it, runs its `encode`, or calls methods that only modules have, such as `eval()`.
    The `__call__` of an object that gets a `batch` counts like a `forward`.

    Also flags a tensor that a constructor, or a method that only constructors call, creates on the host and keeps in
    `self`, and a tensor of the module that is set once, if they are moved in `forward` or in a method that every step
    calls, or every iteration of a sampling loop. Under other settings, the constructor may keep a parameter or `None`
    instead. Another method may set the tensor by the same expression, and a script may adapt it once, as to another
    size of the input. Both parts of a branch may move the tensor.

    The move may be of another form of the tensor, or of its first or last elements: `self.table[:, :n].to(x.device)`,
    `self.table.type_as(x).to(x.device)`, `repeat(self.table, "n c -> b n c", b=len(x)).to(x.device)` with einops. Of a
    tensor of one dimension that the constructor computes from numbers, such as a noise schedule, it may be of any
    numbers: `self.betas[t].to(x.device)`. It may be to where another tensor is, `self.table.to(x)`, and of a name or a
    method that gives the tensor. A function of the program may move it: `to_device(self.table, x)`.

    Not reported: batches and what is computed from them; moves to other devices and back, as for offloading; moves
    that follow `load_state_dict`, or `net.add_head(count)`, which adds layers; loops over epochs; `.to(dtype)`, which
    moves nothing; a tensor that is assigned to its own name (`weights = weights.to(device)`), which is copied only
    once; buffers, and parameters of networks; tensors whose elements are set between the moves; code that tries out a
    network below its definition, under `if __name__ == "__main__":`.

    ## Why it is slow
    `module.to(device)` visits every parameter and buffer, even if all are on the device already. This takes
    milliseconds for a large network. The copy of a host tensor waits until the GPU has executed all kernels before it.

    ## Example
    ```python
    for images, labels in loader:
        model.to(device)
        loss = F.cross_entropy(model(images.to(device)), labels.to(device))
    ```

    ## Use instead
    ```python
    model.to(device)
    for images, labels in loader:
        loss = F.cross_entropy(model(images.to(device)), labels.to(device))
    ```

    ## Fix safety
    Safe or unsafe: the fix puts a statement that moves a module before the loop. It is safe if the loop only calls the
    module, reads from it, and runs methods such as `train()`, `parameters()` and `zero_grad()`, or functions of the
    program that do no more. Otherwise it is unsafe: the loop may move the module or replace parts of it. A fix is
    offered if the iteration does not use the module before it is moved. No fix is offered for tensors: move them once,
    before the loop, under another name, or register them as buffers:
    `self.register_buffer("mean", mean, persistent=False)`.

    ## When to ignore
    When the loop has only a few iterations.

    ## References
    - [torch.nn.Module.to](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to)
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL208"
    name = "module-move-in-loop"
    words = ((".to(", ".cuda(", ".type_as(", ".type(", "_device(", "_cuda(", "_gpu("),)
    project_words = ("torch",)
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a loop may move a module, or a step a tensor that is made once."""
        return super().may_concern(text) and moves_repeatedly(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a loop may move what it does not change, or a method a tensor of its object."""
        return may_move_again(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._invariant_moves import InvariantMoves

        for found in module.fact(InvariantMoves).all():
            text = f"`{module.code(found.call)}`"
            part = "numbers of " if found.is_indexed else ""
            yield self.diagnostic(
                module,
                found.call,
                f"{text} visits all parameters of the same module at every step"
                if found.is_module
                else f"{text} copies {part}the same tensor to the device at every step",
                label="the same at every step",
                notes=(Note.at(module, found.loop, "runs at every step"),),
                fix=self._fix(module, found),
            )

    def _fix(self, module: Module, found: InvariantMove) -> Fix | None:
        if found.statement is None or module.comment_on(found.statement):
            return None
        text = module.code(found.statement)
        removed = edits.delete_statement(module, found.statement)
        inserted = None if "\n" in text else edits.insert_before(module, found.loop, text)
        if removed is None or inserted is None:
            return None
        message, changes = "move the module before the loop", (*inserted, *removed)
        if found.is_plain:
            return Fix(message, changes, Applicability.SAFE)
        return Fix(message, changes, Applicability.UNSAFE, "the loop may move the module or replace parts of it")
