"""Which datasets and collate functions are seen to give tensors on the host, and no tensors of a CUDA device."""

from __future__ import annotations

import sys

import libcst as cst

from torchlint.model.data.datasets import Datasets
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Value
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.tensors.placement import Placement

#: How many names, attributes and functions data is followed through.
_DEPTH = 5
#: Libraries whose functions give nothing on a CUDA device, unless they are given it.
_LIBRARIES = frozenset(
    "torch torchvision torchaudio numpy scipy pandas PIL cv2 skimage sklearn h5py imageio soundfile librosa tqdm "
    "pytorch_lightning".split()
)
#: Functions that load tensors to the device that they were saved from.
_LOADING = frozenset({"torch.load", "pickle.load", "pickle.loads", "joblib.load", "torch.jit.load"})
#: Libraries without tensors of their own: what they return is on the host, whatever they are given.
_OF_THE_HOST = frozenset("numpy scipy pandas PIL cv2 skimage imageio soundfile librosa json csv random math".split())
#: Functions of torch and Python whose result is on the host.
_MAKING = frozenset(
    "torch.zeros torch.ones torch.empty torch.full torch.eye torch.arange torch.linspace torch.rand torch.randn "
    "torch.randint torch.randperm torch.from_numpy torch.Tensor torch.FloatTensor torch.LongTensor torch.IntTensor "
    "torch.BoolTensor builtins.int builtins.float builtins.str builtins.bool builtins.len builtins.range".split()
)
_MOVING = frozenset({"to", "cuda", "type", "type_as", "new_tensor"})


class HostData(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def is_visible(self, dataset: cst.BaseExpression | None) -> bool:
        """Whether the file shows that the dataset yields host tensors and nothing else."""
        value: Value = self._forest.value(dataset)
        datasets = self._forest.fact(Datasets)
        if (
            value.kind is not Kind.DATASET
            or not value.sure
            or datasets.on_cuda(dataset)
            or self._forest.fact(Placement).is_gpu_default
        ):
            return False
        if value.definition is None:
            if value.name.startswith("torchvision.datasets."):
                return True
            made = [origin for origin in value.origins if isinstance(origin, cst.Call)]
            return value.name.startswith("torch.utils.data.TensorDataset") and all(
                self._is_on_host(argument.value, _DEPTH) for call in made for argument in call.args
            )
        if not isinstance(value.definition, cst.ClassDef):
            return False
        methods = list(datasets.item_functions(value.definition))
        return bool(methods) and all(self.is_plain(method) and self._returns_host_data(method) for method in methods)

    def is_plain(self, function: cst.FunctionDef | cst.Lambda, depth: int = 3) -> bool:
        """Whether all calls in a function are seen, and give no CUDA tensor unless they are given one."""
        return depth > 0 and all(self._is_seen(call, depth) for call in self._tree.calls_in(function.body))

    def _is_seen(self, call: cst.Call, depth: int) -> bool:
        """Whether a call surely gives no CUDA tensor: everything but a callable that is handed in or imported."""
        called = self._forest.definitions.called(call, self._forest.values)
        if called:
            return all(isinstance(item, cst.ClassDef) or self.is_plain(item, depth - 1) for item in called)
        name = self._forest.name_of(call.func)
        if name is not None:
            root = name.partition(".")[0]
            return name not in _LOADING and (
                root in _LIBRARIES or root == "builtins" or root in sys.stdlib_module_names
            )
        if not isinstance(call.func, cst.Attribute):
            return False
        return dotted_name(call.func.value) != "self" or self._forest.value(call.func).name.startswith(
            "torchvision.transforms."
        )

    def _returns_host_data(self, method: cst.FunctionDef) -> bool:
        returned = self._forest.definitions.returns(method)
        if not returned:
            return True  # a generator, whose calls are all seen
        return all(item is not None and self._is_on_host(item, _DEPTH) for item in returned)

    def _is_on_host(self, node: cst.BaseExpression, depth: int) -> bool:
        """Whether ``node`` is seen to be made on the host."""
        value = self._forest.value(node)
        if value.kind in (Kind.NUMBER, Kind.STRING, Kind.ARRAY) and value.sure:
            return True
        if depth <= 0 or value.device is Device.CUDA:
            return False
        if isinstance(node, (cst.Tuple, cst.List)):
            return all(self._is_on_host(item.value, depth) for item in node.elements)
        if isinstance(node, cst.Dict):
            return all(self._is_on_host(item.value, depth) for item in node.elements)
        if isinstance(node, cst.BinaryOperation):
            return self._is_on_host(node.left, depth) and self._is_on_host(node.right, depth)
        if isinstance(node, (cst.Subscript, cst.UnaryOperation)):
            return self._is_on_host(node.value if isinstance(node, cst.Subscript) else node.expression, depth)
        if isinstance(node, cst.Call):
            return self._is_made_on_host(node, depth)
        if isinstance(node, cst.Attribute):
            stored = self._forest.values.stored(text) if (text := dotted_name(node)) is not None else ()
            return bool(stored) and all(item is not None and self._is_on_host(item, depth - 1) for item in stored)
        return isinstance(node, cst.Name) and self._is_bound_on_host(node, depth)

    def _is_bound_on_host(self, node: cst.Name, depth: int) -> bool:
        reached = self._forest.values.reaching.of(node)
        return bool(reached) and all(
            item.kind in (BindingKind.ASSIGN, BindingKind.FOR)
            and isinstance(item.value, cst.BaseExpression)
            and self._is_on_host(item.value, depth - 1)
            for item in reached
        )

    def _is_made_on_host(self, call: cst.Call, depth: int) -> bool:
        name = self._forest.name_of(call.func)
        if name is None:
            if not isinstance(call.func, cst.Attribute) or call.func.attr.value in _MOVING:
                return False
            if self._forest.value(call.func).name.startswith("torchvision.transforms."):
                return True  # a transform that is an attribute of `self`
            return self._is_on_host(call.func.value, depth)
        if keyword(call, "device") is not None:
            return False
        if name in _MAKING or name.partition(".")[0] in _OF_THE_HOST:
            return True
        if name in _LOADING or not name.startswith(("torch.", "builtins.", "torchvision.")):
            return False
        return bool(call.args) and all(self._is_on_host(item.value, depth) for item in call.args)
