"""The pinned projects: packages, downloaded with pip and unpacked, and checkouts of repositories. None of it is run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

PACKAGES = Path(__file__).parent / "packages.txt"
LABELS = Path(__file__).parent.parent / "labels"
#: The interpreter for which pip chooses a wheel, so that all machines check the same one.
_PYTHON = "3.13"


class UnavailableError(Exception):
    """A project cannot be had; the text is a one-line reason."""


@dataclass(frozen=True)
class Package:
    """A package at a version."""

    name: str
    requirement: str  #: as pip reads it, with the hash of the wheel


@dataclass(frozen=True)
class Repository:
    """A public repository at a commit."""

    name: str  #: `OWNER/NAME`
    commit: str

    @property
    def folder(self) -> str:
        """The name of its checkout."""
        return self.name.replace("/", "+")

    def clone(self, checkouts: Path) -> str:
        """The commands that make its checkout."""
        into = checkouts / self.folder
        url = f"https://github.com/{self.name}"
        return f"git clone --quiet {url} {into} && git -C {into} checkout --quiet {self.commit}"


def packages(text: str) -> list[Package]:
    """The packages of a requirements file whose rows are ``name==version --hash=...``. Raises ValueError."""
    found = []
    for row in text.splitlines():
        if not row or row.startswith("#"):
            continue
        pinned = re.fullmatch(r"([\w.-]+)==[\w.]+ --hash=sha256:[0-9a-f]{64}", row)
        if pinned is None:
            raise ValueError(f"not pinned: {row}")
        found.append(Package(pinned[1], row))
    return found


def repositories(labels: Path) -> list[Repository]:
    """The repositories that are labelled for the benchmark of recall."""
    files = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(labels.glob("*.json"))]
    return [Repository(one["repo"], one["commit"]) for one in files]


def download(wanted: Sequence[Package], folder: Path) -> None:
    """Put the wheels of packages into a folder. Raises UnavailableError."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--python-version", _PYTHON, "--require-hashes", "--retries", "1"]
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch, "requirements.txt")
        requirements.write_text("".join(f"{package.requirement}\n" for package in wanted), encoding="utf-8")
        command += ["--dest", str(folder), "--requirement", str(requirements)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = [row for row in done.stderr.splitlines() if row.startswith("ERROR")] or done.stderr.splitlines()
        raise UnavailableError(f"pip cannot download the packages: {said[-1] if said else 'it says nothing'}")


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel into a folder, as a project of its own. Raises UnavailableError if it names a place elsewhere."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not is_below(name):
                raise UnavailableError(f"{wheel.name} is not unpacked: it contains the path {name!r}")
        archive.extractall(folder)
    # Whatever is above the folder, the project begins here.
    (folder / "torchlint.toml").write_text("", encoding="utf-8")


def is_below(name: str) -> bool:
    """Whether a path in an archive stays within the folder into which it is unpacked, on any system."""
    windows, posix = PureWindowsPath(name), PurePosixPath(name)
    return not (windows.anchor or posix.anchor or ".." in windows.parts or ".." in posix.parts)


def unpacked(wanted: Sequence[Package], folder: Path) -> list[tuple[str, Path]]:
    """Each package with the folder that holds it, below ``folder``. Raises UnavailableError."""
    found = []
    wheels = folder / "wheels"
    download(wanted, wheels)
    for package in wanted:
        (wheel,) = (file for file in wheels.glob("*.whl") if normalized(file.name.split("-")[0]) == package.name)
        into = folder / package.name
        unpack(wheel, into)
        found.append((package.name, into))
    return found


def normalized(name: str) -> str:
    """The name of a package as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def checkout(repository: Repository, checkouts: Path) -> Path:
    """The checkout of a repository. Raises UnavailableError if there is none at the pinned commit."""
    folder = (checkouts / repository.folder).resolve()
    if not folder.is_dir():
        raise UnavailableError(f"no checkout of {repository.name}")
    head = folder / ".git" / "HEAD"
    if head.is_file() and head.read_text(encoding="utf-8").strip() != repository.commit:
        raise UnavailableError(f"the checkout of {repository.name} is not at {repository.commit}")
    return folder
