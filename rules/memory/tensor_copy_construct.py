from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

from ._copy_words import copies_tensor

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

#: Arguments of `torch.tensor` that the fix passes on.
_TARGETS = ("dtype", "device")
_KEYWORDS = frozenset({"data", "requires_grad", *_TARGETS})


class TensorCopyConstruct(Rule):
    """`torch.tensor` is given a tensor, which it copies with a warning.

    ## What it does
    Flags `torch.tensor(x)` where `x` is a tensor for certain: the result of a function of torch or of a method of a
    tensor (only tensors have `x.detach()` and `x.clone()`), or a name that only such results are assigned to.

    Not reported: data of unknown origin, parts of a batch, outputs of a network, which may be tuples, and calls under
    a test of the type (`if not torch.is_tensor(x)`).

    ## Why it is slow
    The call treats the tensor as data for a new one. It emits a `UserWarning` at each call, and it detaches the copy
    from the graph, also where that is not intended. `x.detach().clone()` says both. Where no copy is needed,
    `x.detach()`, `torch.as_tensor(x)` or `x` itself avoids it.

    ## Example
    ```python
    weights = torch.linspace(0, 1, steps)
    table = torch.tensor(weights, dtype=torch.float64)
    ```

    ## Use instead
    ```python
    weights = torch.linspace(0, 1, steps)
    table = weights.detach().to(dtype=torch.float64, copy=True)
    ```

    ## Fix safety
    Safe: values, type, device and strides stay the same, and the result is a leaf as before. No fix is offered for
    other arguments than `dtype`, `device` and `requires_grad`, or where a comment would be lost.

    ## When to ignore
    When the value may also be a list or an array in code that is not seen.

    ## References
    - [torch.tensor](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html)
    - [torch.Tensor.clone](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.clone.html)
    """

    code = "TL604"
    name = "tensor-copy-construct"
    words = (("torch", "import *"), "tensor(")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether `torch.tensor` may be given a tensor."""
        return super().may_concern(text) and copies_tensor(text)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        for call in module.own_calls("torch.tensor"):
            data = _data(call)
            if data is not None and _is_tensor(module, data) and not _is_checked(module, call.node):
                yield self.diagnostic(
                    module,
                    call.node,
                    f"`{module.code(call.node.func)}` copies a tensor and emits a warning",
                    label=f"`{_short(module, data)}` is a tensor",
                    fix=_fix(module, call.node, data),
                )


def _data(call: Call) -> cst.BaseExpression | None:
    for argument in call.node.args:
        if argument.star:
            return None
        if argument.keyword is None or argument.keyword.value == "data":
            return argument.value
    return None


def _is_tensor(module: Module, node: cst.BaseExpression) -> bool:
    """Whether ``node`` can only be a tensor; a batch, and the output of a network, may have several parts."""
    import libcst as cst

    from torchlint.model.program.tensor_forms import TensorForms
    from torchlint.model.semantics.knowledge import Kind

    plain = node
    while isinstance(plain, cst.Subscript):
        plain = plain.value
    if not isinstance(plain, cst.Call) and module.value(plain).role is not None:
        return False
    if isinstance(node, cst.Call):
        value = module.value(node)
        if value.kind is not Kind.TENSOR and value.kind is not Kind.UNKNOWN:
            return False
        if _is_copy(module, node):
            return True
    return module.fact(TensorForms).is_tensor(node)


def _is_copy(module: Module, call: cst.Call) -> bool:
    """Whether ``call`` is ``x.detach()`` or ``x.data.clone()``: of data for `torch.tensor`, only tensors have these."""
    import libcst as cst

    func = call.func
    return (
        isinstance(func, cst.Attribute)
        and func.attr.value in ("detach", "clone")
        and not call.args
        and not module.definitions.called(call, module.values)
    )


def _is_checked(module: Module, call: cst.Call) -> bool:
    """Whether a condition around the call asks for a type, or an exception is expected."""
    import libcst as cst

    from torchlint.model.syntax.nodes import HANDLERS, TRIES

    for above in module.tree.ancestors(call):
        if isinstance(above, (cst.If, cst.IfExp)) and any(
            word in module.code(above.test) for word in ("isinstance", "is_tensor", "type(", "hasattr")
        ):
            return True
        if isinstance(above, (*TRIES, *HANDLERS)):
            return True
        if isinstance(above, cst.FunctionDef):
            break
    return False


def _short(module: Module, node: cst.BaseExpression) -> str:
    text = " ".join(module.code(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def _fix(module: Module, call: cst.Call, data: cst.BaseExpression) -> Fix | None:
    import libcst as cst

    from torchlint.model.syntax.calls import keywords_of

    start, end = module.span(call)
    given = keywords_of(call)
    if not given.keys() <= _KEYWORDS or "#" in module.text[start:end]:
        return None
    source = module.code(data)
    if "\n" in source or not isinstance(data, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        source = f"({source})"
    targets = [f"{name}={module.code(given[name])}" for name in given if name in _TARGETS]
    made = source if source.endswith(".detach()") else f"{source}.detach()"
    made += f".to({', '.join([*targets, 'copy=True'])})" if targets else ".clone()"
    wanted = module.code(given["requires_grad"]) if "requires_grad" in given else "False"
    if wanted != "False":
        made += f".requires_grad_({'' if wanted == 'True' else wanted})"
    return Fix("copy it by its methods", edits.replace(module, call, made), Applicability.SAFE)
