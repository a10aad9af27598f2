"""The other tools: each is installed from PyPI, pinned, into an environment of its own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Peer:
    """Another tool."""

    name: str
    pinned: str  #: what pip installs; empty: nothing
    command: tuple[str, ...]  #: the program and its arguments; a folder follows
    most_lines: int = sys.maxsize  #: it is left out of larger folders
    is_slow: bool = False  #: takes minutes: fewer rounds are enough


PEERS = (
    Peer("ruff", "ruff==0.17.6", ("ruff", "check", "--isolated", "--no-cache", "--quiet")),
    Peer("hotpath-ai", "hotpath-ai==0.1.0", ("hotpath", "analyze")),
    Peer("flake8", "flake8==7.5.0", ("flake8", "--isolated", "-j", "2"), is_slow=True),
    Peer("TorchFix", "TorchFix==0.7.0", ("torchfix", "-j", "2"), most_lines=300_000, is_slow=True),
    Peer("Fixit", "fixit==2.2.1", ("fixit", "lint"), most_lines=100_000, is_slow=True),
    Peer(
        "pylint",
        "pylint==4.1.4",
        ("pylint", "--rcfile=", "--recursive=y", "--score=n"),
        most_lines=50_000,
        is_slow=True,
    ),
)


def installed(peer: Peer, environments: Path) -> list[str] | None:
    """The command of a tool, which is installed if it is not yet; None if there is none."""
    if not peer.pinned:
        if shutil.which(peer.command[0]) is None:
            print(f"{peer.name} is left out: it is not installed", file=sys.stderr)
            return None
        return list(peer.command)
    home = environments / peer.pinned.replace("==", "-")
    scripts = home / ("Scripts" if sys.platform == "win32" else "bin")
    done = home / "installed"
    if not done.is_file():
        print(f"installing {peer.pinned}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        install = [str(scripts / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", peer.pinned]
        if subprocess.run(install, check=False).returncode:
            print(f"{peer.name} is left out: pip cannot install it", file=sys.stderr)
            return None
        done.touch()
    return [str(scripts / peer.command[0]), *peer.command[1:]]


def chosen(names: Sequence[str]) -> list[Peer]:
    """The tools with these names, or commands of tools that are installed; all tools without names."""
    if not names:
        return list(PEERS)
    known = {peer.name: peer for peer in PEERS}
    return [known.get(name) or Peer(shlex.split(name)[0], "", tuple(shlex.split(name))) for name in names]
