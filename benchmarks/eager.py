"""Whether pieces chosen on demand give the findings of whole files: ``python -m benchmarks.eager FOLDER...``.

Each folder is checked twice: as always, and with every top-level statement loaded of all files of a program. A finding
that only one of the two has is listed. Nothing that is checked is imported or run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import torchlint
from torchlint.engine.checker import InternalError, check
from torchlint.model import forests
from torchlint.model.syntax.context import Context, ContextFile
from torchlint.project import context as contexts
from torchlint.project.chosen import Chosen
from torchlint.project.project import Project
from torchlint.source import reading
from torchlint.source.source import SourceError

#: A finding: path, code, row and column.
Found = tuple[str, str, int, int]
#: Another way of analysis, while its context lasts.
Way = Callable[[], AbstractContextManager[None]]


def files_of(folder: Path) -> list[Path]:
    """The files of a folder, in the order in which they are checked."""
    return sorted(folder.rglob("*.py"))


def findings(folder: Path) -> set[Found]:
    """The findings of all files of a folder, each within its program. Raises InternalError if a rule does."""
    settings = torchlint.load_settings(overrides={"timeout": 0})
    found: set[Found] = set()

    def fail(crash: InternalError) -> None:
        raise crash

    for path in files_of(folder):
        try:
            source = reading.read(str(path))
        except (OSError, SourceError):
            continue
        for one in check(source, settings, on_crash=fail):
            found.add((str(path), one.code, *source.location(one.start)))
    return found


@contextmanager
def everything_loaded() -> Iterator[None]:
    """Analyse each file with all statements of all files of its programs."""
    choose = contexts._context

    def choose_all(
        files: Project, mains: Sequence[str], chosen: Chosen, root: str, known: Mapping[object, ContextFile]
    ) -> Context:
        names = {file.path for file in choose(files, mains, chosen, root, {}).files}
        for main in mains:
            names.update(files.companions(main))
        found = []
        for name in sorted(names):
            text = files.text_of(name) or ""
            starts = files.facts_of(name).pieces.starts
            spans = tuple(zip(starts, [*starts[1:], len(text)], strict=True))
            if spans and text:
                found.append(ContextFile(name, text, spans, name in mains, partial(contexts._parsed, root)))
        return Context(
            root, tuple(found), files.find_module, files.configured, lambda: files.configs.read, files.paths_of
        )

    with mock.patch.object(contexts, "_context", choose_all):
        forget()
        yield
    forget()


def forget() -> None:
    """Drop what is known of files that were checked."""
    contexts.forget()
    forests.forget()


def differences(folder: Path, way: Way = everything_loaded) -> tuple[int, list[str]]:
    """How many findings a folder has, and those that only the usual or only the other way gives, a line each."""
    forget()
    usual = findings(folder)
    with way():
        other = findings(folder)
    lines = [f"only the usual way: {_line(one)}" for one in sorted(usual - other)]
    return len(usual), lines + [f"only the other way: {_line(one)}" for one in sorted(other - usual)]


def _line(found: Found) -> str:
    path, code, row, column = found
    return f"{path}:{row}:{column}: {code}"


def compare(description: str | None, way: Way) -> int:
    """Run a command that compares the findings of folders with those of another way of analysis."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    total = different = 0
    for folder in parser.parse_args().folders:
        count, lines = differences(folder, way)
        total, different = total + count, different + len(lines)
        for line in lines:
            print(line, flush=True)
    print(f"{total:,} findings, {different:,} of only one way")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(compare(__doc__, everything_loaded))
