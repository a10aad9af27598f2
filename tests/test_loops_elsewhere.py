"""Training loops and loops over epochs that are in another file than the batches, the loader or the network."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import codes, rows, write

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


CHUNKS = """\
import torch
from torch.utils.data import DataLoader


def make_loader(dataset, workers=4):
    return Chunks(dataset, workers)


class Chunks:
    def __init__(self, dataset, workers):
        self.loader = DataLoader(dataset, batch_size=8, num_workers=workers)

    def __iter__(self):
        for batch in self.loader:
            yield from batch.chunk(2)


if __name__ == "__main__":
    for chunk in Chunks(torch.arange(9), 0):
        print(chunk)
"""
CHUNKED = """\
import torch
from chunks import make_loader
from photos import Photos
from training import Trainer


def main():
    model = torch.nn.Linear(8, 8)
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer.run(make_loader(Photos(), {workers}), 20)


if __name__ == "__main__":
    main()
"""
TRAINING = """\
class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer

    def train(self, chunks):
        for chunk in chunks:
            self.model(chunk).mean().backward()
            self.optimizer.step()

    def run(self, chunks, epochs):
        {loop}
            self.train(chunks)
"""


@pytest.mark.parametrize(
    ("workers", "loop", "expected"),
    [
        ("8", "for epoch in range(epochs):", ["TL103"]),
        ("0", "for epoch in range(epochs):", []),
        ("8", "if epochs:", []),
    ],
)
def test_another_file_iterates_over_the_object_of_a_loader(
    tmp_path: Path, workers: str, loop: str, expected: list[str]
) -> None:
    main = CHUNKED.replace("{workers}", workers)
    write(tmp_path, chunks=CHUNKS, main=main, training=TRAINING.replace("{loop}", loop))
    assert [code for code in codes(tmp_path / "chunks.py") if code == "TL103"] == expected


NETWORKS = """\
import torch


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Conv2d(3, 64, 3)

    def forward(self, x):
        return self.body(x.cuda())

    def train_loop(self, loader, optimizer):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.forward(images), labels.cuda())
            loss.backward()
            optimizer.step()
            print(loss.item())
"""
WITH_CUDA = """\
import torch


class Matching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Conv2d(3, 64, 3)

    def cuda(self):
        super().cuda()
        return self

    def train_loop(self, loader, optimizer):
        pass
"""
CHOSEN = """\
import sys

import torch
from matching import Matching
from networks import Plain
from photos import Photos
from torch.utils.data import DataLoader


def main(name):
    loader = DataLoader(Photos(), num_workers=4, pin_memory=True)
    if name == "plain":
        model = Plain()
    else:
        model = Matching()
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        model.{called}(loader, optimizer)


if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize(("called", "expected"), [("train_loop", ["TL204", "TL204"]), ("compile", [])])
def test_one_of_several_networks_overrides_how_it_is_moved(tmp_path: Path, called: str, expected: list[str]) -> None:
    write(tmp_path, networks=NETWORKS, matching=WITH_CUDA, main=CHOSEN.replace("{called}", called))
    assert [code for code in codes(tmp_path / "networks.py") if code == "TL204"] == expected


IN_DICTS = """\
from photos import Photos
from torch.utils.data import DataLoader


def for_training(workers):
    photos = Photos()
    return DataLoader(photos, num_workers=workers), len(photos)


def for_preview(workers):
    return DataLoader(Photos(), num_workers=workers), 8


LOADERS = {}
LOADERS["faces"] = {"train": for_training, "preview": for_preview, "test": None}
LOADERS["birds"] = {"train": for_training, "preview": for_preview, "test": for_preview}
"""
OUT_OF_DICTS = """\
import sys

import torch
from loaders import LOADERS


def train(model, loader):
    for images in loader:
        model(images.cuda()).mean().backward()


def main(name):
    model = torch.nn.Linear(8, 8).cuda()
    loader, length = LOADERS[name]["{key}"]({workers})
    for epoch in range(9):
        train(model, loader)


if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("key", "workers", "expected"),
    [("train", 4, [7, 7]), ("preview", 4, [11, 11]), ("train", 0, [7]), ("other", 4, [])],
)
def test_a_function_of_a_dict_in_a_dict_makes_the_loader(
    tmp_path: Path, key: str, workers: int, expected: list[int]
) -> None:
    write(tmp_path, loaders=IN_DICTS, main=OUT_OF_DICTS.format(key=key, workers=workers))
    assert [*rows(tmp_path, "loaders", "TL102"), *rows(tmp_path, "loaders", "TL103")] == expected
