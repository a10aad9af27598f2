"""Whether rules miss nothing by asking the syntax tree first: ``python -m benchmarks.screens FOLDER...``.

Each folder is checked twice: as always, and with all rules that the words of a file admit (`Rule.may_find` is ignored).
A finding that only one of the two has is listed. Nothing that is checked is imported or run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from benchmarks.eager import compare
from torchlint.rule.registry import load_rules


@contextmanager
def unscreened() -> Iterator[None]:
    """Run each rule that the words of a file admit."""
    with ExitStack() as stack:
        for rule in load_rules():
            stack.enter_context(mock.patch.object(type(rule), "may_find", lambda *_: True))
        yield


if __name__ == "__main__":
    sys.exit(compare(__doc__, unscreened))
