"""What several tests need: settings with the demonstration rules, and the command line as a process."""

from __future__ import annotations

import gc
import io
import os
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from torch_forks import ForkedWorker
from torchlint_processes import run_module

import torchlint
from torchlint.settings.settings import Settings

# How long an example takes says something of the machine, not of the code.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")

os.environ["TORCHLINT_ALLOW_PLUGINS"] = "1"  # for the settings files that tests write
os.environ["XDG_DATA_HOME"] = os.devnull  # what the user of this machine has measured does not count

TESTS = Path(__file__).resolve().parent
# Their assertions say as much of a failure as those of the tests.
pytest.register_assert_rewrite("notebook_files", "report_readers", "sample_findings", "server_client")

MakeSettings = Callable[..., Settings]
RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


#: Files of tests by what they need beyond the packages that every test may import.
NEEDS = {
    "torch": [
        "test_pairs",
        "test_rehearsal",
        "test_fixed_programs",
        "test_trial_torch",
        "test_profile_command",
        "test_validation_command",
        "test_validation_measurements",
    ],
    "pygls": ["test_editors", "test_server_*"],
    "hypothesmith": ["test_fuzzing"],
}
MISSING = [package for package in NEEDS if find_spec(package) is None]
collect_ignore_glob = [f"{name}.py" for package in MISSING for name in NEEDS[package]]
#: Those that take longest; they come first, so that no process is left with one of them at the end.
SLOW = (*NEEDS["torch"], "test_flake8", "test_ci", "test_pre_commit", "test_site", "test_fuzzing", "test_reliability")


def pytest_report_header() -> list[str]:
    """Says which tests are left out."""
    return [f"{package} is not installed: {', '.join(NEEDS[package])} are left out" for package in MISSING]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are slow, use torch or a browser, and run the slow ones first."""
    for item in items:
        if item.path.stem in SLOW:
            item.add_marker("slow")
        if item.path.stem in NEEDS["torch"]:
            item.add_marker("torch")
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def demo() -> MakeSettings:
    """Settings under which the demonstration rules run, and nothing else unless it is asked for."""

    def make(**overrides: Any) -> Settings:
        values: dict[str, Any] = {"plugins": ["demo_pack"], "select": ["ZZ", "TL001"], "ignore": ["ZZ301"]}
        values.update({key.replace("_", "-"): value for key, value in overrides.items()})
        return torchlint.load_settings(None, values)

    return make


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder whose settings select the demonstration rules."""
    (tmp_path / "torchlint.toml").write_text('plugins = ["demo_pack"]\nselect = ["ZZ1", "ZZ2"]\n')
    return tmp_path


@pytest.fixture
def torchlint_in() -> RunTorchlint:
    """``torchlint_in(folder, *arguments, stdin=..., env=...)`` runs the command line as a process."""

    def run(
        folder: Path, *arguments: str, stdin: str | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = run_module("torchlint", folder, *arguments, stdin=(stdin or "").encode(), env=env)
        printed, said = (io.TextIOWrapper(io.BytesIO(data), "utf-8").read() for data in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, printed, said)

    return run


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that need not import torch: to start one takes longer than what most tests ask of it."""
    stand_in = SimpleNamespace(**{**vars(subprocess), "Popen": ForkedWorker})
    monkeypatch.setattr("torchlint.measure.process.subprocess", stand_in)


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what lives until the end: the tests, and the modules that are imported."""
    gc.collect()
    gc.freeze()
