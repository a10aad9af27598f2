"""Single layers that are compiled separately."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import last_part
from torchlint.model.training.loops import Loops

from ._sites import Compile, CompileSites

_WALKS = ("modules", "named_modules", "children", "named_children")
#: Classes of torch.nn that contain more than one layer, or compute as much.
_LARGER = ("Sequential", "Module", "Transformer", "Multihead", "LSTM", "GRU", "RNN", "Parameter")
#: Operations that a compiled module does not support, unlike an `nn.Sequential`: builtins, and different methods.
_UNPACKING = frozenset(
    f"builtins.{name}" for name in "enumerate filter isinstance iter list map reversed sorted sum tuple zip".split()
)
_CHILDREN = frozenset({"children", "named_children"})


def is_unpacked(module: Module, container: cst.Call) -> bool:
    """Whether the result of `container` is iterated over, indexed or unpacked: a compiled module supports none."""
    objects = module.fact(ObjectFlow)
    return any(container in objects.of(part) for node in module.tree.nodes for part in _unpacked(module, node))


def _unpacked(module: Module, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The expressions that `node` itself iterates over, indexes or unpacks."""
    if isinstance(node, (cst.For, cst.CompFor)):
        return (node.iter,)
    if isinstance(node, (cst.Subscript, cst.StarredElement)):
        return (node.value,)
    if isinstance(node, cst.BinaryOperation):
        return (node.left, node.right)
    if isinstance(node, cst.Comparison):
        return [item.comparator for item in node.comparisons if isinstance(item.operator, (cst.In, cst.NotIn))]
    if not isinstance(node, cst.Call):
        return ()
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _CHILDREN:
        return (node.func.value,)
    known = module.name_of(node.func) in _UNPACKING
    return [item.value for item in node.args if known or item.star == "*"]


def fragments(module: Module, least: int) -> Iterator[tuple[Compile, str]]:
    """The places that compile single layers repeatedly: the place, and the subject of the message."""
    together: dict[cst.CSTNode | None, list[Compile]] = defaultdict(list)
    for site in module.fact(CompileSites).for_speed:
        if chosen_in_walk(module, site) is not None:
            yield site, "single layers are"
            continue
        name = _layer(module, site)
        if name is None:
            continue
        times = _times(module, site)
        if times >= least:
            yield site, f"{times} layers are"
        elif times == 1:
            function = module.function_of(site.node)
            together[function].append(site)
    for sites in together.values():
        if len(sites) >= least:
            yield sites[0], f"{len(sites)} layers are"


def _layer(module: Module, site: Compile) -> str | None:
    """The class of torch.nn, if a single layer is compiled."""
    if isinstance(site.target, cst.FunctionDef):
        return None
    value = module.value(site.target)
    return value.name if value.sure and _is_layer(value.name) else None


def _is_layer(name: str) -> bool:
    last = last_part(name)
    return name.startswith("torch.nn.") and last[:1].isupper() and not last.startswith(_LARGER)


def _times(module: Module, site: Compile) -> int:
    """The number of times that a place runs per call of its function; 0 if unknown."""
    times = 1
    for above, child in climb(module.tree, site.node):
        if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            break
        if isinstance(above, cst.For) and child is above.body:
            times *= _length(module, above.iter)
        elif isinstance(above, cst.While):
            return 0
        elif isinstance(above, (cst.ListComp, cst.GeneratorExp)) and child is above.elt:
            times *= 0 if above.for_in.inner_for_in or above.for_in.ifs else _length(module, above.for_in.iter)
    return times


def _length(module: Module, iterable: cst.BaseExpression) -> int:
    if isinstance(iterable, (cst.List, cst.Tuple)):
        return len(iterable.elements)
    if isinstance(iterable, cst.Call) and module.name_of(iterable.func) == "builtins.range" and len(iterable.args) == 1:
        length = module.value(iterable.args[0].value).constant
        return length if isinstance(length, int) else 0
    return 0


def chosen_in_walk(module: Module, site: Compile) -> cst.For | None:
    """The loop `for m in model.modules(): if isinstance(m, nn.Linear):` around a compile of `m`."""
    around = module.fact(Loops).around(site.node)
    loop = around[0].node if around else None
    if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call):
        return None
    walk = loop.iter.func
    if not isinstance(walk, cst.Attribute) or walk.attr.value not in _WALKS or not isinstance(site.target, cst.Name):
        return None
    for above in module.tree.ancestors(site.node):
        if above is loop:
            return None
        if isinstance(above, cst.If) and isinstance(above.test, cst.Call):
            test = above.test
            if module.name_of(test.func) != "builtins.isinstance" or len(test.args) != 2:
                continue
            kinds = test.args[1].value
            classes = [item.value for item in kinds.elements] if isinstance(kinds, cst.Tuple) else [kinds]
            if all(_is_layer(module.name_of(item) or "") for item in classes):
                return loop
    return None
