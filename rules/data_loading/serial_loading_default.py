from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._serial_defaults import SerialDefault

_VALUE = "min(8, os.cpu_count() or 1)"


class SerialLoadingDefault(Rule):
    """An option for the number of workers defaults to 0, so that loading is serial unless the user sets it.

    ## What it does
    Flags the default 0 of a command-line option, a parameter or a configuration class if a `DataLoader` takes its
    `num_workers` from there, and its batches feed a network in a program that uses CUDA or are copied to a CUDA device.
    The notes show the loaders.

    A 0 that nothing can override is not reported here: [TL101](TL101.md) reports the loader. Nor is the default of a
    class that gets another number by the YAML, JSON or TOML files of the project (`target: data.Photos`).

    ## Why it is slow
    Most runs use the defaults. With 0 workers, the training process reads, decodes and augments every item itself, and
    the GPU waits until the batch is complete. Worker processes prepare the next batches while the GPU computes. The
    example program of [TL101](TL101.md) measures the difference.

    ## Example
    ```python
    parser.add_argument("--workers", type=int, default=0)
    ```

    ## Use instead
    ```python
    parser.add_argument("--workers", type=int, default=min(8, os.cpu_count() or 1))
    ```
    Start with the number of CPU cores per GPU, at most 8, and measure. The option `num-workers` sets the expression
    that the fix inserts.

    ## Fix safety
    Unsafe: each worker process has its own random state. Random augmentation therefore differs, and so does the order
    of items from the second epoch on. Every worker yields all items of an `IterableDataset` that does not call
    `get_worker_info()`. No fix is offered where [TL101](TL101.md) offers none: if the dataset changes its own
    attributes for each item, or cannot be sent to a process.

    ## When to ignore
    - Items are cheap to load, such as tensors or arrays in memory. Workers then only add copies.
    - The program often runs where processes cannot share memory, such as in a small container.

    A default with a comment on its line is not reported, nor one whose help text gives a reason. A loader with
    `persistent_workers=True` or a `prefetch_factor` does not count: with 0 workers, it raises an error.

    ## References
    - [torch.utils.data: single- and multi-process loading](https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading)
    """

    code = "TL113"
    name = "serial-loading-default"
    default = Default.INFO
    events = "enumerate(DataLoader)#"
    words = (("orkers", "ORKERS", "n_cpu", "hreads", "um_thread"), "0")
    project_words = ("DataLoader", ("cuda", "ightning", "ccelerat", "Fabric", ".spawn(", "DataParallel"))
    options = {"num-workers": _VALUE}

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._serial_defaults import serial_defaults

        for found in serial_defaults(module):
            notes = [Note.at(module, call.node, "a `DataLoader` uses it") for call, _ in found.loaders]
            waiting = found.loaders[0][1]
            yield self.diagnostic(
                module,
                found.value,
                "the number of loader workers defaults to 0, which loads every batch in the training process",
                label="0 workers unless the user sets it",
                notes=(*notes, Note.at(module, waiting.node, "batches are consumed")),
                fix=self._fix(module, found),
            )

    def _fix(self, module: Module, found: SerialDefault) -> Fix | None:
        from ._item_state import lost_state
        from ._workers import can_have_workers, may_be_iterable

        for call, _ in found.loaders:
            if not can_have_workers(module, call) or lost_state(module, call) is not None:
                return None
        value = str(module.option(self.name, "num-workers") or _VALUE)
        named = edits.name_module(module, "os", found.value) if re.search(r"\bos\.", value) else ("os", ())
        if named is None:
            return None
        value = re.sub(r"\bos\.", f"{named[0]}.", value)
        caution = "changes random augmentation, and the order of items from the second epoch on"
        if any(may_be_iterable(module, call) for call, _ in found.loaders):
            caution += "; repeats the items of an unsharded `IterableDataset` in every worker"
        edited = (*named[1], *edits.replace(module, found.value, value))
        return Fix(f"set the default to `{value}`", edited, Applicability.UNSAFE, caution)
