"""The formats: what a finding looks like to people and to programs."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from torchlint.engine.results import Result
from torchlint.output import concise, full, github, junit, pages, rdjson, sarif, text
from torchlint.output import json as json_format
from torchlint.rule import Applicability, Diagnostic, Edit, Fix, Note, Place, Rule, Severity, evidence
from torchlint.source.source import Source


def found(source: str, span: str, *, occurrence: int = 0, **details: object) -> Result:
    """A result with one diagnostic, on the given piece of the text."""
    start = -1
    for _ in range(occurrence + 1):
        start = source.index(span, start + 1)
    values: dict[str, object] = {"label": "here", "rows": (1, 1), **details}
    diagnostic = Diagnostic("AB101", "some-name", "it is so", start, start + len(span), **values)  # type: ignore[arg-type]
    return Result("a.py", (diagnostic,), Source.from_text(source, "a.py"))


def written(form: ModuleType, results: list[Result], unsafe: bool = False) -> str:
    """What a format writes."""
    out = io.StringIO()
    form.write(results, out, unsafe=unsafe)
    return out.getvalue()


def frame(result: Result, width: int = 80) -> list[str]:
    """The lines of the full format."""
    assert result.source is not None
    lines = full.render(result.source, result.diagnostics[0], width)
    return ["".join(piece for piece, _ in line) for line in lines]


def test_a_finding_in_full() -> None:
    fix = Fix("add it", (Edit(0, 0, "x"),), Applicability.UNSAFE, "the order")
    result = found("a\nb = call(1)\nc\n", "call(1)", notes=(Note("because"), Note("as seen", Place(14, 15))), fix=fix)
    assert frame(result) == [
        "a.py:2:5: AB101 some-name: it is so",
        "  |",
        "1 | a",
        "2 | b = call(1)",
        "  |     ^^^^^^^ here",
        "3 | c",
        "  |",
        "  = note: because",
        "  = note: as seen at line 3",
        "  = help: add it (unsafe: the order)",
        "",
    ]


@pytest.mark.parametrize(
    ("fix", "line"),
    [
        (Fix("do", (), Applicability.SAFE), "= help: do"),
        (Fix("do", (), Applicability.UNSAFE), "= help: do (unsafe)"),
        (Fix("do", (), Applicability.DISPLAY), "= help: do (display)"),
        (Fix("do", (), Applicability.DISPLAY, "slow"), "= help: do (display: slow)"),
    ],
)
def test_how_a_fix_is_offered(fix: Fix, line: str) -> None:
    assert frame(found("call\n", "call", fix=fix))[-2].strip() == line


@pytest.mark.parametrize(
    ("source", "span", "shown", "underline"),
    [
        ("\tif x: call()", "call()", "    if x: call()", "          ^^^^^^ here"),
        ("x = '日本', call()", "call()", "x = '日本', call()", "            ^^^^^^ here"),
        ("x = [b]bold[/b], call", "call", "x = [b]bold[/b], call", "                 ^^^^ here"),
        ("x = '\x1b[31m', call", "call", "x = '␛[31m', call", "             ^^^^ here"),
        ("x = '\u202e', call", "call", "x = '\ufffd', call", "         ^^^^ here"),
        ("call", "", "call", "^ here"),
    ],
)
def test_the_underline_stands_under_the_span(source: str, span: str, shown: str, underline: str) -> None:
    lines = frame(found(source, span))
    assert lines[2:4] == [f"1 | {shown}", f"  | {underline}"]


def test_a_span_over_several_rows_is_underlined_on_each() -> None:
    source = "x = call(\n    a,\n\n    b,\n)\ny\n"
    lines = frame(found(source, source[4:-3]))
    assert lines[1:-2] == [
        "  |",
        "1 | x = call(",
        "  |     ^^^^^",
        "2 |     a,",
        "  |     ^^",
        "3 | ",
        "4 |     b,",
        "  |     ^^",
        "5 | )",
        "  | ^ here",
        "6 | y",
    ]


def test_the_middle_of_a_long_span_is_left_out() -> None:
    source = "call(\n" + "    a,\n" * 50 + ")\n"
    lines = frame(found(source, source[:-1]))
    assert len(lines) < 16
    assert " 1 | call(" in lines
    assert "...|" in [line.replace(" ", "") for line in lines]
    assert "52 | )" in lines


@pytest.mark.parametrize("width", [40, 60, 80])
def test_long_lines_are_cut_to_the_width_around_the_span(width: int) -> None:
    source = "before\nx = [" + "1, " * 500 + "call(), " + "2, " * 5000 + "]\nafter\n"
    lines = frame(found(source, "call()"), width)
    code = next(index for index, line in enumerate(lines) if "call()" in line)
    assert all(len(line) <= width for line in lines[1:])
    assert lines[code + 1].index("^^^^^^") == lines[code].index("call()")


def test_notes_are_wrapped_below_each_other() -> None:
    lines = frame(found("call\n", "call", notes=(Note("word " * 30),)), 40)
    notes = [line for line in lines if "word" in line]
    assert len(notes) > 1
    assert all(line.startswith(("  = note: word", "    word")) and len(line) <= 40 for line in notes)


def test_a_file_that_is_not_text_has_no_frame() -> None:
    result = Result("a.py", (Diagnostic("TL002", "invalid-syntax", "binary", 0, 0),), Source.from_text("", "a.py"))
    assert frame(result) == ["a.py:1:1: TL002 invalid-syntax: binary", ""]


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    results = [found("call\n", "call")]
    assert "\x1b" not in written(full, results)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in written(full, results)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in written(full, results)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Sets what was measured for the rule some-name."""

    def put(*entries: dict[str, object]) -> None:
        general = {"device": "NVIDIA H200", "gpu": True, "torch": "2.11", "date": "2026-01-31", "verdict": "confirmed"}
        (tmp_path / "evidence.json").write_text(json.dumps({"some-name": [{**general, **entry} for entry in entries]}))
        pack = ModuleType("torchlint_rules")
        pack.__path__ = [str(tmp_path)]
        monkeypatch.setitem(sys.modules, "torchlint_rules", pack)
        evidence._shipped.cache_clear()

    yield put
    evidence._shipped.cache_clear()


FULL_SIZE = {"size": "512 photos", "speedup": 3.41, "ci_low": 3.3, "ci_high": 3.52}
SMALL_SIZE = {"size": "48 photos", "speedup": 0.8, "ci_low": 0.7, "ci_high": 0.9, "verdict": "slower"}


ON_CPU = {"device": "a CPU", "gpu": False, "size": "9 photos", "speedup": 9.0, "ci_low": 8.0, "ci_high": 9.9}


def test_a_finding_shows_the_benchmark_on_a_gpu(measured: Callable[..., None]) -> None:
    measured(FULL_SIZE, SMALL_SIZE, ON_CPU)
    result = found("call\n", "call")
    expected = "  = benchmark: 3.4x in the example program (NVIDIA H200, torch 2.11); 0.80x for 48 photos"
    assert frame(result, 120)[-2] == expected
    (item,) = json.loads(written(json_format, [result]))
    assert item["evidence"] == {
        "speedup": 3.41,
        "ci_low": 3.3,
        "ci_high": 3.52,
        "device": "NVIDIA H200",
        "torch": "2.11",
    }
    assert evidence.evidence_for("another-name") is None
    assert evidence.benchmark("another-name") == ""


def test_a_finding_shows_no_benchmark_on_a_cpu(measured: Callable[..., None]) -> None:
    measured(ON_CPU)
    result = found("call\n", "call")
    assert [line for line in frame(result) if "9.0" in line or "benchmark" in line] == []
    for form in (sarif, rdjson, junit, github):
        assert "benchmark" not in written(form, [result])
    (item,) = json.loads(written(json_format, [result]))
    assert (item["evidence"]["device"], item["evidence"]["speedup"]) == ("a CPU", 9.0)


def test_stale_evidence_is_called_stale(measured: Callable[..., None]) -> None:
    measured({**FULL_SIZE, "stale": True})
    result = found("call\n", "call")
    assert "stale: the example program has changed since" in " ".join(" ".join(frame(result)).split())
    (item,) = json.loads(written(json_format, [result]))
    assert item["evidence"] is None


def test_a_gain_that_was_not_found_is_not_claimed(measured: Callable[..., None]) -> None:
    measured({**FULL_SIZE, "verdict": "no effect", "speedup": 1.001, "ci_low": 0.99, "ci_high": 1.01})
    line = "  = benchmark: no effect in the example program (1.00x, NVIDIA H200, torch 2.11)"
    assert frame(found("call\n", "call"))[-2] == line
    measured({"size": "512 photos", "verdict": "not measured", "reason": "before: out of memory"})
    assert evidence.evidence_for("some-name") is None
    assert "benchmark" not in "".join(frame(found("call\n", "call")))


def test_a_rule_that_is_judged_by_a_count_shows_the_count(measured: Callable[..., None]) -> None:
    measured({**FULL_SIZE, "change": "graphs 9 → 1"})
    assert evidence.benchmark("some-name") == "graphs 9 → 1 in the example program (NVIDIA H200, torch 2.11)"
    (entry,) = evidence.measurements("some-name")
    assert entry.figure == "graphs 9 → 1, time 3.4x [3.3, 3.5]"


def test_concise_is_one_line_each_and_marks_what_fix_fixes() -> None:
    fix = Fix("do", (Edit(0, 4, ""),), Applicability.UNSAFE)
    result = found("call\n", "call", fix=fix)
    assert written(concise, [result]) == "a.py:1:1: AB101 some-name: it is so\n"
    assert written(concise, [result], unsafe=True) == "a.py:1:1: AB101 [*] some-name: it is so\n"


def test_json_has_the_agreed_shape() -> None:
    fix = Fix("add it", (Edit(8, 8, ", y"), Edit(0, 0, "z\n")), Applicability.SAFE, "")
    notes = (Note("because"), Note("as seen", Place(9, 10)))
    result = found("é = f(x)\nb\n", "f(x)", fix=fix, severity=Severity.INFO, notes=notes, rows=(1, 1))
    (item,) = json.loads(written(json_format, [result]))
    assert item.pop("filename") == item["notes"][1].pop("filename") == str(Path("a.py").absolute())
    assert item == {
        "cell": None,
        "code": "AB101",
        "name": "some-name",
        "message": "it is so",
        "severity": "info",
        "location": {"row": 1, "column": 5},
        "end_location": {"row": 1, "column": 9},
        "fix": {
            "applicability": "safe",
            "message": "add it",
            "edits": [
                {
                    "cell": None,
                    "content": "z\n",
                    "location": {"row": 1, "column": 1},
                    "end_location": {"row": 1, "column": 1},
                },
                {
                    "cell": None,
                    "content": ", y",
                    "location": {"row": 1, "column": 9},
                    "end_location": {"row": 1, "column": 9},
                },
            ],
        },
        "notes": [
            {"cell": None, "filename": None, "location": None, "message": "because"},
            {"cell": None, "location": {"row": 2, "column": 1}, "message": "as seen"},
        ],
        "noqa_row": 1,
        "url": None,
        "evidence": None,
    }
    assert json.loads(written(json_format, [])) == []


def test_the_summary_counts_what_is_left_and_what_can_be_fixed() -> None:
    safe = Fix("do", (Edit(0, 4, ""),), Applicability.SAFE)
    unsafe = Fix("do", (Edit(0, 4, ""),), Applicability.UNSAFE)
    shown = Fix("do", (Edit(0, 4, ""),), Applicability.DISPLAY)
    results = [found("call\n", "call", fix=fix) for fix in (safe, unsafe, shown, None)]
    clean = Result("b.py")
    assert text.summary([clean], unsafe=False) == "No findings in 1 file."
    assert text.summary([*results, clean], unsafe=False) == (
        "4 findings in 4 of 5 files; 1 fixable with --fix, 1 more with --fix --unsafe-fixes."
    )
    assert text.summary(results[1:2], unsafe=False) == (
        "1 finding in 1 of 1 file; 1 fixable with --fix --unsafe-fixes."
    )
    assert text.summary(results[2:], unsafe=True) == "2 findings in 2 of 2 files."
    fixed = Result("c.py", applied=(("AB101", "do"), ("AB101", "do")))
    assert text.summary([fixed], unsafe=False) == "Fixed 2 findings. No findings left in 1 file."


def test_statistics_are_ordered_by_frequency() -> None:
    other = Diagnostic("AB102", "other-name", "", 0, 1)
    results = [found("call\n", "call"), found("call\n", "call"), Result("b.py", (other,), Source.from_text("x"))]
    out = io.StringIO()
    text.write_statistics(results, out, unsafe=False)
    assert out.getvalue() == "2  AB101  [ ]  some-name\n1  AB102  [ ]  other-name\n"


def test_statistics_tell_what_can_be_fixed_with_the_options_as_they_are() -> None:
    safe, unsafe = (Fix("do", (Edit(0, 1, "x"),), how) for how in (Applicability.SAFE, Applicability.UNSAFE))
    results = [found("call\n", "call", fix=safe), found("call\n", "call", fix=unsafe)]
    for asked, mark, fixable in ((False, "[-]", 1), (True, "[*]", 2)):
        table, listed = io.StringIO(), io.StringIO()
        text.write_statistics(results, table, unsafe=asked)
        assert table.getvalue() == f"2  AB101  {mark}  some-name\n"
        json_format.write_statistics(results, listed, unsafe=asked)
        assert json.loads(listed.getvalue()) == [
            {"code": "AB101", "name": "some-name", "count": 2, "fixable": fixable == 2, "fixable_count": fixable}
        ]


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        ("Safe: nothing changes.", "safe"),
        ("Unsafe: the order, or the sum.", "unsafe"),
        ("Safe or unsafe: safe where it is seen.", "safe/unsafe"),
        ("Safe, because nothing changes.", "safe"),
        ("No edit: only you can know.", "none"),
    ],
)
def test_the_table_of_rules_tells_fixes_as_their_pages_begin(begin: str, kind: str) -> None:
    class Documented(Rule):
        pass

    Documented.__doc__ = f"Something is slow.\n\n## Fix safety\n{begin}\n"
    assert pages.fix_kind(Documented()) == kind
