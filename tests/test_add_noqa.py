"""``--add-noqa``: where the comments go, that they suppress, and that nothing else of a file changes."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torchlint
from torchlint.engine.add_noqa import suppress_edits
from torchlint.engine.checker import check
from torchlint.rule import Diagnostic
from torchlint.settings.settings import Settings
from torchlint.source.parsing import compiles
from torchlint.source.source import Source

MakeSettings = Callable[..., Settings]
RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


def annotated(text: str, given: Settings, reason: str = "") -> str:
    """``text`` with comments that suppress what is found in it."""
    source = Source.from_text(text, "a.py")
    return source.edited(suppress_edits(source, check(source, given), reason)).text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = LOUD\n", "x = LOUD  # noqa: ZZ101\n"),
        ("x = LOUD", "x = LOUD  # noqa: ZZ101"),
        ("x = LOUD \t \n", "x = LOUD  # noqa: ZZ101\n"),
        ("x = LOUD\r\ny = 1\r\n", "x = LOUD  # noqa: ZZ101\r\ny = 1\r\n"),
        ("if x:\n\ty = LOUD\n", "if x:\n\ty = LOUD  # noqa: ZZ101\n"),
        ("x = RISKY, LOUD, LOUD\n", "x = RISKY, LOUD, LOUD  # noqa: ZZ101, ZZ102\n"),
        ("x = LOUD  # why\n", "x = LOUD  # why  # noqa: ZZ101\n"),
        ("x = LOUD  # type: ignore\n", "x = LOUD  # type: ignore  # noqa: ZZ101\n"),
        ("x = LOUD  # noqa: E501\n", "x = LOUD  # noqa: E501, ZZ101\n"),
        ("x = RISKY, LOUD # noqa:ZZ102,e501 # why\n", "x = RISKY, LOUD # noqa:e501, ZZ101, ZZ102 # why\n"),
        ("x = LOUD  # noqa: E501 is long\n", "x = LOUD  # noqa: E501, ZZ101 is long\n"),
        ("x = LOUD  # noqa: because\n", "x = LOUD  # noqa: because  # noqa: ZZ101\n"),
        ("x = LOUD  # noqa:\n", "x = LOUD  # noqa:  # noqa: ZZ101\n"),
        ("x = LOUD; y = 1\n", "x = LOUD; y = 1  # noqa: ZZ101\n"),
        ("x = LOUD, '# noqa'\n", "x = LOUD, '# noqa'  # noqa: ZZ101\n"),
        ("x = [\n    LOUD,\n]\n", "x = [\n    LOUD,  # noqa: ZZ101\n]\n"),
        ("x = LOUD + '''\n# noqa\n'''\ny = 1\n", "x = LOUD + '''\n# noqa\n'''  # noqa: ZZ101\ny = 1\n"),
        ('x = f(LOUD, """\n\n""", """\n""", 1,\n2)\n', 'x = f(LOUD, """\n\n""", """\n""", 1,  # noqa: ZZ101\n2)\n'),
        ("x = LOUD + \\\n    1 + \\\n    2\n", "x = LOUD + \\\n    1 + \\\n    2  # noqa: ZZ101\n"),
        ("x = LOUD + 'a\\\nb' + \\\r\n'c'\n", "x = LOUD + 'a\\\nb' + \\\r\n'c'  # noqa: ZZ101\n"),
        ("x = [LOUD,  # a \\\n2]\n", "x = [LOUD,  # a \\  # noqa: ZZ101\n2]\n"),
        ("x = 1\ny = LOUD\n# noqa: ZZ101\n", "x = 1\ny = LOUD  # noqa: ZZ101\n# noqa: ZZ101\n"),
    ],
)
def test_where_the_comment_goes(demo: MakeSettings, before: str, after: str) -> None:
    settings = demo(ignore=["TL001", "ZZ301"])
    assert annotated(before, settings) == after
    assert annotated(after, settings) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = LOUD\n", "x = LOUD  # noqa: ZZ101  # A100 only\n"),
        ("x = LOUD  # noqa: E501\n", "x = LOUD  # noqa: E501, ZZ101  # A100 only\n"),
        ("x = LOUD  # noqa: E501 is long\n", "x = LOUD  # noqa: E501, ZZ101 is long  # A100 only\n"),
        (
            "x = LOUD, RISKY  # noqa: ZZ101  # A100 only\n",
            "x = LOUD, RISKY  # noqa: ZZ101, ZZ102  # A100 only\n",
        ),
    ],
)
def test_the_reason_stands_behind_the_codes(demo: MakeSettings, before: str, after: str) -> None:
    assert annotated(before, demo(), "A100 only") == after
    assert annotated(after, demo(), "another reason") == after


def test_an_unused_suppression_is_suppressed_as_well(demo: MakeSettings) -> None:
    assert annotated("x = 1  # noqa: ZZ101\n", demo()) == "x = 1  # noqa: TL001, ZZ101\n"
    whole = annotated("# torchlint: noqa: ZZ101\nx = 1\n", demo())
    assert whole == "# torchlint: noqa: ZZ101  # noqa: TL001\nx = 1\n"
    assert annotated(whole, demo()) == whole


def test_one_finding_alone_can_be_suppressed(demo: MakeSettings) -> None:
    source = Source.from_text("x = LOUD\ny = RISKY, LOUD\n", "a.py")
    found = check(source, demo())
    (edit,) = suppress_edits(source, [found[2]], "why")
    assert source.edited([edit]).text == "x = LOUD\ny = RISKY, LOUD  # noqa: ZZ101  # why\n"


def test_what_is_not_python_takes_no_comment(demo: MakeSettings) -> None:
    source = Source.from_text("x = LOUD (\n", "a.py")
    (found,) = check(source, demo())
    assert found.code == "TL002"
    assert suppress_edits(source, [found]) == []


def test_a_reason_does_not_silence_a_rule_that_listens_to_comments() -> None:
    """Or else the comment would be reported for suppressing nothing, and go, and the finding would come back."""
    text = (
        "import torch\nimport torch.nn as nn\n\ntorch.backends.cudnn.enabled = False\n\n"
        "net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3)).cuda()\n"
        "for batch in loader:\n    net(batch).sum().backward()\n"
    )
    settings = torchlint.load_settings(None, {"select": ["TL706", "TL001"]})
    assert [found.code for found in torchlint.check_text(text, settings=settings)] == ["TL706"]
    after = annotated(text, settings, "cuDNN is broken there")
    assert "cudnn.enabled = False  # noqa: TL706  # cuDNN is broken there\n" in after
    assert torchlint.check_text(after, settings=settings) == []


_PIECES = [
    "x = LOUD", "RISKY", " + ", "(", ")", "[\n", "\n]", "\\\n", "\n", "\r\n", "    ", "if x:\n", "'a'", '"""', "'''",
    "'a\\\nb'", "# why", "  # noqa: E501", "  # noqa: ZZ102", "# noqa", ", ", "; ", "f'{LOUD}'", "def f():\n", "é",
    "\t",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=25).map("".join))
def test_the_program_stays_and_nothing_is_left(text: str) -> None:
    demo = torchlint.load_settings(None, {"plugins": ["demo_pack"], "select": ["ZZ101", "ZZ102", "TL001"]})
    source = Source.from_text(text, "a.py")
    found = check(source, demo, syntax=True)
    if not compiles(text):  # libcst may read it all the same
        return
    after = source.edited(suppress_edits(source, found, "why"))
    if any(diagnostic.code == "TL002" for diagnostic in found):
        assert after.text == text
        return
    assert check(after, demo, syntax=True) == []
    if found:
        assert ast.dump(ast.parse(after.text)) == ast.dump(ast.parse(text))
        assert len(after.line_starts) == len(source.line_starts)
    else:
        assert after.text == text


def test_the_command(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\ny = RISKY, LOUD\n")
    (project / "b.py").write_bytes(b"\xef\xbb\xbfx = LOUD\r\n")
    (project / "c.py").write_bytes(b"# coding: latin-1\nx = '\xe9', LOUD\n")
    (project / "d.py").write_text("x = 1\n")
    done = torchlint_in(project, "--add-noqa", ".")
    assert (done.returncode, done.stderr) == (0, "Added 4 noqa directives.\n")
    assert (project / "a.py").read_text() == "x = LOUD  # noqa: ZZ101\ny = RISKY, LOUD  # noqa: ZZ101, ZZ102\n"
    assert (project / "b.py").read_bytes() == b"\xef\xbb\xbfx = LOUD  # noqa: ZZ101\r\n"
    assert (project / "c.py").read_bytes() == b"# coding: latin-1\nx = '\xe9', LOUD  # noqa: ZZ101\n"
    assert torchlint_in(project).returncode == 0
    again = torchlint_in(project, "--add-noqa")
    assert (again.returncode, again.stderr) == (0, "Added 0 noqa directives.\n")


def test_the_command_takes_a_reason_behind_an_equals_sign(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    assert torchlint_in(project, "--add-noqa=from before 2.0", "a.py").returncode == 0
    assert (project / "a.py").read_text() == "x = LOUD  # noqa: ZZ101  # from before 2.0\n"


@pytest.mark.parametrize("options", [["--add-noqa"], ["--baseline=known.json", "--update-baseline"]])
def test_a_mistaken_path_stops_it_before_anything_is_written(
    project: Path, torchlint_in: RunTorchlint, options: list[str]
) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    done = torchlint_in(project, "a.py", *options, "later")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: later: no such file or folder\n"
    assert (project / "a.py").read_text() == "x = LOUD\n"
    assert not (project / "known.json").exists()


def test_what_cannot_be_suppressed_is_left_and_told(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD (\n")
    (project / "b.py").write_text("x = LOUD\n")
    done = torchlint_in(project, "--add-noqa", "--output-format", "concise")
    assert done.returncode == 1
    assert done.stdout.startswith("a.py:1:10: TL002 invalid-syntax: ")
    assert done.stderr == "Added 1 noqa directive.\n"
    assert (project / "a.py").read_text() == "x = LOUD (\n"


def test_a_file_that_cannot_hold_the_reason_stays(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_bytes(b"# coding: latin-1\nx = LOUD\n")
    done = torchlint_in(project, "--add-noqa=日", "a.py")
    assert done.returncode == 2
    assert "a.py" in done.stderr and "latin-1" in done.stderr.replace("iso8859-1", "latin-1")
    assert (project / "a.py").read_bytes() == b"# coding: latin-1\nx = LOUD\n"


def test_with_diff_it_is_only_shown(project: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    done = torchlint_in(project, "--add-noqa", "--diff")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "--- a.py",
        "+++ a.py",
        "@@ -1 +1 @@",
        "-x = LOUD",
        "+x = LOUD  # noqa: ZZ101",
    ]
    assert done.stderr == "Would add 1 noqa directive.\n"
    assert (project / "a.py").read_text() == "x = LOUD\n"


def test_nothing_is_fixed_on_the_way(project: Path, torchlint_in: RunTorchlint) -> None:
    with (project / "torchlint.toml").open("a") as settings:
        settings.write("fix = true\n")
    (project / "a.py").write_text("x = LOUD\n")
    assert torchlint_in(project, "--add-noqa").returncode == 0
    assert (project / "a.py").read_text() == "x = LOUD  # noqa: ZZ101\n"


def test_a_notebook_stays_a_notebook(project: Path, torchlint_in: RunTorchlint) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["LOUD"]},
        {
            "cell_type": "code",
            "execution_count": 1,
            "metadata": {},
            "outputs": [],
            "source": ["%time x = 1\n", "y = LOUD"],
        },
        {"cell_type": "code", "execution_count": 2, "metadata": {}, "outputs": [], "source": "z = LOUD\n!ls"},
    ]
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (project / "n.ipynb").write_text(json.dumps(document, indent=1) + "\n")
    done = torchlint_in(project, "--add-noqa=why", ".")
    assert (done.returncode, done.stderr) == (0, "Added 2 noqa directives.\n")
    cells[1]["source"] = ["%time x = 1\n", "y = LOUD  # noqa: ZZ101  # why"]
    cells[2]["source"] = "z = LOUD  # noqa: ZZ101  # why\n!ls"
    assert (project / "n.ipynb").read_text() == json.dumps(document, indent=1) + "\n"
    assert torchlint_in(project, ".").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--add-noqa", "--fix"], "error: --add-noqa and --fix exclude each other\n"),
        (["--add-noqa", "--ignore-noqa"], "error: --add-noqa and --ignore-noqa exclude each other\n"),
        (["--add-noqa", "--update-baseline"], "error: --add-noqa and --update-baseline exclude each other\n"),
        (["--add-noqa", "-"], "error: --add-noqa takes files, not standard input\n"),
        (["--add-noqa=one\ntwo"], "error: the reason of --add-noqa must be one line\n"),
    ],
)
def test_contradictions(project: Path, torchlint_in: RunTorchlint, arguments: list[str], message: str) -> None:
    done = torchlint_in(project, *arguments, stdin="")
    assert (done.returncode, done.stderr) == (2, message)


def test_a_finding_is_suppressed_within_its_statement() -> None:
    """Whatever row a rule points at: the comment counts only on those of the flagged statement."""
    source = Source.from_text("a = (\n    1\n)\nb = 2\n")
    outside = Diagnostic("AB101", "some-name", "", start=len(source.text) - 2, end=len(source.text) - 1, rows=(1, 3))
    (edit,) = suppress_edits(source, [outside])
    assert source.edited([edit]).text == "a = (\n    1\n)  # noqa: AB101\nb = 2\n"
