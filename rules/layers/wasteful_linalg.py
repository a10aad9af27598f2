from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule
from torchlint.rule.words import contains

from ._sort_words import sorts_for_few

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

_PRODUCTS = ("diag(", "diag_embed(", "torch.inverse(", "linalg.inv(", "torch.trace(", "torch.diagonal(")
#: Functions that run once, by their names.
_SETUP = re.compile(r"_*(load|read|save|prepare|preprocess|setup|set_up|init|reset|visuali[sz]e|plot|export)(_|$)")


class WastefulLinalg(Rule):
    """A product, inverse or sort computes much more than the program reads.

    ## What it does
    Flags

    - `x @ torch.diag(d)`, `torch.diag(d) @ x` and the same with `torch.diag_embed`, `torch.mm` or `torch.matmul`, also
      where the diagonal matrix has a name, in code that runs once per batch;
    - `torch.trace(a @ b)`, `torch.diagonal(a @ b)`, `torch.diag(a.mm(b))` and `a.mm(b).diag()`;
    - `torch.inverse(a) @ b` and `torch.linalg.inv(a) @ b`;
    - `x.argsort(descending=True)[:5]`, `torch.sort(x, dim=1)[0][:, :k]`, `x.sort(dim=1)[1][:, 0]`, `x.argsort()[-k:]`
      and `x.sort(dim=1).values.narrow(1, 0, k)`, also where later statements take the first items, or the last ones,
      and nothing else, of a sort with a name, or of a comparison with it (`order.eq(labels)[:, :5]`).

    Not reported are calls of NumPy, `torch.diag` of a product or a covariance, which takes the diagonal out, an
    inverse with a name, which may be used again, the inverse of `b @ b.t()` in a product with `b`, and of any matrix in
    a product with `x.view(n, 3, -1)` or `x.flatten(2)`, which have many more columns than the inverse, and slices by a
    bound that is seldom reached (`[:max_detections]`, or any in NMS), where most of the sort is read. A sort is not
    reported where a comment compares it with `topk`.
    Code that runs only once is not reported either: in a constructor, or in a function named for loading, setting up
    or drawing.

    ## Why it is slow
    A product with a diagonal matrix costs `n` times as much as a multiplication of each column by its number, and so
    does a product of which only the diagonal is read. An inverse is a factorization and `n` solutions, where one
    solution is enough. A sort moves all items, where `topk` and `argmax` read them once.

    ## Example
    ```python
    scaled = basis @ torch.diag(scales)
    distance = torch.trace(a @ b)
    best = scores.argsort(dim=1, descending=True)[:, :5]
    ```

    ## Use instead
    ```python
    scaled = basis * scales
    distance = (a * b.mT).sum()
    best = scores.topk(5, dim=1).indices
    ```
    For rows, `torch.diag(d) @ x` is `d.unsqueeze(-1) * x`. For `torch.inverse(a) @ b`, call `torch.linalg.solve(a, b)`.

    ## Fix safety
    Unsafe: rounds differently. Advice where the shapes are not seen: rows of something that may be a vector, and
    sorts, as `topk` raises where a slice takes fewer items, and orders equal items differently.

    ## When to ignore
    When the matrices are small, as in geometry, and the code runs seldom.

    ## References
    - [torch.linalg.inv](https://docs.pytorch.org/docs/stable/generated/torch.linalg.inv.html)
    - [torch.topk](https://docs.pytorch.org/docs/stable/generated/torch.topk.html)
    - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    """

    code = "TL709"
    name = "wasteful-linalg"
    words = ((*_PRODUCTS, "sort("),)
    project_words = ("torch",)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a text contains one of the products, or a sort of which the first items may be read."""
        return super().may_concern(text) and (contains(text, (_PRODUCTS,)) or sorts_for_few(text))

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.purpose import Purposes

        from ._linalg import WastefulProducts

        for found in module.fact(WastefulProducts).all():
            purposes = module.fact(Purposes)
            if purposes.is_self_test(found.node) or purposes.runs_once(found.node) or _sets_up(module, found.node):
                continue
            fix = None
            if found.better and not module.comment_on(found.node):
                changes = edits.replace(module, found.node, found.better)
                fix = Fix(f"write `{found.better}`", changes, Applicability.UNSAFE, "rounds differently")
            made = (Note.at(module, found.made, "the diagonal matrix is created"),) if found.made is not None else ()
            yield self.diagnostic(module, found.node, found.message, label=found.label, notes=made, fix=fix)


def _sets_up(module: Module, node: cst.CSTNode) -> bool:
    function = module.function_of(node)
    return function is not None and _SETUP.match(function.name.value) is not None
