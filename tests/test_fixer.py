"""Fixing: what is applied together, when it ends, and that no file is ever half written."""

from __future__ import annotations

import os
import re
import stat
import tokenize
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchlint
from torchlint.engine import fixer
from torchlint.engine.fixer import WriteError, fix, unified_diff, write
from torchlint.findings.conflicts import edits_of, without_conflicts
from torchlint.rule import Applicability, Diagnostic, Edit, Fix
from torchlint.settings.settings import Settings
from torchlint.source import reading
from torchlint.source.ranges import apply
from torchlint.source.source import Source

MakeSettings = Callable[..., Settings]


def diagnostic(*edits: Edit, code: str = "AB101") -> Diagnostic:
    """A diagnostic with a safe fix."""
    return Diagnostic(code, "some-name", "", 0, 1, fix=Fix("do it", edits, Applicability.SAFE))


def chosen(*fixes: tuple[Edit, ...]) -> list[int]:
    """The indices of the fixes that are applied together."""
    diagnostics = [diagnostic(*edits, code=f"AB{index:03}") for index, edits in enumerate(fixes)]
    return sorted(diagnostics.index(one) for one in without_conflicts(diagnostics, 20))


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (Edit(0, 2, "x"), Edit(5, 6, "y"), True),
        (Edit(0, 2, "x"), Edit(2, 4, "y"), True),
        (Edit(0, 2, "x"), Edit(1, 4, "y"), False),
        (Edit(0, 5, "x"), Edit(1, 2, "y"), False),
        (Edit(0, 2, "x"), Edit(0, 2, "y"), False),
        (Edit(0, 2, "x"), Edit(0, 2, "x"), True),
        (Edit(3, 3, "x"), Edit(3, 3, "y"), False),
        (Edit(3, 3, "x"), Edit(3, 3, "x"), True),
        (Edit(1, 5, "x"), Edit(3, 3, "y"), False),
        (Edit(1, 3, "x"), Edit(3, 3, "y"), False),
        (Edit(3, 3, "x"), Edit(3, 5, "y"), False),
        (Edit(3, 3, "x"), Edit(4, 4, "y"), True),
    ],
)
def test_which_edits_go_together(first: Edit, second: Edit, together: bool) -> None:
    assert chosen((first,), (second,)) == ([0, 1] if together else [0])


def test_all_edits_of_a_fix_or_none() -> None:
    assert chosen((Edit(5, 6, "a"),), (Edit(0, 1, "b"), Edit(5, 6, "c")), (Edit(8, 9, "d"),)) == [1, 2]


def test_a_shared_import_is_inserted_once() -> None:
    new_import = Edit(0, 0, "import os\n")
    fixes = [diagnostic(new_import, Edit(2, 3, "A")), diagnostic(new_import, Edit(5, 6, "B"), code="AB102")]
    assert without_conflicts(fixes, 9) == fixes
    assert apply("012345678", edits_of(fixes)) == "import os\n01A34B678"


_edits = st.tuples(st.integers(0, 20), st.integers(0, 4), st.sampled_from(["", "x", "yz"])).map(
    lambda edit: Edit(edit[0], min(edit[0] + edit[1], 20), edit[2])
)


@given(st.lists(st.lists(_edits, min_size=1, max_size=3), max_size=8))
def test_chosen_fixes_never_overlap_and_leave_the_rest_alone(fixes: list[list[Edit]]) -> None:
    diagnostics = [diagnostic(*edits, code=f"AB{index:03}") for index, edits in enumerate(fixes)]
    text = "abcdefghijklmnopqrst"
    edits = edits_of(without_conflicts(diagnostics, len(text)))
    for one, two in pairwise(edits):
        assert one.end <= two.start
    covered = {offset for edit in edits for offset in range(edit.start, edit.end)}
    kept = [character for offset, character in enumerate(text) if offset not in covered]
    assert [character for character in apply(text.upper(), edits) if character.isupper()] == [
        character.upper() for character in kept
    ]


def rewritten(source: Source, text: str) -> Source:
    """The same file with another text."""
    return source.edited([Edit(0, len(source.text), text)])


def fixed(text: str, settings: Settings) -> str:
    """What fixing makes of a text."""
    return fix(Source.from_text(text, "a.py"), settings).source.text


def test_unsafe_fixes_only_if_asked(demo: MakeSettings) -> None:
    assert fixed("LOUD = RISKY\n", demo()) == "loud = RISKY\n"
    assert fixed("LOUD = RISKY\n", demo(unsafe_fixes=True)) == "loud = risky\n"


def test_what_no_edit_covers_stays(demo: MakeSettings) -> None:
    text = "\x0c# é  \r\nx =  LOUD ;y\t= 'a' # LOUD\r\n\r\n  # end"
    assert fixed(text, demo()) == text.replace("LOUD", "loud")


def test_fixes_are_told_and_what_is_left_is_of_the_new_text(demo: MakeSettings) -> None:
    result = fix(Source.from_text("a = LOUD\nb = NEEDS, NEEDS\nc = RISKY\n", "a.py"), demo())
    assert result.source.text == "import os\na = loud\nb = os.sep, os.sep\nc = RISKY\n"
    assert sorted(one.code for one in result.applied) == ["ZZ101", "ZZ107", "ZZ107"]
    assert [(one.code, one.rows) for one in result.diagnostics] == [("ZZ102", (4, 4))]


def test_a_fix_whose_result_is_not_python_is_left_out_and_told(demo: MakeSettings) -> None:
    result = fix(Source.from_text("a = LOUD\nb = BREAK\nc = LOUD\n", "a.py"), demo())
    assert result.source.text == "a = loud\nb = BREAK\nc = loud\n"
    assert [one.code for one in result.diagnostics] == ["ZZ104"]
    assert result.errors == ("a.py: the fix of ZZ104 on line 2 was not applied: its result is not valid Python",)


def renamed(names: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fixes of one rule rename what ``names`` says of a text."""

    def check(source: Source, *_: object, **__: object) -> list[Diagnostic]:
        found = [(match, to) for one, to in names(source.text).items() for match in re.finditer(one, source.text)]
        found.sort(key=lambda item: item[0].start())
        return [
            Diagnostic("ZZ1", "rename", "", *match.span(), fix=Fix("", (Edit(*match.span(), to),), Applicability.SAFE))
            for match, to in found
        ]

    monkeypatch.setattr(fixer, "check", check)


def test_fixes_that_are_only_wrong_together_are_made_one_after_the_other(
    demo: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both rename their argument to `k`; once the first one did, `k` is renamed to `j`.
    renamed(lambda text: {"A": "k", "B": "k", **({"k": "j"} if "B" in text else {})}, monkeypatch)
    result = fix(Source.from_text("f(A=1, B=2)\n", "a.py"), demo())
    assert (result.source.text, result.errors) == ("f(j=1, k=2)\n", ())


def test_a_fix_that_stays_wrong_beside_another_is_left_out_and_told_once(
    demo: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed(lambda text: {"A": "k", "B": "k"}, monkeypatch)
    result = fix(Source.from_text("f(A=1, B=2)\n", "a.py"), demo())
    assert result.source.text == "f(k=1, B=2)\n"
    assert result.errors == ("a.py: the fix of ZZ1 on line 1 was not applied: its result is not valid Python",)


def test_an_import_may_not_come_before_future_imports(demo: MakeSettings) -> None:
    text = "from __future__ import annotations\nx = NEEDS\n"
    result = fix(Source.from_text(text, "a.py"), demo())
    assert result.source.text == text
    assert "ZZ107" in result.errors[0]


def test_fixes_that_undo_each_other_leave_the_file_as_it_was(demo: MakeSettings) -> None:
    result = fix(Source.from_text("a = LOUD\nb = FLIP\n", "a.py"), demo())
    assert result.source.text == "a = LOUD\nb = FLIP\n"
    assert not result.applied
    assert {one.code for one in result.diagnostics} == {"ZZ101", "ZZ105"}
    assert result.errors == ("a.py: the fixes of ZZ105, ZZ106 do not settle; nothing was fixed",)


def test_a_file_that_does_not_parse_is_not_touched(demo: MakeSettings) -> None:
    assert fixed("a = LOUD\nb = (\n", demo()) == "a = LOUD\nb = (\n"


def test_a_suppression_goes_from_a_file_that_is_not_python() -> None:
    """Without the words of any rule, nobody has parsed it."""
    settings = torchlint.load_settings(overrides={"extend-select": ["TL001"]})
    result = fix(Source.from_text("print 1  # noqa: TL101\n", "a.py"), settings)
    assert (result.source.text, result.errors) == ("print 1\n", ())


def test_the_diff_is_unified_and_shows_a_missing_newline() -> None:
    before = Source.from_text("a\r\nb\nc", "x.py")
    assert unified_diff(before, before) == ""
    assert unified_diff(before, rewritten(before, "a\r\nb\nd")) == (
        "--- x.py\n+++ x.py\n@@ -1,3 +1,3 @@\n a\r\n b\n-c\n\\ No newline at end of file\n+d\n"
        "\\ No newline at end of file\n"
    )


def test_writing_keeps_encoding_mode_and_links(tmp_path: Path) -> None:
    path, link = tmp_path / "a.py", tmp_path / "link.py"
    path.write_bytes(b"# coding: latin-1\r\nx = '\xe9'\r\n")
    path.chmod(0o750)
    link.symlink_to(path)
    source = reading.read(str(link))
    write(source, rewritten(source, source.text + "y\n"))
    assert path.read_bytes() == b"# coding: latin-1\r\nx = '\xe9'\r\ny\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["a.py", "link.py"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x\n")
    source = reading.read(str(path))
    path.write_text("somebody else's\n")
    with pytest.raises(WriteError, match="has changed since it was read"):
        write(source, rewritten(source, "y\n"))
    assert path.read_text() == "somebody else's\n"
    path.unlink()
    with pytest.raises(WriteError, match="not fixed: No such file or directory"):
        write(source, rewritten(source, "y\n"))
    assert not path.exists()


def test_text_that_does_not_fit_the_encoding_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: ascii\n")
    source = reading.read(str(path))
    with pytest.raises(WriteError, match="does not fit into ascii"):
        write(source, rewritten(source, "# coding: ascii\n# é\n"))
    assert path.read_bytes() == b"# coding: ascii\n"


def test_a_result_in_another_encoding_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    content = "x = 1\n# a note\n# coding: cp1252\ny = 'é'\n".encode()
    path.write_bytes(content)
    source = reading.read(str(path))
    with pytest.raises(WriteError, match="in another encoding"):
        write(source, source.edited([Edit(0, 6, "")]))
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "opening",
    [
        "# coding: cp1252\n",
        "\x0c# coding: cp1252\n",
        "\n# coding: cp1252\n",
        "  \n  # coding: cp1252\n",
        "#!/usr/bin/python\n# coding: cp1252\n",
        "\r\n# coding: cp1252\r\n",
    ],
)
def test_an_import_does_not_come_before_the_comment_that_names_the_encoding(tmp_path: Path, opening: str) -> None:
    path = tmp_path / "a.py"
    program = """\
name = 'é'
while True:
    from torch.utils.data import DataLoader
    from photos import Photos

    def main(model, opt):
        loader = DataLoader(Photos('train'), batch_size=4)
        for x, y in loader:
            loss = model(x.cuda(), y.cuda())
            loss.backward()
            opt.step()
"""
    path.write_bytes((opening + program).encode("cp1252"))
    settings = torchlint.load_settings(overrides={"select": ["TL101"], "unsafe-fixes": True})
    source = reading.read(str(path))
    fixed = fix(source, settings).source
    write(source, fixed)
    assert "import os" in fixed.text
    again = reading.read(str(path))
    assert (again.encoding, again.text) == ("cp1252", fixed.text)
    with tokenize.open(path) as file:
        assert "name = 'é'" in file.read()


def test_a_failure_leaves_the_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_text("x\n")
    source = reading.read(str(path))

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(WriteError, match="No space left on device"):
        write(source, rewritten(source, "y\n"))
    assert path.read_text() == "x\n"
    assert os.listdir(tmp_path) == ["a.py"]
