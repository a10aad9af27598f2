"""``--output-format json-lines``: the items of the JSON list, one a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from torchlint.engine.results import Result
from torchlint.output.json import item, statistics_items
from torchlint.output.places import findings


def write(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write all findings."""
    for source, diagnostic in findings(results):
        print(json.dumps(item(source, diagnostic)), file=out)


def write_statistics(results: Sequence[Result], out: TextIO, *, unsafe: bool = False) -> None:
    """Write how often each rule was violated."""
    for row in statistics_items(results, unsafe):
        print(json.dumps(row), file=out)
