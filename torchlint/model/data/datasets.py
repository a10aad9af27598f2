"""What a dataset and the functions around it do for each item: read files, create CUDA tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.moves import device_of, moved_to
from torchlint.model.semantics.value import Device, named_device
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call, keyword
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import called_name, dotted_name, last_part
from torchlint.model.syntax.literals import is_none

#: Methods of a dataset that run once per item or batch.
_ITEM_METHODS = ("__getitem__", "__getitems__", "__iter__")
#: Arguments of a dataset's constructor that are called on every item.
_TRANSFORMS = ("transform", "target_transform", "transforms")
#: What is asked for its device when items are to be put there, and not for where it happens to be itself.
_DEVICE_HOLDERS = frozenset(
    "self cls args opt opts cfg config conf hparams params settings accelerator trainer".split()
)
#: Functions of libraries that read a file: ``librosa.load``, ``PIL.Image.open``, ``cv2.imread``.
_READERS = frozenset("open load imread read read_image memmap loadtxt loadmat read_csv wavread".split())


class ItemRole(Enum):
    """What a function that a loader calls is."""

    DATASET = "dataset"  #: a method of the dataset
    COLLATE = "collate"  #: what makes items into a batch
    TRANSFORM = "transform"  #: what the dataset calls on each item


@dataclass(frozen=True, eq=False)
class CudaWork:
    """One expression that creates a tensor on, or moves one to, a CUDA device while items or batches are made."""

    node: cst.Call
    place: cst.FunctionDef | cst.Lambda  #: the method, collate function or transform it belongs to
    role: ItemRole
    moves: bool  #: it is ``x.to(device)`` or ``x.cuda()``, and not a creation or a helper's work

    @property
    def name(self) -> str:
        """What its place is called."""
        return self.place.name.value if isinstance(self.place, cst.FunctionDef) else "lambda"


class Datasets(ForestFact):
    """Answers about the datasets of one forest, and about the functions that make their items into batches."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._work: dict[cst.CSTNode, tuple[CudaWork, ...]] = {}

    # -- which classes and functions run per item

    def item_functions(self, definition: cst.ClassDef) -> Iterator[cst.FunctionDef]:
        """The methods of a dataset class, or of its bases in the file, that run once per item."""
        for name in _ITEM_METHODS:
            method = self._forest.definitions.method(definition, name)
            if method is not None:
                yield method

    def transforms(self, dataset: cst.BaseExpression | None) -> Iterator[cst.FunctionDef | cst.Lambda]:
        """The functions of the file that the dataset is given to call on every item."""
        for origin in self.constructions(dataset):
            for argument in origin.args:
                if argument.keyword is not None and argument.keyword.value in _TRANSFORMS:
                    yield from self._callables(argument.value)

    def given_to(self, loader: Call) -> cst.BaseExpression | None:
        """The expression that ``loader`` gets as its dataset; of an attribute that it replaces, what that was before.

        So it is ``Photos()`` of ``self.data = Photos()`` before ``self.data = DataLoader(self.data)``.
        """
        given = loader.argument("dataset").value
        if not isinstance(given, cst.Attribute) or loader.node not in self._forest.value(given).origins:
            return given
        tree = self._tree
        before = [
            value
            for value in self._forest.values.stored(dotted_name(given) or "")
            if value is not None
            and tree.function_of(value) is tree.function_of(given)
            and tree.index(value) < tree.index(loader.node)
        ]
        return before[-1] if before else given

    def constructions(self, dataset: cst.BaseExpression | None) -> list[cst.Call]:
        """The calls that make the dataset, through ``random_split`` and the like; also of classes of other files."""
        found = [origin for origin in self._forest.value(dataset).origins if isinstance(origin, cst.Call)]
        if found:
            return sorted(found, key=self._forest.tree.index)
        if isinstance(dataset, cst.Name):
            values = [item.value for item in self._forest.names.bindings(dataset) if not item.path]
            return [value for value in values if isinstance(value, cst.Call)]
        return [dataset] if isinstance(dataset, cst.Call) else []

    def collates(self, collate: cst.BaseExpression | None) -> list[cst.FunctionDef | cst.Lambda]:
        """The functions of the file that an expression passed as ``collate_fn`` refers to."""
        return list(self._callables(collate)) if collate is not None else []

    def _callables(self, node: cst.BaseExpression, depth: int = 3) -> Iterator[cst.FunctionDef | cst.Lambda]:
        """The functions behind ``f``, a lambda, ``partial(f, ...)``, ``self.f``, ``Collator()``, ``Compose([...])``."""
        if isinstance(node, cst.Lambda):
            yield node
            return
        if depth <= 0:
            return
        value = self._forest.value(node)
        found = self._forest.definitions.referenced(node, self._forest.values)
        functions = [item for item in found if isinstance(item, cst.FunctionDef)]
        if functions:
            yield from functions
        elif isinstance(value.definition, cst.FunctionDef):
            yield value.definition
        elif isinstance(value.definition, cst.ClassDef) and value.kind is not Kind.CLASS:
            method = self._forest.definitions.method(value.definition, "__call__")
            if method is None and value.kind is Kind.MODULE:
                method = self._forest.definitions.method(value.definition, "forward")
            if method is not None:
                yield method
        elif isinstance(node, cst.Name):
            for binding in self._forest.names.bindings(node):
                if binding.kind is BindingKind.ASSIGN and binding.value is not None and not binding.path:
                    yield from self._callables(binding.value, depth - 1)
            for step in self.appended_to(node):
                yield from self._callables(step, depth - 1)
        elif isinstance(node, cst.Call):
            for argument in node.args:
                if isinstance(argument.value, (cst.List, cst.Tuple)):
                    for element in argument.value.elements:
                        yield from self._callables(element.value, depth - 1)
                elif argument.keyword is None:
                    yield from self._callables(argument.value, depth - 1)

    def appended_to(self, name: cst.Name) -> Iterator[cst.BaseExpression]:
        """What is appended to a list: the transforms of ``steps.append(Crop())`` before ``Compose(steps)``."""
        variable = self._forest.names.variable(name)
        for call in self._tree.calls_named("append") if variable is not None else ():
            to = call.func.value if isinstance(call.func, cst.Attribute) else None
            if isinstance(to, cst.Name) and len(call.args) == 1 and self._forest.names.variable(to) == variable:
                yield call.args[0].value

    # -- CUDA work

    def cuda_work(self, function: cst.FunctionDef | cst.Lambda, role: ItemRole) -> tuple[CudaWork, ...]:
        """What ``function`` creates on or moves to a CUDA device, by itself or one helper of the file deep."""
        known = self._work.get(function)
        if known is None:
            known = self._work[function] = tuple(self._find_work(function, role))
        return known

    def _find_work(self, function: cst.FunctionDef | cst.Lambda, role: ItemRole) -> Iterator[CudaWork]:
        found: list[cst.Call] = []
        for call in self._tree.calls_in(function.body):
            if any(self._tree.within(call, outer) for outer in found):
                continue  # `torch.zeros(n, device=d).to(d)` is one
            if self.uses_cuda(call):
                found.append(call)
                yield CudaWork(call, function, role, _is_move(call))
                continue
            for helper in self._forest.definitions.called(call, self._forest.values):
                if not isinstance(helper, cst.FunctionDef) or self._tree.within(helper, function):
                    continue
                inner = [
                    item
                    for item in self._tree.calls_in(helper.body)
                    if self.uses_cuda(item) and self._is_cuda_for(call, helper, item)
                ]
                if not inner:
                    continue
                if self._tree.class_of(helper) is not None and role is ItemRole.DATASET:
                    for item in inner:
                        if not any(self._tree.within(item, outer) for outer in found):
                            found.append(item)
                            yield CudaWork(item, function, role, False)
                else:  # the helper may serve the training loop too: the call is at fault
                    found.append(call)
                    yield CudaWork(call, function, role, False)
                break

    def uses_cuda(self, call: cst.Call) -> bool:
        """Whether ``call`` moves something to, or creates something on, a CUDA device (or one that is passed in)."""
        values = self._forest.values
        func = call.func
        if _is_move(call) and isinstance(func, cst.Attribute) and self._forest.name_of(func) is None:
            if func.attr.value == "cuda":
                return True
            if any(argument.star for argument in call.args) or self._is_resident(func.value):
                return False
            target = _target(call)
            return moved_to(call, values) is Device.CUDA or (target is not None and self.is_cuda_device(target))
        name = self._forest.name_of(func) or ""
        if name.startswith("torch.cuda.") and name.endswith("Tensor"):
            return True
        if name.startswith("torch.") and name not in ("torch.device", "torch.load", "torch.Generator"):
            for argument in call.args:
                if argument.keyword is not None and argument.keyword.value == "device":
                    device = argument.value
                    return device_of(device, self._forest.values) is Device.CUDA or self.is_cuda_device(device)
        return False

    def _is_cuda_for(self, call: cst.Call, helper: cst.FunctionDef, item: cst.Call) -> bool:
        """Whether ``item`` in ``helper`` uses CUDA with what ``call`` passes: ``to(y.device)`` moves to where y is."""
        target = self._assigned(_target(item))
        tensor = target.value if isinstance(target, cst.Attribute) and target.attr.value == "device" else None
        while isinstance(tensor, cst.Subscript):
            tensor = tensor.value  # `images[0].device`
        parameter = self._parameter(target if tensor is None else tensor)
        given = self._forest.definitions.argument_of(call, helper, parameter) if parameter is not None else None
        if given is None or is_none(given):
            return True
        if tensor is not None:
            return self._forest.value(given).device is Device.CUDA
        return device_of(given, self._forest.values) is Device.CUDA or self.is_cuda_device(given)

    def _parameter(self, node: cst.BaseExpression | None) -> cst.Param | None:
        """The parameter that a name is bound to, also with a default: ``device = device or "cuda"``."""
        reached = self._forest.values.reaching.of(node) if isinstance(node, cst.Name) else []
        only = reached[0] if len(reached) == 1 else None
        if only is not None and isinstance(only.value, (cst.BooleanOperation, cst.IfExp)) and not only.path:
            inner = (name for name in self._tree.inside(only.value, cst.Name) if name.value == only.name)
            reached = [binding for name in inner for binding in self._forest.values.reaching.of(name)]
        found = {item.node for item in reached}
        first = found.pop() if len(found) == 1 else None
        return first if isinstance(first, cst.Param) else None

    def _assigned(self, node: cst.BaseExpression | None) -> cst.BaseExpression | None:
        """``y.device`` behind ``device``, or ``items[0].device``, if that is all that is assigned to it."""
        assigned = self._forest.values.reaching.assigned(node)
        return assigned if isinstance(assigned, cst.Attribute) else node

    def _is_resident(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is taken from an attribute of ``self`` that the class itself moves to a device, once."""
        while isinstance(node, (cst.Subscript, cst.Call)):
            node = node.value if isinstance(node, cst.Subscript) else node.func
            if isinstance(node, cst.Attribute) and dotted_name(node) is None:
                node = node.value
        text = dotted_name(node) or ""
        if not text.startswith("self.") or text.count(".") > 1:
            return False
        return any(isinstance(value, cst.Call) and _is_move(value) for value in self._forest.values.stored(text))

    def is_cuda_device(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a CUDA device, or one handed in from outside that is not said to be another."""
        value = self._forest.value(node)
        device = named_device(value) if value.kind in (Kind.DEVICE, Kind.STRING) else None
        if device:
            return device is Device.CUDA
        if value.kind not in (Kind.UNKNOWN, Kind.DEVICE, Kind.NONE):
            return False
        owner, _, last = (dotted_name(self._assigned(node)) or "").lower().rpartition(".")
        if owner and last_part(owner) not in _DEVICE_HOLDERS:
            return False  # `x.device`: where some tensor is
        return last in ("device", "_device", "dev", "gpu", "cuda_device") or last.endswith("_device")

    # -- files and CUDA tensors

    def collation_reads_files(self, loader: Call) -> bool:
        """Whether the function that makes items into batches reads files: the dataset only gives it their names.

        It may be an argument, or what a class derived from ``DataLoader`` sets.
        """
        found = self.collates(loader.argument("collate_fn").value)
        derived = loader.is_of_derived_class
        for item in self._forest.definitions.called(loader.node, self._forest.values) if derived else ():
            for binding in self._tree.scopes[item].attributes.get("collate_fn", ()):
                found += self.collates(binding.value if isinstance(binding.value, cst.BaseExpression) else None)
        return any(map(self.reads_files, found))

    def reads_files(self, function: cst.FunctionDef | cst.Lambda, depth: int = 2) -> bool:
        """Whether a function, or one that it calls, reads a file by a function of a library."""
        for call in self._tree.calls_in(function.body):
            name = self._forest.name_of(call.func)
            if name is not None and last_part(name) in _READERS:
                return True
            called = self._forest.definitions.called(call, self._forest.values) if depth > 0 else []
            if any(isinstance(item, cst.FunctionDef) and self.reads_files(item, depth - 1) for item in called):
                return True
        return False

    def on_cuda(self, dataset: cst.BaseExpression | None) -> bool:
        """Whether the dataset contains or creates CUDA tensors, or gets a device for that."""
        if isinstance(dataset, cst.Name) and any(map(self._is_made_with_cuda, self.appended_to(dataset))):
            return True
        value = self._forest.value(dataset)
        for origin in self.constructions(dataset):
            for argument in origin.args:
                if self._holds_cuda(argument.value):
                    return True
                if value.definition is None and self.is_cuda_device(argument.value):
                    return True
        if isinstance(value.definition, cst.ClassDef) and value.kind is not Kind.CLASS:
            for definition in self._forest.definitions.lineage(value.definition):
                if any(self.uses_cuda(call) for call in self._tree.calls_in(definition)):
                    return True
            if any(self.cuda_work(method, ItemRole.DATASET) for method in self.item_functions(value.definition)):
                return True
        given = [argument.value for origin in self.constructions(dataset) for argument in origin.args]
        others = given if value.definition is None else ()  # a class of a library may call all that it is given
        called = (*self.transforms(dataset), *(function for item in others for function in self._callables(item)))
        if any(self.cuda_work(function, ItemRole.TRANSFORM) for function in called):
            return True
        return value.device is Device.CUDA

    def _is_made_with_cuda(self, item: cst.BaseExpression) -> bool:
        """Whether the loop that appends ``item`` to a list computes on a CUDA device, and copies nothing back."""
        loop = nearest(self._tree, item, cst.For, cst.While)
        calls = self._tree.calls_in(loop.body) if isinstance(loop, (cst.For, cst.While)) else ()
        return any(map(self.uses_cuda, calls)) and not any(called_name(call) == "cpu" for call in calls)

    def _holds_cuda(self, node: cst.BaseExpression) -> bool:
        """Whether an argument of a dataset's constructor is a CUDA tensor, or may be a list of them.

        The list may be made under a condition that asks for the device: ``if use_cuda: x = [row.cuda() for row in x]``.
        """
        value = self._forest.value(node)
        if value.kind in (Kind.TENSOR, Kind.BATCH) and value.device is Device.CUDA:
            return True
        if isinstance(node, cst.Name):
            made = [item.value for item in self._forest.values.reaching.of(node) if not item.path]
        else:
            made = [node]
        computed = (item.elt if isinstance(item, cst.ListComp) else item for item in made)
        return any(isinstance(item, cst.Call) and self.uses_cuda(item) for item in computed)

    def sharded(self, dataset: cst.BaseExpression | None) -> bool:
        """Whether an iterable-style dataset of the file asks which worker it runs in; True for any other dataset."""
        definition = self._forest.value(dataset).definition
        if not isinstance(definition, cst.ClassDef):
            return True
        if not any(name.endswith("IterableDataset") for name in self._forest.definitions.base_names(definition)):
            return True
        return any(
            (dotted_name(call.func) or "").endswith("get_worker_info")
            for current in self._forest.definitions.lineage(definition)
            for call in self._tree.calls_in(current)
        )


def _is_move(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("to", "cuda")


def _target(call: cst.Call) -> cst.BaseExpression | None:
    """The device that ``x.to(device)`` or ``zeros(n, device=device)`` is given; of ``to`` also what else is first."""
    named = keyword(call, "device")
    if named is not None or not _is_move(call) or not call.args:
        return named
    return call.args[0].value
