from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

    from ._builtins import BuiltinCall


class BuiltinOnTensor(Rule):
    """`sum`, `max`, `min`, `sorted`, `any` or `all` of Python iterates over a tensor element by element.

    ## What it does
    Flags `sum(x)`, `max(x)`, `min(x)`, `sorted(x)`, `any(x)` and `all(x)`, where `x` is seen to be one tensor, and
    these are the functions of Python.

    Not reported: lists, tuples and generators of tensors, such as a sum of losses; sizes and shapes; batches, which
    may be lists; calls with further arguments (`max(x, 1)`, `sum(x, start)`); tensors of a few literal numbers;
    constructors and self-tests, which run once.

    ## Why it is slow
    Python iterates over the rows of the tensor: each row becomes a tensor of its own, and each addition or comparison
    is a call of an operator. `max`, `min`, `sorted`, `any` and `all` also read the result of each comparison, which on
    a GPU waits for all kernels before it. The methods of the tensor run one kernel.

    ## Example
    ```python
    total = sum(weights)
    highest = max(scores)
    ```

    ## Use instead
    ```python
    total = weights.sum(0)
    highest = scores.max()
    ```
    For `sorted(x)`, use `torch.sort(x).values`, or `sorted(x.tolist())` if you need a list of numbers.

    ## Fix safety
    Unsafe: `x.sum(0)` adds in another order and gives integers of 64 bits; for an empty tensor it is a tensor instead
    of the number 0. `x.max()` and `x.min()` return NaN if any element is NaN. No fix is offered for `sorted`.

    ## When to ignore
    When the tensor has a few rows and is on the CPU.

    ## References
    - [torch.Tensor.sum](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.sum.html)
    - [torch.Tensor.max](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.max.html)
    """

    code = "TL210"
    name = "builtin-on-tensor"
    words = (("sum(", "max(", "min(", "sorted(", "any(", "all("),)
    project_words = ("torch",)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether one of these functions is called with one argument, which may be a tensor."""
        from ._builtin_words import calls_builtin

        return super().may_concern(text) and calls_builtin(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether the argument of one of these functions may be a tensor."""
        from ._builtin_sketch import may_call_builtin

        return may_call_builtin(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._builtins import BuiltinCalls

        for found in module.fact(BuiltinCalls).all():
            yield self.diagnostic(
                module,
                found.call,
                f"`{found.name}()` iterates over a tensor element by element",
                label="one tensor for each row",
                fix=self._fix(module, found),
            )

    def _fix(self, module: Module, found: BuiltinCall) -> Fix | None:
        import libcst as cst

        simple = isinstance(found.tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        text = module.code(found.tensor) if simple else f"({module.code(found.tensor)})"
        methods = {"sum": ".sum(0)", "max": ".max()", "min": ".min()", "any": ".any()", "all": ".all()"}
        if found.name not in methods or module.comment_on(found.call):
            return None
        result = text + methods[found.name]
        if found.name in ("any", "all"):
            result = f"bool({result})"
        cautions = {"sum": "adds in another order", "max": "returns NaN if any element is NaN"}
        cautions["min"] = cautions["max"]
        caution = cautions.get(found.name, "raises no error for rows of several elements")
        return Fix(
            f"call `{methods[found.name]}`", edits.replace(module, found.call, result), Applicability.UNSAFE, caution
        )
