"""Runs in the processes of a measured script, as ``sitecustomize``: finds its steps, and waits for its turns.

It imports nothing of torchlint, which the script's interpreter need not have. Its parameters are in the environment
variable ``TORCHLINT_TRIAL``.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import random
import socket
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from time import perf_counter
from types import ModuleType
from typing import Any

#: Backward passes, or batches of a script without any, after which these are the steps of a script without optimizer.
ENOUGH = 64


class StepCounter:
    """Counts the steps of this process. After each block of steps it reports, and waits until its side has the turn."""

    def __init__(self, address: str, kind: str, skip: int) -> None:
        self.address = address
        self.kind = kind  #: one of `passed`; empty until it is found
        self.left = skip  #: steps until the next report
        self.process = os.getpid()
        self.thread = threading.get_ident()
        self.passed = {"optimizer": 0, "backward": 0, "batch": 0, "forward": 0}
        self.has_optimizer = False
        self.depth = 0  #: of the calls of modules
        self.optimizer: Callable[[], Any] = lambda: None  #: the one whose steps count
        self.waited = 0.0  #: seconds in which the script waited for batches
        self.losses: list[list[Any]] = [[]]  #: by step
        self.answers: Any = None
        self.counting = ExitStack()
        self.synchronizations: list[int] | None = None
        self.start = 0.0

    def passes(self, kind: str) -> None:
        """Something that may be a step is over."""
        if os.getpid() != self.process:
            return  # a worker of a loader
        self.passed[kind] += 1
        if not self.kind and self._is_step(kind):
            self.kind, self.left = kind, 1
        if kind != self.kind:
            return
        self.losses.append([])
        self.left -= 1
        if self.left == 0:
            self._report()

    def _is_step(self, kind: str) -> bool:
        enough = self.passed[kind] >= ENOUGH and not self.has_optimizer
        return kind == "optimizer" or (enough and (kind == "backward" or self.passed["backward"] == 0))

    def _report(self) -> None:
        import torchlint_counters as counters

        torch: Any = sys.modules["torch"]

        device = "cuda" if torch.cuda.is_initialized() else "cpu"
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = perf_counter() - self.start
        self.counting.close()
        if self.answers is None:
            report = self._first_report(device)
        else:
            report = {"seconds": seconds, "waited": self.waited, "peak memory": counters.peak_memory(device)}
            report["synchronizations"] = self.synchronizations[0] if self.synchronizations else 0
            report["losses"] = [mean([float(loss) for loss in losses]) for losses in self.losses if losses]
        self.answers.write(json.dumps(report) + "\n")
        self.answers.flush()
        line = self.answers.readline()
        if not line:
            os._exit(0)  # the parent has ended
        request = json.loads(line)
        self.left = request["steps"]
        self.losses, self.waited = [[]], 0.0
        if request["count"]:
            counters.reset_peak_memory(device)
            self.synchronizations = self.counting.enter_context(counters.counting_synchronizations(device))
        self.start = perf_counter()

    def _first_report(self, device: str) -> dict[str, Any]:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.address)
        self.answers = connection.makefile("rw", encoding="utf-8")
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        distributed = sys.modules.get("torch.distributed")
        several = distributed is not None and distributed.is_available() and distributed.is_initialized()
        return {
            "kind": self.kind,
            "passed": self.passed[self.kind],
            "device": device,
            "files": [file for file in files if isinstance(file, str)],
            "processes": distributed.get_world_size() if several and distributed is not None else 1,
        }

    # -- what is put into torch

    def watch_torch(self, torch: Any) -> None:
        """Seed torch, and count the steps of its optimizers, the batches of its loaders, the calls of modules."""
        torch.manual_seed(0)
        optimizers = importlib.import_module("torch.optim.optimizer")
        if hasattr(optimizers, "register_optimizer_step_post_hook"):
            optimizers.register_optimizer_step_post_hook(self._after_step)
        else:  # before torch 2.0
            self.kind = self.kind or "batch"
        wrap(optimizers.Optimizer, "__init__", self._make_optimizer)
        loaders = importlib.import_module("torch.utils.data.dataloader")
        wrap(loaders._BaseDataLoaderIter, "__next__", self._next_batch)
        wrap(torch.Tensor, "backward", self._backward)
        if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
            wrap(torch.amp.GradScaler, "scale", self._scale)
        if self.kind == "forward":
            wrap(torch.nn.Module, "__call__", self._call)
        wrap(torch, "save", self._save)

    def _make_optimizer(self, original: Callable[..., None], *rest: Any, **named: Any) -> None:
        self.has_optimizer = True
        original(*rest, **named)

    def _after_step(self, optimizer: Any, *rest: Any) -> None:
        if self.optimizer() is None:
            self.optimizer = weakref.ref(optimizer)
        if self.optimizer() is optimizer:
            self.passes("optimizer")

    def _next_batch(self, original: Callable[..., Any], loader: Any) -> Any:
        if threading.get_ident() != self.thread:
            return original(loader)
        if getattr(loader, "torchlint_has_given_one", False):
            self.passes("batch")
        loader.torchlint_has_given_one = True
        start = perf_counter()
        try:
            return original(loader)
        finally:
            self.waited += perf_counter() - start

    def _backward(self, original: Callable[..., Any], tensor: Any, *rest: Any, **named: Any) -> Any:
        if tensor.numel() == 1:
            loss = getattr(tensor, "torchlint_loss", tensor)
            self.losses[-1].append(loss.detach().clone())
        original(tensor, *rest, **named)
        self.passes("backward")

    def _scale(self, original: Callable[..., Any], scaler: Any, outputs: Any) -> Any:
        scaled = original(scaler, outputs)
        if hasattr(outputs, "detach") and scaled is not outputs:
            scaled.torchlint_loss = outputs.detach()
        return scaled

    def _call(self, original: Callable[..., Any], module: Any, *rest: Any, **named: Any) -> Any:
        self.depth += 1
        try:
            return original(module, *rest, **named)
        finally:
            self.depth -= 1
            if self.depth == 0:
                self.passes("forward")

    def _save(self, original: Callable[..., Any], content: Any, file: Any, *rest: Any, **named: Any) -> Any:
        if isinstance(file, (str, os.PathLike)):
            before_writing(os.fspath(file), keep=False)
        return original(content, file, *rest, **named)


def mean(values: list[float]) -> float:
    """The mean of some numbers."""
    return sum(values) / len(values)


def wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Let calls of a function or method go to ``wrapper``, which is given the original first."""
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        return wrapper(original, *arguments, **named)

    wrapped.__name__ = name
    setattr(owner, name, wrapped)


# -- the user's files: the script runs in a copy, whose large files are links

ORIGINAL = COPY = ""
#: What changes files or folders, with the positions of the paths.
CHANGES = {
    "os.chmod": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "shutil.rmtree": (0,),
}


def guard(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: a file that is opened for writing is not a link any more, and no file of the user is changed."""
    if event == "open":
        path, mode, flags = arguments
        writes = any(letter in mode for letter in "wax+") if mode else (flags or 0) & (os.O_WRONLY | os.O_RDWR)
        if writes and isinstance(path, (str, bytes, os.PathLike)):
            before_writing(os.fsdecode(path), keep=not (mode and "w" in mode))
    elif event in CHANGES:
        for path in (arguments[index] for index in CHANGES[event]):
            if isinstance(path, (str, bytes, os.PathLike)):
                place = os.path.abspath(os.fsdecode(path))
                refuse(os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place)))


def before_writing(path: str, keep: bool) -> None:
    """Put an own file in the place of a link, with the content that it leads to if that is to be kept."""
    place = os.path.abspath(path)
    target = os.path.realpath(place)
    if os.path.islink(place) and (os.path.realpath(os.path.dirname(place)) + os.sep).startswith(COPY):
        os.unlink(place)
        if keep and os.path.isfile(target):
            with open(target, "rb") as original, open(place, "wb") as own:
                while part := original.read(1 << 20):
                    own.write(part)
        return
    refuse(target)


def refuse(place: str) -> None:
    """Raise PermissionError for a place in the user's project."""
    if (place + os.sep).startswith(ORIGINAL):
        raise PermissionError(f"torchlint measure: the script would change {place}, which is not in its copy")


def move_import_paths() -> None:
    """Import from the copy what is installed as a link to the project (``pip install -e``)."""

    def moved(path: str) -> str:
        return COPY + path[len(ORIGINAL) :] if (path + os.sep).startswith(ORIGINAL) else path

    def in_copy(path: str) -> str:
        return moved(os.path.realpath(path)) if path and os.path.isdir(moved(os.path.realpath(path))) else path

    sys.path[:] = [in_copy(path) for path in sys.path]
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            mapping = getattr(module, "MAPPING", {})
            mapping.update({package: moved(os.path.realpath(path)) for package, path in mapping.items()})


def main() -> None:
    """Set up this process."""
    global ORIGINAL, COPY
    import torchlint_hooks as hooks

    told = json.loads(os.environ["TORCHLINT_TRIAL"])
    ORIGINAL, COPY = told["original"] + os.sep, told["copy"] + os.sep
    move_import_paths()
    hooks.end_with_parent()
    sys.addaudithook(guard)
    random.seed(0)
    steps = StepCounter(told["address"], told["kind"], told["skip"])

    def watch_safetensors(module: ModuleType) -> None:
        def serialize(original: Callable[..., Any], tensors: Any, file: Any, *rest: Any, **named: Any) -> Any:
            before_writing(os.fspath(file), keep=False)
            return original(tensors, file, *rest, **named)

        wrap(module, "serialize_file", serialize)

    actions: dict[str, Callable[[ModuleType], None]] = {
        "torch": steps.watch_torch,
        "numpy": lambda numpy: numpy.random.seed(0),
        "safetensors": watch_safetensors,
    }
    hooks.call_after_import(actions)
    leave_counts(steps, told["counts"])  # it shows that this file was loaded
    atexit.register(leave_counts, steps, told["counts"])
    hooks.run_hidden_sitecustomize()


def leave_counts(steps: StepCounter, file: str) -> None:
    """When the script ends: what could have been its steps, for a parent to which it has not connected."""
    if os.getpid() == steps.process and (any(steps.passed.values()) or not os.path.exists(file)):
        with open(file, "w", encoding="utf-8") as out:
            json.dump(steps.passed, out)


if __name__ == "sitecustomize":
    main()
