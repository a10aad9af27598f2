"""The offsets of nodes in texts that libcst does not give back as they were."""

from __future__ import annotations

import libcst
import libcst.matchers
import pytest

from torchlint.model.syntax.places import Places


@pytest.mark.parametrize("indent", ["\x0c    ", "  \x0c    ", "\x0c\t"])
@pytest.mark.parametrize("later", ["    ", "\x0c    "])
def test_a_form_feed_in_the_indentation_of_a_block(indent: str, later: str) -> None:
    text = f"if True:\n{indent}first()\n{indent if chr(9) in indent else later}second(x)\nthird('é')"
    tree = libcst.parse_module(text)
    places = Places(tree, text)
    found = []
    for name in ("first()", "second(x)", "third('é')"):
        calls = libcst.matchers.findall(tree, libcst.matchers.Call())
        spans = [places.get(call) for call in calls if tree.code_for_node(call) == name]
        found += [text[slice(*span)] for span in spans if span is not None]
    assert found == ["first()", "second(x)", "third('é')"]
