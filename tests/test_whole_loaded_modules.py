"""Modules that a program imports by computed names, or loads by their paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows, rows_of, write

EXPERT = """\
import torch
from torch import nn


class {name}(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.head = nn.Linear(width, {classes})

    def step(self, batch, losses):
        loss = nn.functional.cross_entropy(self.head(batch["images"].cuda()), batch["labels"].cuda())
        losses.append(loss.item())
        return loss
"""
RUNNER = """\
import importlib
import sys

import torch
from data import make_loader

{before}


def train(task):
    {found}
    model = {made}.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(10):
        for batch in make_loader():
            loss = model.step(batch, losses)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    train(sys.argv[1])
"""
TAKEN = "Expert = getattr(module, 'Expert')"


@pytest.mark.parametrize(
    ("before", "found", "made", "expected"),
    [
        ("", "module = importlib.import_module(f'experts.{task}.expert')", "module.Expert(64)", [12]),
        ("", "module = importlib.import_module('experts.' + task + '.expert')", "module.Expert(64)", [12]),
        ("", "module = importlib.import_module('experts.{}.expert'.format(task))", "module.Expert(64)", [12]),
        ("", "name = f'experts.{task}.expert'\n    module = importlib.import_module(name)", "module.Expert(64)", [12]),
        ("", f"module = importlib.import_module(f'experts.{{task}}.expert')\n    {TAKEN}", "Expert(64)", [12]),
        ("", "module = importlib.import_module(f'.experts.{task}.expert', __package__)", "module.Expert(64)", [12]),
        ("", "module = importlib.import_module(f'.experts.{task}.expert')", "module.Expert(64)", []),
        ("", "module = importlib.import_module(f'experts.{task}.expert')", "module.Teacher(64)", []),
        ("", "module = importlib.import_module(f'experts.{task}.model')", "module.Expert(64)", []),
        ("", "module = importlib.import_module(f'networks.{task}.expert')", "module.Expert(64)", []),
        ("", "module = importlib.import_module(f'{task}.expert')", "module.Expert(64)", []),
        (
            "def import_module(name):\n    return print(name)",
            "module = import_module(f'experts.{task}.expert')",
            "module.Expert(64)",
            [],
        ),
        (
            "",
            "module = importlib.import_module(f'experts.{task}.expert')\n    module = wrapped(module)",
            "module.Expert(64)",
            [],
        ),
    ],
)
def test_a_module_is_imported_by_a_computed_name(
    tmp_path: Path, before: str, found: str, made: str, expected: list[int]
) -> None:
    runner = RUNNER.replace("{before}", before).replace("{found}", found).replace("{made}", made)
    experts = {
        f"experts/{task}/expert": EXPERT.replace("{name}", "Expert").replace("{classes}", str(classes))
        for task, classes in (("words", 10), ("speakers", 20))
    }
    write(tmp_path, {"run": runner, **experts})
    assert rows(tmp_path, "experts/words/expert", "TL201") == expected
    assert rows(tmp_path, "experts/speakers/expert", "TL201") == expected


LOADER = """\
import importlib.util


def load_module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_module_text(name, path):
    with open(path) as file:
        return file.read()
"""
SETTINGS = """\
class Settings:
    def __init__(self, network):
        self.network = network
        self.network_path = "networks/{}.py".format(network)
        self.notes_path = "notes/{}.py".format(network)
"""
LOADING = """\
import os
import sys

import torch
import loading
from data import make_loader
from settings import Settings


def train(network, losses):
    model = network.{made}.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for batch in make_loader():
            loss = model.step(batch, losses)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    settings = Settings(sys.argv[1])
    folder = sys.argv[2]
    network = loading.{loaded}
    train(network, [])
"""


@pytest.mark.parametrize(
    ("loaded", "made", "expected"),
    [
        ("load_module('network', settings.network_path)", "Net(64)", [12]),
        ("load_module('network', path=settings.network_path)", "Net(64)", [12]),
        ("load_module('network', os.path.join(folder, 'small.py'))", "Net(64)", [12]),
        ("load_module('network', f'networks/{sys.argv[1]}.py')", "Net(64)", [12]),
        ("load_module('network', settings.notes_path)", "Net(64)", []),
        ("load_module('network', settings.network)", "Net(64)", []),
        ("load_module('network', os.path.join(folder, 'large.py'))", "Net(64)", []),
        ("load_module('network', settings.network_path)", "Other(64)", []),
        ("load_module_text('network', settings.network_path)", "Net(64)", []),
    ],
)
def test_a_module_is_loaded_by_its_path(tmp_path: Path, loaded: str, made: str, expected: list[int]) -> None:
    main = LOADING.replace("network.{made}", f"network.{made}").replace("{loaded}", loaded)
    main = main.replace("def train(network, losses)", "def train(losses)").replace("train(network, [])", "train([])")
    files = {
        "loading": LOADER,
        "settings": SETTINGS,
        "main": main,
        "networks/small": EXPERT.replace("{name}", "Net").replace("{classes}", "10"),
        "unrelated": "text = 'networks/small.py'\n",
    }
    assert rows_of(tmp_path, files, "networks/small", "TL201") == expected
