"""What the code of another file decides: where a tensor goes, what is evaluated, which switches there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

MOVING = """\
import torch as T


def get_cuda(tensor):
    if T.cuda.is_available():
        tensor = tensor.cuda()
    return tensor


def to_floats(tensor):
    return tensor.float()
"""
DECODING = """\
import torch as T
from moving import get_cuda, to_floats


def decode(model, batches, start):
    for batch in batches:
        model(batch, {moved})
"""
EVALUATION = """\
import torch


def evaluate(model, loader):
    hits = 0
    with torch.no_grad():
        for images, labels in loader:
            hits += (model(images.cuda()).argmax(1) == labels.cuda()).sum()
    return hits
"""
TRAINING = """\
import torch
from evaluation import evaluate


def train(net, average, loader, validation, optimizer):
    for images, labels in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(net(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return evaluate({evaluated}, validation)
"""
OPTIONS = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--balance", action="store_true", default=False)
args = parser.parse_args()
"""
CRITERION = """\
import torch
from options import args


class Balanced(torch.nn.Module):
    def forward(self, outputs, mask):
        if args.{switch}:
            if mask.sum() == 0:
                return outputs.sum() * 0
        return (outputs * mask).mean()


def train(model, loader, optimizer):
    criterion = Balanced()
    for images, labels in loader:
        loss = criterion(model(images.cuda()), labels.cuda() > 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        ("get_cuda(T.LongTensor(len(batch)).fill_(start))", [7]),
        ("get_cuda((T.rand(len(batch)) > 0.25)).long()", [7]),
        ("to_floats(T.zeros(len(batch)))", []),
        ("get_cuda(T.from_numpy(batch.mask))", []),
    ],
)
def test_a_helper_of_another_file_moves_what_is_created(tmp_path: Path, moved: str, expected: list[int]) -> None:
    run = "from decoding import decode\nfrom nets import model, batches\n\ndecode(model, batches, 2)\n"
    files = {"moving": MOVING, "decoding": DECODING.replace("{moved}", moved), "main": run}
    assert rows_of(tmp_path, files, "decoding", "TL206") == expected


@pytest.mark.parametrize(("evaluated", "expected"), [("net", [8]), ("average", [])])
def test_another_file_evaluates_what_is_trained_under_autocast(
    tmp_path: Path, evaluated: str, expected: list[int]
) -> None:
    run = "from nets import average, net, optimizer, loader, validation\nfrom training import train\n\n"
    run += "train(net, average, loader, validation, optimizer)\n"
    files = {"evaluation": EVALUATION, "training": TRAINING.replace("{evaluated}", evaluated), "main": run}
    assert rows_of(tmp_path, files, "evaluation", "TL312") == expected


@pytest.mark.parametrize(("switch", "expected"), [("balance", [8]), ("debug", [])])
def test_a_switch_of_another_file_adds_a_part_of_the_loss(tmp_path: Path, switch: str, expected: list[int]) -> None:
    run = "from nets import loader, model, optimizer\nfrom criterion import train\n\ntrain(model, loader, optimizer)\n"
    options = OPTIONS.replace("balance", switch)
    files = {"options": options, "criterion": CRITERION.replace("{switch}", switch), "main": run}
    assert rows_of(tmp_path, files, "criterion", "TL203") == expected


ENGINE = """\
import numpy as np
import torch
from torch import nn


class Engine(nn.Module):
    def __init__(self, weights):
        super().__init__()
        slots = {}
        for name in weights:
            slots[name] = torch.from_numpy(np.empty((8, 8))).to("cuda")
        self.slots = slots

    def forward(self, images):
        return images
"""
VALIDATION = """\
from engine import Engine


def run(weights, model=None):
    training = model is not None
    if training:
        weights = None
    else:
        model = Engine(weights)
    return model(weights)


def check(weights, model=None):
    return run(weights, model)
"""


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        ("run(weights)", [11]),
        ("run(weights, None)", [11]),
        ("run(weights, net)", []),
        ("run(weights, model=average.network)", []),
        ("check(weights)", [11]),
        ("check(weights, net)", [11]),
        ("run(weights, best)", [11]),
    ],
)
def test_a_validation_that_is_given_a_network_does_not_build_one(
    tmp_path: Path, called: str, expected: list[int]
) -> None:
    training = (
        "from nets import average, loader, net, optimizer, weights\nfrom validation import check, run\n\n"
        "for images, labels in loader:\n    net(images.cuda()).sum().backward()\n    optimizer.step()\n"
        "    best, score = average.best()\n    "
    )
    files = {"engine": ENGINE, "validation": VALIDATION, "train": f"{training}{called}\n"}
    assert rows_of(tmp_path, files, "engine", "TL206") == expected
