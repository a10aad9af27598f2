"""Copies of pinned batches in helpers that the loops of other files call."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

HELPERS = """\
import torch
from torch.autograd import Variable


def make_variable(tensor, requires_grad=True):
    if torch.cuda.is_available():
        tensor = tensor.cuda()
    return Variable(tensor, requires_grad=requires_grad)


def to_cuda(*tensors):
    return [tensor.cuda() for tensor in tensors]


def to_device(data, device):
    if isinstance(data, (list, tuple)):
        return [to_device(item, device) for item in data]
    return data.to(device)


def move(tensor):
    return tensor.cuda()


def prepare(device, **tensors):
    return {name: tensor.to(device) for name, tensor in tensors.items()}
"""
DATA = """\
from photos import Photos
from torch.utils.data import DataLoader


def load_data(name, batch=64, kwargs={}):
    dataset = Photos(name)
    if len(dataset) == 0:
        return None
    return DataLoader(dataset, batch_size=batch, **kwargs)
"""
TRAINING = """\
import torch
from data import load_data
from helpers import make_variable, move, prepare, to_cuda, to_device


def train_epoch(loader, net, optimizer, device):
    for images, labels in loader:
        {moved}
        loss = net.criterion(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train(net, optimizer):
    device = torch.device("cuda")
    net.to(device)
    if torch.cuda.is_available():
        kwargs = {"num_workers": 1, "pin_memory": True}
    else:
        kwargs = {}
    train_epoch(load_data("train", kwargs=kwargs), net, optimizer, device)
"""


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        ("images, labels = make_variable(images), make_variable(labels)", [7]),
        ("images, labels = to_cuda(images, labels)", [12]),
        ("images, labels = to_device([images, labels], device)", [18]),
        ("images, labels = map(move, (images, labels))", [22]),
        ("images, labels = prepare(device, images=images, labels=labels).values()", [26]),
        ("images, labels = make_variable(images / 255), make_variable(labels * 2)", []),
        ("images, labels = to_cuda(images / 255, labels * 2)", []),
        ("images, labels = to_device([images / 255, labels * 2], device)", []),
        ("images, labels = map(move, (images / 255, labels * 2))", []),
        ("images, labels = prepare(device, images=images / 255, labels=labels * 2).values()", []),
    ],
)
def test_a_helper_of_another_file_copies_what_is_pinned(tmp_path: Path, moved: str, expected: list[int]) -> None:
    files = {"helpers": HELPERS, "data": DATA, "training": TRAINING.replace("{moved}", moved)}
    run = "from nets import net, optimizer\nfrom training import train\n\ntrain(net, optimizer)\n"
    assert rows_of(tmp_path, {**files, "main": run}, "helpers", "TL204") == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [('load_data("val", kwargs=kwargs)', [7]), ('load_data("val", kwargs={})', []), ('load_data("val")', [])],
)
def test_no_caller_of_another_file_gives_the_loader_other_options(
    tmp_path: Path, call: str, expected: list[int]
) -> None:
    moved = "images, labels = make_variable(images), make_variable(labels)"
    training = TRAINING.replace("{moved}", moved) + f"    train_epoch({call}, net, optimizer, device)\n"
    run = "from nets import net, optimizer\nfrom training import train\n\ntrain(net, optimizer)\n"
    files = {"helpers": HELPERS, "data": DATA, "training": training, "main": run}
    assert rows_of(tmp_path, files, "helpers", "TL204") == expected
