"""The benchmark of speed (`benchmarks/speed`): how it calls torchlint, what it measures, the page of its results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.speed import growth, page
from benchmarks.speed.__main__ import name_of
from benchmarks.speed.measuring import Measured, measure
from benchmarks.speed.peers import PEERS, chosen, installed
from benchmarks.speed.uses import COLD, WARM, leaf_and_hub, uses


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small project."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "tools.py").write_text("import torch\n\n\ndef double(x):\n    return 2 * x\n")
    (made / "train.py").write_text("import torch\nfrom tools import double\n\nprint(double(torch.ones(3)))\n")
    (made / "other.py").write_text("import tools\n")
    (made / ".git").mkdir()
    return made


def test_a_command_is_measured_with_what_it_starts(tmp_path: Path) -> None:
    measured = Measured()
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(10**7))']); print(input())"
    measure([sys.executable, "-c", program], tmp_path, b"text\n", measured)
    assert measured.seconds[0] > 0.05
    assert measured.megabytes[0] > 1
    assert (measured.printed, measured.status) == ({b"text\n"}, 0)


def test_every_use_runs_and_the_first_four_print_the_same(folder: Path) -> None:
    assert [path.name for path in leaf_and_hub(folder)] == ["train.py", "tools.py"]
    printed = []
    for use in uses(folder):
        measured = Measured()
        use.prepare()
        measure(use.command, use.folder, use.given(), measured)
        assert (measured.status, measured.errors) == (0, b"")
        printed.append(measured.printed)
    assert printed[:4] == [{b"[]\n"}] * 4
    assert (folder / "train.py").read_text().count("# changed") == 1


def test_phases_are_read_from_the_report_of_times(folder: Path) -> None:
    found = growth.phases(folder)
    assert "screen" in found
    assert all(seconds >= 0 for seconds in found.values())


def test_tools_are_named_or_commands(tmp_path: Path) -> None:
    assert chosen([]) == list(PEERS)
    assert [peer.name for peer in chosen(["ruff", "pylint"])] == ["ruff", "pylint"]
    [python] = chosen([f"{sys.executable} -c pass"])
    assert installed(python, tmp_path) == [sys.executable, "-c", "pass"]
    [missing] = chosen(["no-such-program-anywhere check"])
    assert installed(missing, tmp_path) is None


def test_an_unpacked_wheel_has_the_name_of_its_distribution(tmp_path: Path) -> None:
    assert name_of(tmp_path) == tmp_path.name
    (tmp_path / "pytorch_lightning-2.6.6.dist-info").mkdir()
    assert name_of(tmp_path) == "pytorch-lightning 2.6.6"


def test_the_page_shows_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(*seconds: float) -> dict[str, object]:
        return {"cpu_seconds": list(seconds), "elapsed_seconds": list(seconds), "megabytes": 50}

    points = [{"lines": count, "rules": count, "cpu_seconds": count / 100} for count in (100, 200, 400)]
    results = {
        "machine": {"processor": "CPU", "cores": 2, "system": "Linux", "python": "3.13.1", "note": "busy"},
        "versions": {"ruff": "1.0"},
        "folders": {
            "large": {
                "lines": 4000,
                "files": 4,
                "load": [1.0, 1.5, 2.0],
                "uses": {COLD: figures(4.0, 4.4, 4.2), WARM: figures(0.2, 0.2, 0.2)},
                "peers": {"ruff": figures(0.5, 0.6)},
                "phases": {"rules": 3.0},
                "growth": {"lines": points, "rules": points, "cores": []},
            },
            "small": {
                "lines": 40,
                "files": 1,
                "load": [],
                "uses": {COLD: figures(0.5), WARM: figures(0.1)},
                "peers": {"TorchFix": figures(3.0)},
                "phases": {"rules": 0.1, "screen": 0.1},
            },
        },
    }
    path = tmp_path / "results.json"
    monkeypatch.setattr(page, "RESULTS", path)
    assert page.files(tmp_path) == {}
    path.write_text(json.dumps(results))
    made = page.files(tmp_path)
    text = made[tmp_path / "docs" / "speed.md"]
    assert "| CPU seconds | small, 40 lines | large, 4,000 lines |" in text
    assert "| torchlint, first run | 0.50 | 4.2 |" in text
    assert "| TorchFix | 3.0 (6.0x) | - |" in text
    assert "busy" in text and "Rounds: small 1, large 3 (slow tools 2)" in text
    for name in ("tools.svg", "growth.svg"):
        assert ElementTree.fromstring(made[tmp_path / "docs" / "speed" / name]).tag.endswith("svg")
