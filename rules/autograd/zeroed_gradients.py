from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.model.knowledge import Kind
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

#: What a loop over parameters calls its items, or what it iterates: `p`, `param`, `self.vars`, `fp32_params`.
_ONE_PARAMETER = re.compile(r"p|par|p\d+|(.*_)?(param|parameter|weight)\d*|(.*[a-z])?Param(eter)?")
_PARAMETERS = re.compile(r"(.*_)?(params|parameters|weights|vars|variables)(_list)?", re.IGNORECASE)
#: A tensor that a file makes for `.grad` itself: a new one, or a piece of a flat buffer.
_OWN_TENSOR = re.compile(r".*\b(zeros|ones|empty)(_like)?\(.*|[\w.]+\[.*\](\.view(_as)?\(.*\))?", re.DOTALL)
_GRAPHS = (
    "torch.cuda.CUDAGraph",
    "torch.cuda.graph",
    "torch.cuda.make_graphed_callables",
    "torch.compiler.cudagraph_mark_step_begin",
)
_ADDS = re.compile(r".*\.grad(\.data)?\.add_", re.DOTALL)


class ZeroedGradients(Rule):
    """Gradients are set to zero where they could be dropped.

    ## What it does
    Flags `zero_grad(set_to_none=False)`, and loops over parameters that call `p.grad.zero_()`.

    `zero_grad()` without an argument is not flagged: it drops the gradients since torch 2.0.

    ## Why it is slow
    Filling every gradient with zeros writes all of that memory, and `backward()` then reads it again to add the new
    gradient to it. A gradient that is `None` costs nothing to clear, and `backward()` stores the new one directly.
    The memory is also free for activations in between.

    ## Example
    ```python
    optimizer.zero_grad(set_to_none=False)
    ```

    ## Use instead
    ```python
    optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: a parameter that takes no part in the loss then has no gradient instead of a gradient of zeros. The
    optimizer skips it, where weight decay or momentum would still have moved it, and code that reads `p.grad` without
    asking meets `None`. In a loop, `p.grad = None` takes the place of `p.grad.zero_()`, if that is a statement of its
    own.

    ## When to ignore
    When something holds on to the gradient tensors themselves: views into one flat buffer, a communication library.
    A file that captures CUDA graphs, adds into `.grad` itself, or makes the tensors in `.grad` itself is not flagged.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL407"
    name = "zeroed-gradients"
    words = (("set_to_none", "zero_grad(False", ".grad.zero_", ".grad.data.zero_"),)
    since = (2, 0)
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        calls = [(call, argument) for call in module.methods("zero_grad") if (argument := _literal_false(module, call))]
        loops = [(call, item) for call in module.methods("zero_") if (item := _zeroed_parameter(module, call))]
        if not (calls or loops) or _keeps_gradient_tensors(module):
            return
        for call, argument in calls:
            yield self.diagnostic(
                module,
                call,
                "gradients are filled with zeros instead of being dropped",
                label="`set_to_none` is False",
                fix=_fix("remove `set_to_none=False`", edits.remove_argument(module, call, argument)),
            )
        for call, item in loops:
            yield self.diagnostic(
                module,
                call,
                "the gradient of every parameter is filled with zeros instead of being dropped",
                label=f"`{item}.grad = None` costs nothing",
                fix=_fix(f"set `{item}.grad` to None", _drop_gradient(module, call, item)),
            )


def _fix(message: str, edited: edits.Edits | None) -> Fix | None:
    caution = "a parameter without a gradient is then skipped by the optimizer, weight decay and momentum included"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, caution)


def _literal_false(module: Module, call: cst.Call) -> cst.Arg | None:
    """The argument by which a `zero_grad` call asks for zeros."""
    import libcst as cst

    for argument in call.args:
        if not (isinstance(argument.value, cst.Name) and argument.value.value == "False"):
            continue
        if argument.keyword is not None and argument.keyword.value == "set_to_none":
            return argument
        if argument.keyword is None and len(call.args) == 1 and isinstance(call.func, cst.Attribute):
            owner = module.value(call.func.value)
            if owner.kind is Kind.OPTIMIZER or (owner.kind is Kind.MODULE and owner.sure):
                return argument
    return None


def _zeroed_parameter(module: Module, call: cst.Call) -> str | None:
    """The name of the parameter whose gradient `call` zeroes, in a loop over parameters."""
    import libcst as cst

    match = re.fullmatch(r"(\w+)\.grad(\.data)?\.zero_", module.code(call.func))
    if match is None or call.args:
        return None
    item = match[1]
    below: cst.CSTNode = call
    for above in module.tree.ancestors(call):
        if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.While)):
            return None
        if isinstance(above, cst.If) and (below is not above.body or not _asks_only_of(module, above.test, item)):
            return None
        if isinstance(above, cst.For):
            return item if _over_parameters(above, item) else None
        below = above
    return None


def _asks_only_of(module: Module, test: cst.CSTNode, item: str) -> bool:
    """Whether a condition is about the parameter alone: `p.grad is not None`, not a `set_to_none` of the caller."""
    words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", module.code(test)))
    return words <= {item, "is", "not", "None", "and", "hasattr"}


def _over_parameters(loop: cst.For, item: str) -> bool:
    """Whether `loop` binds `item` to one parameter after the other."""
    import libcst as cst

    target = loop.target
    last = target.elements[-1].value if isinstance(target, (cst.Tuple, cst.List)) and target.elements else target
    if not (isinstance(last, cst.Name) and last.value == item):
        return False
    if _PARAMETERS.fullmatch(item):
        return False  # each item is a flat tensor of many parameters, whose gradient is a buffer to keep
    over = loop.iter
    while isinstance(over, cst.Call):
        over = over.func if isinstance(over.func, cst.Attribute) or not over.args else over.args[0].value
    name = over.attr.value if isinstance(over, cst.Attribute) else over.value if isinstance(over, cst.Name) else ""
    return _ONE_PARAMETER.fullmatch(item) is not None or _PARAMETERS.fullmatch(str(name)) is not None


def _keeps_gradient_tensors(module: Module) -> bool:
    """Whether the file needs the tensors in `.grad` to stay: it replays CUDA graphs, adds into them or makes them."""
    import libcst as cst

    if any(module.calls(*_GRAPHS)):
        return True
    if any(_ADDS.fullmatch(module.code(call.func)) for call in module.methods("add_")):
        return True
    for target, value, statement in module.tree.stores:
        if not (isinstance(target, cst.Attribute) and target.attr.value == "grad"):
            continue
        if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, cst.AddAssign):
            return True
        if value is not None and _OWN_TENSOR.fullmatch(module.code(value)):
            return True
    return False


def _drop_gradient(module: Module, call: cst.Call, item: str) -> edits.Edits | None:
    """`p.grad = None` for `p.grad.zero_()`, and without the `p.grad.detach_()` before it."""
    import libcst as cst

    statement = module.tree.statement_of(call)
    if not (isinstance(statement, cst.Expr) and statement.value is call):
        return None
    edited = edits.replace(module, call, f"{item}.grad = None")
    for other in module.methods("detach_"):
        if module.code(other.func) == f"{item}.grad.detach_" and module.tree.dominates(other, call):
            loop = next(above for above in module.tree.ancestors(call) if isinstance(above, cst.For))
            if module.tree.within(other, loop):
                edited += edits.delete_statement(module, module.tree.statement_of(other)) or ()
    return edited
