from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Cause, Diagnostic, Note, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

_CLASS = "torch.nn.DataParallel"
#: The class, the function, or a class of the program that is named after it.
_NAMED = re.compile(r"[. ]DataParallel|data_parallel\(|(?<!Distributed)(?<!Sharded)DataParallel\(|\bDP\(")
_FUNCTION = "torch.nn.parallel.data_parallel"
#: Classes of libraries that are derived from it, wherever a program has these libraries.
_LIBRARY = re.compile(r"(^|\.)(sync_batchnorm\.DataParallelWithCallback|encoding\.(nn|parallel)\.DataParallelModel)$")
_SUCCESSORS = ("torch.nn.parallel.DistributedDataParallel", "apex.parallel.DistributedDataParallel")


class DataParallel(Rule):
    """`nn.DataParallel` drives all GPUs from one process.

    ## What it does
    Flags networks wrapped in `torch.nn.DataParallel`, in a class of the program derived from it, in
    `DataParallelWithCallback` of Synchronized-BatchNorm-PyTorch or `DataParallelModel` of PyTorch-Encoding, or run
    through `torch.nn.parallel.data_parallel`.

    Not flagged are

    - wrappers of a single device, also of `range(n)` after `assert n == 1`;
    - tests, and code under `if __name__ == "__main__":` that tests a network of its file;
    - wrappers that are used only for `state_dict()`;
    - wrappers that `load_state_dict` fills and that are unwrapped again with `.module`;
    - wrappers that `load_state_dict` fills in a file that trains nothing and does not return them to a file that does.

    A file is reported once, at its first wrapper, because the fix is a different way to start the script.

    ## Why it is slow
    `DataParallel` runs one thread per GPU in a single Python process, and these threads share one interpreter. At every
    forward pass it copies the weights from the first GPU to all others, scatters the batch and gathers the outputs on
    the first GPU. At every backward pass the gradients are summed on the first GPU, which also computes the loss and
    runs the optimizer step while the others wait. `DistributedDataParallel` has one process per GPU, keeps a copy of
    the weights on each, and exchanges gradients during the backward pass. It also works across machines.

    ## Example
    ```python
    model = nn.DataParallel(model).cuda()
    ```

    ## Use instead
    ```python
    torch.distributed.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = nn.parallel.DistributedDataParallel(model.to(rank), device_ids=[rank])
    loader = DataLoader(dataset, batch_size=per_gpu, sampler=DistributedSampler(dataset))
    ```
    Start it with `torchrun --nproc-per-node=gpu train.py`.

    ## Fix safety
    Advice only: the script must be started differently, its data must be distributed among the processes, and the batch
    size is per process. There is no measurement, because it needs several GPUs.

    ## When to ignore
    - There is only one GPU: the wrapper then only passes its arguments on.
    - The network is so small, or runs so rarely, that starting processes costs more than it gains.

    ## References
    - [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
    - [Use DistributedDataParallel instead of DataParallel](https://docs.pytorch.org/docs/stable/notes/cuda.html#use-nn-parallel-distributeddataparallel-instead-of-multiprocessing-or-nn-dataparallel)
    """

    code = "TL811"
    name = "data-parallel"
    words = (("DataParallel", "data_parallel(", "DP("),)
    project_words = ((".DataParallel", " DataParallel", "data_parallel("),)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a file names the class or the function, or calls a class whose name ends like it."""
        return super().may_concern(text) and _NAMED.search(text) is not None

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.purpose import Purposes

        successor = next(module.calls(*_SUCCESSORS), None)
        note = Note("`DistributedDataParallel` runs one process per GPU; start the script with `torchrun`")
        if successor is not None:
            known = "start the script with `torchrun`; it already uses `DistributedDataParallel`"
            note = Note.at(module, successor.node, known)
        for call in (*module.constructor_calls(_CLASS, _FUNCTION), *_library_calls(module)):
            if _one_device(module, call) or _only_loads(module, call.node) or _only_renames(module, call.node):
                continue
            if "parse_args" not in module.own_text and module.fact(Purposes).is_self_test(call.node):
                continue
            yield self.diagnostic(
                module,
                call.node,
                "`DataParallel` drives all GPUs from one process",
                label="copies the weights to every GPU at each forward pass",
                notes=(note,),
                cause=Cause("", "also wrapped"),
            )


def _library_calls(module: Module) -> Iterator[Call]:
    """The calls of classes of libraries that are derived from the class."""
    for node in module.tree.calls_named("DataParallelWithCallback", "DataParallelModel"):
        name = module.name_of(node.func)
        if name is not None and _LIBRARY.search(name) is not None:
            yield module.call(node, name)


def _one_device(module: Module, call: Call) -> bool:
    """Whether the call names a single device; the wrapper then does nothing."""
    import libcst as cst

    devices = call.argument("device_ids").value
    while isinstance(devices, cst.Call) and module.name_of(devices.func) in ("builtins.list", "builtins.range"):
        if len(devices.args) != 1:
            return False
        given, is_count = devices.args[0].value, module.name_of(devices.func) == "builtins.range"
        if is_count:
            return module.code(given) == "1" or _is_asserted_one(module, given, call.node)
        devices = given
    if not isinstance(devices, (cst.List, cst.Tuple)) or len(devices.elements) != 1:
        return False
    return isinstance(devices.elements[0], cst.Element)


def _is_asserted_one(module: Module, number: cst.BaseExpression, call: cst.Call) -> bool:
    """Whether an assertion before the call is that a number is 1: ``assert options.gpus == 1``."""
    import libcst as cst

    tests = (item.test for item in module.tree.inside(module.root, cst.Assert) if module.tree.dominates(item, call))
    return any(
        isinstance(test, cst.Comparison)
        and len(test.comparisons) == 1
        and isinstance(test.comparisons[0].operator, cst.Equal)
        and {module.code(test.left), module.code(test.comparisons[0].comparator)} == {module.code(number), "1"}
        for test in tests
    )


def _only_loads(module: Module, call: cst.Call) -> bool:
    """Whether the wrapper only matches the names in a checkpoint: filled from it, then unwrapped or never trained."""
    import libcst as cst

    statement = module.tree.statement_of(call)
    if not isinstance(statement, cst.Assign):
        return False
    target = statement.targets[0].target
    name = module.code(target)
    bound = module.names.bindings(target) if isinstance(target, cst.Name) else []
    loads = [loaded for loaded in _loaded(module) if module.tree.index(loaded) > module.tree.index(call)]
    if not any(
        module.code(loaded) == name and (not isinstance(loaded, cst.Name) or module.names.bindings(loaded) == bound)
        for loaded in loads
    ):
        return False
    if any(item.value is not None and f"{module.code(item.value)}.".startswith(f"{name}.module.") for item in bound):
        return True  # ``model = model.module``, or ``model.module.cuda()``
    if _is_trained_elsewhere(module, call, name):
        return False
    return not _uses_optimizer(module) and not any(
        module.value(item.argument("mode").value).constant is not False
        for item in module.own_methods("backward", "train")
    )


def _loaded(module: Module) -> Iterator[cst.BaseExpression]:
    """What the file fills by ``load_state_dict``, itself or by a function of the program that it is passed to."""
    import libcst as cst

    from torchlint.model.syntax.parameters import parameters_of

    yield from (load.receiver for load in module.own_methods("load_state_dict"))
    for load in module.methods("load_state_dict"):
        function = None if module.is_own(load.node) else module.function_of(load.node)
        if function is None or not isinstance(load.receiver, cst.Name):
            continue
        for param in (item for item in parameters_of(function) if item.name.value == load.receiver.value):
            for call in filter(module.is_own, module.callers(function).calls):
                given = module.definitions.argument_of(call, function, param)
                if given is not None:
                    yield given


def _uses_optimizer(module: Module) -> bool:
    """Whether the file makes an optimizer, or names one."""
    names = (module.name_of(call.func) or "" for call in module.tree.calls_in(module.root))
    words = module.words_of(module.root) - {"optim"}
    return any("optim" in word.lower() for word in words) or any(name.startswith("torch.optim.") for name in names)


def _is_trained_elsewhere(module: Module, call: cst.Call, name: str) -> bool:
    """Whether the function around the wrapper returns it, in a program that trains."""
    import libcst as cst

    from torchlint.model.training.gradients import Gradients

    if any(
        module.name_of(test.func) == "builtins.isinstance"
        for above in module.tree.ancestors(call)
        if isinstance(above, cst.If)
        for test in module.tree.calls_in(above.test)
    ):
        return False  # a copy, wrapped like the network that it is created from
    function = module.function_of(call)
    returned = module.definitions.returns(function) if function is not None else []
    parts = [
        part
        for item in returned
        for part in ((element.value for element in item.elements) if isinstance(item, cst.Tuple) else (item,))
    ]
    return any(isinstance(part, cst.Name) and part.value == name for part in parts) and bool(
        module.fact(Gradients).backwards
    )


def _only_renames(module: Module, call: cst.Call) -> bool:
    """Whether the wrapper only puts ``module.`` before the names of the ``state_dict()`` that is then saved."""
    import libcst as cst

    from torchlint.model.syntax.climbing import nearest

    tree = module.tree
    statement = tree.statement_of(call)
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    function = tree.function_of(call)
    if not isinstance(target, cst.Name) or nearest(tree, call, cst.For, cst.While) is not None:
        return False
    uses = [
        tree.parent(use)
        for use in tree.names.get(target.value, ())
        if tree.index(use) > tree.last(statement) and tree.function_of(use) is function and module.is_own(use)
    ]
    return bool(uses) and all(isinstance(use, cst.Attribute) and use.attr.value == "state_dict" for use in uses)
