"""Pinning: which loaders pin their batches, and which copies of such batches to a device block the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.batch_parts import BatchParts
from torchlint.model.data.loaders import Loaders
from torchlint.model.data.transfers import Transfers
from torchlint.model.module import Module
from torchlint.model.program.config_files import ConfigFiles
from torchlint.model.program.configuration import Configuration
from torchlint.model.program.environment_variables import READS
from torchlint.model.program.options import Options
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import index_of, last_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.tensors.placement import Move, Placement
from torchlint.model.training.loops import Loops, batch_origins

from ._batch_trust import host_write, is_tensor_by_use, yields_only_tensors

#: The maximum number of names that an option is followed through.
_DEPTH = 4
#: Names of flags that are set if the program uses a GPU, and of flags that are set if it does not.
_CUDA_FLAGS = re.compile(r"^_?((is|on|use|using|with|has|enable)_?)?(cuda|gpu)(_available|_enabled)?$", re.IGNORECASE)
_CPU_FLAGS = re.compile(
    r"^_?((is|on|use|using|force)_?)?cpu(_only)?$|^(no|disable|without)_?(cuda|gpu)$", re.IGNORECASE
)
_HANDING_OVER = ("prepare", "prepare_data_loader", "setup_dataloaders")


@dataclass(frozen=True, eq=False)
class BlockingCopy:
    """A copy of a pinned batch, or of a part of it, that blocks the CPU."""

    move: Move
    loaders: tuple[Call, ...]  #: all loaders the batch may come from
    only_tensors: bool  #: whether the batch can only be made of tensors
    written: cst.CSTNode | None = None  #: what writes to the CPU tensor afterwards
    is_shared: bool = False  #: whether the same call moves something that may not accept ``non_blocking``


class Pinning:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def blocking_copies(self) -> Iterator[BlockingCopy]:
        """The copies to a device without ``non_blocking`` of batches whose loaders are all known to pin them."""
        for move in self._module.fact(Placement).moves:
            if move.device is Device.CPU or move.may_not_block or _is_strided(move.source):
                continue
            origins = [node for node in self._origins(move.source) if not self._is_passed_elsewhere(node, move)]
            made = [self._module.fact(Loaders).all_of(node) if isinstance(node, cst.Call) else [] for node in origins]
            if not all(made):
                continue
            loaders = self._usual(tuple(loader for calls in made for loader in calls))
            key = self._key_at(move.call) if loaders else None
            if loaders and all(
                self.is_pinned(loader, key) and not self._is_passed_to_library(loader) for loader in loaders
            ):
                plain = all(self._collates_by_itself(loader) for loader in loaders) and (
                    is_tensor_by_use(move.source) or all(yields_only_tensors(self._module, item) for item in loaders)
                )
                is_shared = bool(self._module.fact(BatchParts).given(move.source))
                yield BlockingCopy(move, loaders, plain, host_write(self._module, move), is_shared)

    def _usual(self, loaders: tuple[Call, ...]) -> tuple[Call, ...]:
        """The loaders without those instead of which a run without arguments creates another one of them."""
        prefer = self._module.fact(Options).prefer
        return tuple(item for item in loaders if not any(prefer(other.node, item.node) for other in loaders))

    def _is_passed_elsewhere(self, node: cst.CSTNode, move: Move) -> bool:
        """Whether ``node`` makes a tensor that another caller passes: a sample for a test, not a batch."""
        is_tensor = self._module.value(node).kind is Kind.TENSOR
        return is_tensor and self._module.function_of(node) is not self._module.function_of(move.call)

    def is_pinned(self, loader: Call, key: str | None = None) -> bool:
        """Whether ``loader`` pins its batches if there is a GPU: ``pin_memory=True``, ``=use_cuda``.

        ``key`` is that under which it is in a dictionary of loaders, which may decide.
        """
        options = (self._with_key(node, key) for node in self.options_of(loader, "pin_memory"))
        given = [node for node in options if not self._is_for_cpu(node)]
        return bool(given) and all(self._is_true_with_cuda(node) for node in given)

    def _key_at(self, call: cst.Call) -> str | None:
        """``"train"`` in a loop over ``loaders["train"]`` around a call."""
        loops = (loop.node for loop in self._module.fact(Loops).around(call))
        nodes = (node for loop in loops if isinstance(loop, cst.For) for node in self._module.tree.nodes_in(loop.iter))
        keys = (self._module.value(index_of(node)).constant for node in nodes if isinstance(node, cst.Subscript))
        return next((key for key in keys if isinstance(key, str)), None)

    def _with_key(self, node: cst.BaseExpression, key: str | None) -> cst.BaseExpression:
        """``True`` of ``True if name == "train" else False`` in ``{name: DataLoader(...) for name in names}``."""
        if key is None or not isinstance(node, cst.IfExp) or not isinstance(node.test, cst.Comparison):
            return node
        test = node.test
        bound = self._module.names.bindings(test.left) if isinstance(test.left, cst.Name) else []
        compared = test.comparisons[0]
        wanted = self._module.value(compared.comparator).constant
        if len(test.comparisons) != 1 or not isinstance(compared.operator, cst.Equal) or not isinstance(wanted, str):
            return node
        is_of_each = bool(bound) and all(isinstance(item.node, cst.CompFor) for item in bound)
        return (node.body if wanted == key else node.orelse) if is_of_each else node

    def _is_passed_to_library(self, loader: Call) -> bool:
        """Whether the loader is passed to a library that copies the batches itself: ``accelerator.prepare``.

        Not if that is only done under an option that is off by default: ``if args.use_accelerate``.
        """
        made = {maker.node for maker in self._module.fact(Loaders).creating_calls(loader)}
        return any(
            value.kind is Kind.LOADER and not made.isdisjoint(value.origins)
            for call in self._module.methods(*_HANDING_OVER)
            if not self._module.fact(Options).leave_out(call.node)
            for value in (self._module.value(item.value) for item in call.node.args)
        )

    def _collates_by_itself(self, loader: Call) -> bool:
        """Whether the loader uses the default collation: tensors, if the items are tensors and numbers."""
        if loader.is_of_derived_class or loader.argument("batch_size").literal() == "None":
            return False
        given = self.options_of(loader, "collate_fn")
        if given:
            return all(map(is_none, given))
        return loader.argument("collate_fn").absent

    # -- options, passed directly or in a dict

    def options_of(self, loader: Call, name: str) -> list[cst.BaseExpression]:
        """The values that ``loader`` may get for ``name``: by keyword, by position or in an unpacked dict."""
        found = loader.entries(name)
        return list(found.values) if found.known or (found.usual and found.certain) else []

    def _is_true_with_cuda(self, node: cst.CSTNode, depth: int = _DEPTH) -> bool:
        """Whether ``node`` is True if the program uses a GPU."""
        if isinstance(node, cst.Name) and node.value in ("True", "False"):
            return node.value == "True"
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            return self._is_true_flag(node, depth)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return self._is_false_with_cuda(node.expression, depth)
        if isinstance(node, cst.Call):
            if self._module.name_of(node.func) == "builtins.bool" and len(node.args) == 1:
                return self._is_true_with_cuda(node.args[0].value, depth)
            return self._module.name_of(node.func) == "torch.cuda.is_available" or self._is_usual(node)
        if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And):
            return self._is_true_with_cuda(node.left, depth) or self._is_true_with_cuda(node.right, depth)
        if isinstance(node, cst.IfExp):
            return self._is_true_with_cuda(node.body, depth) and self._is_true_with_cuda(node.test, depth)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:  # `device.type == "cuda"`
            if self._is_true_by_default(node.left, node.comparisons[0]):
                return True
            named = "cpu" if isinstance(node.comparisons[0].operator, cst.NotEqual) else "cuda"
            return self._module.value(node.comparisons[0].comparator).constant == named
        return False

    def _is_true_by_default(self, node: cst.BaseExpression, compared: cst.ComparisonTarget) -> bool:
        """Whether ``str(os.getenv("PIN_MEMORY", True)).lower() == "true"`` is true without the environment variable.

        Or ``config["cache"] == "cpu"`` with the configuration files of the project.
        """
        wanted = self._module.value(compared.comparator).constant
        if isinstance(wanted, str) and self._module.fact(ConfigFiles).equal(node, wanted):
            return isinstance(compared.operator, cst.Equal)
        read = [call for call in self._module.tree.calls_in(node) if self._module.name_of(call.func) in READS]
        default = self._module.value(read[0].args[1].value).constant if read and len(read[0].args) > 1 else None
        return isinstance(compared.operator, cst.Equal) and default is not None and str(default).lower() == wanted

    def _is_true_flag(self, node: cst.Name | cst.Attribute | cst.Subscript, depth: int) -> bool:
        """Whether a variable, parameter or option is True if the program uses a GPU.

        The name decides if the value may come from outside: anyone who passes ``--cuda`` uses a GPU.
        """
        found = self._module.fact(Configuration).sources(node)
        if (found is None or not found.complete) and _CUDA_FLAGS.search(last_name(node)):
            return True
        if found is None:
            found = self._module.fact(Configuration).step(node)
        if found is None:
            return self._module.fact(ConfigFiles).true(node)
        values = [value for value in found.values if not self._is_for_cpu(value)]
        parents = (self._module.tree.parent(value) for value in values)
        if any(isinstance(item, cst.Param) and self._module.fact(ConfigFiles).replaces_true(item) for item in parents):
            return False
        for_cuda = list(filter(self._is_for_cuda, values))
        if for_cuda:
            values = [value for value in values if not self._is_replaced(value, for_cuda)]
        return (
            depth > 0
            and bool(values)
            and all(value is not node and self._is_true_with_cuda(value, depth - 1) for value in values)
        )

    def _is_for_cpu(self, value: cst.BaseExpression) -> bool:
        """Whether a False is only set if the program uses no GPU: ``if args.no_cuda: pin = False``."""
        if not isinstance(value, cst.Name) or value.value != "False":
            return False
        return any(
            (self._is_false_with_cuda if holds else self._is_true_with_cuda)(above.test, 1)
            for above, holds in self._conditions(value)
            if isinstance(above, cst.If)
        )

    def _is_for_cuda(self, value: cst.BaseExpression) -> bool:
        """Whether a value is only given if the program uses a GPU: ``options = {"pin_memory": True} if cuda else {}``.

        The default of the parameter that gets it counts without a GPU.
        """
        return any(holds and self._is_true_with_cuda(above.test, 1) for above, holds in self._conditions(value))

    def _is_replaced(self, value: cst.BaseExpression, for_cuda: list[cst.BaseExpression]) -> bool:
        """Whether ``value``, the default of a parameter or a variable, counts only if the program uses no GPU.

        So for ``pin = False`` before ``if cuda: pin = True``.
        """
        tree = self._module.tree
        parents = (cst.Assign, cst.AnnAssign)
        return isinstance(tree.parent(value), cst.Param) or any(
            isinstance(tree.parent(value), parents)
            and isinstance(tree.parent(other), parents)
            and tree.function_of(value) is tree.function_of(other)
            and tree.index(value) < tree.index(other)
            for other in for_cuda
        )

    def _conditions(self, value: cst.BaseExpression) -> Iterator[tuple[cst.If | cst.IfExp, bool]]:
        """The conditions around a value in its function, each with whether it must be true there."""
        for above, child in climb(self._module.tree, value):
            if isinstance(above, (cst.FunctionDef, cst.ClassDef)):
                return
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                yield above, child is above.body

    def _is_usual(self, node: cst.Call) -> bool:
        """Whether configuration files of the project set ``config.get("pin_memory", True)``."""
        default = self._module.fact(ConfigFiles).default(node)
        return self._module.fact(ConfigFiles).true(node) and (default is None or self._is_true_with_cuda(default, 1))

    def _is_false_with_cuda(self, node: cst.BaseExpression, depth: int) -> bool:
        """Whether ``node`` is False if the program uses a GPU: ``args.cpu``, ``args.no_cuda``."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return self._is_true_with_cuda(node.expression, depth)
        return isinstance(node, (cst.Name, cst.Attribute)) and bool(_CPU_FLAGS.search(last_name(node)))

    # -- batches

    def _origins(self, node: cst.BaseExpression) -> list[cst.CSTNode]:
        """The loaders whose batch, or part of one, ``node`` is, in order; empty if it was computed on the CPU."""
        value = self._module.value(node)
        origins = batch_origins(value) if value.kind in (Kind.BATCH, Kind.TENSOR) and not value.device else frozenset()
        if value.kind is Kind.UNKNOWN:
            parts = self._module.fact(BatchParts)
            origins = self._module.fact(Transfers).given_to_network(node) or parts.given(node)
        is_part = bool(origins) and self._module.fact(BatchParts).is_part(node)
        return sorted(origins, key=self._module.tree.index) if is_part else []


def _is_strided(node: cst.BaseExpression) -> bool:
    """Whether ``node`` is a part of each row, ``tokens[:, :-1]``: it is first copied to another tensor on the host."""
    if not isinstance(node, cst.Subscript) or len(node.slice) < 2:
        return False
    first, *others = (item.slice for item in node.slice)
    is_whole = _takes_all(first) or (isinstance(first, cst.Index) and isinstance(first.value, cst.Ellipsis))
    return is_whole and not all(map(_takes_all, others))


def _takes_all(index: cst.BaseSlice) -> bool:
    """Whether an index leaves a dimension as it is, or adds one: ``:``, ``None``."""
    if isinstance(index, cst.Index):
        return isinstance(index.value, cst.Name) and index.value.value == "None"
    return isinstance(index, cst.Slice) and index.lower is None and index.upper is None and index.step is None
