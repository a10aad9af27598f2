"""Times torchlint as it is used, next to other tools, and writes `results.json`, of which `docs/speed.md` is made.

    python -m benchmarks.speed [FOLDER ...] [--rounds 3] [--slow-rounds 1] [--peer NAME ...] [--growth]
                               [--json FILE] [--note TEXT] [--store FOLDER]

Without folders, pinned wheels are downloaded from PyPI and unpacked; nothing in them is run. The other tools are
installed from PyPI, pinned, each into its own environment. Both are kept in `.cache/speed` for the next time.

Every folder is copied first. In each round every command runs once, in turn: what slows the machine down for a while
slows all of them. A command is measured by the CPU time of all its processes and the memory of the largest one. Runs
with a cache must print what runs without one print. Results of other folders stay in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import growth
from .measuring import Measured, measure
from .peers import Peer, chosen, installed
from .uses import COLD, ONE_FILE, uses

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.json")
WHEELS = (
    "accelerate==1.15.0",
    "pytorch-lightning==2.6.6",
    "ultralytics==8.4.190",
    "timm==1.0.31",
    "diffusers==0.42.1",
    "transformers==5.23.0",
)


#: A tool, and what runs it if it is installed.
Command = tuple[Peer, list[str] | None]


def wheels(store: Path) -> list[Path]:
    """The folders of the pinned wheels, downloaded and unpacked if they are not yet."""
    folders = []
    for pinned in WHEELS:
        name = pinned.partition("==")[0]
        target = store / "wheels" / pinned.replace("==", "-")
        if not target.is_dir():
            download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", pinned]
            if subprocess.run([*download, "-d", str(store / "downloads" / name)], check=False).returncode:
                print(f"{pinned} is left out: pip cannot download it", file=sys.stderr)
                continue
            [wheel] = (store / "downloads" / name).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(target)
        folders.append(target)
    return folders


def name_of(folder: Path) -> str:
    """The name of a folder; of an unpacked wheel, the distribution with its version."""
    found = [path.name.removesuffix(".dist-info") for path in folder.glob("*.dist-info")]
    return found[0].replace("-", " ").replace("_", "-") if len(found) == 1 else folder.name


def compare(folder: Path, peers: Mapping[str, tuple[Sequence[str], int]], rounds: int) -> dict[str, Measured]:
    """The measurements of all commands on a folder, which is changed. With each peer, in how many rounds it runs."""
    own = uses(folder)
    results = {name: Measured() for name in (*(use.name for use in own), *peers)}
    first = next(use for use in own if use.name == ONE_FILE)
    measure(first.command, first.folder, None, Measured())  # compiles the modules of torchlint, if that was not done
    for number in range(rounds):
        for use in own:
            use.prepare()
            measure(use.command, use.folder, use.given(), results[use.name])
            print(f"{use.name}: {results[use.name].seconds[-1]:.2f} s", file=sys.stderr, flush=True)
        for name, (command, most) in peers.items():
            if number < most:
                measure([*command, "."], folder, None, results[name])
                print(f"{name}: {results[name].seconds[-1]:.2f} s", file=sys.stderr, flush=True)
    printed = [results[use.name].printed for use in own[:4]]
    if any(one != printed[0] or len(one) != 1 for one in printed):
        raise SystemExit(f"{folder.name}: a run with a cache prints something else than one without")
    return results


def report(results: Mapping[str, Measured]) -> None:
    """Print the figures of a folder."""
    for name, measured in results.items():
        pairs = zip(measured.seconds, results[COLD].seconds, strict=False)
        ratios = [own / base for own, base in pairs]
        print(
            f"{name:40} {statistics.median(measured.seconds):8.2f} s CPU {max(measured.megabytes):6.0f} MB "
            f"{statistics.median(ratios):8.3f} [{min(ratios):.3f}, {max(ratios):.3f}] of the first run"
        )


def machine(note: str) -> dict[str, object]:
    """What the figures depend on."""
    processor = platform.processor() or platform.machine()
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        processor = found.group(1) if found else processor
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "processor": processor,
        "cores": cores,
        "system": platform.system(),
        "python": platform.python_version(),
        "note": note,
    }


def measure_folder(folder: Path, options: argparse.Namespace, commands: Sequence[Command], work: Path) -> Any:
    """All figures of a folder, for JSON."""
    name = name_of(folder)
    copy = work / name
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".torchlint_cache", ".git"))
    (copy / ".git").mkdir(exist_ok=True)  # where the project begins
    lines = growth.lines_of(copy)
    peers = {
        peer.name: (command, options.slow_rounds if peer.is_slow else options.rounds)
        for peer, command in commands
        if command is not None and lines <= peer.most_lines
    }
    print(f"\n{name}: {lines:,} lines", file=sys.stderr)
    results = compare(copy, peers, options.rounds)
    print(f"\n{name}: {lines:,} lines")
    report(results)
    found: dict[str, object] = {
        "lines": lines,
        "files": sum(1 for _ in copy.rglob("*.py")),
        "load": [round(value, 1) for value in os.getloadavg()] if hasattr(os, "getloadavg") else [],
        "uses": {key: one.as_data() for key, one in results.items() if key not in peers},
        "peers": {key: one.as_data() for key, one in results.items() if key in peers},
        "phases": growth.phases(copy),
    }
    if options.growth:
        found["growth"] = {
            "lines": growth.by_lines(copy, work),
            "rules": growth.by_rules(copy),
            "cores": growth.by_cores(copy),
        }
    shutil.rmtree(copy)
    return found


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3, help="in each, every command runs once (default 3)")
    parser.add_argument("--slow-rounds", type=int, default=1, help="of tools that take minutes (default 1)")
    parser.add_argument("--peer", action="append", default=[], help="only this tool, or a command")
    parser.add_argument("--no-peers", action="store_true", help="only torchlint")
    parser.add_argument("--growth", action="store_true", help="also measure how the time grows with lines and rules")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add all figures to a file, such as results.json")
    parser.add_argument("--note", default="", help="what else the figures depend on, such as a busy machine")
    parser.add_argument("--store", type=Path, default=ROOT / ".cache" / "speed", help="where downloads are kept")
    options = parser.parse_args()
    folders = [folder.resolve() for folder in options.folders] or wheels(options.store)
    peers = [] if options.no_peers else chosen(options.peer)
    commands = [(peer, installed(peer, options.store / "peers")) for peer in peers]
    data: dict[str, Any] = {"folders": {}}
    if options.json is not None and options.json.is_file():
        data = json.loads(options.json.read_text(encoding="utf-8"))
    data["machine"] = machine(options.note)
    data["versions"] = {peer.name: peer.pinned.partition("==")[2] for peer in chosen([])}
    with tempfile.TemporaryDirectory() as temporary:
        for folder in folders:
            data["folders"][name_of(folder)] = measure_folder(folder, options, commands, Path(temporary))
            if options.json is not None:  # after each, so that an interruption costs one
                options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
