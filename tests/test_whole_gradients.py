"""Backward passes in one file, and the script that calls them or not in another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

TRAINER = """\
class Trainer:
    def __init__(self, net):
        self.net = net

    def train(self, loader, optimizer):
        for images, labels in loader:
            loss = (self.net(images) - labels).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def generate(self, codes):
        return self.net(codes)
"""
SCRIPT = """\
import torch
from nets import Net
from trainer import Trainer

if __name__ == "__main__":
    torch.autograd.set_detect_anomaly(True)
    net = Net().cuda()
    net.load_state_dict(torch.load("net.pt"))
    trainer = Trainer(net)
    {run}
"""


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("print(trainer.generate(torch.load('codes.pt')))", []),
        ("trainer.train(torch.load('data.pt'), torch.optim.SGD(net.parameters(), lr=0.1))", [6]),
        ("net.fit_all('data.pt')", [6]),
    ],
)
def test_a_script_that_calls_no_training_runs_no_backward_pass(tmp_path: Path, run: str, expected: list[int]) -> None:
    files = {"trainer": TRAINER, "generate_motion": SCRIPT.replace("{run}", run)}
    assert rows_of(tmp_path, files, "generate_motion", "TL901") == expected
