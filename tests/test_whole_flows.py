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


FIELDS = """\
from collections import namedtuple
from dataclasses import dataclass, field
from types import SimpleNamespace

from torch.utils.data import DataLoader
from photos import Photos


@dataclass
class Loaders:
    train: DataLoader
    val: DataLoader = None
    extra: list = field(default_factory=list)


@dataclass
class MoreLoaders(Loaders):
    test: DataLoader = None


class Settings(Base):
    train: DataLoader


def build(*rest):
    return {made}
"""
USED = """\
import torch
from fields import build
from engine import train
from nets import make_net

model = make_net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loaders = build()
train(model, {used}, optimizer)
"""
MADE = "DataLoader(Photos())"


@pytest.mark.parametrize(
    ("made", "used", "expected"),
    [
        (f"Loaders(train={MADE})", "build().train", [26]),
        (f"Loaders({MADE}, val=None)", "loaders.train", [26]),
        (f"MoreLoaders(None, None, [], {MADE})", "loaders.test", [26]),
        (f"Settings(train={MADE})", "loaders.train", [26]),
        (f"SimpleNamespace(train={MADE})", "build().train", [26]),
        (f"Loaders(train={MADE})", "build().val", []),
        (f"MoreLoaders(None, None, [], {MADE})", "loaders.train", []),
        (f"Loaders(*[{MADE}, None])", "loaders.train", []),
        (f"SimpleNamespace(train={MADE})", "build().val", []),
    ],
)
def test_a_loader_is_a_field(tmp_path: Path, made: str, used: str, expected: list[int]) -> None:
    files = {"fields": FIELDS.replace("{made}", made), "engine": ENGINE, "main": USED.replace("{used}", used)}
    assert rows_of(tmp_path, files, "fields", "TL101") == expected


CONFIG = """\
from dataclasses import dataclass, field

import yaml


@dataclass
class Data:
    workers: int = 0


@dataclass
class Config:
    data: Data = {default}


def read():
    return {made}
"""
CONFIGURED = """\
import torch
from config import Config, Data, read
from engine import train
from nets import make_net
from photos import Photos
from torch.utils.data import DataLoader

cfg = read()
{before}
loader = DataLoader(Photos(), batch_size=64, num_workers=cfg.data.workers)
model = make_net().cuda()
train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("default", "made", "before", "expected"),
    [
        ("field(default_factory=Data)", "Config()", "", [10]),
        ("field(default_factory=lambda: Data(workers=0))", "Config()", "", [10]),
        ("None", "Config(Data())", "", [10]),
        ("field(default_factory=lambda: Data(workers=4))", "Config(data=Data(0))", "", [10]),
        ("field(default_factory=lambda: Data(workers=4))", "Config()", "", []),
        ("field(default_factory=Data)", "Config(Data(4))", "", []),
        ("field(default_factory=Data)", "Config(Data(**yaml.safe_load('data.yaml')))", "", []),
        ("field(default_factory=Data)", "Config(**yaml.safe_load('all.yaml'))", "", []),
        ("field(default_factory=Data)", "Config(yaml.safe_load('data.yaml'))", "", []),
        ("field(default_factory=Data)", "tyro.cli(Config)", "", []),
        ("field(default_factory=Data)", "Config()", "cfg.data.workers = 4", []),
        ("field(default_factory=Data)", "Config()", "cfg.data = Data(4)", []),
        ("field(default_factory=Data)", "Config()", "setattr(cfg.data, key, 4)", []),
        ("field(default_factory=make_data)", "Config()", "", []),
    ],
)
def test_a_setting_is_in_a_part_of_a_configuration(
    tmp_path: Path, default: str, made: str, before: str, expected: list[int]
) -> None:
    files = {
        "config": CONFIG.replace("{default}", default).replace("{made}", made),
        "engine": ENGINE,
        "main": CONFIGURED.replace("{before}", before),
    }
    assert rows_of(tmp_path, files, "main", "TL101") == expected


BASED = """\
class Base:
    def __init__(self, model, loader=None, device="cpu"):
        self.model = model
        self.loader = loader
        self.device = device
"""
DERIVED = """\
import torch
from base import Base
from data import build_loader
from nets import make_net


class Trainer(Base):
    def __init__(self, {params}):
        super().__init__({passed})

    def run(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for images, labels in self.loader:
            optimizer.zero_grad()
            self.model(images.to(self.device), labels.to(self.device)).mean().backward()
            optimizer.step()


Trainer({given}).run()
"""
LOADER = "build_loader('train')"


@pytest.mark.parametrize(
    ("params", "passed", "given", "expected"),
    [
        ("*args", "*args", f"make_net(), {LOADER}, 'cuda'", [6]),
        ("*args, **kw", "*args, **kw", f"make_net(), {LOADER}, 'cuda'", [6]),
        ("*args, **kw", "*args, **kw", f"make_net(), {LOADER}, device='cuda'", [6]),
        ("*args, **kw", "*args, **kw", f"make_net(), loader={LOADER}, device='cuda'", [6]),
        ("name, *args, **kw", "*args, **kw", f"'net', make_net(), {LOADER}, device='cuda'", [6]),
        ("*args, **kw", "*args, device='cuda', **kw", f"make_net(), {LOADER}", [6]),
        ("*args", "*args", f"make_net(), {LOADER}, 'cpu'", []),
        ("*args", "*args", f"make_net(), {LOADER}", []),
        ("*args, **kw", "*args, **kw", f"make_net(), device='cuda', other={LOADER}", []),
        ("*args", "*args", f"make_net(), None, 'cuda', {LOADER}", []),
        ("*args", "*args[1:]", f"make_net(), {LOADER}, 'cuda'", []),
    ],
)
def test_a_constructor_passes_all_its_arguments_on(
    tmp_path: Path, params: str, passed: str, given: str, expected: list[int]
) -> None:
    main = DERIVED.replace("{params}", params).replace("{passed}", passed).replace("{given}", given)
    assert rows_of(tmp_path, {"data": DATA, "base": BASED, "main": main}, "data", "TL101") == expected


def test_a_constructor_passes_on_what_calls_of_several_lengths_give(tmp_path: Path) -> None:
    main = DERIVED.replace("{params}", "*args").replace("{passed}", "*args")
    main = main.replace("{given}", f"make_net(), {LOADER}, 'cuda'") + "Trainer(make_net(), make()).run()\n"
    assert rows_of(tmp_path, {"data": DATA, "base": BASED, "main": main}, "data", "TL101") == [6]


LOADED = """\
import importlib
import sys

import torch
from engine import train
from nets import make_net

{before}
model = make_net().cuda()
train(model, {loader}, torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("before", "loader", "expected"),
    [
        ("", "importlib.import_module('data').build_loader('train')", [6]),
        ("data = importlib.import_module('data')", "data.build_loader('train')", [6]),
        ("data = importlib.import_module('parts.data')", "data.build_loader('train')", []),
        ("data = importlib.import_module(sys.argv[1])", "data.build_loader('train')", []),
        ("data = importlib.import_module('data', 'parts')", "data.build_loader('train')", []),
        ("data = importlib.import_module('data')\ndata = read(data)", "data.build_loader('train')", []),
        ("import_module = read\ndata = import_module('data')", "data.build_loader('train')", []),
    ],
)
def test_a_module_is_imported_by_a_literal(tmp_path: Path, before: str, loader: str, expected: list[int]) -> None:
    main = LOADED.replace("{before}", before).replace("{loader}", loader)
    assert rows_of(tmp_path, {"data": DATA, "engine": ENGINE, "main": main}, "data", "TL101") == expected


RUNNER = """\
import torch
from nets import make_net


class Runner:
    def __init__(self, make, step=None, count=1):
        self.make = make
        self.step = step
        self.count = count

    def go(self):
        model = make_net().cuda()
        self.step(model, self.make('train'), torch.optim.SGD(model.parameters(), lr=0.1))


class LongRunner(Runner):
    def again(self):
        model = make_net().cuda()
        self.step(model, self.make('val'), torch.optim.SGD(model.parameters(), lr=0.1))


class Other:
    def go(self):
        self.step(make_net().cuda(), self.make('train'), None)
"""
GIVEN = """\
from data import build_loader
from engine import train
from runner import LongRunner, Other, Runner

{used}
"""


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ("Runner(build_loader, train).go()", [6]),
        ("Runner(make=build_loader, step=train).go()", [6]),
        ("LongRunner(build_loader, train).again()", [6]),
        ("Runner(build_loader, print).go()", []),
        ("Runner(build_loader, count=train).go()", []),
        ("Runner(read, train).go()", []),
        ("Other(build_loader, train).go()", []),
    ],
)
def test_a_constructor_is_given_functions(tmp_path: Path, used: str, expected: list[int]) -> None:
    files = {"data": DATA, "engine": ENGINE, "runner": RUNNER, "main": GIVEN.replace("{used}", used)}
    assert rows_of(tmp_path, files, "data", "TL101") == expected
