"""Loaders that reach their loop through tuples in lists, fields, constructors and parts of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

DATA = """\
from torch.utils.data import DataLoader
from photos import Photos


def build_loader(name):
    return DataLoader(Photos(name), batch_size=64, shuffle=True)
"""
ENGINE = """\
def train(model, loader, optimizer):
    for images, labels in loader:
        optimizer.zero_grad()
        model(images.cuda(), labels.cuda()).mean().backward()
        optimizer.step()
"""
FOLDS = """\
import torch
from data import build_loader
from engine import train
from nets import make_net


def build(n):
    folds = []
    for i in range(n):
        {filled}
    return folds


model = make_net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for {taken} in build(5):
    train(model, {used}, optimizer)
"""


@pytest.mark.parametrize(
    ("filled", "taken", "used", "expected"),
    [
        ("folds.append((build_loader('train'), build_loader('val')))", "tr, va", "tr", [6]),
        ("folds.append([i, build_loader('train')])", "_, loader", "loader", [6]),
        ("folds.append((i, (build_loader('train'), build_loader('val'))))", "_, (tr, va)", "tr", [6]),
        ("folds.append({'train': build_loader('train')})", "fold", "fold['train']", [6]),
        ("folds.append((build_loader('train'), Photos('val')))", "tr, va", "va", []),
        ("folds.append((Photos('train'), Photos('val')))", "tr, va", "tr", []),
        ("folds.append((i, (build_loader('train'), build_loader('val'))))", "index, _", "index", []),
    ],
)
def test_a_list_is_filled_with_tuples_of_loaders(
    tmp_path: Path, filled: str, taken: str, used: str, expected: list[int]
) -> None:
    main = FOLDS.replace("{filled}", filled).replace("{taken}", taken)
    files = {"data": DATA, "engine": ENGINE, "main": main.replace("{used}", used)}
    assert rows_of(tmp_path, files, "data", "TL101") == expected
