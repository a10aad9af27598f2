"""Classes taken from a dictionary that another file fills item by item, and that is imported under another name."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows, rows_of

SELECTORS = """\
import torch

REGISTRY = {}


class Greedy:
    def select(self, values):
        return values.max(dim=1)[1]


REGISTRY["greedy"] = Greedy


class Noisy:
    def select(self, values):
        return {noisy}


REGISTRY["noisy"] = Noisy
"""
CONTROLLER = """\
import torch
from net import Net
from selectors_ import REGISTRY as SELECTORS


class Controller:
    def __init__(self, args):
        self.agent = Net().cuda()
        self.selector = SELECTORS[args.selector]()

    def select_actions(self, state):
        values = self.forward(state)
        return self.selector.select(values)

    def forward(self, state):
        return self.agent(state)
"""
LEARNER = """\
import torch


class Learner:
    def __init__(self, controller):
        self.controller = controller
        self.optimizer = torch.optim.Adam(controller.agent.parameters())

    def train(self, states, rewards):
        actions = self.controller.select_actions(states)
        chosen = self.controller.forward(states).gather(1, actions.unsqueeze(1))
        loss = (rewards - chosen).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
REGISTRIES = {
    "controllers": 'from controller import Controller\n\nREGISTRY = {}\nREGISTRY["plain"] = Controller\n',
    "learners": 'from learner import Learner\n\nREGISTRY = {}\nREGISTRY["q"] = Learner\n',
    "net": """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, state):
        return self.layer(state)
""",
    "run": """\
import argparse

import torch
from controllers import REGISTRY as c_REGISTRY
from learners import REGISTRY as l_REGISTRY

parser = argparse.ArgumentParser()
parser.add_argument("--controller")
parser.add_argument("--learner")
parser.add_argument("--selector")
args = parser.parse_args()
learner = l_REGISTRY[args.learner](c_REGISTRY[args.controller](args))
for states, rewards in torch.load("games.pt"):
    learner.train(states.cuda(), rewards.cuda())
""",
}


@pytest.mark.parametrize(
    ("noisy", "expected"),
    [
        ("torch.distributions.Categorical(logits=values).sample()", [12]),
        ("(values + torch.randn_like(values)).max(dim=1)[1]", [12]),
        ("values + torch.randn_like(values)", []),  # these actions may be trained
    ],
)
def test_a_registry_is_imported_under_another_name(tmp_path: Path, noisy: str, expected: list[int]) -> None:
    files = {
        "selectors_": SELECTORS.replace("{noisy}", noisy),
        "controller": CONTROLLER,
        "learner": LEARNER,
        **REGISTRIES,
    }
    assert rows_of(tmp_path, files, "controller", "TL402") == expected


PROBLEMS = """\
import torch


class Tours:
    @staticmethod
    def get_costs(points, tours):
        assert (
            tours.sort(1)[0] ==
            torch.zeros_like(tours)
        ).all(), "invalid"
        return points.sum(1)


class Routes:
    @staticmethod
    def get_costs(points, tours):
        assert (tours.sort(1)[0] >= 0).all(), "invalid"
        return points.sum(1)
"""
SOLVERS = """\
from torch import nn


class Solver(nn.Module):
    def __init__(self, problem):
        super().__init__()
        self.problem = problem
        self.layer = nn.Linear(2, 512)

    def forward(self, points):
        scores = self.layer(points)
        return scores, self.problem.get_costs(points, scores.argmax(-1))


class Pointer(Solver):
    pass
"""
SOLVING = """\
import argparse

import torch
from problems import Routes, Tours
from solvers import Pointer, Solver

parser = argparse.ArgumentParser()
parser.add_argument("--problem")
parser.add_argument("--solver")
args = parser.parse_args()


def load_problem(name):
    problem = {problem}
    assert problem is not None
    return problem


solver_class = {solver}
solver = solver_class(load_problem(args.problem)).cuda()
optimizer = torch.optim.Adam(solver.parameters())
for points in torch.load("points.pt"):
    scores, costs = solver(points.cuda())
    loss = (scores.logsumexp(-1).mean(1) * costs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_PROBLEMS = '{"tours": Tours, "routes": Routes}'
_SOLVERS = '{"solver": Solver, "pointer": Pointer}'


@pytest.mark.parametrize(
    ("problem", "solver", "expected"),
    [
        (f"{_PROBLEMS}.get(name, None)", f"{_SOLVERS}.get(args.solver)", [7, 17]),
        (f"{_PROBLEMS}[name]", f"{_SOLVERS}[args.solver]", [7, 17]),
        ('{"tours": Tours}.get(name)', f"{_SOLVERS}[args.solver]", [7]),
        ("None", f"{_SOLVERS}[args.solver]", []),
        (f"{_PROBLEMS}.get(name, None)", '{"tours": Tours}[args.solver]', []),
    ],
)
def test_classes_are_taken_out_of_a_dictionary_without_a_name(
    tmp_path: Path, problem: str, solver: str, expected: list[int]
) -> None:
    script = SOLVING.replace("{problem}", problem).replace("{solver}", solver)
    files = {"problems": PROBLEMS, "solvers": SOLVERS, "solve": script}
    assert rows_of(tmp_path, files, "problems", "TL203") == expected


@pytest.mark.parametrize(("count", "expected"), [(20, [7]), (60, [])])
def test_one_of_many_classes_of_a_module_has_the_loader(tmp_path: Path, count: int, expected: list[int]) -> None:
    """Of more than 40 classes, none is followed."""
    classes = "".join(
        f"\n\nclass Set{number}:\n    def __init__(self, path):\n"
        f"        self.train_loader = DataLoader(Photos(path), batch_size=64, num_workers={number + 1})\n"
        for number in range(count)
    )
    script = """\
import argparse

import sets
from torchvision.models import resnet50

parser = argparse.ArgumentParser()
parser.add_argument("--set")
args = parser.parse_args()
model = resnet50().cuda()
data = getattr(sets, args.set)("photos")
for epoch in range(90):
    for images in data.train_loader:
        model(images.cuda()).sum().backward()
"""
    files = {"sets": "from photos import Photos\nfrom torch.utils.data import DataLoader\n" + classes, "train": script}
    assert rows_of(tmp_path, files, "sets", "TL102")[:1] == expected


@pytest.mark.parametrize(("read", "expected"), [("train_loader", [7]), ("test_loader", [])])
def test_some_of_the_classes_have_the_attribute(tmp_path: Path, read: str, expected: list[int]) -> None:
    sets = """\
from photos import Photos
from torch.utils.data import DataLoader


class First:
    def __init__(self, path):
        self.train_loader = DataLoader(Photos(path), batch_size=64, num_workers=4)


class Second:
    def __init__(self, path):
        self.test_loader = None
"""
    script = """\
import argparse

import sets
from torchvision.models import resnet50

parser = argparse.ArgumentParser()
parser.add_argument("--set")
args = parser.parse_args()
model = resnet50().cuda()
data = getattr(sets, args.set)("photos")
for images in data.%s:
    model(images.cuda()).sum().backward()
"""
    assert rows_of(tmp_path, {"sets": sets, "train": script % read}, "sets", "TL102") == expected


BASE_LOADER = """\
from torch.utils.data import DataLoader


class BaseLoader(DataLoader):
    def __init__(self, dataset, batch_size, shuffle, num_workers):
        self.options = {
            "dataset": dataset,
            "batch_size": batch_size,
            "shuffle": shuffle,
            "num_workers": num_workers,{pinned}
        }
        super().__init__(**self.options)
"""
DERIVED_LOADER = """\
from base_loader import BaseLoader
from torchvision import datasets


class FolderLoader(BaseLoader):
    def __init__(self, folder, batch_size, shuffle=True, num_workers=4):
        super().__init__(datasets.ImageFolder(folder), batch_size, shuffle, num_workers)
"""
ARCHITECTURES = """\
import torchvision
from torch import nn


class Classifier(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.network = torchvision.models.resnet50(num_classes=classes)

    def forward(self, images):
        return self.network(images)
"""
CONFIGURATION = """\
import json


class Configuration:
    def __init__(self, path):
        with open(path) as file:
            self.content = json.load(file)

    def make(self, name, module, *args, **options):
        options.update(self.content[name]["args"])
        return getattr(module, self.content[name]["type"])(*args, **options)
"""
TRAINER = """\
class Trainer:
    def __init__(self, model, criterion, optimizer, device, loader):
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.device = device
        self.loader = loader

    def train(self):
        for epoch in range(90):
            for images, labels in self.loader:
                images, labels = images.to(self.device), labels.to(self.device)
                self.optimizer.zero_grad()
                loss = self.criterion(self.model(images), labels)
                loss.backward()
                self.optimizer.step()
"""
TRAINING = """\
import sys

import architectures
import derived_loader
import torch
from configuration import Configuration
from trainer import Trainer


def main(config):
    loader = config.make("loader", {loaders})
    device = torch.device("cuda")
    model = config.make("arch", architectures).to(device)
    optimizer = config.make("optimizer", torch.optim, model.parameters())
    Trainer(model, torch.nn.functional.cross_entropy, optimizer, device, loader).train()


main(Configuration(sys.argv[1]))
"""


def template(pinned: str = "", loaders: str = "derived_loader") -> dict[str, str]:
    """A program whose loader, network and optimizer a factory makes."""
    return {
        "base_loader": BASE_LOADER.replace("{pinned}", pinned),
        "derived_loader": DERIVED_LOADER,
        "architectures": ARCHITECTURES,
        "configuration": CONFIGURATION,
        "trainer": TRAINER,
        "training": TRAINING.replace("{loaders}", loaders),
    }


@pytest.mark.parametrize(
    ("pinned", "loaders", "unpinned", "blocking"),
    [
        ("", "derived_loader", [12], []),
        ('\n            "pin_memory": True,', "derived_loader", [], [10]),
        ("", "architectures", [], []),  # makes no loader
        ("", "torch.utils.data", [], []),  # a module of a library
    ],
)
def test_a_factory_makes_the_loader_of_a_class_that_it_takes_from_a_module(
    tmp_path: Path, pinned: str, loaders: str, unpinned: list[int], blocking: list[int]
) -> None:
    files = template(pinned, loaders)
    assert rows_of(tmp_path, files, "base_loader", "TL102") == unpinned
    assert rows(tmp_path, "trainer", "TL204") == blocking
    assert rows(tmp_path, "trainer", "TL301") == [12]


def test_a_network_of_a_factory_whose_class_is_not_seen_is_not_taken_for_a_tiny_one(tmp_path: Path) -> None:
    files = template()
    del files["architectures"]
    files["training"] = files["training"].replace("import architectures", "import zoo.networks as architectures")
    assert rows_of(tmp_path, files, "trainer", "TL301") == [12]


VALIDATION = """
    def for_validation(self):
        return DataLoader(**self.options)
"""


def test_a_factory_makes_no_object_of_a_base_class(tmp_path: Path) -> None:
    files = template()
    files["base_loader"] += VALIDATION
    files["training"] = (
        files["training"]
        .replace(", device, loader)", ", device, validation)")
        .replace(
            '    device = torch.device("cuda")\n',
            '    device = torch.device("cuda")\n    validation = loader.for_validation()\n',
        )
    )
    assert rows_of(tmp_path, files, "base_loader", "TL102") == [15]  # the method of the only class left


@pytest.mark.parametrize(
    ("default", "given", "expected"), [("False", "", [12]), ("False", ", pin", []), ("True", "", [])]
)
def test_what_a_factory_passes_is_not_seen(tmp_path: Path, default: str, given: str, expected: list[int]) -> None:
    files = template('\n            "pin_memory": pin,')
    files["base_loader"] = files["base_loader"].replace("num_workers):", f"num_workers, pin={default}):")
    files["derived_loader"] = (
        files["derived_loader"]
        .replace("num_workers=4)", "num_workers=4, pin=False)")
        .replace("num_workers)\n", f"num_workers{given})\n")
    )
    found = rows_of(tmp_path, files, "base_loader", "TL102")
    assert [row - 1 for row in found] == expected  # a row further: the option


WORDS = """\
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    def __init__(self, path):
        self.words = open(path).read().split()

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return len(self.words[index]), 1


class Data:
    def __init__(self, path, pin_memory=True):
        self.words = Words(path)
        self.pin_memory = pin_memory

    @property
    def loader(self):
        return DataLoader(self.words, batch_size=8, num_workers=2, pin_memory=self.pin_memory)
"""
LOOP = """\
class Trainer:
    def __init__(self, model, loss, optimizer, loader):
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.loader = loader

    def train(self):
        for x, y in self.loader:
            loss = self.loss(self.model(x.cuda()), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
FROM_FILES = """\
import json
import sys

import data
import torch
from trainer import Trainer


def made(module, name, config):
    return getattr(module, config[name]["type"])(**config[name]["args"])


def main(config):
    loader = {made}.loader
    model = torch.nn.Linear(8, 4).cuda()
    Trainer(model, torch.nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters()), loader).train()


if __name__ == "__main__":
    main(json.load(open(sys.argv[1])))
"""


@pytest.mark.parametrize("pinned", ["true", "false"])
@pytest.mark.parametrize(
    "made",
    [
        'made(data, "train", config)',
        'getattr(data, config["train"]["type"])(**config["train"]["args"])',
        'data.Data(**config["train"]["args"])',
    ],
)
def test_an_attribute_of_an_object_of_one_of_several_classes(made: str, pinned: str, tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text(f'{{"train": {{"type": "Data", "args": {{"pin_memory": {pinned}}}}}}}')
    files = {"data": WORDS, "trainer": LOOP, "train": FROM_FILES.replace("{made}", made)}
    assert rows_of(tmp_path, files, "trainer", "TL204") == ([8] if pinned == "true" else [])
