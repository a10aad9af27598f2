"""A fake CUDA device for machines without a GPU: tensors on the CPU are real, tensors on "cuda" are fake.

A fake tensor (`torch._subclasses.FakeTensorMode`) has a shape, a dtype and a device, but no values. A program on the
fake device runs its real control flow, loader workers included, and a wrong device, shape or dtype raises the error
that a GPU raises. Values that the host reads from the device are made up. Not covered: values, times, compiled code,
and errors of CUDA itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, cast
from unittest import mock

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten
FIRST = torch.device("cuda", 0)

# Rates of one NVIDIA H200 (SXM): 4.8 TB/s, 67 TFLOP/s in float32, 494 in TF32 and 989 in bfloat16 by the vendor's
# datasheet, at the 80 to 90 % that large kernels reach.
BYTES_PER_S = 4.3e12
FLOPS_PER_S = {"float32": 50e12, "tf32": 390e12, "half": 780e12}
KERNEL_S = 2.5e-6  #: the least that one kernel occupies the device
LAUNCH_S = 6e-6  #: CPU time of one eager operation
COPY_BYTES_PER_S = {"pageable": 10e9, "pinned": 50e9}

#: Operations on a CPU -> their CUDA counterparts.
CUDA_NAMES = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: aten._scaled_dot_product_flash_attention_backward,
}

#: Operations whose tensors must have the same dtype.
PRODUCTS = (aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.convolution)

#: Operations that launch no kernel, besides views.
FREE = ("empty", "detach", "alias", "record_stream", "set_", "resize_", "sym_")


@dataclass
class Work:
    """The work of a program on the device in one run."""

    operations: int = 0  #: that launch a kernel
    synchronizations: int = 0  #: for which the CPU waits for the device
    flops: float = 0.0
    bytes: float = 0.0  #: of device memory, read and written
    copied: float = 0.0  #: bytes between CPU and device
    device_s: float = 0.0  #: the roofline: each operation at the rate of memory or of arithmetic, whichever is slower
    copy_s: float = 0.0

    @property
    def seconds(self) -> float:
        """A lower bound of an eager run's time: the slower of device and launches, plus the copies."""
        return max(self.device_s, self.operations * LAUNCH_S) + self.copy_s


class FakeCuda(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs operations on the fake device without values, all others for real, and adds up what the device would do.

    A fake tensor is a CPU tensor to torch's C++ code, so that autograd and autocast work in every build of torch;
    `_Devices` is what makes it a "cuda" tensor to the program.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.work = Work()
        self.process = os.getpid()
        self.inside = False  #: whether torch is asking, to whom a fake tensor is one on the CPU

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.ops.prim.device.default:  # torch's C++ code asks it several times for each operation
            return args[0].fake_device
        kwargs = kwargs or {}
        tensors = _tensors((args, kwargs))
        if not any(isinstance(tensor, FakeTensor) for tensor in tensors):
            return function(*args, **kwargs)
        if function is aten._local_scalar_dense.default:
            self.work.synchronizations += 1
            return 0.0 if args[0].is_floating_point() else int(args[0].dtype != torch.bool)
        if function is aten.copy_.default and isinstance(args[0], FakeTensor) != isinstance(args[1], FakeTensor):
            self.count_copy(args[1], blocking=not (args[2] if len(args) > 2 else kwargs.get("non_blocking")))
            return args[0] if isinstance(args[0], FakeTensor) else args[0].fill_(0)
        if function in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default):
            args = (args[0], tree_map(self._indices, args[1]), *args[2:])
        elif any(tensor.dim() and not isinstance(tensor, FakeTensor) for tensor in tensors):
            raise RuntimeError(f"Expected all tensors to be on the same device, in {function}")
        if function is aten.nonzero.default:
            self.work.synchronizations += 1
            return args[0].new_zeros((_about_half(args[0]), args[0].dim()), dtype=torch.int64)
        if function.namespace == "aten" and not _has_kernel(function):
            with self:  # an operation that consists of others, as `linear` in inference mode
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = self.without_values(function, args, kwargs)
        self._count(function, args, kwargs, result)
        return result

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor without values on the device."""
        if os.getpid() != self.process:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
        made = self.without_values(torch.empty_strided, (tensor.shape, tensor.stride()), {"dtype": tensor.dtype})
        return cast(torch.Tensor, made)

    def without_values(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function in the fake mode."""
        before, self.inside = self.inside, True
        try:
            with self.fake:
                return function(*args, **kwargs)
        finally:
            self.inside = before

    def _indices(self, value: Any) -> Any:
        """A mask as the indices that it selects: half of them."""
        if not isinstance(value, torch.Tensor) or value.dtype not in (torch.bool, torch.uint8):
            return value
        if value.dim() != 1:
            raise NotImplementedError("an index by a mask of several dimensions")
        self.work.synchronizations += 1
        return self.fake.from_tensor(torch.zeros(_about_half(value), dtype=torch.int64))

    def count_copy(self, tensor: torch.Tensor, *, blocking: bool) -> None:
        """Count a copy between host and device. One from pinned memory that does not block overlaps with the device's
        work and costs no time."""
        size = tensor.numel() * tensor.element_size()
        pinned = tensor.is_pinned() if not isinstance(tensor, FakeTensor) else False
        self.work.copied += size
        self.work.synchronizations += blocking
        if blocking or not pinned:
            self.work.copy_s += size / COPY_BYTES_PER_S["pinned" if pinned else "pageable"]

    def _count(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Add an operation on the device to the roofline."""
        if function.namespace != "aten" or function.is_view or function.__name__.startswith(FREE):
            return
        tensors = _tensors((args, kwargs, result))
        moved = sum(_bytes(one) for one in tensors)
        flops, rate = 0.0, FLOPS_PER_S["float32"]
        if function.overloadpacket in PRODUCTS and len({one.dtype for one in tensors if one.is_floating_point()}) > 1:
            raise RuntimeError(f"expected tensors of one dtype in {function}")  # fake tensors do not check it
        formula = flop_registry.get(CUDA_NAMES.get(function.overloadpacket, function.overloadpacket))
        if formula is not None:
            flops = float(formula(*args, **kwargs, out_val=result))
            rate = FLOPS_PER_S[_arithmetic(function, tensors[0].dtype)]
        self.add(moved, flops, rate)

    def add(self, moved: int, flops: float = 0.0, rate: float = 1.0) -> None:
        """Add a kernel that moves so many bytes and computes so much."""
        self.work.operations += 1
        self.work.flops += flops
        self.work.bytes += moved
        self.work.device_s += max(moved / BYTES_PER_S, flops / rate, KERNEL_S)


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in what an operation is given or gives: lists, tuples and dictionaries of them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for part in value for tensor in _tensors(part)]


@cache
def _has_kernel(function: Any) -> bool:
    """Whether an operation has a kernel of its own; CUDA's are those of the CPU, with few exceptions."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CPU")


def _bytes(tensor: torch.Tensor) -> int:
    """The bytes that an operation on the tensor moves: a broadcast one has fewer than its shape says."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= int(size) if stride else 1
    return elements * tensor.element_size()


def _about_half(mask: torch.Tensor) -> int:
    return max(1, mask.numel() // 2)


def _arithmetic(function: Any, dtype: torch.dtype) -> str:
    """The kind of arithmetic that a matrix product or convolution uses."""
    if dtype in (torch.bfloat16, torch.float16):
        return "half"
    allowed = (
        torch.backends.cudnn.allow_tf32
        if "convolution" in function.__name__
        else torch.get_float32_matmul_precision() != "highest"
    )
    return "tf32" if allowed else "float32"


class _Devices(TorchFunctionMode):
    """Shows fake tensors to the program as tensors on "cuda", and makes them where it asks for that device."""

    def __init__(self, cuda: FakeCuda) -> None:
        super().__init__()
        self.cuda = cuda

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
        on_device = isinstance(tensor, FakeTensor)
        if function == IS_CUDA:
            return on_device
        if function is torch.nn.functional.scaled_dot_product_attention and on_device:
            # With dropout, torch's code for CPUs makes a mask of its own, which would be a real tensor.
            return function(*args[:4], **{**kwargs, "dropout_p": 0.0})
        if tensor is not None and function in _MOVES:
            return self._moved(tensor, on_device, function, args, kwargs)
        if not _is_cuda(kwargs.get("device")):
            return function(*args, **kwargs)
        kwargs["device"] = torch.device("cpu")
        if any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs))):
            return function(*args, **kwargs)
        if function in (torch.tensor, torch.as_tensor, torch.asarray) or tensor is not None:
            made = function(*args, **kwargs)
            self.cuda.count_copy(made, blocking=True)
            return self.cuda.to_device(made)
        self.cuda.to_device(torch.empty(0))  # the device of a forked process is refused
        made = self.cuda.without_values(function, args, kwargs)
        if not function.__name__.startswith("empty"):
            self.cuda.add(sum(_bytes(one) for one in tree_leaves(made) if isinstance(one, torch.Tensor)))
        return made

    def _moved(
        self, tensor: torch.Tensor, on_device: bool, function: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> torch.Tensor:
        """`.to`, `.cuda` and `.cpu`, with the gradient of a copy."""
        if function is torch.Tensor.to:
            places = [value for value in (*args[1:], *kwargs.values()) if _names_device(value)]
            place = places[0] if places else None
            rest = [value for value in args[1:] if not _names_device(value) or value is not place]
            rest = [value for value in rest if not isinstance(value, FakeTensor)]
            kwargs = {name: value for name, value in kwargs.items() if value is not place}
            dtypes = [value.dtype for value in (place,) if isinstance(value, torch.Tensor)]
        else:
            place, rest, dtypes = FIRST if function is torch.Tensor.cuda else torch.device("cpu"), [], []
        wanted = on_device if place is None else isinstance(place, FakeTensor) or _is_cuda(_device_of(place))
        blocking = not (kwargs.get("non_blocking") or (rest and rest[-1] is True))
        kept = {name: value for name, value in kwargs.items() if name in ("dtype", "copy", "memory_format")}
        kinds = [value for value in rest if isinstance(value, torch.dtype)] + dtypes
        if kinds:
            kept["dtype"] = kinds[0]
        if wanted == on_device:
            return torch.Tensor.to(tensor, **kept) if kept else tensor
        self.cuda.count_copy(tensor, blocking=blocking)
        moved = _Move.apply(tensor, self.cuda)  # type: ignore[no-untyped-call]
        return torch.Tensor.to(moved, **kept) if kept else moved


class _Move(torch.autograd.Function):
    """A copy to the other device; its gradient goes the other way."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, cuda: FakeCuda) -> torch.Tensor:
        context.cuda = cuda
        if isinstance(tensor, FakeTensor):
            return torch.zeros(tensor.shape, dtype=tensor.dtype)
        return cuda.to_device(tensor)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        return _Move.apply(gradients[0], context.cuda), None  # type: ignore[no-untyped-call]


_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu)
IS_CUDA = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]


def _names_device(value: Any) -> bool:
    return isinstance(value, (str, torch.device, torch.Tensor)) or (isinstance(value, int) and type(value) is not bool)


def _device_of(value: Any) -> Any:
    return value.device if isinstance(value, torch.Tensor) else value


def _is_cuda(value: Any) -> bool:
    return value is not None and torch.device(value).type == "cuda"


@contextmanager
def fake_cuda() -> Iterator[FakeCuda]:
    """Make torch see one CUDA device, of a Hopper GPU. Only in a process of its own: torch keeps some of it."""
    properties = mock.Mock(major=9, minor=0, multi_processor_count=132, total_memory=140 << 30)
    properties.name = "a fake device"
    cuda: dict[str, Any] = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "is_current_stream_capturing": lambda: False,
        "is_bf16_supported": lambda including_emulation=True: True,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_name": lambda device=None: properties.name,
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda device=None: None,
        "max_memory_allocated": lambda device=None: 0,
        "memory_allocated": lambda device=None: 0,
        "set_sync_debug_mode": lambda mode: None,
        "manual_seed_all": lambda seed: None,
        "manual_seed": lambda seed: None,
    }
    accelerator: dict[str, Any] = {
        "is_available": lambda: True,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: 0,
        "set_device_index": lambda device: None,
        "device_count": lambda: 1,
        "current_stream": lambda device=None: mock.Mock(is_capturing=lambda: False),
        "synchronize": lambda device=None: None,
    }
    mode = FakeCuda()
    cpu = vars(FakeTensor)["device"].fget

    def device(tensor: FakeTensor) -> Any:
        return cpu(tensor) if mode.inside else FIRST

    autocast = torch.amp.autocast_mode.autocast.__init__

    def on_cpu(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        """autocast("cuda") for tensors that are on the CPU to torch; its lists of operations are nearly the same."""
        autocast(self, "cpu", dtype or (torch.float16 if device_type == "cuda" else None), *args, **kwargs)

    with (
        mock.patch.multiple(torch.cuda, **cuda),
        mock.patch.multiple(torch.accelerator, **accelerator),
        mock.patch.multiple(torch.Tensor, pin_memory=_pin_memory, is_pinned=_is_pinned),
        mock.patch.object(torch.amp.autocast_mode.autocast, "__init__", on_cpu),
        mock.patch.object(FakeTensor, "device", property(device)),
        # On CUDA, optimizers update parameters of these types in one operation for all.
        mock.patch("torch.optim.optimizer._foreach_supported_types", [torch.Tensor, torch.nn.Parameter, FakeTensor]),
        # `module.to(dtype)` swaps fake parameters, which is refused while anything refers to them weakly.
        mock.patch.object(torch.utils, "swap_tensors", lambda ours, theirs: setattr(ours, "data", theirs.data)),
        _Devices(mode),
        mode,
    ):
        yield mode


def _pin_memory(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    if isinstance(tensor, FakeTensor):
        raise RuntimeError("cannot pin a tensor on the device: only dense CPU tensors can be pinned")
    pinned = tensor.clone()
    pinned.in_pinned_memory = True  # type: ignore[attr-defined]
    return pinned


def _is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
    return getattr(tensor, "in_pinned_memory", False)
