"""What several tests need: settings with the demonstration rules, and the command line as a process."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable
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

TESTS = Path(__file__).resolve().parent
# Their assertions say as much of a failure as those of the tests.
pytest.register_assert_rewrite("notebook_files", "report_readers", "sample_findings", "server_client")

MakeSettings = Callable[..., Settings]
RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]


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
    monkeypatch.setattr("validation.process.subprocess", stand_in)
