"""Classes that a function returns or a dict contains as ``module.Class``, and that the program then calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from project_files import make

from torchlint import check_text

MAIN = """\
import argparse
import torch
from torch.utils.data import DataLoader
from choice import {imported}
from photos import Photos


def main(args):
    loader = DataLoader(Photos(args.root), batch_size=64, num_workers=4, pin_memory={pinned})
    trainer = {made}
    for epoch in range(20):
        trainer.train(epoch)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainer", default="plain")
    main(parser.parse_args())
"""
PHOTOS = """\
from PIL import Image
from torch.utils.data import Dataset


class Photos(Dataset):
    def __getitem__(self, index):
        return Image.open(self.files[index])
"""
CHOICE = """\
from trainers import plain, other
import trainers.plain as simple


def by_branch(name):
    if name == "plain":
        chosen = plain.Trainer
    elif name == "other":
        chosen = other.Trainer
    else:
        raise ValueError(name)
    return chosen


def by_return(name):
    if name == "other":
        return other.Trainer
    return simple.Trainer


def second(name):
    return other.Trainer


TRAINERS = {"plain": plain.Trainer, "other": other.Trainer}
"""
TRAINER = """\
import torch


class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.model = torch.nn.Linear(512, 512).to("cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, epoch):
        for images in self.loader:
            loss = self.model(images.to("cuda")).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


def found(folder: Path, imported: str, made: str, pinned: bool = True) -> list[str]:
    """The findings of TL204 in the trainer of ``trainers/plain.py``, with this call in the main script."""
    (folder / ".git").mkdir()
    main = MAIN.replace("{imported}", imported).replace("{made}", made).replace("{pinned}", str(pinned))
    trainers = {f"trainers/{name}.py": TRAINER for name in ("plain", "other")}
    make(folder, {"main.py": main, "photos.py": PHOTOS, "choice.py": CHOICE, "trainers/__init__.py": "", **trainers})
    path = folder / "trainers" / "plain.py"
    return [item.code for item in check_text(TRAINER, str(path)) if item.code == "TL204"]


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("by_branch", "by_branch(args.trainer)(loader)"),
        ("by_return", "by_return(args.trainer)(loader)"),
        ("TRAINERS", "TRAINERS[args.trainer](loader)"),
        ("plain", "plain.Trainer(loader)"),
    ],
)
def test_a_class_gets_what_the_call_of_a_chosen_class_passes(tmp_path: Path, imported: str, made: str) -> None:
    assert found(tmp_path, imported, made) == ["TL204"]


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("second", "second(args.trainer)(loader)"),
        ("by_branch", "by_branch(args.trainer)"),
        ("by_branch", "by_branch(loader)([])"),
        ("TRAINERS", "TRAINERS['other'](loader)"),
    ],
    ids=["another module", "not called", "other arguments", "another item"],
)
def test_a_class_that_is_not_chosen_has_no_loader(tmp_path: Path, imported: str, made: str) -> None:
    assert not found(tmp_path, imported, made)


def test_a_loader_that_does_not_pin_stays_one(tmp_path: Path) -> None:
    assert not found(tmp_path, "by_branch", "by_branch(args.trainer)(loader)", pinned=False)
