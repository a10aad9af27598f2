"""Whether a file tests code, by its place and by the libraries that its text imports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from torchlint.source.lexemes import code_of

#: A folder of tests. Scripts are in `test/` too, and `test_*.py` is often a script that evaluates a network; a file of
#: this name in such a folder is a test.
_TESTS = re.compile(r"(^|/)tests/|(^|/)conftest\.py$|(^|/)test/([^/]+/)*test_\w+\.py$")
#: Libraries that only tests import. Editors import `unittest` by accident: it counts if it is used.
_LIBRARIES = re.compile(
    r"^[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*)"
    r"(?:pytest|parameterized|torch\.testing|numpy\.testing|absl\.testing|accelerate\.test_utils)\b",
    re.MULTILINE,
)
#: A script of this name tests an operator if it compares gradients with numerical ones.
_TEST_SCRIPT = re.compile(r"(^|[/_])test(_\w+)?\.py$")
_COMPARES_GRADIENTS = re.compile(r"^[ \t]*from[ \t]+torch\.autograd[ \t]+import[^\n#]*\bgradcheck\b", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:import[ \t]+(?P<modules>[^\n(]*)"
    r"|from[ \t]+unittest[\w.]*[ \t]+import[ \t]*(?P<names>\([^)]{0,2000}\)|[^\n]*))",
    re.MULTILINE,
)
#: How many names of `unittest` are looked for in a file.
_NAMES = 50
#: One item of an import: the name it binds, which is the first part of a dotted name.
_ITEM = re.compile(r"(?P<name>\w+)[\w.]*(?:[ \t]+as[ \t]+(?P<bound>\w+))?")


def is_test(place: str, text: str) -> bool:
    """Whether the file at `place`, a path within its project, with this text tests code."""
    if _TESTS.search(place) is not None or _imports_tests(text):
        return True
    return "gradcheck" in text and bool(_TEST_SCRIPT.search(place) and _COMPARES_GRADIENTS.search(code_of(text)))


@lru_cache(maxsize=256)  # asked again for the files around each file
def _imports_tests(text: str) -> bool:
    if not any(word in text for word in ("unittest", "pytest", "parameterized", ".testing", "test_utils")):
        return False
    code = code_of(text)
    if _LIBRARIES.search(code):
        return True
    names = dict(islice(_names_of_unittest(code), _NAMES)) if "unittest" in code else {}
    rest = _IMPORT.sub("", code) if names else ""
    return any(_is_used(imported, bound, rest) for bound, imported in names.items())


def _names_of_unittest(code: str) -> Iterator[tuple[str, str]]:
    """The names that `code` gives to `unittest` and to what is in it, each with the one that it refers to."""
    for found in _IMPORT.finditer(code):
        for item in _ITEM.finditer(found["names"] or found["modules"] or ""):
            if found["names"] or item["name"] == "unittest":
                yield item["bound"] or item["name"], item["name"]


def _is_used(imported: str, bound: str, code: str) -> bool:
    """Whether what is imported under the name `bound` is used. `patch` and `call` are names of variables too."""
    if imported in ("unittest", "mock") or not imported.islower():
        return re.search(rf"\b{bound}\b", code) is not None
    return re.search(rf"(?<![\w.])(?:@{bound}\b|{bound}(?:\.(?:object|dict|multiple))?[ \t]*\()", code) is not None
