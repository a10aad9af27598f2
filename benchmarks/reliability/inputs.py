"""The inputs of a run: files, mutations of files, files in odd formatting, programs from the grammar."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random

from benchmarks.reliability.disguises import disguised
from benchmarks.reliability.idioms import program
from benchmarks.reliability.invariants import Outcome, examined
from benchmarks.reliability.mutations import mutated

#: Characters of files that are changed: what takes long says little.
_SMALL = 20_000
#: Files without any of these words concern hardly any rule.
_WORDS = (b".cuda", b".to(", b"DataLoader", b"no_grad", b"compile")


#: The project of made-up files: a folder that is not there, so that nothing else is in it.
FOLDER = os.path.join(os.path.abspath(os.sep), "made-up", "")


class Kind(Enum):
    """How the content of an input is made."""

    FILE = "a file within its project"
    MUTATION = "a mutation of a file, by itself"
    DISGUISE = "a file in odd formatting, by itself"
    IDIOMS = "a program from the grammar, in odd formatting"
    PLAIN = "a program from the grammar"


@dataclass(frozen=True)
class Input:
    """One input, which its seed makes again."""

    kind: Kind
    path: Path = Path("program.py")
    seed: int = 0

    @property
    def name(self) -> str:
        """What the user needs in order to make it again."""
        return str(self.path) if self.kind is Kind.FILE else f"{self.kind.name.lower()} {self.seed} of {self.path}"

    def content(self) -> bytes:
        """The bytes of the file."""
        random = Random(self.seed)
        if self.kind is Kind.MUTATION:
            return mutated(self.path.read_bytes(), random)
        if self.kind is Kind.DISGUISE:
            text = self.path.read_bytes().decode("utf-8", "replace").lstrip("\ufeff").replace("\r\n", "\n")
            return disguised(text.replace("\r", "\n"), random)
        if self.kind is Kind.IDIOMS:
            return disguised(program(random), random)
        return program(random).encode() if self.kind is Kind.PLAIN else self.path.read_bytes()

    def outcome(self) -> Outcome:
        """What comes of it. The content is kept if it cannot be read from a file and something does not hold."""
        path = str(self.path) if self.kind is Kind.FILE else f"{FOLDER}changed{self.path.suffix}"
        outcome = examined(self.content(), path, self.name)
        if self.kind is Kind.FILE or not outcome.violations:
            outcome.content = b""
        return outcome


def of_files(files: Sequence[Path]) -> Iterator[Input]:
    """The files themselves."""
    return (Input(Kind.FILE, path) for path in files)


def changed(kind: Kind, files: Sequence[Path], count: int, seed: int) -> Iterator[Input]:
    """Changes of small files that concern torch."""
    random = Random(seed)
    small = [path for path in files if path.stat().st_size <= _SMALL and _concerns(path)]
    if kind is Kind.DISGUISE:
        small = [path for path in small if path.suffix == ".py"]
    return (Input(kind, random.choice(small), seed + number) for number in range(count if small else 0))


def generated(kind: Kind, count: int, seed: int) -> Iterator[Input]:
    """Programs from the grammar."""
    return (Input(kind, seed=seed + number) for number in range(count))


def _concerns(path: Path) -> bool:
    content = path.read_bytes()
    return b"torch" in content and any(word in content for word in _WORDS)
