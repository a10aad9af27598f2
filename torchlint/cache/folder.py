"""The folder of a cache: files of JSON that are read if they are sound, and written if that is possible."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

from torchlint.source.replacing import replace_file

#: Its name, if no setting gives another one.
NAME = ".torchlint_cache"
_TAG = "CACHEDIR.TAG"
#: See https://bford.info/cachedir/
_SIGNATURE = (
    "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache that torchlint made. It can be deleted.\n"
)
#: A file of a cache that is larger was not written by this version of torchlint.
_MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class CacheFolder:
    """A folder at a path. Reading and writing never fail: a cache that does not work is none.

    A link is none either: the folder may be a stranger's. Each file begins with the digest of the rest, so that one
    that was cut off or damaged is noticed.
    """

    path: str

    def read(self, name: str) -> Any:
        """What was written under a name by this version of torchlint; None if there is nothing sound."""
        try:
            path = self._file(name)
            if os.path.islink(self.path) or os.path.getsize(path) > _MAX_BYTES:
                return None
            with open(path, "rb") as file:
                name, _, text = file.read().decode().partition("\n")
            return json.loads(text) if name == digest(text) else None
        except (OSError, ValueError, RecursionError, MemoryError):
            return None

    def write(self, name: str, data: object) -> None:
        """Keep ``data``, which JSON can express, under a name. Of two runs that write at once, one wins."""
        path = self._file(name)
        with contextlib.suppress(OSError, ValueError, RecursionError, MemoryError):
            self._make(os.path.dirname(path))
            text = json.dumps(data, separators=(",", ":"))
            replace_file(path, f"{digest(text)}\n{text}".encode(), 0o644)

    def _file(self, name: str) -> str:
        return os.path.join(self.path, version(), f"{name}.json")

    def _make(self, inner: str) -> None:
        if os.path.islink(self.path):
            raise OSError(f"{self.path} is a link")
        os.makedirs(inner, exist_ok=True)
        for name, content in ((".gitignore", "# Made by torchlint.\n*\n"), (_TAG, _SIGNATURE)):
            path = os.path.join(self.path, name)
            if not os.path.exists(path):
                replace_file(path, content.encode(), 0o644)


def is_cache(folder: str) -> bool:
    """Whether a folder is a cache of torchlint: by its tag, which names it."""
    try:
        with open(os.path.join(folder, _TAG), encoding="utf-8") as file:
            return file.read(len(_SIGNATURE) + 1) == _SIGNATURE
    except (OSError, ValueError):
        return False


def digest(text: str) -> str:
    """A short name of a text, another one for every other text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@cache
def version() -> str:
    """Another name for every version of what results depend on: torchlint, its rules, the parser and Python."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rules = _folder_of("torchlint_rules") or os.path.join(os.path.dirname(own), "rules")  # a checkout
    folders = [folder for folder in (own, rules, _folder_of("libcst")) if folder is not None]
    return digest(repr((sys.version_info[:3], [recorded_below(f) or _stamps_below(f) for f in folders])))[:12]


def _folder_of(package: str) -> str | None:
    """Where a package is, which is not imported for that."""
    spec = importlib.util.find_spec(package)
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else None


def recorded_below(folder: str) -> list[str]:
    """What the installer recorded of the files of a package, with their digests; nothing if it is not installed.

    Another installation of the same distribution has the same records, but other times: in CI, every job has one.
    """
    above, name = os.path.split(folder)
    found: list[str] = []
    for record in sorted(glob.glob(os.path.join(glob.escape(above), "*.dist-info", "RECORD"))):
        if os.path.basename(os.path.dirname(record)).startswith((f"{name}-", f"{name.partition('_')[0]}-")):
            with contextlib.suppress(OSError, ValueError), open(record, encoding="utf-8") as file:
                found += [line for line in file if line.startswith(f"{name}/") and "__pycache__" not in line]
    return sorted(found)


def _stamps_below(folder: str) -> list[tuple[str, int, int]]:
    """Path, size and time of change of the files of a package that can change what it does."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith((".py", ".json", ".so", ".pyd")):
                status = os.stat(os.path.join(place, name))
                found.append((os.path.join(place, name), status.st_size, status.st_mtime_ns))
    return found
