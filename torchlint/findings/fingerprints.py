"""What makes a finding the same in another version of its file: for the baseline, and for CI that compares reports."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from torchlint.findings.diagnostic import Diagnostic
from torchlint.source.source import Source

# Arguments are left out: a fix of one finding of a call must not bring back the others at the same call.
_HEAD = re.compile(r".[^(\r\n]*", re.DOTALL)


def fingerprints(source: Source, diagnostics: Sequence[Diagnostic]) -> list[str]:
    """A fingerprint for each diagnostic of a file, in their order: 16 hexadecimal digits, unique within the file.

    It is made of the rule, of the code on the line up to and including the flagged piece (a call without its
    arguments), white space aside, and of how many findings above have all this in common. So it stays the same when
    lines move, code is indented or formatted otherwise, or the message is reworded. The path is left to the caller.
    """
    seen: Counter[tuple[str, str]] = Counter()
    result = [""] * len(diagnostics)
    for index, diagnostic in sorted(enumerate(diagnostics), key=lambda pair: (pair[1].start, pair[1].end)):
        subject = diagnostic.code, _subject(source, diagnostic)
        seen[subject] += 1
        content = "\0".join((*subject, str(seen[subject])))
        result[index] = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return result


def _subject(source: Source, diagnostic: Diagnostic) -> str:
    line_start = source.line_starts[source.location(diagnostic.start)[0] - 1]
    head = _HEAD.match(source.text, diagnostic.start, diagnostic.end)
    return "".join(source.text[line_start : head.end() if head else diagnostic.start].split())
