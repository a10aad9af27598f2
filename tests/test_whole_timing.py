"""Timing in a file that only moves tensors to the device that a script chooses."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

MEASURED = """\
import time

import torch


@torch.no_grad()
def infer(model, loader, device):
    times = []
    for images in loader:
        images = images.to({device})
        start = time.time()
        model(images)
        times.append(time.time() - start)
    return times
"""
MAIN = """\
import torch
from measuring import infer

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(infer(torch.nn.Linear(8, 8).to(device).eval(), load(), device))
"""


@pytest.mark.parametrize(("device", "expected"), [("device", [13]), ('"cpu"', [])])
def test_a_file_that_moves_tensors_to_the_device_of_the_program_is_timed(
    device: str, expected: list[int], tmp_path: Path
) -> None:
    files = {"measuring": MEASURED.format(device=device), "main": MAIN}
    assert rows_of(tmp_path, files, "measuring", "TL903") == expected
