"""Averages of parameters that a training step of another file updates."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

AVERAGES = """\
def update_ema(averages, params, rate):
    for average, param in zip(averages, params):
        average.detach().mul_(rate).add_(param, alpha=1 - rate)
"""
PARTS_OF_BATCHES = """\
import torch
from averages import update_ema
from photos import photos


class Trainer:
    def __init__(self, model):
        self.model = model
        self.averages = [param.clone() for param in model.parameters()]
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.step = 0

    def run(self):
        while self.step < 100_000:
            batch = next(photos)
            self.run_step(batch)

    def run_step(self, batch):
        self.forward_backward(batch)
        self.optimize()
        self.step += 1
        {updated}

    def optimize(self):
        self.optimizer.step()

    def forward_backward(self, batch):
        self.optimizer.zero_grad()
        for begin in range(0, batch.shape[0], 8):
            self.model(batch[begin : begin + 8].cuda()).mean().backward()


if __name__ == "__main__":
    Trainer(torch.nn.Linear(8, 8).cuda()).run()
"""


UPDATE = "update_ema(self.averages, self.model.parameters(), 0.999)"


@pytest.mark.parametrize(("updated", "expected"), [(UPDATE, [2]), (f"if self.step % 100 == 0: {UPDATE}", [])])
def test_a_step_trains_with_the_parts_of_a_batch(tmp_path: Path, updated: str, expected: list[int]) -> None:
    main = PARTS_OF_BATCHES.replace("{updated}", updated)
    assert rows_of(tmp_path, {"averages": AVERAGES, "main": main}, "averages", "TL803") == expected
