from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Argument, Call


class RespawnedWorkers(Rule):
    """The workers of a DataLoader are torn down and started again at every epoch.

    ## What it does
    Flags a `torch.utils.data.DataLoader` with workers and without `persistent_workers` (or with
    `persistent_workers=False`) that the file goes through more than once: in a loop over epochs, by a validation that
    is run after each of them, by a Lightning trainer or an ignite engine with several epochs.

    `num_workers` must be seen to be at least 1, if only by default: the default of an option or a parameter, or an
    attribute of a configuration object. A condition that sets it to 0 (`if args.debug: args.workers = 0`) is ignored.
    A number that a program reads by a key (`config["num_workers"]`, `cfg.data.workers`) is looked up in the YAML and
    JSON files of the project: at least nine of ten values of that key must be 1 or more.

    ## Why it is slow
    When a pass over the loader ends, its workers are shut down. The next pass starts new ones, sends them the dataset,
    and waits for the first batch. Short epochs suffer most, and so does a start method that begins a fresh interpreter
    and imports everything again: `spawn` on Windows and macOS, `forkserver` on Linux since Python 3.14.

    ## Example
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8)
    for epoch in range(90):
        for images, labels in loader:
            ...
    ```

    ## Use instead
    ```python
    loader = DataLoader(photos, batch_size=64, num_workers=8, persistent_workers=True)
    for epoch in range(90):
        for images, labels in loader:
            ...
    ```
    `persistent_workers=True` raises where there are no workers; where their number can be 0, the fix writes
    `persistent_workers=workers > 0`.

    ## Fix safety
    Unsafe: random augmentation, and the order of items from the second epoch on, differ. Workers that live on keep
    their memory, run `worker_init_fn` only once, and hold the copy of the dataset that they were started with.

    ## When to ignore
    When the dataset changes between epochs (a file in which that can be seen is not flagged), when host memory is
    short and many loaders are alive at once, or when an epoch takes so long that starting workers does not matter.
    A `persistent_workers=False` with a comment on its row is reported without a fix.

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL103"
    name = "respawned-workers"
    default = Default.INFO
    words = ("DataLoader",)
    project_words = ("num_workers",)
    since = (1, 7)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.loaders import Loaders
        from torchlint.model.semantics.config_files import ConfigFiles

        from ._epochs import Epochs
        from ._workers import Workers, count

        for call in module.fact(Loaders).within(module.root):
            persistent = call.argument("persistent_workers")
            if not (persistent.absent or persistent.literal() == "False"):
                continue
            passed = call.argument("num_workers")
            workers = passed.value
            known = count(module, workers)
            if workers is None or known is Workers.UNKNOWN:
                continue
            again = module.fact(Epochs).repetition(call)
            if again is None or module.fact(Epochs).change(call) is not None:
                continue
            deliberate = persistent.node is not None and module.comment_on(persistent.node)
            value = self._value(module, workers, known is Workers.SOME)
            can_repeat = passed.node is not None or value == "True"  # else the names may not be known here
            files = module.fact(ConfigFiles)
            origin = "" if known is Workers.SOME else files.behind(workers, files.count)
            notes = (Note.at(module, again, "this loader is iterated over repeatedly"),)
            yield self.diagnostic(
                module,
                call.node,
                "worker processes restart at every epoch",
                label=f"`persistent_workers` {'defaults to' if persistent.absent else 'is'} False",
                notes=(*notes, Note(origin)) if origin else notes,
                fix=None if deliberate or not can_repeat else self._fix(module, call, persistent, value),
            )

    def _value(self, module: Module, workers: cst.BaseExpression, sure: bool) -> str:
        """What is valid whatever the number of workers: it raises where that is 0."""
        import libcst as cst

        if sure and isinstance(workers, (cst.Integer, cst.Call)):
            return "True"
        simple = isinstance(workers, (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer))
        return f"{module.code(workers)} > 0" if simple else f"({module.code(workers)}) > 0"

    def _fix(self, module: Module, call: Call, persistent: Argument, value: str) -> Fix | None:
        passed = edits.set_argument(module, call.node, "persistent_workers", persistent, value)
        if passed is None or "\n" in value:
            return None
        caution = "random augmentation, and the order of items from the second epoch on"
        message = f"{'add' if persistent.absent else 'pass'} `persistent_workers={value}`"
        return Fix(message, passed, Applicability.UNSAFE, caution)
