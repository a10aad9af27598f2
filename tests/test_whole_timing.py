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


METERS = """\
import time


class Meters:
    def every(self, loader, interval):
        began = time.time()
        for index, images in enumerate(loader):
            {before}
            yield images
            if index % interval == 0:
                print(index)
        print(time.time() - began)
"""
WAITING = """\
import torch
from meters import Meters


def train(model, loader, optimizer):
    for images in {over}:
        loss = model(images.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()


model = torch.nn.Linear(8, 8).cuda()
train(model, load(), torch.optim.SGD(model.parameters(), lr=0.1))
"""
EVERY = "Meters().every(loader, 10)"


@pytest.mark.parametrize(
    ("before", "over", "expected"),
    [
        ("start = time.time()", EVERY, []),
        ("start = time.time()", f"enumerate({EVERY})", []),
        ("size = len(images)", EVERY, [11]),
        ("start = time.time()", "loader", [11]),
    ],
    ids=["a clock at each step", "numbered", "a clock around the loop", "not iterated over"],
)
def test_a_generator_of_another_file_reads_a_clock_at_each_step(
    before: str, over: str, expected: list[int], tmp_path: Path
) -> None:
    files = {"meters": METERS.format(before=before), "main": WAITING.format(over=over)}
    assert rows_of(tmp_path, files, "main", "TL211") == expected
