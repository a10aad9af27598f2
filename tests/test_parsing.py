"""Text -> pieces with a tree each: where a text is cut, what is parsed again, and where nodes stand."""

from __future__ import annotations

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trees import differences
from torchlint.model.module import Module
from torchlint.model.syntax.pieces import parse_pieces
from torchlint.source import parsing
from torchlint.source.parsing import ParseError

STATEMENTS = (
    "import os\n",
    "a = 1; b = 2\n",
    "a = 1; \\\nb = 2\n",
    "if a: pass\nelse: pass\n",
    "# a comment\n\n@decorated\n@twice(1)\ndef f(x):\n    '''text\n\n# no comment'''\n    return x\n    # inside\n",
    "@ (  # why\n(\ntools) . cache ( 1\n))\nclass D:\n\t@(\nprop\n)\n\tdef f(x): return x\n",
    "class C:\r\n\tx = 'é🔥'\r\n",
    "s = '''\nclass\n'''; t = '''\n'''\n",
    "call(\n    1,\n)  # behind\n",
    "\n\n",
)


@given(st.lists(st.sampled_from(STATEMENTS)))
def test_pieces_are_the_whole_text_and_each_is_python(statements: list[str]) -> None:
    text = "".join(statements)
    pieces = parse_pieces(text)
    assert "".join(piece.text for piece in pieces) == text
    assert all(list(differences(piece.text)) == [] for piece in pieces)
    whole = cst.parse_module(text)
    assert sum(len(piece.tree.body) for piece in pieces) == len(whole.body)


@given(st.lists(st.sampled_from(STATEMENTS)))
def test_nodes_know_where_they_stand(statements: list[str]) -> None:
    text = "".join([*statements, "last(1)\n", *statements])
    module = Module.parse(text)
    call = next(node for node in module.tree.calls if isinstance(node.func, cst.Name) and node.func.value == "last")
    start, end = module.span(call)
    assert text[start:end] == "last(1)"
    assert module.row(call) == text[:start].replace("\r\n", "\n").count("\n") + 1


@pytest.mark.parametrize(
    "before", ["x = 1\n\x0c", "x = 1\n\n\n\x0c\n", "def f():\n    x = 1\n\n\n\x0c\n\x0c    y = 'é'\n    "]
)
def test_form_feeds_move_nothing(before: str) -> None:
    text = before + "last(1)\n"
    module = Module.parse(text)
    start, end = module.span(module.tree.calls[0])
    assert text[start:end] == "last(1)"


@pytest.mark.parametrize(
    "before",
    [
        "try:\n    pass\nexcept A :\n    ",
        "try:\n    pass\nexcept A \\\n  :\n    ",
        "try:\n    pass\nexcept (A)\t:\n    é\n    ",
    ],
)
def test_blanks_that_libcst_drops_move_nothing(before: str) -> None:
    text = before + "last(1)\n"
    module = Module.parse(text)
    start, end = module.span(module.tree.calls[0])
    assert text[start:end] == "last(1)"


def test_what_only_our_parser_cannot_read_is_not_called_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> cst.Module:
        raise cst.ParserSyntaxError("parser error: expected one of (", lines=[text], raw_line=1, raw_column=2)

    monkeypatch.setattr(cst, "parse_module", refuse)
    with pytest.raises(ParseError) as caught:
        parse_pieces("never_seen_before = lambda: [*()]; del never_seen_before,\n")
    assert caught.value.reason == "Python can read it, but torchlint's parser cannot"


def test_a_decorated_function_is_one_piece() -> None:
    pieces = parse_pieces("import os\n# why\n@one\n@two\ndef f():\n    pass\nx = 1\n")
    assert [piece.text for piece in pieces] == ["import os\n# why\n", "@one\n@two\ndef f():\n    pass\n", "x = 1\n"]


def test_equal_statements_are_not_parsed_again() -> None:
    before = parse_pieces("x = 1\ny = 2\nx = 1\n", "equal.py")
    after = parse_pieces("x = 1\ny = 3\nx = 1\n", "equal.py")
    assert [one.tree is other.tree for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert after[0].tree is not after[2].tree


def test_only_what_has_changed_is_parsed_again() -> None:
    before = parse_pieces("import os\ndef f():\n    return 1\nx = f()\n")
    after = parse_pieces("import os\n\ndef f():\n    return 2\nx = f()\n")
    kept = {piece.text for one in before for piece in after if one.tree is piece.tree}
    assert kept == {"x = f()\n"}


def test_what_is_not_parsed_again_is_found_at_its_new_place() -> None:
    for before in ("", "import os\n", "s = 'ü'\n"):
        text = before + "t = 'é'; f(2)\n"
        module = Module.parse(text)
        assert module.span(module.tree.calls[0]) == (text.index("f(2)"), text.index("f(2)") + 4)


def test_statements_that_read_alike_have_nodes_of_their_own() -> None:
    for _ in range(2):  # the second time the trees of the first are at hand
        one, two = parse_pieces("f()\nf()\n")
        assert one.tree.body[0] is not two.tree.body[0]
        module = Module.parse("f()\nf()\n")
        assert [module.span(call) for call in module.tree.calls] == [(0, 3), (4, 7)]


def test_an_error_names_its_row_in_the_file() -> None:
    with pytest.raises(ParseError) as caught:
        parse_pieces("x = 1\n\ny = = 2\n")
    assert (caught.value.row, caught.value.column) == (3, 5)


def test_what_python_has_read_is_not_read_again_for_its_syntax(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "read_once = 1\n"
    parsing.python_tree(text)
    monkeypatch.setattr(parsing, "_trees", {})  # as after many other texts
    for reader in ("fresh_tree", "_collect_names"):
        monkeypatch.setattr(parsing, reader, lambda text: pytest.fail("it is read again"))
    parsing.check_syntax(text)
