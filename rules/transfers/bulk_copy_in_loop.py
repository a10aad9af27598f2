from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Cause, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class BulkCopyInLoop(Rule):
    """Results are copied to the CPU at every step of a loop, and joined only after the loop.

    ## What it does
    Flags `results.append(output.cpu())`, also with `.detach()` and `.numpy()`, in a loop that runs a network on a
    GPU, if

    - the list is empty before the loop, and only joined after it (`torch.cat`, `np.concatenate`);
    - nothing else in the loop waits for the GPU, such as `.item()`.

    ## Why it is slow
    Each copy waits until the GPU has computed the results. Meanwhile the CPU cannot launch the next batch, and
    afterwards the GPU waits for the CPU.

    ## Example
    ```python
    for images in loader:
        scores.append(model(images.cuda()).cpu())
    scores = torch.cat(scores)
    ```

    ## Use instead
    ```python
    for images in loader:
        scores.append(model(images.cuda()))
    scores = torch.cat(scores).cpu()
    ```
    Without `no_grad`, append `output.detach()`.

    ## Fix safety
    Unsafe: the results of all steps must fit into the memory of the GPU. The fix is offered for lists with one `append`
    that are joined once, by a function of torch or its counterpart in NumPy.

    ## When to ignore
    When the results are large, such as images or the logits of each pixel, or when a step takes so long that one wait
    does not matter. When the CPU takes longer to launch the kernels of a step than the GPU to run them: the GPU waits
    in any case.

    ## References
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    """

    code = "TL215"
    name = "bulk-copy-in-loop"
    default = Default.OPT_IN
    words = (re.compile(r"\.append\([^\n]{0,200}\.cpu\(\)"),)
    project_words = ("torch",)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._collected_copies import CollectedCopies

        copies = module.fact(CollectedCopies)
        for found in copies.all():
            changed = copies.on_gpu(found)
            caution = "keeps the results of all steps on the GPU"
            yield self.diagnostic(
                module,
                found.call,
                "results are copied to the CPU at every step, and the copy waits for the GPU",
                label="device-to-host copy",
                notes=(Note.at(module, found.joined[0], "the results are joined; one copy there is enough"),),
                fix=None if changed is None else Fix("copy the joined results", changed, Applicability.UNSAFE, caution),
                cause=Cause(module.tree.index(found.loop), "also copied"),
            )
