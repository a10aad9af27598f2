"""``torchlint profile``: records some steps of a script, from outside."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

#: Trains by steps of its own code; a second optimizer steps as well.
SCRIPT = """\
import sys
import torch

def step(model, optimizer, batch):
    loss = sum(part.sum() for part in model(batch))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()

def main(steps):
    model = torch.nn.Linear(4, 4)
    other = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    total = 0.0
    for index in range(steps):
        total += step(model, optimizer, torch.ones(2, 4))
        step(other, second, torch.ones(2, 4))
    open("checkpoint", "w").write(str(total))

main(int(sys.argv[1]))
"""


def profile(folder: Path, torchlint_in: RunTorchlint, *arguments: str) -> subprocess.CompletedProcess[str]:
    return torchlint_in(folder, "profile", "--steps", "2", "--wait", "2", *arguments)


def test_a_trace_has_the_lines_of_all_calls(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = profile(tmp_path, torchlint_in, "--", sys.executable, "train.py", "50")
    assert done.returncode == 0
    assert "Recorded 2 steps in trace.json.gz" in done.stderr
    assert done.stderr.endswith("Next: torchlint check --profile trace.json.gz\n")
    assert not (tmp_path / "checkpoint").exists()  # nothing runs after the steps
    trace = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    steps = [one["name"] for one in trace["traceEvents"] if str(one["name"]).startswith("ProfilerStep#")]
    assert len(steps) == 2
    calls = {
        one["args"]["Python id"]: one["name"] for one in trace["traceEvents"] if one.get("cat") == "python_function"
    }
    lines = {
        (calls[index + 1].rpartition("/")[2].partition(" of ")[0], line)
        for index, line in enumerate(trace["torchlintCallers"])
    }
    assert {("<built-in method item", 9), ("nn.Module: Linear_0", 5), ("train.py(4): step", 18)} <= lines
    shown = torchlint_in(tmp_path, "check", "--isolated", "--profile", "trace.json.gz").stdout
    assert "train.py:6 in step  loss.backward()" in shown


def test_a_script_that_takes_too_few_steps(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    (tmp_path / "infer.py").write_text(
        "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(4, 4))\nfor _ in range(4):\n"
        "    print(model(torch.ones(2, 4)).sum())\n"
    )
    done = profile(tmp_path, torchlint_in, "--unit", "forward", "--", sys.executable, "infer.py")
    assert (done.returncode, done.stdout.count("tensor(")) == (2, 4)
    # Inner modules do not count.
    assert "ended after 4 of the 5 steps that are needed: lower --steps or --wait" in done.stderr
    assert not (tmp_path / "trace.json.gz").exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ([sys.executable, "-c", "pass"], "never called `step()` of an optimizer; for inference, use --unit forward"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "failed with status 3 before 2 steps were recorded"),
        (["./nothing"], "./nothing: No such file or directory"),
        (["./train.py"], "to run a script: -- python ./train.py"),
        ([], "there is no command behind `--`"),
    ],
)
def test_why_nothing_is_recorded(tmp_path: Path, torchlint_in: RunTorchlint, command: list[str], reason: str) -> None:
    done = profile(tmp_path, torchlint_in, "--", *command)
    assert done.returncode == 2
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_command_needs_the_dashes(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(tmp_path, "profile", "python", "train.py")
    assert (done.returncode, done.stderr) == (
        2,
        "error: give the command to run behind `--`: torchlint profile -- python train.py\n",
    )


def test_an_existing_sitecustomize_runs_too(
    tmp_path: Path, torchlint_in: RunTorchlint, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("NAME = 'mine'\n")
    program = "import sitecustomize; print(sitecustomize.NAME)"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    done = profile(tmp_path, torchlint_in, "--", sys.executable, "-c", program)
    assert done.stdout == "mine\n"
