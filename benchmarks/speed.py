"""Times torchlint beside its peers over the same folder, taking turns, and prints the ratios.

    python benchmarks/speed.py FOLDER [--repeat 3] [--peer "torchfix -j 2" ...]

Each peer is a command to which the folder is added; one that is not installed is left out and said so.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

DEFAULT_PEERS = ["torchfix", "hotpath analyze"]


def seconds(command: list[str]) -> float:
    """Wall time of one run; its output goes nowhere, its exit status is its own affair."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeat", type=int, default=3, help="rounds; in each, every command runs once (default 3)")
    parser.add_argument("--peer", action="append", help="a command to compare with; may be given several times")
    options = parser.parse_args()
    lines = sum(path.read_bytes().count(b"\n") for path in options.folder.rglob("*.py"))
    commands = {"torchlint": [sys.executable, "-m", "torchlint", "--isolated", "--exit-zero", "-q"]}
    for peer in options.peer or DEFAULT_PEERS:
        words = shlex.split(peer)
        if shutil.which(words[0]) is None:
            print(f"{words[0]}: not installed, left out")
        else:
            commands[Path(words[0]).name] = words
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(options.repeat):
        for name, words in commands.items():
            times[name].append(seconds([*words, str(options.folder)]))
    own = statistics.median(times["torchlint"])
    print(f"{options.folder}: {lines} lines")
    for name, measured in times.items():
        middle = statistics.median(measured)
        print(f"{name:12} {middle:8.2f} s  {middle / own:7.1f} times torchlint's time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
