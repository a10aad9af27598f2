"""Fingerprints: which edits leave a finding the same, and which make it another."""

from __future__ import annotations

from torchlint.findings.fingerprints import fingerprints
from torchlint.rule import Diagnostic, Note, Place
from torchlint.source.source import Source


def of(text: str, *spans: str, code: str = "AB101") -> list[str]:
    """The fingerprints of findings on ``spans``, which are looked for one behind the other."""
    found = []
    start = 0
    for span in spans:
        start = text.index(span, start)
        found.append(Diagnostic(code, "a-name", "message", start, start + len(span)))
        start += len(span)
    return fingerprints(Source.from_text(text), found)


CALL = "loader = DataLoader(data, 4)\n"


def test_moved_indented_and_reformatted_code_keeps_its_fingerprint() -> None:
    original = of(CALL, "DataLoader(data, 4)")
    assert of("import os\n\n" + CALL, "DataLoader(data, 4)") == original
    assert of("if x:\n\tloader  =  DataLoader(data, 4)\r\n", "DataLoader(data, 4)") == original
    assert of("loader = DataLoader(\n    data,\n    4,\n)\n", "DataLoader(\n    data,\n    4,\n)") == original


def test_mending_one_finding_of_a_call_leaves_the_others_what_they_were() -> None:
    mended = "loader = DataLoader(data, 4, num_workers=2)\n"
    assert of(mended, "DataLoader(data, 4, num_workers=2)") == of(CALL, "DataLoader(data, 4)")


def test_another_rule_or_other_code_has_another_fingerprint() -> None:
    original = of(CALL, "DataLoader(data, 4)")
    assert of(CALL, "DataLoader(data, 4)", code="AB102") != original
    assert of("other = DataLoader(data, 4)\n", "DataLoader(data, 4)") != original
    assert of("loader = BatchLoader(data, 4)\n", "BatchLoader(data, 4)") != original


def test_the_same_code_twice_is_two_findings_told_apart_by_their_order() -> None:
    first, second = of(CALL * 2, "DataLoader(data, 4)", "DataLoader(data, 4)")
    assert first != second
    assert of(CALL, "DataLoader(data, 4)") == [first]


def test_the_order_in_which_findings_are_shown_does_not_matter() -> None:
    source = Source.from_text(CALL * 2)
    found = [Diagnostic("AB101", "a-name", "message", start, start + 2) for start in (9, 9 + len(CALL))]
    assert fingerprints(source, found[::-1]) == fingerprints(source, found)[::-1]


def test_notes_do_not_matter() -> None:
    source = Source.from_text(CALL)
    notes = [(), (Note("seen"),), (Note("seen", Place(0, 6)),), (Note("seen", Place(9, 12, "other.py")),)]
    found = [fingerprints(source, [Diagnostic("AB101", "a-name", "message", 9, 28, notes=said)]) for said in notes]
    assert found == [of(CALL, "DataLoader(data, 4)")] * len(notes)


def test_a_block_counts_by_its_first_line() -> None:
    assert of("for a in b:\n    c()\n", "for a in b:\n    c()") == of("for a in b:\n    d()\n", "for a in b:\n    d()")
    assert of("for a in b:\n    c()\n", "for a in b:\n    c()") != of("for a in x:\n    c()\n", "for a in x:\n    c()")


def test_any_text_has_a_fingerprint() -> None:
    for text in ("", "x", "é\ud800\0(", "(a)", "x = '日本'"):
        for span in ("", text):
            (fingerprint,) = of(text, span)
            assert len(fingerprint) == 16
            assert int(fingerprint, 16) >= 0
    assert of("(a)", "(a)") != of("(b)", "(b)")
