"""Whether rules miss nothing by their screens: ``python -m benchmarks.screens FOLDER...``.

Each folder is checked twice: as always, and with all rules that have one of their words in a file (`Rule.may_find` and
closer looks at the text in `Rule.may_concern` are ignored). A finding that only one of the two has is listed. It may
also come from the other files that a file is analysed with: these depend on the rules that a file concerns. Nothing
that is checked is imported or run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from benchmarks.eager import compare, forget
from torchlint.engine import screens
from torchlint.rule.registry import load_rules
from torchlint.rule.rule import Rule


@contextmanager
def unscreened() -> Iterator[None]:
    """Run each rule on the files that contain its words."""
    with ExitStack() as stack:
        for rule in load_rules():
            stack.enter_context(mock.patch.object(type(rule), "may_find", lambda *_: True))
            stack.enter_context(mock.patch.object(type(rule), "may_concern", vars(Rule)["may_concern"]))
        screens.forget()
        forget()
        yield
    screens.forget()
    forget()


if __name__ == "__main__":
    sys.exit(compare(__doc__, unscreened))
