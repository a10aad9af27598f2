"""Findings in functions that a training loop of another file calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import write

from torchlint import check_text
from torchlint.project.context import forget

LOOP = """\
import torch
from torch.utils.data import DataLoader
from parts import *
from photos import Photos


def main():
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = torch.zeros((), device="cuda")
    for images in DataLoader(Photos()):
        loss = model(images.cuda()).mean()
        loss.backward()
        optimizer.step()
        {called}


if __name__ == "__main__":
    main()
"""
SMOOTHED = """\
import torch


def smoothed(average, loss):
    torch.cuda.synchronize()
    return average.lerp_(loss.detach(), 0.1)
"""


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Projects of earlier tests are forgotten."""
    forget()


@pytest.mark.parametrize(
    ("code", "parts", "called", "expected"),
    [
        ("TL211", SMOOTHED, "smoothed(average, loss)", [5]),
        ("TL211", SMOOTHED, "pass", []),
    ],
)
def test_the_loop_is_in_another_file(tmp_path: Path, code: str, parts: str, called: str, expected: list[int]) -> None:
    write(tmp_path, parts=parts, main=LOOP.replace("{called}", called))
    found = [item for item in check_text(parts, str(tmp_path / "parts.py")) if item.code == code]
    assert [parts.count("\n", 0, item.start) + 1 for item in found] == expected
