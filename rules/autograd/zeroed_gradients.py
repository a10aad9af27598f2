from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class ZeroedGradients(Rule):
    """TODO: one sentence: who does what.

    ## What it does
    TODO

    ## Why it is slow
    TODO

    ## Example
    ```python
    TODO
    ```

    ## Use instead
    ```python
    TODO
    ```

    ## Fix safety
    TODO

    ## When to ignore
    TODO

    ## References
    - TODO
    """

    code = "TL407"
    name = "zeroed-gradients"
    words = ("TODO",)  # a file without these is not parsed for this rule
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        for call in module.calls("torch.TODO"):
            argument = call.argument("TODO")
            if argument.literal() != "True":
                continue
            edited = edits.replace(module, call.node, "TODO")
            fix = Fix("TODO", edited, Applicability.UNSAFE, caution="TODO")
            yield self.diagnostic(module, call.node, "TODO", label="TODO", fix=fix)
