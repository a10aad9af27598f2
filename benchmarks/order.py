"""Whether findings depend on what was asked before: ``python -m benchmarks.order FOLDER...``.

Each folder is checked twice: as always, and with the files and the rules in the reverse order. A finding that only one
of the two has is listed. Nothing that is checked is imported or run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from benchmarks import eager
from torchlint.engine import checker
from torchlint.engine.screens import sketched
from torchlint.rule import Rule
from torchlint.source.source import Source


@contextmanager
def everything_reversed() -> Iterator[None]:
    """Check the last file first, and each file with the last rule first."""
    files_of = eager.files_of

    def rules_reversed(source: Source, rules: Sequence[Rule], *, alone: bool) -> Sequence[Rule]:
        return sketched(source, rules, alone=alone)[::-1]

    def files_reversed(folder: Path) -> list[Path]:
        return files_of(folder)[::-1]

    with mock.patch.object(checker, "sketched", rules_reversed), mock.patch.object(eager, "files_of", files_reversed):
        eager.forget()
        yield
    eager.forget()


if __name__ == "__main__":
    sys.exit(eager.compare(__doc__, everything_reversed))
