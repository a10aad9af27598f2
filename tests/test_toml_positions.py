"""Where the keys and values of a settings file are."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import hypothesis
from hypothesis import strategies

from torchlint.settings.toml_positions import Path, excerpt, positions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCUMENT = """\
a = 1  # a = 2
[tool.torchlint]
select = ["TL1",  # "TL2"
  'TL998', ]
rules.x.num-workers = 4
"a key" = [[1], {b = 2024-01-01 10:00:00}]
[tool.torchlint.per-file-ignores]
"a\\u002epy" = [ ]
b."c.d" = { e = '''
f]''' , "g" = true }

[[array]]
h = \"\"\"]\"\"\"\"
"""


def own(*path: str | int) -> Path:
    """The path of a key in the table of torchlint."""
    return ("tool", "torchlint", *path)


def test_keys_and_values_are_found() -> None:
    keys, values = positions(DOCUMENT)
    text = {path: DOCUMENT[slice(*span)] for path, span in values.items()}
    assert text[("a",)] == "1"
    assert [text[own("select", index)] for index in (0, 1)] == ['"TL1"', "'TL998'"]
    assert text[own("rules", "x", "num-workers")] == "4"
    assert text[own("a key", 0, 0)] == "1"
    assert text[own("a key", 1, "b")] == "2024-01-01 10:00:00"
    assert text[own("per-file-ignores", "a.py")] == "[ ]"
    assert text[own("per-file-ignores", "b", "c.d", "e")] == "'''\nf]'''"
    assert text[own("per-file-ignores", "b", "c.d", "g")] == "true"
    assert text["array", "h"] == '"""]""""'
    assert DOCUMENT[slice(*keys[own("rules", "x", "num-workers")])] == "num-workers"
    assert DOCUMENT[slice(*keys[own("per-file-ignores", "a.py")])] == '"a\\u002epy"'


def test_an_excerpt_shows_the_row_and_marks_the_span() -> None:
    _, values = positions(DOCUMENT)
    assert excerpt(DOCUMENT, values["tool", "torchlint", "select", 1]) == "  |\n4 |   'TL998', ]\n  |   ^^^^^^^"
    whole = values["tool", "torchlint", "select"]  # of two rows, the first one
    assert excerpt(DOCUMENT, whole).splitlines()[-1] == "  |          " + "^" * len('["TL1",  # "TL2"')


def leaves(value: Any, path: Path = ()) -> set[Path]:
    """The paths of all values that are not tables or lists themselves."""
    if isinstance(value, dict):
        return {leaf for key, item in value.items() for leaf in leaves(item, (*path, key))}
    if isinstance(value, list):
        return {leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))}
    return {path}


def test_every_value_of_a_document_has_a_place() -> None:
    document = tomllib.loads(DOCUMENT)
    document["array"] = document["array"][0]  # the tables of an array are not told apart
    assert leaves(document) <= positions(DOCUMENT)[1].keys()


@hypothesis.given(strategies.text(alphabet="ab=[]{}.,'\"\\\n# 1", max_size=30))
def test_any_text_is_read_to_its_end(text: str) -> None:
    _, values = positions(text)
    with contextlib.suppress(tomllib.TOMLDecodeError):
        document = tomllib.loads(text)
        if "[[" not in text:
            assert leaves(document) <= values.keys()
