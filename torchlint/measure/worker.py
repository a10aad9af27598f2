"""The process in which one side of a pair runs: ``python -m torchlint.measure.worker FOLDER SIDE``.

It reads one JSON object a line and answers each with one. What the program itself prints goes to stderr.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable
from time import perf_counter
from types import ModuleType
from typing import Any

import torch

from torchlint.injection.hooks import end_with_parent
from torchlint.measure.counters import counting_synchronizations, counting_warnings, peak_memory, reset_peak_memory


def numbers(result: Any) -> torch.Tensor:
    """What a program computed (a tensor, a number, or lists and dicts of those) as one flat float64 tensor."""
    if isinstance(result, torch.Tensor):
        return result.detach().to("cpu", torch.float64).flatten()
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return torch.cat([numbers(part) for part in result]) if result else torch.zeros(0, dtype=torch.float64)
    return torch.tensor([float(result)], dtype=torch.float64)


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference over the largest number: a component near zero has no digits of its own."""
    if ours.shape != theirs.shape or not theirs.isfinite().all() or not ours.isfinite().all():
        return float("inf")
    scale = theirs.abs().max().item() if len(theirs) else 0.0
    worst = (ours - theirs).abs().max().item() if len(theirs) else 0.0
    return worst / scale if scale else worst


class Worker:
    """One side of a pair: makes its state, runs it, counts what it does."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.device = "cpu"
        self.state: Any = None

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def run(self, repeat: int = 1) -> tuple[float, Any]:
        """Run the program; seconds a run, from an idle device to an idle device, and what the last run gave."""
        gc.collect()
        self.synchronize()
        start = perf_counter()
        for _ in range(repeat):
            result = self.module.work(self.state)
        self.synchronize()
        return (perf_counter() - start) / repeat, result

    def prepare(self, device: str, size: float) -> dict[str, Any]:
        """Make the state; seconds until it is on the device."""
        self.device = device
        if device == "cpu":
            # One core takes the place of the device; the others are left to the loaders, as they are with a GPU.
            torch.set_num_threads(1)
        start = perf_counter()
        self.state = self.module.prepare(device, size)
        self.synchronize()
        return {"seconds": perf_counter() - start}

    def first(self, result: str) -> dict[str, Any]:
        """The first run on a fresh state: its seconds, what it computed (into the file), what was counted meanwhile."""
        with counting_warnings() as caught:
            seconds, computed = self.run()
        torch.save(numbers(computed), result)
        items = self.module.items(self.state) if hasattr(self.module, "items") else None
        return {
            "seconds": seconds,
            "deprecation warnings": sum(issubclass(w.category, (FutureWarning, DeprecationWarning)) for w in caught),
            "graphs": compiled_graphs(),
            "items": items,
        }

    def compare(self, ours: str, theirs: str) -> dict[str, Any]:
        """How far what the two sides computed is apart, and how far it may be."""
        loaded = [torch.load(path, weights_only=True) for path in (ours, theirs)]
        return {"difference": difference(*loaded), "tolerance": getattr(self.module, "TOLERANCE", 0.0)}

    def sample(self, repeat: int) -> dict[str, Any]:
        """Seconds a run."""
        return {"seconds": self.run(repeat)[0]}

    def count(self) -> dict[str, Any]:
        """Peak memory in bytes, and on CUDA how often the host waits for the device, in one more run."""
        reset_peak_memory(self.device)
        with counting_synchronizations(self.device) as waits:
            seconds, _ = self.run()
        return {"seconds": seconds, "peak memory": peak_memory(self.device), "host synchronizations": waits[0]}


def compiled_graphs() -> int:
    """How many graphs `torch.compile` has made in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0


def main(folder: str, side: str, parent: str) -> None:
    """Run one side of the pair in a folder, command by command, until the input ends."""
    end_with_parent()
    if os.getppid() != int(parent):
        return  # it ended before it could be watched
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.insert(0, folder)
    # By its own name, as loader workers that are started without fork import it again.
    worker = Worker(importlib.import_module(side))
    commands: dict[str, Callable[..., dict[str, Any]]] = {
        command.__name__: command
        for command in (worker.prepare, worker.first, worker.compare, worker.sample, worker.count)
    }
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(commands[request.pop("do")](**request)), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
