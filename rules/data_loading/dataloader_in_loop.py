from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._rebuilt import RebuiltLoader


class DataloaderInLoop(Rule):
    """`DataLoader` with workers is created again at every epoch, with the same arguments.

    ## What it does
    Flags a `torch.utils.data.DataLoader` with worker processes that is created in a loop over epochs, or in a function
    that such a loop calls, also through other functions, and that the same epoch iterates over, also where a function
    returns it. It may be created at every n-th epoch, or only if a setting asks for it. All arguments must be the same
    at every epoch:

    - nothing in the loop assigns the variables and attributes in them;
    - the dataset is a variable or an attribute, and no statement of the loop changes it: a function that gets the
      dataset may, but not one that gets a text or a number of it, such as `photos.path`;
    - the loop creates no network and no optimizer, so that its iterations are not separate experiments.

    Loaders without workers are not flagged: such a loader costs microseconds.

    ## Why it is slow
    Each new loader starts its own worker processes, sends the dataset to them and waits for the first batch.
    `persistent_workers=True` does not help, because the workers belong to one loader. Short epochs lose most. So do
    start methods that run a new interpreter and import all modules again: `spawn` on Windows and macOS, and
    `forkserver` on Linux since Python 3.14.

    ## Example
    ```python
    for epoch in range(90):
        loader = DataLoader(photos, batch_size=64, num_workers=8)
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

    ## Fix safety
    Unsafe: random augmentation and the order of items from the second epoch on differ. Persistent workers keep their
    memory, run `worker_init_fn` only once, and keep the copy of the dataset that they started with. A fix is offered
    if the loader is a statement of its own in the loop, and is assigned to a variable that nothing else assigns.
    `persistent_workers=True` raises an error if there are no workers. If `num_workers` may be 0, the fix writes
    `persistent_workers=workers > 0`.

    ## When to ignore
    - The dataset changes between epochs in a way that torchlint does not see.
    - An epoch takes so long that the start of the workers does not matter.

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL104"
    name = "dataloader-in-loop"
    words = ("Loader(",)
    project_words = ("DataLoader", "num_workers", ("for ", "while "))
    since = (1, 7)
    demo = ("CPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._rebuilt import RebuiltLoaders

        for found in module.fact(RebuiltLoaders).all():
            notes = [Note.at(module, found.loop, "the loop")]
            if found.call is not None:
                notes.append(Note.at(module, found.call, "called from there"))
            yield self.diagnostic(
                module,
                found.loader.node,
                "`DataLoader` with workers is created in a loop, which starts new worker processes at every iteration",
                label="the same arguments at every iteration",
                notes=tuple(notes),
                fix=self._fix(module, found),
            )

    def _fix(self, module: Module, found: RebuiltLoader) -> Fix | None:
        """Move the statement in front of the loop, with persistent workers."""
        if found.statement is None or module.comment_on(found.statement):
            return None
        changed = self._persistent(module, found)
        moved = edits.delete_statement(module, found.statement)
        if changed is None or moved is None:
            return None
        start, end = module.span(found.statement)
        text = module.text[start:end]
        for edit in sorted(changed, key=lambda item: item.start, reverse=True):
            text = text[: edit.start - start] + edit.content + text[edit.end - start :]
        first, *others = text.splitlines()
        indent = module.text[module.line_start(start) : start]
        if any(not row.startswith(indent) or row.isspace() for row in others) or '"""' in text or "'''" in text:
            return None
        inserted = edits.insert_before(module, found.loop, first, *(row[len(indent) :] for row in others))
        if inserted is None:
            return None
        caution = "changes random augmentation, and the order of items from the second epoch on"
        message = "create the loader before the loop, with persistent workers"
        return Fix(message, (*inserted, *moved), Applicability.UNSAFE, caution)

    def _persistent(self, module: Module, found: RebuiltLoader) -> tuple[Edit, ...] | None:
        """The edits that make the workers persistent; None where their number is not a simple expression."""
        import libcst as cst

        from ._workers import Workers, count

        persistent = found.loader.argument("persistent_workers")
        if persistent.literal() == "True":
            return ()
        if not (persistent.absent or persistent.literal() == "False"):
            return None
        passed = found.loader.argument("num_workers")
        is_sure = count(module, passed.value) is Workers.SOME
        if passed.node is None or not (is_sure or isinstance(passed.node.value, (cst.Name, cst.Attribute))):
            return None
        value = "True" if is_sure else f"{module.code(passed.node.value)} > 0"  # True raises an error without workers
        return edits.set_argument(module, found.loader.node, "persistent_workers", persistent, value)
