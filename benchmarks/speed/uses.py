"""Times torchlint as it is used, beside its peers, and prints CPU times as ratios.

    python benchmarks/speed.py [FOLDER ...] [--repeat 3] [--peer "torchfix -j 2" ...] [--json FILE]

Without folders, pinned wheels are downloaded from PyPI and unpacked (nothing in them is run). Every folder is copied
first. In each round every command runs once, in turns: cold (no cache), warm (nothing has changed), after a change of a
file that none imports and of the file that most import, one file, and standard input; then each peer. A command is
measured by the CPU time of all its processes, and its largest process. What torchlint prints is compared: warm and
cold runs must print the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WHEELS = (
    "timm==1.0.31",
    "transformers==5.23.0",
    "diffusers==0.42.1",
    "ultralytics==8.4.190",
    "accelerate==1.15.0",
    "pytorch-lightning==2.6.6",
)
PEERS = ("ruff check --isolated --no-cache", "hotpath analyze", "torchfix -j 2")
TORCHLINT = [sys.executable, "-m", "torchlint", "check", "--isolated", "--output-format", "json"]
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+[.\w]*?(\w+)(?:\s+import|\s*$)", re.MULTILINE)


@dataclass
class Measured:
    """The runs of one command."""

    seconds: list[float] = field(default_factory=list)  #: of CPU, user and system, of all processes
    elapsed: list[float] = field(default_factory=list)  #: seconds
    megabytes: list[float] = field(default_factory=list)  #: of the largest process
    printed: set[bytes] = field(default_factory=set)


def measure(command: Sequence[str], folder: Path, given: bytes | None, into: Measured) -> None:
    """Run a command once in a folder, with what it reads from standard input."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output:
        source.write(given or b"")
        source.seek(0)
        start = os.times()
        process = subprocess.Popen(command, cwd=folder, stdin=source, stdout=output, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        output.seek(0)
        into.printed.add(output.read())
    into.elapsed.append(os.times().elapsed - start.elapsed)
    into.seconds.append(usage.ru_utime + usage.ru_stime)
    into.megabytes.append(usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))


def wheels(target: Path) -> list[Path]:
    """The folders of the pinned wheels, downloaded and unpacked."""
    folders = []
    for pinned in WHEELS:
        name = pinned.partition("==")[0]
        download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", pinned]
        subprocess.run([*download, "-d", str(target / "wheels" / name)], check=True)
        [wheel] = (target / "wheels" / name).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target / name)
        folders.append(target / name)
    return folders


def leaf_and_hub(folder: Path) -> tuple[Path, Path]:
    """A file that no other names in an import, and the file that most name; the longest of several."""
    files = sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in files}
    named = Counter(name for text in texts.values() for name in set(_IMPORTED.findall(text)))
    ordered = sorted(files, key=lambda path: (named[path.stem], len(texts[path])))
    unnamed = [path for path in ordered if not named[path.stem] and "torch" in texts[path]]
    return (unnamed or ordered)[-1 if unnamed else 0], ordered[-1]


def changed(path: Path) -> Callable[[], None]:
    """Adds a comment to a file."""

    def change() -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write("# changed\n")

    return change


def compare(folder: Path, peers: Sequence[str], repeat: int) -> dict[str, Measured]:
    """The measurements of all commands on a folder, which is changed."""
    leaf, hub = leaf_and_hub(folder)
    cache = folder / ".torchlint_cache"
    content = leaf.read_bytes()
    name = str(leaf.relative_to(folder))
    scenarios: dict[str, tuple[list[str], Callable[[], object], bytes | None]] = {
        "cold": ([*TORCHLINT, "."], lambda: shutil.rmtree(cache, ignore_errors=True), None),
        "warm": ([*TORCHLINT, "."], lambda: None, None),
        "one file changed, which none imports": ([*TORCHLINT, "."], changed(leaf), None),
        "one file changed, which most import": ([*TORCHLINT, "."], changed(hub), None),
        "one file, no cache": ([*TORCHLINT, "--no-cache", name], lambda: None, None),
        "one file, warm": ([*TORCHLINT, name], lambda: None, None),
        "standard input": ([*TORCHLINT, "--stdin-filename", name, "-"], lambda: None, content),
    }
    for peer in peers:
        words = shlex.split(peer)
        if shutil.which(words[0]) is None:
            print(f"{words[0]}: not installed, left out", file=sys.stderr)
        else:
            scenarios[words[0]] = ([*words, "."], lambda: None, None)
    results = {name: Measured() for name in scenarios}
    for _ in range(repeat):
        for scenario, (command, prepare, given) in scenarios.items():
            prepare()
            measure(command, folder, given, results[scenario])
    if results["cold"].printed != results["warm"].printed:
        raise SystemExit(f"{folder.name}: a warm run prints something else than a cold one")
    return results


def report(name: str, lines: int, results: dict[str, Measured]) -> dict[str, object]:
    """Print the figures of a folder; the same as data."""
    cold = results["cold"].seconds
    print(f"\n{name}: {lines:,} lines")
    rows: dict[str, object] = {"lines": lines}
    for scenario, measured in results.items():
        ratios = [own / base for own, base in zip(measured.seconds, cold, strict=True)]
        rows[scenario] = {
            "cpu_seconds": [round(value, 2) for value in measured.seconds],
            "elapsed_seconds": [round(value, 2) for value in measured.elapsed],
            "megabytes": round(max(measured.megabytes)),
            "of_cold": [round(value, 4) for value in ratios],
        }
        cpu, elapsed, ratio = (statistics.median(of) for of in (measured.seconds, measured.elapsed, ratios))
        print(
            f"{scenario:38} {cpu:8.2f} s CPU {elapsed:8.2f} s {max(measured.megabytes):6.0f} MB "
            f"{ratio:8.3f} [{min(ratios):.3f}, {max(ratios):.3f}] of cold"
        )
    return rows


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; in each, every command runs once (default 3)")
    parser.add_argument("--peer", action="append", help="a command to compare with; may be given several times")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    options = parser.parse_args()
    data: dict[str, object] = {
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "python": platform.python_version(),
    }
    with tempfile.TemporaryDirectory() as temporary:
        for folder in options.folders or wheels(Path(temporary)):
            copy = Path(temporary) / "copies" / folder.name
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".torchlint_cache", ".git"))
            (copy / ".git").mkdir()  # where the project begins
            lines = sum(path.read_bytes().count(b"\n") for path in copy.rglob("*.py"))
            results = compare(copy, options.peer if options.peer is not None else PEERS, options.repeat)
            data[folder.name] = report(folder.name, lines, results)
            shutil.rmtree(copy)
    if options.json is not None:
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
