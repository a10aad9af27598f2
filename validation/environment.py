"""The machine that measures: what stands beside every figure."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from typing import Literal

DeviceType = Literal["cuda", "cpu"]


def resolve(device: str) -> DeviceType:
    """``auto`` -> the GPU if torch can use one. Raises ValueError if ``cuda`` is asked for and there is none."""
    import torch

    if device == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise ValueError(f"torch {torch.__version__} sees no CUDA device; run with --device cpu")
    return "cpu"


def describe(device: DeviceType) -> tuple[str, dict[str, str]]:
    """The device's name, and the environment: device type, torch, CUDA, driver, CPU, cores, Python, system."""
    import torch

    cpu, cores = _cpu(), str(cpu_count())
    environment = {"type": device, "torch": torch.__version__, "cpu": cpu, "cores": cores}
    environment |= {"python": platform.python_version(), "system": platform.system()}
    if device == "cpu":
        return f"{cpu}, {cores} cores", environment
    environment |= {"cuda": str(torch.version.cuda), "driver": _driver()}
    return torch.cuda.get_device_name(), environment


def cpu_count() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            name = next((line.partition(":")[2] for line in file if line.startswith("model name")), "")
    except OSError:
        name = ""
    name = re.sub(r"\((R|TM)\)|CPU|Processor|@.*", " ", name or platform.processor() or platform.machine())
    return " ".join(name.split()) + " CPU"


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.split("\n")[0].strip()
