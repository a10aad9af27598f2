"""Whether a file tests code, by its place and by the libraries that its text imports."""

from __future__ import annotations

import re
from functools import lru_cache

from torchlint.source.lexemes import code_of

#: A folder of tests. Scripts are in `test/` too, and `test_*.py` is often a script that evaluates a network.
_TESTS = re.compile(r"(^|/)tests/|(^|/)conftest\.py$")
#: Libraries that only tests import. Editors import `unittest` by accident: it counts if it is used.
_LIBRARIES = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+(?:pytest|parameterized|torch\.testing|absl\.testing|accelerate\.test_utils)\b",
    re.MULTILINE,
)
_UNITTEST = re.compile(r"^[ \t]*(?:import[ \t]+unittest\b|from[ \t]+unittest[ \t.])[^\n]*", re.MULTILINE)
_USED = re.compile(r"\bunittest\.|\b(?:TestCase|mock|patch|MagicMock|Mock)\b")


def is_test(place: str, text: str) -> bool:
    """Whether the file at `place`, a path within its project, with this text tests code."""
    return _TESTS.search(place) is not None or _imports_tests(text)


@lru_cache(maxsize=256)  # asked again for the files around each file
def _imports_tests(text: str) -> bool:
    if not any(word in text for word in ("unittest", "pytest", "parameterized", ".testing", "test_utils")):
        return False
    code = code_of(text)
    return _LIBRARIES.search(code) is not None or (
        _UNITTEST.search(code) is not None and _USED.search(_UNITTEST.sub("", code)) is not None
    )
