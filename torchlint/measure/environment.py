"""The machine that measures: stored with every figure."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from torchlint.measure.process import ROOT

DeviceType = Literal["cuda", "cpu"]

#: The files that determine a figure.
HARNESS = ("counters.py", "intervals.py", "measure.py", "process.py", "worker.py")
SHARED_MEMORY = 2 << 30  #: bytes of shared memory that loader workers need for their batches


class Machine(NamedTuple):
    """What measures: the type and the name of the device, and what else is stored with the figures."""

    type: DeviceType
    name: str
    environment: dict[str, str]  #: device type, versions, CPU, cores, limits of the GPU


@cache
def find_machine(device: str) -> Machine:
    """The machine with one of its devices: ``cuda``, ``cpu``, or ``auto`` for the GPU if torch can use one.

    A process of its own imports torch. Raises ValueError if torch is not installed, or finds no device for ``cuda``.
    """
    if importlib.util.find_spec("torch") is None:
        raise ValueError("torch is not installed; install it with `pip install torch`")
    command = [sys.executable, "-m", "torchlint.measure.environment", device]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["torch cannot be imported"])[-1])
    return Machine(*json.loads(done.stdout.splitlines()[-1]))


def describe(device: str) -> Machine:
    """The machine, in the process that imports torch. Exits with a message without a CUDA device for ``cuda``."""
    import torch

    cpu, cores = _cpu(), str(cpu_count())
    has_gpu = device != "cpu" and torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        sys.exit(f"torch {torch.__version__} sees no CUDA device; run with --device cpu")
    kind: DeviceType = "cuda" if has_gpu else "cpu"
    environment = {"type": kind, "torch": torch.__version__, "cpu": cpu, "cores": cores}
    environment |= {"python": platform.python_version(), "system": platform.system()}
    environment["kernel"] = platform.release()
    if kind == "cpu":
        return Machine(kind, f"{cpu}, {cores} cores", environment)
    driver, power, clock = _nvidia_smi("driver_version", "power.limit", "clocks.max.sm")
    environment |= {"cuda": str(torch.version.cuda), "driver": driver, "power limit": power, "highest clock": clock}
    environment["memory"] = f"{torch.cuda.get_device_properties(0).total_memory / 2**30:.0f} GiB"
    environment |= {"cudnn": _version("nvidia-cudnn-cu13"), "triton": _version("triton")}
    return Machine(kind, torch.cuda.get_device_name(), environment)


def harness() -> str:
    """A digest of the files that measure."""
    content = hashlib.sha256()
    for name in HARNESS:
        content.update((Path(__file__).parent / name).read_bytes().replace(b"\r\n", b"\n"))
    return content.hexdigest()[:16]


def shortage() -> str:
    """What the machine lacks to measure loaders with worker processes; empty if nothing."""
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError:
        return ""
    if free >= SHARED_MEMORY:
        return ""
    return f"/dev/shm has {free >> 20} MiB free, loaders with workers need {SHARED_MEMORY >> 20}: some pairs will fail"


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


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _nvidia_smi(*fields: str) -> list[str]:
    """The values of these fields of the first GPU."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ["unknown"] * len(fields)
    values = [value.strip() for value in done.stdout.split("\n")[0].split(",")]
    return values if len(values) == len(fields) else ["unknown"] * len(fields)


if __name__ == "__main__":
    print(json.dumps(describe(sys.argv[1])))
