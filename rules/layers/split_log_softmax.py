from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

from ._split_log_words import takes_logarithms

if TYPE_CHECKING:
    from torchlint.model.module import Module

_LOGARITHM = re.compile(r"torch\.log\(|\.log\(\)|binary_cross_entropy\(|BCELoss")
_PROBABILITY = re.compile(r"(?<!log_)softmax\(|Softmax\(|(?<!log)[Ss]igmoid\(")


class SplitLogSoftmax(Rule):
    """The logarithm of a softmax or sigmoid is computed in two steps.

    ## What it does
    Flags `torch.log(F.softmax(x, dim))`, `torch.log(torch.sigmoid(x))`, the same with methods, layers, a small number
    that is added to the probabilities (`1e-8`, `self.eps`) or limits them (`p.clamp(min=1e-8)`), another shape of them,
    or a name for them that is used only there, also by a function of the program that returns the logarithm; and
    `F.binary_cross_entropy` and `nn.BCELoss` of `torch.sigmoid(x)`.

    Not reported: probabilities that are used elsewhere as well, `torch.log(1 - p)`, and a sigmoid at the end of another
    network.

    ## Why it is slow
    Each step reads and writes a tensor of the size of the logits, and its backward pass does so again. `log_softmax`,
    `logsigmoid` and `binary_cross_entropy_with_logits` compute both steps at once. They are also more exact: a
    probability that underflows gives `-inf`, and its gradient is NaN. `binary_cross_entropy` raises an error under
    autocast on CUDA.

    ## Example
    ```python
    log_probs = torch.log(F.softmax(logits, dim=-1))
    loss = F.binary_cross_entropy(torch.sigmoid(scores), targets)
    ```

    ## Use instead
    ```python
    log_probs = F.log_softmax(logits, dim=-1)
    loss = F.binary_cross_entropy_with_logits(scores, targets)
    ```

    ## Fix safety
    Unsafe: rounds differently, and where the logarithm was limited (by a small number that is added, by -100 in the
    binary cross entropy) the result is the exact one. No fix is offered for layers, for probabilities with a name or a
    limit, and for functions of the program.

    ## When to ignore
    When the probabilities are needed as well.

    ## References
    - [torch.nn.functional.log_softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html)
    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    """

    code = "TL710"
    name = "split-log-softmax"
    default = Default.INFO
    words = (("torch", "import *"), ("softmax", "Softmax", "igmoid"), _LOGARITHM, _PROBABILITY)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a logarithm may be of probabilities."""
        return super().may_concern(text) and takes_logarithms(text)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.purpose import Purposes

        from ._split_logs import SplitLogs

        for found in module.fact(SplitLogs).all():
            if module.fact(Purposes).is_self_test(found.node):
                continue
            notes = (
                ()
                if module.tree.within(found.probabilities, found.node)
                else (Note.at(module, found.probabilities, "the probabilities are computed"),)
            )
            caution = "rounds differently, and does not limit the logarithm"
            yield self.diagnostic(
                module,
                found.node,
                f"computes {found.written} in two steps",
                label=f"`{found.better}` computes it at once",
                notes=notes,
                fix=None
                if found.edited is None
                else Fix(f"call `{found.better}`", found.edited, Applicability.UNSAFE, caution),
            )
