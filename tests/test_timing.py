"""``--timing``: phases are told apart, and a report does not change by it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from torchlint.cli import main
from torchlint.source.timing import count, phase, recorded

TEXT = "import torch\n\nfor i in range(9):\n    x = torch.zeros(3).cuda()\n"


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_phase_within_another_one_is_not_counted_twice() -> None:
    with recorded() as timing:
        with phase("outer"):
            work(0.02)
            with phase("inner"):
                work(0.04)
            count("steps", 2)
        count("steps", 1)
    assert set(timing.seconds) == {"outer", "inner", "other"}
    assert 0.02 <= timing.seconds["outer"] < timing.seconds["inner"]
    assert timing.counts == {"steps": 3}


def test_nothing_is_recorded_unless_asked_for() -> None:
    with phase("parse"):
        count("steps", 1)
    with recorded() as timing:
        pass
    assert set(timing.seconds) == {"other"}
    assert not timing.counts


def test_a_phase_that_raises_ends() -> None:
    with recorded() as timing:
        with pytest.raises(ValueError, match="no"), phase("parse"):
            raise ValueError("no")
        work(0.01)
    assert timing.seconds["other"] >= 0.01


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for index in range(70):  # enough for processes
        (tmp_path / f"net{index:02}.py").write_text(TEXT if index % 2 else "X = 1\n")
    return tmp_path


def test_the_times_of_all_processes_are_shown_beside_the_report(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--output-format", "concise", "--timing", "--no-cache"]) == 1
    timed = capsys.readouterr()
    assert main(["--output-format", "concise", "--no-cache"]) == 1
    assert capsys.readouterr().out == timed.out
    for name in ("screen", "libcst's parser", "Python's parser", "TL206 allocate-then-move", "net01.py"):
        assert re.search(rf"^ +\d+\.\d\d s .*{re.escape(name)}$", timed.err, re.MULTILINE), name
    assert "0 of 70 files taken from the cache" in timed.err
    assert f"the files have {35 * len(TEXT) + 35 * 6:,}" in timed.err


def test_what_the_cache_gives_takes_no_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--output-format", "concise"])
    capsys.readouterr()
    main(["--output-format", "concise", "--timing"])
    errors = capsys.readouterr().err
    assert "70 of 70 files taken from the cache" in errors
    assert "parser" not in errors
