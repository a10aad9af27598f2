"""Places with one cause: reported as one finding, with one fix; suppressions exempt single places."""

from __future__ import annotations

from dataclasses import replace

import torchlint
from torchlint.engine.add_noqa import suppress_edits
from torchlint.engine.checker import check
from torchlint.engine.fixer import fix
from torchlint.findings.causes import joined
from torchlint.output.text import noted
from torchlint.rule import Applicability, Cause, Diagnostic, Edit, Fix, Note, Place
from torchlint.settings.settings import Settings
from torchlint.source.source import Source

COPIES = """\
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(*photos), batch_size=64, pin_memory=True)
for images, masks, labels in loader:
    images = images.cuda(){first}
    masks = masks.cuda(){second}
    labels = labels.cuda(){third}
"""


def copies(first: str = "", second: str = "", third: str = "") -> Source:
    """A loop with three copies, each with a comment behind it."""
    return Source.from_text(COPIES.format(first=first, second=second, third=third), "case.py")


def settings(*codes: str) -> Settings:
    return torchlint.load_settings(None, {"select": list(codes)})


def rows(source: Source, *codes: str) -> list[tuple[str, int, list[str]]]:
    """The findings with their rows and what is said of the other places."""
    found = check(source, settings(*codes))
    return [(item.code, source.location(item.start)[0], said(source, item)[1:]) for item in found]


def said(source: Source, found: Diagnostic) -> list[str]:
    return [noted(source, found, note).removeprefix("note: ") for note in found.notes]


def test_the_copies_of_a_loop_are_one_finding_with_a_note_at_each_other_line() -> None:
    assert rows(copies(), "TL204") == [("TL204", 5, ["also copied at line 6", "also copied at line 7"])]
    assert rows(copies(third="  # noqa: TL204"), "TL204") == [("TL204", 5, ["also copied at line 6"])]


def test_a_suppressed_place_is_left_out_and_its_comment_is_used() -> None:
    source = copies(first="  # noqa: TL204")
    assert rows(source, "TL204", "TL001") == [("TL204", 6, ["also copied at line 7"])]
    fixed = fix(source, settings("TL204", "TL001")).source.text
    assert fixed == COPIES.format(first="  # noqa: TL204", second="", third="").replace(
        "masks.cuda()", "masks.cuda(non_blocking=True)"
    ).replace("labels.cuda()", "labels.cuda(non_blocking=True)")


def test_all_places_suppressed_is_no_finding() -> None:
    comment = "  # noqa: TL204"
    assert rows(copies(comment, comment, comment), "TL204", "TL001") == []


def test_comments_are_ignored_if_asked_for() -> None:
    given = replace(settings("TL204"), ignore_noqa=True)
    (found,) = check(copies(first="  # noqa: TL204"), given)
    assert len(found.others) == 2


def test_add_noqa_suppresses_every_place() -> None:
    source = copies()
    after = source.edited(suppress_edits(source, check(source, settings("TL204"))))
    comment = "  # noqa: TL204"
    assert after.text == COPIES.format(first=comment, second=comment, third=comment)
    assert check(after, settings("TL204", "TL001")) == []


def place(start: int, edit: Edit | None, cause: Cause, trust: Applicability = Applicability.SAFE) -> Diagnostic:
    made = None if edit is None else Fix("write it otherwise", (edit,), trust, "" if edit.content else "it drops text")
    row = start // 2 + 1
    return Diagnostic("ZZ101", "a-name", "it is slow", start, start + 1, rows=(row, row), fix=made, cause=cause)


SOURCE = Source.from_text("a\nb\nc\n")


def test_edits_that_conflict_wait_for_the_next_round() -> None:
    cause = Cause("same", "also")
    found = [place(0, Edit(0, 3, "A\nB"), cause), place(2, Edit(2, 3, "B"), cause), place(4, Edit(4, 5, "C"), cause)]
    (one,) = joined(SOURCE, found, found)
    assert one.fix is not None
    assert one.fix.edits == (Edit(0, 3, "A\nB"), Edit(4, 5, "C"))


def test_a_joined_fix_is_as_safe_as_its_least_safe_part() -> None:
    cause = Cause("same", "also", "change both")
    found = [place(0, Edit(0, 1, "A"), cause), place(2, Edit(2, 3, ""), cause, Applicability.UNSAFE)]
    (one,) = joined(SOURCE, found, found)
    assert one.fix is not None
    assert (one.fix.message, one.fix.applicability) == ("change both", Applicability.UNSAFE)
    assert one.fix.caution == "it drops text"


def test_a_fix_of_the_whole_is_not_offered_for_a_part() -> None:
    cause = Cause("same", "also", whole=True)
    found = [place(0, Edit(0, 1, "A"), cause), place(2, Edit(2, 3, "B"), cause)]
    (whole,) = joined(SOURCE, found, found)
    (part,) = joined(SOURCE, found[1:], found)
    assert whole.fix is not None
    assert part.fix is None


def test_other_causes_and_other_rules_stay_apart() -> None:
    found = [place(0, None, Cause(1, "also")), place(2, None, Cause(2, "also")), place(4, None, Cause(1, "also"))]
    notes = (Note("also", Place(4, 5)),)
    assert [(item.start, item.notes) for item in joined(SOURCE, found, found)] == [(0, notes), (2, ())]


def test_many_places_have_notes_at_the_first_ones() -> None:
    source = Source.from_text("a\n" * 12)
    found = [place(2 * row, None, Cause("same", "also")) for row in (11, *range(11))]
    (one,) = joined(source, found, found)
    assert [note.place and note.place.start for note in one.notes] == [0, 2, 4, 6, 8, 10, 12, 14, None]
    assert one.notes[-1].message == "and 3 more"
