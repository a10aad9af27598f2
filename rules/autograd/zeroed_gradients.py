from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.model.semantics.knowledge import Kind
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

    from ._zeroing import ZeroedParameter


class ZeroedGradients(Rule):
    """Gradients are filled with zeros instead of being set to None.

    ## What it does
    Flags `zero_grad(set_to_none=False)`, and loops over parameters that call `p.grad.zero_()`, or that assign
    `torch.zeros_like(p)` to `p.grad` before the backward pass of a step.

    `zero_grad()` without an argument is not flagged: since torch 2.0 it sets the gradients to None.

    ## Why it is slow
    Zeros are written to the memory of every gradient, and `backward()` reads it again to add the new gradient. A
    gradient that is `None` needs no write, and `backward()` stores the new one directly. Between the two, the memory is
    free for activations.

    ## Example
    ```python
    optimizer.zero_grad(set_to_none=False)
    ```

    ## Use instead
    ```python
    optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: a parameter that does not contribute to the loss then has no gradient instead of a gradient of zeros. The
    optimizer skips it, although weight decay or momentum would still have changed it. Code that reads `p.grad` without
    a check gets `None`. If a class of the program may define a `zero_grad` whose default is not True, the fix passes
    `set_to_none=True`. In a loop, it replaces `p.grad.zero_()`, if that is a statement of its own, or the assignment
    with `p.grad = None`.

    ## When to ignore
    Ignore it if something keeps references to the gradient tensors, such as views into one flat buffer or a
    communication library. A file that captures CUDA graphs, adds to `.grad` itself or creates other tensors in `.grad`
    itself is not flagged. Neither is a loop between `backward()` and `step()`, which keeps parameters from changing.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL407"
    name = "zeroed-gradients"
    words = (
        (
            *("set_to_none=False", "set_to_none = False", "zero_grad(False", ".grad.zero_", ".grad.data.zero_"),
            *(".grad = torch.zeros_like(", '"set_to_none": False', "'set_to_none': False"),
        ),
    )
    project_words = ("torch",)
    since = (2, 0)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._zeroing import Zeroing

        if not module.uses_torch or module.fact(Zeroing).keeps_tensors:
            return
        for call in module.methods("zero_grad"):
            argument = _literal_false(module, call)
            if argument is None and not _unpacks_false(call):
                continue
            yield self.diagnostic(
                module,
                call.node,
                "`zero_grad()` fills gradients with zeros instead of setting them to None",
                label="`set_to_none` is False",
                fix=None if argument is None else _fix(*_drop_all(module, call.node, argument)),
            )
        for zeroed in module.fact(Zeroing).loops():
            yield self.diagnostic(
                module,
                zeroed.call,
                f"`{_code(module, zeroed)}` fills gradients with zeros instead of setting them to None",
                label=f"`{zeroed.name}.grad = None` writes no memory",
                fix=_fix(f"replace it with `{zeroed.name}.grad = None`", _drop_gradient(module, zeroed)),
            )


def _fix(message: str, edited: edits.Edits | None) -> Fix | None:
    caution = "the optimizer then skips parameters without a gradient, including weight decay and momentum"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, caution)


def _literal_false(module: Module, call: Call) -> cst.Arg | None:
    """The argument of a `zero_grad` call that requests zeros."""
    argument = call.argument("set_to_none")
    if argument.literal() != "False" or argument.node is None:
        return None
    owner = module.value(call.receiver)
    is_of_torch = owner.is_optimizer_of_torch or (owner.kind is Kind.MODULE and owner.sure)
    is_sure = argument.node.keyword is not None or (is_of_torch and len(call.node.args) == 1)
    return argument.node if is_sure else None


def _unpacks_false(call: Call) -> bool:
    """Whether a `zero_grad` call unpacks a dictionary that requests zeros."""
    argument = call.argument("set_to_none")
    return argument.node is None and argument.literal() == "False"


def _drop_all(module: Module, call: cst.Call, argument: cst.Arg) -> tuple[str, edits.Edits | None]:
    """How a `zero_grad` call sets gradients to None: no argument, or True if that may not be the default."""
    if _drops_by_default(module, call):
        return "remove `set_to_none=False`", edits.remove_argument(module, call, argument)
    return "set `set_to_none=True`", edits.replace(module, argument.value, "True")


def _drops_by_default(module: Module, call: cst.Call) -> bool:
    """Whether `zero_grad` without the argument drops gradients: that of torch does, that of a class may not."""
    import libcst as cst

    called = module.definitions.called(call, module.values)
    if called:
        return all(isinstance(item, cst.FunctionDef) and _default(item) == "True" for item in called)
    owner = module.value(call.func.value) if isinstance(call.func, cst.Attribute) else None
    if owner is None or owner.kind not in (Kind.OPTIMIZER, Kind.MODULE):
        return False
    own = [item for item in module.tree.functions if item.name.value == "zero_grad" and _default(item) is not None]
    return owner.sure or all(_default(item) == "True" for item in own)  # by its name it may be of any class


def _default(function: cst.FunctionDef) -> str | None:
    """What `set_to_none` of a function defaults to, "" if it is required; None if the function does not have it."""
    import libcst as cst

    from torchlint.model.syntax.parameters import parameters_of

    for param in parameters_of(function):
        if param.name.value == "set_to_none":
            return param.default.value if isinstance(param.default, cst.Name) else ""
    return None


def _code(module: Module, zeroed: ZeroedParameter) -> str:
    """``p.grad.zero_()``, ``p.grad = torch.zeros_like(p)``."""
    import libcst as cst

    statement = module.tree.parent(zeroed.call)
    return module.code(statement) if isinstance(statement, cst.Assign) else f"{zeroed.name}.grad.zero_()"


def _drop_gradient(module: Module, zeroed: ZeroedParameter) -> edits.Edits | None:
    """`p.grad = None` for `p.grad.zero_()`, and without the `p.grad.detach_()` before it."""
    import libcst as cst

    statement = module.tree.statement_of(zeroed.call)
    if isinstance(statement, cst.Assign) and statement.value is zeroed.call:
        return edits.replace(module, zeroed.call, "None")
    if not (isinstance(statement, cst.Expr) and statement.value is zeroed.call):
        return None
    edited = edits.replace(module, zeroed.call, f"{zeroed.name}.grad = None")
    for other in module.methods("detach_"):
        if module.code(other.receiver) == f"{zeroed.name}.grad" and module.tree.within(other.node, zeroed.loop):
            if module.tree.dominates(other.node, zeroed.call):
                edited += edits.delete_statement(module, module.tree.statement_of(other.node)) or ()
    return edited
