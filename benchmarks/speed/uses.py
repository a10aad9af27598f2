"""How torchlint is used: a folder and one of its files, with and without a cache, changed and not."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TORCHLINT = (sys.executable, "-m", "torchlint", "check", "--isolated", "--output-format", "json")
COLD = "first run"
WARM = "nothing has changed"
ONE_FILE = "one file, without a cache"
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+[.\w]*?(\w+)(?:\s+import|\s*$)", re.MULTILINE)


@dataclass(frozen=True)
class Use:
    """One way to call torchlint, or another tool."""

    name: str
    command: Sequence[str]
    folder: Path
    prepare: Callable[[], object] = lambda: None
    given: Callable[[], bytes | None] = lambda: None  #: what is on standard input


def leaf_and_hub(folder: Path) -> tuple[Path, Path]:
    """A file that no other names in an import, and the file that most name; the longest of several."""
    files = sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in files}
    named = Counter(name for text in texts.values() for name in set(_IMPORTED.findall(text)))
    ordered = sorted(files, key=lambda path: (named[path.stem], len(texts[path])))
    unnamed = [path for path in ordered if not named[path.stem] and "torch" in texts[path]]
    return (unnamed or ordered)[-1 if unnamed else 0], ordered[-1]


def uses(folder: Path) -> list[Use]:
    """All uses of a folder, which they change, in the order of a round."""
    leaf, hub = leaf_and_hub(folder)
    fixed = folder.parent / f"{folder.name} fixed"
    name = str(leaf.relative_to(folder))
    cache = folder / ".torchlint_cache"

    def copy() -> None:
        shutil.rmtree(fixed, ignore_errors=True)
        shutil.copytree(folder, fixed, ignore=shutil.ignore_patterns(".torchlint_cache"))

    def changed(path: Path) -> Callable[[], None]:
        def change() -> None:
            with path.open("ab") as file:
                file.write(b"# changed\n")

        return change

    whole = [*TORCHLINT, "."]
    piped = [*TORCHLINT, "--stdin-filename", name, "-"]
    return [  # the first four print the same
        Use(COLD, whole, folder, lambda: shutil.rmtree(cache, ignore_errors=True)),
        Use(WARM, whole, folder),
        Use("one file changed that no file imports", whole, folder, changed(leaf)),
        Use("one file changed that most files import", whole, folder, changed(hub)),
        Use(ONE_FILE, [*TORCHLINT, "--no-cache", name], folder),
        Use("one file, nothing has changed", [*TORCHLINT, name], folder),
        Use("standard input, text not saved", piped, folder, given=lambda: leaf.read_bytes() + b"# typed\n"),
        Use("standard input, text saved", piped, folder, given=leaf.read_bytes),
        Use("`--fix`, without a cache", [*TORCHLINT, "--no-cache", "--fix", "."], fixed, copy),
    ]
