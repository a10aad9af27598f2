"""Programs of several files: objects that take batches, methods of bases, which files are looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of, write

from torchlint.project import choice, distances
from torchlint.project.project import Project

FETCHER = """\
from photos import Photos
from torch.utils.data import DataLoader


def make_loader(folder):
    return DataLoader(Photos(folder), batch_size=64, num_workers=4, pin_memory=True)


def make_test_loader(folder):
    return DataLoader(Photos(folder), batch_size=64, num_workers=4, pin_memory=True)


class Fetcher:
    def __init__(self, loader):
        self.loader = loader

    def __next__(self):
        try:
            return next(self.batches)
        except (AttributeError, StopIteration):
            self.batches = iter(self.loader)
            return next(self.batches)
"""
FETCHING = """\
from fetcher import Fetcher, make_loader, make_test_loader
from munch import {record}
from nets import make_net

loaders = {record}(train=make_loader("train"), test=make_test_loader("test"))
net = make_net().cuda()
batches, samples = Fetcher(loaders.train), Fetcher(loaders.test)
shown = next(samples)
for step in range(100_000):
    net(next({taken}).cuda(non_blocking=True)).sum().backward()
"""


@pytest.mark.parametrize(
    ("record", "taken", "expected"),
    [("Munch", "batches", [6]), ("Munch", "samples", [10]), ("read_settings", "batches", [])],
)
def test_a_record_gives_the_loader_to_an_object_that_takes_batches(
    tmp_path: Path, record: str, taken: str, expected: list[int]
) -> None:
    main = FETCHING.replace("{record}", record).replace("{taken}", taken)
    assert rows_of(tmp_path, {"fetcher": FETCHER, "main": main}, "fetcher", "TL103") == expected


POLICY = """\
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.layer = nn.Linear(4096, 4096)
        self.scale = torch.tensor(scale)

    def forward(self, state):
        return self.layer(state) * self.scale

    def to(self, device):
        self.scale = self.scale.to(device)
        return {returned}
"""
ACTING = """\
import torch
from policy import Policy
from torch.utils.data import DataLoader
from states import States

policy = Policy(2.0).to(torch.device("cuda"))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
total = 0.0
for states in DataLoader(States(), num_workers=4, pin_memory=True):
    loss = policy(states.cuda(non_blocking=True)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
"""


@pytest.mark.parametrize("returned", ["super().to(device)", "super(Policy, self).to(device)"])
def test_a_network_extends_a_method_of_its_base(tmp_path: Path, returned: str) -> None:
    files = {"policy": POLICY.replace("{returned}", returned), "main": ACTING}
    assert rows_of(tmp_path, files, "main", "TL201") == [14]


ENTRY = """\
from {package}.tools.training import train

if __name__ == "__main__":
    train()
"""
TRAINING = """\
from detector.loading import make_loader
from nets import make_net


def train():
    net = make_net().cuda()
    for images in make_loader():
        net(images.cuda()).sum().backward()
"""
LOADING = """\
from photos import Photos
from torch.utils.data import DataLoader


def make_loader():
    return DataLoader(Photos(), batch_size=64, num_workers=4, pin_memory=True)
"""


@pytest.mark.parametrize(
    ("package", "expected"),
    [("company.vision.detector", [8]), ("detector", []), ("company.vision.models", []), ("transformers.detector", [])],
)
def test_modules_are_named_from_the_root_of_a_larger_repository(
    tmp_path: Path, package: str, expected: list[int]
) -> None:
    files = {
        "tools/main": ENTRY.replace("{package}", package),
        "tools/training": TRAINING,
        "detector/__init__": "",
        "detector/loading": LOADING,
        "models/__init__": "",
    }
    assert rows_of(tmp_path, files, "tools/training", "TL204") == expected


STEP = """\
from zoo import *


def step(net, images):
    images = images.cuda()
    return net(images) + {used}
"""
STARTING = """\
import torch
from photos import Photos
from step import step
from torch.utils.data import DataLoader


def main():
{printed}
    net = torch.nn.Linear(4096, 4096).cuda()
    for images in DataLoader(Photos(), batch_size=64, num_workers=4, pin_memory=True):
        step(net, images).sum().backward()


main()
"""


@pytest.mark.parametrize(("far", "comes_first"), [(distances.FAR_CALLING, True), (4 * distances.FAR_CALLING, False)])
def test_the_script_that_uses_a_file_comes_before_what_the_file_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, far: int, comes_first: bool
) -> None:
    monkeypatch.setattr(distances, "FAR_CALLING", far)
    zoo = "".join(f"def loss_{number}(x):\n    return x{' + x.mean()' * 100}\n\n\n" for number in range(200))
    used = " + ".join(f"loss_{number}(images)" for number in range(200))
    printed = "\n".join(f"    print('what is done in row {number} of the script')" for number in range(90))
    files = {"zoo": zoo, "step": STEP.replace("{used}", used), "main": STARTING.replace("{printed}", printed)}
    write(tmp_path, files)
    project = Project.around(tmp_path / "step.py")
    assert ("main.py" in choice.Choice(project, ["step.py"]).run()) is comes_first


FITTING = """\
from step import step


class Trainer:
    def fit(self, net, loader):
{printed}
        for images in loader:
            step(net, images).sum(){trained}
"""


@pytest.mark.parametrize("trained", [".backward()", ""])
def test_what_trains_with_a_file_comes_before_what_the_file_uses(tmp_path: Path, trained: str) -> None:
    """A class that no script contains, and that is as long as many of the losses."""
    zoo = "".join(f"def loss_{number}(x):\n    return x{' + x.mean()' * 100}\n\n\n" for number in range(200))
    used = " + ".join(f"loss_{number}(images)" for number in range(200))
    printed = "\n".join(f"        print('what is done in row {number} of the class')" for number in range(90))
    trainer = FITTING.replace("{printed}", printed).replace("{trained}", trained)
    main = "from trainer import Trainer\n\nTrainer().fit()\n"
    write(tmp_path, {"zoo": zoo, "step": STEP.replace("{used}", used), "trainer": trainer, "main": main})
    project = Project.around(tmp_path / "step.py")
    assert ("trainer.py" in choice.Choice(project, ["step.py"]).run()) is bool(trained)


SCALER = """\
import torch


class LossScaler:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self.scaler.scale(loss){called}
        self.scaler.step(optimizer)
        self.scaler.update()
"""
SCALED = """\
import torch
from nets import make_net
from photos import Photos
from scaler import LossScaler
from torch.utils.data import DataLoader

net = make_net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss_scaler = LossScaler()
total = 0.0
for images in DataLoader(Photos(), num_workers=4, pin_memory=True):
    with torch.autocast("cuda"):
        loss = net(images.cuda(non_blocking=True)).mean()
    loss_scaler(loss, optimizer)
    {read}
"""


@pytest.mark.parametrize(
    ("read", "expected"), [("total += loss.item()", [15]), ("total += loss.detach()", []), ("total += 1", [])]
)
def test_an_object_of_another_file_runs_the_backward_pass(tmp_path: Path, read: str, expected: list[int]) -> None:
    files = {"scaler": SCALER.replace("{called}", ".backward()"), "main": SCALED.replace("{read}", read)}
    assert rows_of(tmp_path, files, "main", "TL201") == expected


MANAGER = """\
import torch
from torch.utils.data import DataLoader


class Manager:
    def __init__(self, photos, use_gpu=True):
        self.use_gpu = torch.cuda.is_available() and use_gpu
        self.train_loader = DataLoader(photos, batch_size=64, pin_memory={pinned})
"""
ENGINES = """\
class Engine:
    def __init__(self, manager):
        self.manager = manager
        self.train_loader = self.manager.train_loader

    def run(self):
        for images in self.train_loader:
            self.step(images)


class PhotoEngine(Engine):
    def __init__(self, manager, net):
        super(PhotoEngine, self).__init__(manager)
        self.net = net

    def step(self, images):
        images = images.cuda()
        self.net(images).sum().backward()
"""
TOOL = """\
from torch import nn
{imported}
from photos import Photos


def main():
    manager = {package}.data.Manager(Photos())
    engine = {package}.engine.PhotoEngine(manager, nn.Linear(4096, 4096).cuda())
    engine.run()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("imported", "package", "pinned", "expected"),
    [
        ("import kit", "kit", "self.use_gpu", [17]),
        ("import kit as k", "k", "self.use_gpu", [17]),
        ("import kit", "kit", "False", []),
        ("import kitchen as kit", "kit", "self.use_gpu", []),
    ],
)
def test_a_script_reaches_classes_through_the_packages_of_a_package(
    tmp_path: Path, imported: str, package: str, pinned: str, expected: list[int]
) -> None:
    files = {
        "kit/__init__": "from kit import data, engine\n",
        "kit/data/__init__": "from .manager import Manager\n",
        "kit/data/manager": MANAGER.replace("{pinned}", pinned),
        "kit/engine/__init__": "from .photo import Engine, PhotoEngine\n",
        "kit/engine/photo": ENGINES,
        "main": TOOL.replace("{imported}", imported).replace("{package}", package),
    }
    assert rows_of(tmp_path, files, "kit/engine/photo", "TL204") == expected


CHOOSING = """\
from zoo import nerf, onet

METHODS = {"onet": onet, "nerf": {other}}


def get_model(method):
    return METHODS[method].config.get_model()


def get_trainer(method, net):
    return METHODS[method].config.get_trainer(net)
"""
CONFIG = """\
from zoo.{name} import models, training


def get_model():
    return models.make()


def get_trainer(net):
    return training.Trainer(net)
"""
TRAINER = """\
class Trainer:
    def __init__(self, net):
        self.net = net

    def step(self, images):
        images = images{moved}
        self.net(images).sum().backward()
"""
METHOD = """\
from photos import Photos
from torch.utils.data import DataLoader
from zoo import config

method = read()
net = config.get_model(method).cuda()
loader = DataLoader(Photos(), batch_size=64, num_workers=4)
trainer = config.get_trainer(method, net)
for images in loader:
    trainer.step(images)
"""


@pytest.mark.parametrize(
    ("other", "moved", "expected"),
    [("nerf", ".cuda()", [7]), ("nerf", ".float()", []), ("read()", ".cuda()", []), ("None", ".cuda()", [])],
)
def test_a_dict_of_modules_chooses_the_class_of_an_object(
    tmp_path: Path, other: str, moved: str, expected: list[int]
) -> None:
    files = {
        "zoo/__init__": "",
        "zoo/config": CHOOSING.replace("{other}", other),
        **{f"zoo/{name}/__init__": f"from zoo.{name} import config, training, models\n" for name in ("onet", "nerf")},
        **{f"zoo/{name}/config": CONFIG.replace("{name}", name) for name in ("onet", "nerf")},
        **{f"zoo/{name}/training": TRAINER.replace("{moved}", moved) for name in ("onet", "nerf")},
        **{
            f"zoo/{name}/models": "from torch import nn\n\n\ndef make():\n    return nn.Linear(9, 9)\n"
            for name in ("onet", "nerf")
        },
        "main": METHOD,
    }
    assert rows_of(tmp_path, files, "main", "TL102") == expected


NETS_WITH_LOSSES = """\
from zoo import *


class Net:
    def get_losses(self, images):
        return {used}


def get_metrics(net):
    return net
"""
LONG_TRAINER = """\
class Trainer:
    def __init__(self, net):
        self.net = net
{printed}

    def step(self, images):
        return self.net.{called}(images)
"""


@pytest.mark.parametrize(
    ("called", "is_near"),
    [("get_losses", True), ("step", False), ("get_outputs", False), ("get_metrics", False), ("__init__", False)],
)
def test_what_calls_methods_of_a_file_comes_before_other_long_pieces(
    tmp_path: Path, called: str, is_near: bool
) -> None:
    zoo = "".join(f"def loss_{number}(x):\n    return x{' + x.mean()' * 300}\n\n\n" for number in range(60))
    used = " + ".join(f"loss_{number}(images)" for number in range(60))
    printed = "\n".join(f"        print('what is done in row {number} of the trainer')" for number in range(90))
    files = {
        "zoo": zoo,
        "nets": NETS_WITH_LOSSES.replace("{used}", used),
        "trainer": LONG_TRAINER.replace("{printed}", printed).replace("{called}", called),
        "main": "from nets import Net\nfrom trainer import Trainer\n\nTrainer(Net()).step(None)\n",
    }
    write(tmp_path, files)
    project = Project.around(tmp_path / "nets.py")
    assert ("trainer.py" in choice.Choice(project, ["nets.py"]).run()) is is_near


BASE = """\
from torch import nn


class Base(nn.Module):
    def fit(self, images):
{printed}
        return self.compute(images)
"""
DERIVED = """\
from middle import Middle


class Net(Middle):
    def compute(self, images):
        return images.mean()
"""


def test_base_classes_come_before_what_is_nearer(tmp_path: Path) -> None:
    scripts = {
        f"script_{number}": f"from nets import Net\n\n\ndef main():\n    net_{number} = Net()\n"
        + "".join(f"    print('what script {number} does in row {row}')\n" for row in range(200))
        + "\n\nmain()\n"
        for number in range(20)
    }
    printed = "\n".join(f"        print('what is done in row {number}')" for number in range(150))
    files = {
        "base": BASE.replace("{printed}", printed),
        "middle": "from base import Base\n\n\nclass Middle(Base):\n    pass\n",
        "nets": DERIVED,
    }
    write(tmp_path, {**files, **scripts})
    found = choice.Choice(Project.around(tmp_path / "nets.py"), ["nets.py"]).run()
    assert {"base.py", "middle.py"} < found.keys()


def test_a_base_class_that_is_too_long_to_come_first_is_chosen_later(tmp_path: Path) -> None:
    long = "\n".join(f"    limit_{number} = {number}  # of a constant that nothing asks for" for number in range(650))
    files = {name: f"class {name.title()}:\n{long}\n" for name in ("first", "second")}
    files["nets"] = "from first import First\nfrom second import Second\n\n\nclass Net(First, Second):\n    pass\n"
    write(tmp_path, files)
    assert choice.BASE_BUDGET < sum(map(len, files.values())) < choice.BUDGET
    found = choice.Choice(Project.around(tmp_path / "nets.py"), ["nets.py"]).run()
    assert {"first.py", "second.py"} <= found.keys()


CONFIGURED = """\
from dataclasses import dataclass, field
from typing import Any, Type

import torch


@dataclass
class InstantiateConfig:
    _target: Type
    kind: str = "small"

    def setup(self, **options) -> Any:
        return self.{made}(self, **options)


@dataclass
class PartConfig(InstantiateConfig):
    _target: Type = {target}
    width: int = 64


class Part(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = torch.nn.Linear(config.width, 8)

    def measure(self, images):
        loss = self.layer(images.cuda()).square().mean()
        self.last = loss.item()
        return loss


class Other(Part):
    def measure(self, images):
        return self.layer(images.cuda()).square().mean()
"""
TRAINING_CONFIGURED = """\
from dataclasses import dataclass, field

import torch
from configured import PartConfig
from photos import Photos
from torch.utils.data import DataLoader


@dataclass
class Config:
    part: PartConfig = field(default_factory=PartConfig)


def main(config):
    part = config.part.setup().cuda()
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    for images in DataLoader(Photos(), batch_size=64, num_workers=4, pin_memory=True):
        loss = part.measure(images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main(Config())
"""


@pytest.mark.parametrize(
    ("target", "made", "expected"),
    [
        ("field(default_factory=lambda: Part)", "_target", [29]),
        ("Part", "_target", [29]),
        ("field(default_factory=lambda: Other)", "_target", []),
        ("field(default_factory=lambda: find_class())", "_target", []),
        ("field(default_factory=lambda: Part)", "kind", []),
    ],
)
def test_a_configuration_names_the_class_of_the_object_that_it_makes(
    target: str, made: str, expected: list[int], tmp_path: Path
) -> None:
    configured = CONFIGURED.replace("{target}", target).replace("{made}", made)
    assert rows_of(tmp_path, {"configured": configured, "main": TRAINING_CONFIGURED}, "configured", "TL201") == expected
