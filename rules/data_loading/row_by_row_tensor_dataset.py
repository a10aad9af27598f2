from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Edit, Fix, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

    from ._row_datasets import RowLoader


class RowByRowTensorDataset(Rule):
    """`DataLoader` indexes the tensors of a `TensorDataset` once for each row, and stacks the rows.

    ## What it does
    Flags a `torch.utils.data.DataLoader` over a `TensorDataset`, without worker processes and with the default
    collation, if the rows are likely to cost more than the rest of a step:

    - a batch has at least 128 rows;
    - the tensors are on the GPU, where each row is a kernel launch, and a batch has at least 16 rows, or a number of
      rows that is a setting of unknown value;
    - the network is seen to be tiny.

    Not reported are other datasets, such as a `Subset`; loaders with a sampler, a `collate_fn` or workers; tensors that
    are called like images or sounds, whose rows are large; and batch sizes below 16.

    ## Why it is slow
    For a batch of 256 rows of two tensors, the loader calls `__getitem__` 256 times, makes 512 tensors and copies them
    into two. One index with all 256 positions makes the same two tensors.

    ## Example
    ```python
    dataset = TensorDataset(features, labels)
    loader = DataLoader(dataset, batch_size=256, shuffle=True)
    ```

    ## Use instead
    ```python
    dataset = TensorDataset(features, labels)
    sampler = BatchSampler(RandomSampler(dataset), 256, drop_last=False)
    loader = DataLoader(dataset, sampler=sampler, batch_size=None)
    ```
    With `batch_size=None`, the loader passes each item of the sampler, a list of positions, to the dataset.

    ## Fix safety
    Unsafe: batches are tuples instead of lists, and `loader.batch_size` is None. Libraries that replace the sampler of
    a loader, for training in several processes, do not support it. No fix is offered in programs that use one, and
    where `shuffle` or `drop_last` are not literals.

    ## When to ignore
    When the rows are large, such as images, or the network takes much longer than its batches.

    ## References
    - [torch.utils.data: disable automatic batching](https://docs.pytorch.org/docs/stable/data.html#disable-automatic-batching)
    - [torch.utils.data.BatchSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.BatchSampler)
    """

    code = "TL106"
    name = "row-by-row-tensor-dataset"
    default = Default.INFO
    words = (("DataLoader", "Loader("),)
    project_words = (
        "DataLoader",
        "TensorDataset(",
    )
    since = (1, 2)
    events = "enumerate(DataLoader)#"
    demo = ("CPU", "GPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._row_datasets import RowCost, RowLoaders

        labels = {
            RowCost.MANY: "one index and one copy for each row",
            RowCost.ON_GPU: "kernel launches for each row",
            RowCost.TINY_NETWORK: "takes longer than the tiny network",
        }
        for found in module.fact(RowLoaders).all():
            notes = (
                (Note.at(module, found.consumer, "iterates over its batches"),) if found.consumer is not None else ()
            )
            yield self.diagnostic(
                module,
                found.loader.node,
                "`DataLoader` fetches a `TensorDataset` row by row",
                label=labels[found.cost],
                notes=notes,
                fix=self._fix(module, found),
            )

    def _fix(self, module: Module, found: RowLoader) -> Fix | None:
        import libcst as cst

        from torchlint.model.tensors.devices import Devices

        loader = found.loader
        data, size = loader.argument("dataset").value, loader.argument("batch_size").node
        shuffle, drop = loader.argument("shuffle"), loader.argument("drop_last")
        if not isinstance(data, (cst.Name, cst.Attribute)) or size is None or module.fact(Devices).uses_trainer:
            return None
        for flag in (shuffle, drop):
            by_name = flag.node is not None and flag.node.keyword is not None
            if not flag.absent and not (by_name and flag.literal() in ("True", "False")):
                return None
        named = self._package(module, loader.node)
        if named is None:
            return None
        package, imported = named
        order = "RandomSampler" if shuffle.literal() == "True" else "SequentialSampler"
        rows = f"{package}.{order}({module.code(data)})"
        arguments = f"{rows}, {module.code(size.value)}, {drop.literal() or 'False'}"
        sampler = f"sampler={package}.BatchSampler({arguments})"
        changes: list[Edit] = [*imported]
        if size.keyword is not None:
            changes += edits.replace(module, size, f"{sampler}, batch_size=None")
        else:
            changes += edits.replace(module, size.value, f"batch_size=None, {sampler}")
        for flag in (shuffle, drop):
            removed = edits.remove_argument(module, loader.node, flag.node) if flag.node is not None else ()
            if removed is None:
                return None
            changes += removed
        message = "index whole batches: pass a `BatchSampler` as `sampler`, and `batch_size=None`"
        caution = "batches are tuples instead of lists, and `loader.batch_size` is None"
        return Fix(message, tuple(changes), Applicability.UNSAFE, caution)

    def _package(self, module: Module, call: cst.Call) -> tuple[str, tuple[Edit, ...]] | None:
        """The name of `torch.utils.data` at a call of `DataLoader`, and the edits that import it."""
        import libcst as cst

        if isinstance(call.func, cst.Attribute):
            return module.code(call.func.value), ()
        named = edits.name_module(module, "torch", call)
        return (f"{named[0]}.utils.data", named[1]) if named is not None else None
