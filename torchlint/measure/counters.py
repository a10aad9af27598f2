"""What is counted in a process that runs a program: peak memory, and how often the host waits for the device.

It imports nothing of torchlint, so that the process of a user's own script can import it too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def counting_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Every warning, also one that was shown before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@contextmanager
def counting_synchronizations(device: str) -> Iterator[list[int]]:
    """After the block: how often the host waited for the device; on a CPU never."""
    count = [0]
    if device != "cuda":
        yield count
        return
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with counting_warnings() as caught:
            yield count
        count[0] = sum("called a synchronizing CUDA operation" in str(warning.message) for warning in caught)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def reset_peak_memory(device: str) -> None:
    """Let `peak_memory` be about what comes now."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # starts the high-water mark anew (proc(5))
    except OSError:
        pass


def peak_memory(device: str) -> int:
    """The most bytes of tensors on the device at once; on a CPU, of the process where Linux tells, else 0."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0
