"""How long the analysis of a file may take."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import libcst as cst
import pytest

import torchlint
from torchlint.engine.checker import InternalError, check
from torchlint.model.semantics.values import Values
from torchlint.model.syntax.tree import Tree
from torchlint.settings.layers import SettingsError
from torchlint.settings.settings import Settings
from torchlint.source import deadline
from torchlint.source.source import Source

PROGRAM = """\
from torch.utils.data import DataLoader

def main(photos, model):
    loader = DataLoader(photos, batch_size=4)
    for x in loader:
        model(x.cuda()).backward()
"""


def compute(seconds: float) -> None:
    """Keep the processor busy."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def slowed(monkeypatch: pytest.MonkeyPatch, wait: Callable[[], None] = lambda: compute(0.05)) -> None:
    """Let each value of the program take a while."""
    evaluate: Callable[..., object] = Values._evaluate

    def slow(self: Values, node: object) -> object:
        wait()
        return evaluate(self, node)

    monkeypatch.setattr(Values, "_evaluate", slow)


def test_a_file_that_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = torchlint.load_settings(overrides={"timeout": 0.1})
    crashes: list[InternalError] = []
    with monkeypatch.context() as patched:
        slowed(patched)
        assert check(Source.from_text(PROGRAM, "a.py"), settings, on_crash=crashes.append) == []
    (crash,) = crashes
    assert str(crash) == (
        "a.py: skipped: its analysis takes longer than `timeout`, 0.1 s of CPU time and as much again for every "
        "200,000 characters"
    )
    assert check(Source.from_text(PROGRAM, "a.py"), torchlint.load_settings()) != []


def test_waiting_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, lambda: time.sleep(0.05))  # as on a busy machine
    settings = torchlint.load_settings(overrides={"timeout": 0.3, "select": ["TL101"]})
    start = time.monotonic()
    assert [one.code for one in check(Source.from_text(PROGRAM, "c.py"), settings)] == ["TL101"]
    assert time.monotonic() - start > 0.3


def test_without_a_limit_it_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch)
    settings: Settings = torchlint.load_settings(overrides={"timeout": 0, "select": ["TL101"]})
    assert [one.code for one in check(Source.from_text(PROGRAM, "b.py"), settings)] == ["TL101"]


def test_the_limit_ends_with_the_block() -> None:
    with pytest.raises(deadline.DeadlineError), deadline.deadline(-1):
        deadline.keep()
    deadline.keep()


def test_walks_over_code_end_in_time() -> None:
    (module,) = roots = [cst.parse_module(PROGRAM)]
    tree = Tree(roots)
    for walk in (tree.nodes_in, tree.calls_in, lambda node: tree.inside(node, cst.Call)):
        walk(module)
        with pytest.raises(deadline.DeadlineError), deadline.deadline(-1):
            walk(module)


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan"), "10"])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(SettingsError, match="`timeout` must be"):
        torchlint.load_settings(overrides={"timeout": value})


def test_the_command_line_has_it(tmp_path: Path, torchlint_in: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    (tmp_path / "a.py").write_text(PROGRAM)
    done = torchlint_in(tmp_path, "--timeout", "1e-9", "a.py")
    assert "error: a.py: skipped: its analysis takes longer than `timeout`, 1e-09 s of CPU time" in done.stderr
    assert done.returncode == 2
