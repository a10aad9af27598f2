"""Whether a batch is known to consist of tensors, and whether it is modified on the CPU after its copy."""

from __future__ import annotations

import libcst as cst

from torchlint.model.data.batch_parts import BatchParts
from torchlint.model.data.datasets import Datasets
from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import called_name
from torchlint.model.tensors.placement import Move
from torchlint.model.tensors.writes import Writes

#: Kinds of items that the default collation converts to tensors, and kinds that are never moved.
_PLAIN = (Kind.TENSOR, Kind.ARRAY, Kind.NUMBER, Kind.STRING)
#: Library datasets whose items are tensors and numbers.
_OF_TENSORS = ("torch.utils.data.TensorDataset", "torchvision.datasets.")
#: Methods of tensors that return a tensor.
_OF_A_TENSOR = frozenset("view squeeze unsqueeze permute transpose narrow select contiguous reshape flatten".split())


def yields_only_tensors(module: Module, loader: Call) -> bool:
    """Whether the items of the dataset of ``loader`` are tensors and numbers, or tuples and dicts of them."""
    dataset = module.fact(Loading).dataset(loader)
    value = module.value(dataset)
    if value.definition is None:
        return value.kind is Kind.DATASET and value.name.startswith(_OF_TENSORS)
    if not isinstance(value.definition, cst.ClassDef) or value.kind is not Kind.DATASET or not value.is_of_one_class:
        return False
    methods = list(module.fact(Datasets).item_functions(value.definition))
    return bool(methods) and all(_returns_tensors(module, method) for method in methods)


def is_tensor_by_use(node: cst.BaseExpression) -> bool:
    """Whether ``node`` is the result of a tensor method: ``images.view(-1, 3)``."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) in _OF_A_TENSOR


def _returns_tensors(module: Module, method: cst.FunctionDef) -> bool:
    returned = module.definitions.returns(method)
    return bool(returned) and all(item is not None and _is_plain(module, item) for item in returned)


def _is_plain(module: Module, node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.Tuple, cst.List)):
        return all(isinstance(item, cst.Element) and _is_plain(module, item.value) for item in node.elements)
    if isinstance(node, cst.Dict):
        return all(isinstance(item, cst.DictElement) and _is_plain(module, item.value) for item in node.elements)
    value = module.value(node)
    return value.kind in _PLAIN and value.sure


# -- writes on the CPU


def host_write(module: Module, move: Move) -> cst.CSTNode | None:
    """What writes to the CPU tensor after ``move`` is queued, in the same function; None if nothing does."""
    home = module.function_of(move.call)
    begin = module.tree.index(move.call)
    statement = module.tree.statement_of(move.call)
    parts, writes = module.fact(BatchParts), module.fact(Writes)
    origins = writes.aliases.of(move.source)
    for target, held in writes.on(move.source, home or module.root):
        if isinstance(statement, cst.Assign) and module.tree.within(target, statement):
            continue  # `batch[i] = batch[i].cuda()` writes to a list
        if module.tree.index(target) <= begin or module.function_of(target) is not home:
            continue
        is_kept = not any(item.overlaps(origin) for item in held for origin in origins)  # by another object
        if is_kept or any(parts.may_be_part(item.node) for item in held):
            return target
    return None
