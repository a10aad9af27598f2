"""Findings in functions that a training loop of another file calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import codes, write

from torchlint import check_text

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


PHASES = """\
import enum


class Phase(enum.Enum):
    TRAIN = "train"
    TEST = "test"
"""
PHASED = """\
import torch
from net import Net
from phases import *


def run(phase, net, optimizer, loader):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        if phase == Phase.TRAIN:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(9):
        run(Phase.TRAIN, net, optimizer, torch.load("train.pt"))
        {evaluation}
"""


@pytest.mark.parametrize(
    ("evaluation", "expected"),
    [
        ('run(Phase.TEST, net, optimizer, torch.load("val.pt"))', True),
        ('torch.no_grad()(run)(Phase.TEST, net, optimizer, torch.load("val.pt"))', False),
        ('with torch.no_grad(): run(Phase.TEST, net, optimizer, torch.load("val.pt"))', False),
        ('run(Phase.TRAIN, net, optimizer, torch.load("val.pt"))', False),
    ],
)
def test_the_phases_are_an_enumeration_of_another_file(evaluation: str, expected: bool, tmp_path: Path) -> None:
    text = PHASED.format(evaluation=evaluation)
    write(tmp_path, phases=PHASES, net="import torch\n\n\nclass Net(torch.nn.Linear):\n    pass\n", main=text)
    assert any(item.code == "TL402" for item in check_text(text, str(tmp_path / "main.py"))) is expected


LOGGER = """\
import torch


class MetricLogger:
    def __init__(self):
        self.totals = {}

    def update(self, step=0, **values):
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                value = value.item()
            self.totals[name] = self.totals.get(name, 0) + value

    def log_every(self, batches, interval):
        for batch in batches:
            yield batch
"""
LOGGING = """\
import torch
from meters import MetricLogger
from photos import Photos
from torch.utils.data import DataLoader


def main():
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    meters = MetricLogger()
    for images in meters.log_every(DataLoader(Photos()), 10):
        output = model(images.cuda())
        losses = {"mean": output.mean(), "norm": output.norm()}
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {updated}


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("updated", "expected"),
    [
        ("meters.update(loss=loss)", [11]),
        ("meters.update(**losses)", [11]),
        ('meters.update(lr=optimizer.param_groups[0]["lr"], size=len(images))', []),
        ("meters.update(step=loss)", []),
        ("pass", []),
    ],
)
def test_a_logger_reads_what_it_gets_by_keywords(tmp_path: Path, updated: str, expected: list[int]) -> None:
    write(tmp_path, meters=LOGGER, main=LOGGING.replace("{updated}", updated))
    found = [item for item in check_text(LOGGER, str(tmp_path / "meters.py")) if item.code == "TL201"]
    assert [LOGGER.count("\n", 0, item.start) + 1 for item in found] == expected


TRAINER = """\
class Trainer:
    def __init__(self, model, loader, optimizer, criterion, device):
        self.model = model
        self.loader = loader
        self.optimizer = optimizer
        self.criterion = criterion
        self.device = device

    def run_epoch(self):
        total = 0.0
        for images, labels in self.loader:
            loss = self.criterion(self.model(images.to(self.device)), labels.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total
"""
STARTED = """\
import torch
from torch.utils.data import DataLoader
from net import Net
from photos import Photos
from trainer import Trainer


def main():
    device = torch.device("{device}")
    model = Net().to(device)
    loader = DataLoader(Photos(), num_workers=4, pin_memory=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, loader, optimizer, torch.nn.CrossEntropyLoss(), device)
    for epoch in range(9):
        trainer.run_epoch()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("device", "expected"), [("cuda", ["TL301", "TL204", "TL201"]), ("cpu", [])])
def test_the_file_of_the_loop_does_not_name_torch(tmp_path: Path, device: str, expected: list[str]) -> None:
    net = "import torch\n\n\nclass Net(torch.nn.Linear):\n    pass\n"
    write(tmp_path, net=net, trainer=TRAINER, main=STARTED.format(device=device))
    assert "torch" not in TRAINER
    assert codes(tmp_path / "trainer.py") == expected
