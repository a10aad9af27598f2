"""``torchlint measure -- COMMAND``: what is reported about a script, and what is applied."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stand_in_torch import make_project

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]
#: The second fix makes a step faster, the first one does not.
TRAIN = """\
import time
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        return torch.Tensor()


def evaluate(model, loader):
    model.eval()
    for x in loader:
        model(x)


def main():
    loader = torch.utils.data.DataLoader(range(50))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(20):
        model.train()
        for x in loader:
            optimizer.zero_grad(set_to_none=False)
            time.sleep(0.01)
            model(x).backward()
            optimizer.step()
        evaluate(model, loader)


main()
"""
SHORT = ("--steps", "20", "--warmup", "1")
RUN = ("--", sys.executable, "train.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A script in which the fix of one rule pays, and that of another does not."""
    return make_project(tmp_path, train=TRAIN)


def test_the_fix_that_pays_is_found_and_applied(project: Path, torchlint_in: RunTorchlint) -> None:
    names = {path.name for path in project.iterdir()}
    done = torchlint_in(project, "measure", "--unsafe-fixes", *SHORT, *RUN)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Fixes in 1 file: TL402 (1), TL407 (1)." in done.stdout
    assert "With the fixes, the script is faster: " in done.stdout
    rows = {line.split()[1]: line for line in done.stdout.splitlines() if line.startswith("│ TL")}
    assert "pays" in rows["TL407"]
    assert "pays" not in rows["TL402"]
    assert "Nothing is changed. --apply applies the fixes that pay: TL407." in done.stdout
    assert (project / "train.py").read_text() == TRAIN
    assert {path.name for path in project.iterdir()} == names

    done = torchlint_in(project, "measure", "--unsafe-fixes", "--ignore", "TL402", "--apply", *SHORT, *RUN)
    assert "Applied TL407 in train.py." in done.stdout
    assert (project / "train.py").read_text() == TRAIN.replace("set_to_none=False", "")


def test_no_fix_is_applied_if_the_losses_differ(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    loss = 'torch.Tensor(3.0 if "set_to_none=" + "False" in open(__file__).read() else 1.0)'
    text = TRAIN.replace("return torch.Tensor()", f"return {loss}")
    project = make_project(tmp_path, train=text)
    done = torchlint_in(project, "measure", "--unsafe-fixes", "--select", "TL407", "--apply", *SHORT, *RUN)
    assert "With the fixes, the script is faster: " in done.stdout
    assert "The losses differ, so that no fix is offered" in done.stdout
    assert (project / "train.py").read_text() == text


def test_without_an_applicable_fix_nothing_is_measured(project: Path, torchlint_in: RunTorchlint) -> None:
    done = torchlint_in(project, "measure", *SHORT, *RUN)
    assert done.returncode == 0
    assert "No fix applies to the files of the project that the script uses" in done.stdout
    assert "Not fixed: TL402 (1 with --unsafe-fixes), TL407 (1 with --unsafe-fixes)." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("TL101", *RUN), "error: rules are chosen with --select when a script is measured"),
        (("--again", *RUN), "error: --again and --device are for the example programs"),
        (("--steps", "many", *RUN), "error: argument --steps: a number of steps, not `many`"),
        (("--select", "TL9999", *RUN), "error: command line: unknown rule 'TL9999'"),
        (("--", sys.executable, "no-such-script.py"), "error: the script failed: "),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    project: Path, torchlint_in: RunTorchlint, arguments: tuple[str, ...], message: str
) -> None:
    done = torchlint_in(project, "measure", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(message)
