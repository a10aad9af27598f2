"""``--min-speedup``, ``--device`` and ``--sort gain``: what was measured decides what is run and shown first."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import torchlint
from torchlint.commands.arguments import parser
from torchlint.commands.check import run
from torchlint.rule import evidence
from torchlint.rule.evidence import Evidence, gain, nothing_on, reaches
from torchlint.rule.registry import load_rules
from torchlint.settings.layers import SettingsError
from torchlint.settings.settings import Settings

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]
NAMES = {rule.code: rule.name for rule in load_rules()}
H200, A100, XEON = "NVIDIA H200", "NVIDIA A100", "Intel Xeon CPU, 2 cores"


def one(device: str, low: float | None, speedup: float | None = None, **more: Any) -> Evidence:
    """A measurement whose interval begins at ``low``."""
    figures = {"speedup": speedup or (low and low + 0.1), "ci_low": low, "ci_high": low and low + 1}
    facts: dict[str, Any] = {"gpu": device.startswith("NVIDIA"), "verdict": "confirmed", "size": "s", **figures, **more}
    return Evidence(device=device, torch="2.13", date="2026-01-01", **facts)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Sequence[Evidence]]], None]:
    """``measured({code: measurements})`` takes the place of the package's own evidence."""

    def set_to(table: Mapping[str, Sequence[Evidence]]) -> None:
        entries = {NAMES[code]: tuple(found) for code, found in table.items()}
        monkeypatch.setattr(evidence, "_shipped", lambda: entries)

    return set_to


Measured = Callable[[Mapping[str, Sequence[Evidence]]], None]


def rules(**settings: Any) -> set[str]:
    """The codes that run under some settings."""
    values = {key.replace("_", "-"): value for key, value in settings.items()}
    return set(torchlint.load_settings(None, values).codes)


def test_the_lower_end_of_the_interval_decides(measured: Measured) -> None:
    measured({"TL101": [one(H200, 1.09, 1.15)], "TL102": [one(H200, 1.1)]})
    assert rules(min_speedup=1.1) == {"TL102", "TL001", "TL002"}
    assert rules(min_speedup=1.09) == {"TL101", "TL102", "TL001", "TL002"}
    assert rules(min_speedup=2) == {"TL001", "TL002"}


@pytest.mark.parametrize(
    "entry",
    [
        one(H200, 3.0, stale=True),
        one(H200, 3.0, verdict="no effect"),
        one(H200, 3.0, verdict="slower"),
        one(H200, 3.0, verdict="differs"),
        one(H200, None, verdict="not measured"),
        one(H200, None, change="warnings 9 → 0"),
        one(XEON, 3.0),
    ],
    ids=lambda entry: f"{entry.verdict}, {entry.device}, {'stale' if entry.stale else entry.speedup}",
)
def test_what_is_no_measured_gain_there_does_not_count(measured: Measured, entry: Evidence) -> None:
    measured({"TL101": [entry], "TL102": [one(H200, 3.0)]})
    assert "TL101" not in rules(min_speedup=1.1)
    assert "TL102" in rules(min_speedup=1.1)


def test_the_main_size_counts(measured: Measured) -> None:
    measured({"TL101": [one(H200, 1.2, size="main"), one(H200, 9.0, size="large")]})
    assert not reaches(NAMES["TL101"], 2, "GPU")
    found = gain(NAMES["TL101"], "GPU")
    assert found is not None and found.size == "main"


def test_of_several_devices_the_best_counts_unless_one_is_named(measured: Measured) -> None:
    measured({"TL101": [one(A100, 1.2), one(H200, 3.0), one(XEON, 5.0)]})
    assert reaches(NAMES["TL101"], 3, "GPU") and not reaches(NAMES["TL101"], 4, "GPU")
    assert reaches(NAMES["TL101"], 5, "cpu")
    assert reaches(NAMES["TL101"], 1.2, "a100") and not reaches(NAMES["TL101"], 1.3, "A100")
    assert reaches(NAMES["TL101"], 3, "nvidia") and not reaches(NAMES["TL101"], 4, "nvidia")


def test_it_filters_what_is_selected_and_0_lets_all_pass(measured: Measured) -> None:
    measured({"TL101": [one(H200, 2.0)]})
    assert rules(select=["TL1"], min_speedup=1.1) == {"TL101", "TL002"}
    assert rules(select=["TL102"], min_speedup=1.1) == {"TL002"}
    assert rules(extend_select=["TL102"], min_speedup=1.1) == {"TL101", "TL001", "TL002"}
    assert rules(ignore=["TL101"], min_speedup=1.1) == {"TL001", "TL002"}
    assert rules(min_speedup=0) == rules()
    assert rules(plugins=["demo_pack"], select=["ZZ"], min_speedup=1.1) == {"TL002"}  # nobody measured them


def test_where_nothing_was_measured_is_said(measured: Measured) -> None:
    measured({"TL101": [one(XEON, 2.0)]})
    with pytest.raises(SettingsError) as error:
        rules(min_speedup=1.1, device="GPU")
    assert str(error.value) == f"overrides: nothing was measured on a GPU yet; `device` may be CPU or {XEON!r}"
    with pytest.raises(SettingsError, match="nothing was measured on 'H20'; `device` may be CPU or"):
        rules(device="H20")
    with pytest.raises(SettingsError, match="nothing was measured on ''"):
        rules(device="")
    assert rules(device="GPU") == rules()  # nobody asks for a figure
    measured({})
    assert nothing_on("CPU") == "nothing was measured on a CPU yet; there are no results at all"


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_factor_is_a_number_that_can_be_reached(value: float) -> None:
    with pytest.raises(SettingsError, match=r"`min-speedup` must be a factor such as 1\.1, not"):
        rules(min_speedup=value)


def test_a_suppression_of_a_rule_that_is_too_slow_is_not_called_unused(measured: Measured) -> None:
    measured({"TL102": [one(H200, 2.0)]})
    text = "from torch.utils.data import DataLoader\nx = DataLoader(d)  # noqa: TL101\ny = 1  # noqa: TL102\n"
    settings: Settings = torchlint.load_settings(None, {"min-speedup": 1.1})
    found = torchlint.check_text(text, settings=settings)
    assert [(one.code, text.count("\n", 0, one.start) + 1) for one in found] == [("TL001", 3)]


PROGRAM = """\
import torch
from torch.utils.data import DataLoader


def train(data, model, optimizer):
    loader = DataLoader(data, batch_size=4)
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


@pytest.fixture
def two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a program in two files."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(PROGRAM)
    yield tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[str, str]]:
    """File and code of what a run shows, in this order."""
    run(["--isolated", "--select", "TL101,TL102,TL201", "--output-format", "json", *arguments])
    return [(Path(item["filename"]).name, item["code"]) for item in json.loads(capsys.readouterr().out)]


def test_findings_are_sorted_by_what_their_rules_brought(
    two_files: Path, measured: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(
        {
            "TL101": [one(H200, 1.0, 1.5), one(XEON, 1.0, 9.0)],
            "TL102": [one(H200, 1.0, 8.0, verdict="slower")],
            "TL201": [one(H200, 1.0, 3.0)],
        }
    )
    by_place = [(file, code) for file in ("a.py", "b.py") for code in ("TL101", "TL102", "TL201")]
    assert shown(capsys) == by_place
    by_gain = [(file, code) for code in ("TL201", "TL101", "TL102") for file in ("a.py", "b.py")]
    assert shown(capsys, "--sort", "gain") == by_gain
    on_cpu = [("a.py", "TL101"), ("b.py", "TL101")]
    assert shown(capsys, "--sort", "gain", "--device", "CPU") == on_cpu + [
        place for place in by_place if place[1] != "TL101"
    ]


def test_without_measurements_warnings_come_before_information(
    two_files: Path, measured: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    measured({"TL201": [one(H200, 1.0, 3.0)]})
    split = "def f(x):\n    return torch.log(torch.softmax(x, dim=1))\n"
    (two_files / "a.py").write_text(f"import torch\n\n\n{split}")
    arguments = ["--extend-select", "TL710", "--ignore", "TL102"]
    assert shown(capsys, *arguments) == [("a.py", "TL710"), ("b.py", "TL101"), ("b.py", "TL201")]
    assert shown(capsys, *arguments, "--sort", "gain") == [("b.py", "TL201"), ("b.py", "TL101"), ("a.py", "TL710")]


def test_the_summary_counts_files_as_ever(
    two_files: Path, measured: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    measured({"TL101": [one(H200, 1.5)]})
    (two_files / "clean.py").write_text("x = 1\n")
    arguments = ["--isolated", "--select", "TL101,TL201", "--output-format", "concise"]
    run(arguments)
    plain = capsys.readouterr().out.splitlines()
    run([*arguments, "--sort", "gain"])
    by_gain = capsys.readouterr().out.splitlines()
    assert sorted(by_gain) == sorted(plain) and by_gain != plain
    assert by_gain[-1] == plain[-1]
    assert by_gain[-1].startswith("4 findings in 2 of 3 files")


def test_the_command_line(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    """With the results that come with the package."""
    (tmp_path / "a.py").write_text(PROGRAM)
    best = gain(NAMES["TL101"], "CPU")
    assert best is not None and best.ci_low is not None
    below, above = str(best.ci_low - 0.01), str(best.ci_low + 0.01)
    assert "TL101" in torchlint_in(tmp_path, "--device", "CPU", "--min-speedup", below).stdout
    assert "TL101" not in torchlint_in(tmp_path, "--device", "CPU", "--min-speedup", above).stdout
    (tmp_path / "torchlint.toml").write_text(f"device = 'CPU'\nmin-speedup = {above}\n")
    assert "TL101" not in torchlint_in(tmp_path).stdout
    assert "TL101" in torchlint_in(tmp_path, "--min-speedup", "0").stdout
    for arguments in (["--device", "abacus"], ["--sort", "gain", "--device", "abacus"]):
        done = torchlint_in(tmp_path, *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: command line: nothing was measured on 'abacus'; `device` may be ")
        assert done.stderr.count("\n") == 1
    done = torchlint_in(tmp_path, "--min-speedup", "fast")
    assert (done.returncode, done.stderr) == (2, "error: argument --min-speedup: invalid float value: 'fast'\n")


def test_without_figures_of_a_gpu_those_of_a_cpu_count(measured: Measured) -> None:
    measured({"TL101": [one(XEON, 2.0)], "TL102": [one(XEON, 1.0)]})
    settings = torchlint.load_settings(None, {"min-speedup": 1.1})
    assert settings.device == "CPU"
    assert {"TL101"} == {code for code in settings.codes if code not in ("TL001", "TL002")}
    assert settings.warnings == ("`min-speedup`: there are no measurements on a GPU yet; those on a CPU are used",)
    assert torchlint.load_settings(None, {"min-speedup": 1.1, "device": "CPU"}).warnings == ()
    measured({"TL101": [one(XEON, 2.0)], "TL102": [one(H200, 1.5)]})
    settings = torchlint.load_settings(None, {"min-speedup": 1.1})
    assert (settings.device, settings.warnings) == ("GPU", ())


def test_sorting_without_figures_of_a_gpu_warns_once(
    tmp_path: Path, measured: Measured, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torchlint.commands import UsageError

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")
    measured({"TL101": [one(XEON, 2.0)]})
    assert run(["--isolated", "--sort", "gain"]) == 0
    said = capsys.readouterr().err
    assert said == "warning: --sort gain: there are no measurements on a GPU yet; those on a CPU are used\n"
    with pytest.raises(UsageError, match="--sort gain: nothing was measured on a GPU yet; `device` may be CPU"):
        run(["--isolated", "--sort", "gain", "--device", "GPU"])
    measured({})
    assert run(["--isolated", "--sort", "gain"]) == 0
    said = capsys.readouterr().err
    assert said == "warning: --sort gain: there are no measurements yet; findings are sorted by severity\n"
    assert parser().parse_args([]).sort == "location"
