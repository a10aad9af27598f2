"""A program of three files: a dataset and its loader, a training loop, and a script; and what is found in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchlint import check_text
from torchlint.rule import Diagnostic

DATA = """\
import torch
from torch.utils.data import DataLoader


def build_loader(dataset, workers=4):
    return DataLoader(dataset, batch_size=64, num_workers=workers)
"""
ENGINE = """\
import torch.nn.functional as F


def train_one_epoch(model, loader, optimizer, device):
    model.train()
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
MAIN = """\
import torch
from {data} import build_loader
from {engine} import train_one_epoch
from photos import Photos


def main():
    device = torch.device("cuda")
    model = torch.nn.Linear(4096, 4096).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = build_loader(Photos())
    for epoch in range(10):
        train_one_epoch(model, loader, optimizer, device)


if __name__ == "__main__":
    main()
"""


def write(folder: Path, files: Mapping[str, str] | None = None, **others: str) -> Path:
    """Write modules, by their path without the suffix; a repository, so that its root is known."""
    (folder / ".git").mkdir()
    for name, text in {**(files or {}), **others}.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def found(path: Path) -> list[Diagnostic]:
    """The findings of a file."""
    return check_text(path.read_text(encoding="utf-8"), str(path))


def codes(path: Path) -> list[str]:
    """The codes of the findings of a file, in order."""
    return [diagnostic.code for diagnostic in found(path)]


def rows(folder: Path, name: str, code: str) -> list[int]:
    """The rows of a module of a program where a rule reports."""
    path = folder / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    return [text.count("\n", 0, item.start) + 1 for item in found(path) if item.code == code]


def rows_of(folder: Path, files: Mapping[str, str], name: str, code: str) -> list[int]:
    """The same, of a program that is written first."""
    return rows(write(folder, files), name, code)
