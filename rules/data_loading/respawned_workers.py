from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call


class RespawnedWorkers(Rule):
    """`DataLoader` without `persistent_workers` restarts its worker processes at every epoch.

    ## What it does
    Flags a `torch.utils.data.DataLoader` with worker processes and without `persistent_workers`, or with
    `persistent_workers=False`, if the program iterates over it more than once: in a loop over epochs, in a validation
    after each epoch, in a Lightning trainer or an ignite engine with several epochs. So does `next(iter(loader))` in a
    loop, or in a function that a loop calls, and a loop that always breaks after one batch. A new iterator after
    `except StopIteration` does not count if the dataset repeats itself (`while True`), so that no iteration over the
    loader ends. The False may also be a constant or the default of a parameter. It does not count if the command line,
    or code that torchlint cannot see, may override it.

    A Lightning trainer counts unless `max_epochs` is known to be 1, or `max_steps`, `max_time` or `fast_dev_run` is
    set. For `Trainer(**config["trainer"])`, the YAML, JSON and TOML files of the project must set `max_epochs`. For
    `Trainer(**vars(args))`, the default of the option `max_epochs` must be known. The hooks of a Lightning class
    (`train_dataloader`, `val_dataloader`) count if no trainer is in sight. The loop over the loader may be in the
    `__iter__` of a class.

    `num_workers` must be known to be at least 1. The default of an option or of a parameter is enough, and so is an
    attribute of a configuration object or an entry of `**options`, also if only some paths set it (`{"num_workers": 4}
    if use_cuda else {}`), and such a number times the number of GPUs. Of 8 workers or more that are divided by the
    number of GPUs, at least 1 is left. A condition that sets it to 0 (`if args.debug: args.workers = 0`) is ignored,
    and so is another script, for inference or without training, that does. If the program reads the number by a key
    (`config["num_workers"]`, `cfg.data.workers`, `config.get("data", "workers")`, `**config["loader"]`, also of a
    parameter: `Data(**config["data"])`), torchlint looks the key up in the YAML, JSON and TOML files of the project. At
    least nine of ten values of that key must be 1 or more. The files may also name the class that gets it (`target:
    data.Photos`). They replace a default that a module assigns to an empty object at its top level (`CONFIG.workers =
    0`).

    ## Why it is slow
    At the end of an iteration over the loader, its worker processes exit. The next iteration starts new ones, sends
    them the dataset and waits for the first batch. Short epochs lose most. So do start methods that run a new
    interpreter and import all modules again: `spawn` on Windows and macOS, and `forkserver` on Linux since Python 3.14.

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
    `persistent_workers=True` raises an error if there are no workers. If `num_workers` may be 0, the fix writes
    `persistent_workers=workers > 0`.

    ## Fix safety
    Unsafe: random augmentation and the order of items from the second epoch on differ. Persistent workers keep their
    memory, run `worker_init_fn` only once, and keep the copy of the dataset that they started with.

    ## When to ignore
    - The dataset changes between epochs. torchlint does not flag a loader if it sees such a change.
    - Host memory is short, and many loaders exist at the same time.
    - An epoch takes so long that the start of the workers does not matter.

    If `persistent_workers=False` has a comment on its line, or is defined outside of the call, the finding has no fix.

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL103"
    name = "respawned-workers"
    default = Default.INFO
    words = (("DataLoader", "Loader("),)
    project_words = (
        "DataLoader",
        ("num_workers", "**"),
    )
    since = (1, 7)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.loaders import Loaders

        from ._dataset_changes import DatasetChanges
        from ._defaults import at_default
        from ._epochs import Epochs
        from ._workers import Workers, passed

        for call in module.fact(Loaders).within(module.root):
            found = at_default(module, call, "persistent_workers", "False")
            is_off = found is not None and not found.absent
            known = passed(module, call)
            if known is Workers.UNKNOWN or not (is_off or self._is_absent(module, call)):
                continue
            if not module.fact(Loaders).restarts_workers(call):
                continue
            again = module.fact(Epochs).repetition(call)
            if again is None or module.fact(DatasetChanges).between(call, again) is not None:
                continue
            is_fixed = found is None or not (found.deliberate or found.is_elsewhere)
            origin = "" if known is Workers.SOME else self._origin(module, call)
            is_hook = again in module.tree.functions
            text = "Lightning iterates over the loader" if is_hook else "this loader is iterated over repeatedly"
            notes = (Note.at(module, again, text), *(found.notes(module, "False") if found is not None else ()))
            yield self.diagnostic(
                module,
                call.node,
                f"`DataLoader` with{' `persistent_workers=False`' if is_off else 'out `persistent_workers`'}"
                " restarts its worker processes at every epoch",
                label=f"`persistent_workers` {'is' if is_off else 'defaults to'} False",
                notes=(*notes, Note(origin)) if origin else notes,
                fix=self._fix(module, call, known is Workers.SOME) if is_fixed else None,
            )

    def _is_absent(self, module: Module, call: Call) -> bool:
        """Whether nothing passes `persistent_workers`, as far as the dictionary with `num_workers` can be seen."""
        from torchlint.model.program.config_files import ConfigFiles

        found = call.entries("persistent_workers")
        if found.values or module.fact(ConfigFiles).passed(call.node, "persistent_workers"):
            return False
        workers = call.entries("num_workers")
        return found.known or not workers.values or (found.usual and call.argument("num_workers").node is None)

    def _origin(self, module: Module, call: Call) -> str:
        """The configuration file that sets the number of workers, as a text for a note; empty if none does."""
        from torchlint.model.program.config_files import ConfigFiles

        files = module.fact(ConfigFiles)
        workers = call.entries("num_workers").values
        if not workers:
            return files.text("num_workers", files.passed(call.node, "num_workers"))
        return files.behind(workers, files.count)

    def _value(self, module: Module, workers: cst.BaseExpression, sure: bool) -> str:
        """The value of `persistent_workers`, valid for 0 workers too: there, True raises an error."""
        import libcst as cst

        if sure and isinstance(workers, (cst.Integer, cst.Call)):
            return "True"
        simple = isinstance(workers, (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer))
        return f"{module.code(workers)} > 0" if simple else f"({module.code(workers)}) > 0"

    def _fix(self, module: Module, call: Call, sure: bool) -> Fix | None:
        persistent, workers = call.argument("persistent_workers"), call.argument("num_workers")
        value = self._value(module, workers.value, sure) if workers.value is not None else ""
        if not value or "\n" in value or (workers.node is None and value != "True"):
            return None  # the names in a dictionary may not be known here
        passed = edits.set_argument(module, call.node, "persistent_workers", persistent, value)
        if passed is None:
            return None
        caution = "changes random augmentation, and the order of items from the second epoch on"
        message = f"{'add' if persistent.absent else 'set'} `persistent_workers={value}`"
        return Fix(message, passed, Applicability.UNSAFE, caution)
