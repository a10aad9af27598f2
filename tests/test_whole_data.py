"""Loaders whose settings, trainers, classes or collate functions are in other files."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows, rows_of, write

from torchlint import check_text

OPTIONS = """\
import argparse


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    {stored}
    return args
"""
TRAIN = """\
import torch
from options import read_options
from photos import Photos, make_net
from torch.utils.data import DataLoader


def main(args):
    loader = DataLoader(Photos(), batch_size=64, **args.loading)
    net = make_net().to(args.device)
    for epoch in range(90):
        for images in loader:
            net(images.to(args.device)).sum().backward()


main(read_options())
"""
PINNED = '{"num_workers": 4, "pin_memory": True}'


@pytest.mark.parametrize(
    ("stored", "copies", "loaders"),
    [
        (f'vars(args)["loading"] = {PINNED}', [12], [8]),
        (f'args.__dict__["loading"] = {PINNED}', [12], [8]),
        (f"args.loading = {PINNED}", [12], [8]),
        (f'vars(args)["other"] = {PINNED}', [], []),
        (f'vars(args)["loading"] = {PINNED}; args.loading["pin_memory"] = False', [], [8]),
        ('vars(args)["loading"] = read_file()', [], []),
    ],
)
def test_arguments_of_a_loader_that_another_file_stores(
    tmp_path: Path, stored: str, copies: list[int], loaders: list[int]
) -> None:
    write(tmp_path, {"options": OPTIONS.replace("{stored}", stored), "main": TRAIN})
    assert rows(tmp_path, "main", "TL204") == copies
    assert rows(tmp_path, "main", "TL103") == loaders


MODULE = """\
import pytorch_lightning as pl
from photos import Photos
from torch.utils.data import DataLoader


class Classifier(pl.LightningModule):
    def training_step(self, batch, index):
        return self.net(batch).mean()

    def train_dataloader(self):
        return DataLoader(Photos(), batch_size=64, num_workers=8, pin_memory=True)
"""
FIT = """\
from module import Classifier
from pytorch_lightning import Trainer

Trainer({options}).fit(Classifier())
"""
TEST = """\
from module import Classifier
from pytorch_lightning import Trainer

Trainer(accelerator="gpu").test(Classifier())
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [('accelerator="gpu", max_epochs=100', [11]), ("max_epochs=100", [11]), ('accelerator="gpu", max_epochs=1', [])],
)
def test_one_script_trains_and_another_one_tests(tmp_path: Path, options: str, expected: list[int]) -> None:
    files = {"module": MODULE, "evaluate": TEST, "fit": FIT.replace("{options}", options)}
    assert rows_of(tmp_path, files, "module", "TL103") == expected


MANAGERS = """\
from clips import Clips
from photos import Photos
from torch.utils.data import DataLoader


class PhotoData:
    def __init__(self, folder):
        self.loader = DataLoader(Photos(folder), batch_size=64, num_workers=4)


class ClipData:
    def __init__(self, folder):
        self.{name} = DataLoader(Clips(folder), batch_size=8, num_workers=4)
"""
ENGINE = """\
class Engine:
    def __init__(self, net, data):
        self.net = net
        self.data = data

    def run(self):
        for images in self.data.loader:
            self.net(images.cuda()).sum().backward()
"""
SCRIPT = """\
import sys

import managers
from engine import Engine
from nets import make_net


def make_data(kind, folder):
    if kind == "photos":
        return managers.PhotoData(folder)
    return {other}


Engine(make_net().cuda(), make_data(sys.argv[1], sys.argv[2])).run()
"""


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [
        ("loader", "managers.ClipData(folder)", [8, 13]),
        ("batches", "managers.ClipData(folder)", [8]),  # an object without the attribute would raise an error
        ("loader", "make_anything(folder)", [8]),
    ],
)
def test_an_object_of_one_of_several_classes(tmp_path: Path, name: str, other: str, expected: list[int]) -> None:
    files = {
        "managers": MANAGERS.replace("{name}", name),
        "engine": ENGINE,
        "main": SCRIPT.replace("{other}", other),
    }
    assert rows_of(tmp_path, files, "managers", "TL102") == expected


READING = """\
import torch
from torch.utils.data import DataLoader


def read(path):
    return {reading}


def collate(paths):
    return torch.stack([read(path) for path in paths])


class ClipDataLoader(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.collate_fn = collate
"""
PATHS = """\
from torch.utils.data import Dataset


class Paths(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.paths[index]
"""
LISTENING = """\
from nets import make_net
from paths import Paths
from reading import ClipDataLoader

net = make_net().cuda()
for clips in ClipDataLoader(Paths(["a.wav", "b.wav"] * 100), batch_size=8):
    net(clips.cuda()).sum().backward()
"""


@pytest.mark.parametrize(
    ("reading", "expected"),
    [("torchaudio.load(path)[0]", [6]), ("soundfile.read(path)", [6]), ("torch.tensor(path)", [])],
)
def test_a_class_of_loaders_collates_by_reading_files(tmp_path: Path, reading: str, expected: list[int]) -> None:
    text = "import soundfile\nimport torchaudio\n" + READING.replace("{reading}", reading)
    files = {"reading": text, "paths": PATHS, "main": LISTENING}
    assert rows_of(tmp_path, files, "main", "TL101") == expected


MOVING = """\
import torch


def to_device(batch, device):
    texts, mels = batch
    return {made}
"""
SPEAKING = """\
import torch
from moving import to_device
from speech import Speech, make_net
from torch.utils.data import DataLoader

net = make_net().cuda()
for batch in DataLoader(Speech(), batch_size=8, num_workers=4):
    texts, mels = to_device(batch, torch.device("cuda"))
    net(texts, mels).sum().backward()
"""


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("texts.to(device), mels.to(device)", [7]),
        ("torch.from_numpy(texts).to(device), torch.from_numpy(mels).float().to(device)", []),
        ("torch.from_numpy(texts).to(device), mels.to(device)", [7]),
    ],
)
def test_a_function_of_another_file_makes_the_tensors(tmp_path: Path, made: str, expected: list[int]) -> None:
    files = {"moving": MOVING.replace("{made}", made), "main": SPEAKING}
    assert rows_of(tmp_path, files, "main", "TL102") == expected


FILTERS = """\
import torch
from torch import nn


class LowPass(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter = nn.Conv1d(1, 1, 9)

    {decorator}
    def forward(self, clip):
        return self.filter(clip)
"""
FILTERING = """\
import torch
from clips import read_clip, write_clip
from filters import LowPass

low_pass = LowPass().cuda()
low_pass.load_state_dict(torch.load("filter.pt"))
low_pass.eval()
write_clip(low_pass(read_clip("clip.wav").cuda()).detach().cpu().numpy())
"""


@pytest.mark.parametrize(("decorator", "expected"), [("@torch.no_grad()", []), ("@torch.jit.ignore", [8])])
def test_a_module_of_another_file_switches_gradients_off(tmp_path: Path, decorator: str, expected: list[int]) -> None:
    files = {"filters": FILTERS.replace("{decorator}", decorator), "main": FILTERING}
    assert rows_of(tmp_path, files, "main", "TL402") == expected


GRAPHS = """\
from torch.utils.data import DataLoader, Dataset


class Graphs(Dataset):
    def __init__(self, folder):
        self.files = list_of(folder)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return read_graph(self.files[index])


class GraphLoader(DataLoader):
    def __init__(self, folder, batch_size=1, {parameter}):
        super().__init__(Graphs(folder), batch_size, {argument})


def load(folder):
    return GraphLoader(folder, 8), GraphLoader(folder + "/test", {passed})
"""
LEARNING = """\
from graphs import load
from nets import make_net


def main(folder):
    net = make_net().cuda()
    train, test = load(folder)
    for epoch in range(90):
        for graphs in train:
            net(graphs.cuda()).sum().backward()
        for graphs in test:
            net(graphs.cuda()).sum().backward()


main("graphs")
"""


@pytest.mark.parametrize(
    ("parameter", "argument", "passed", "expected"),
    [
        ("num_workers=4", "num_workers=num_workers", "8", ["TL102", "TL103"]),
        ("num_workers=4", "num_workers=num_workers, pin_memory=True", "8", ["TL103"]),
        ("pin_memory=False", "num_workers=4, pin_memory=pin_memory", "8", ["TL102", "TL103"]),
        ("pin_memory=False", "num_workers=4, pin_memory=pin_memory", "8, pin_memory=True", ["TL103"]),
        ("**options", "**options", "num_workers=folder.count", ["TL102"]),
        ("**options", "**options", "pin_memory=True", ["TL101"]),
    ],
)
def test_the_constructor_of_a_class_of_loaders_chooses_their_settings(
    tmp_path: Path, parameter: str, argument: str, passed: str, expected: list[str]
) -> None:
    text = GRAPHS.replace("{parameter}", parameter).replace("{argument}", argument).replace("{passed}", passed)
    write(tmp_path, {"graphs": text, "main": LEARNING})
    path = tmp_path / "graphs.py"
    assert sorted(item.code for item in check_text(path.read_text(), str(path))) == expected


BASE_AGENT = """\
class BaseAgent:
    def __init__(self, env, memory):
        self.size = env.observation_space.{attribute}
        self.memory = memory
"""
AGENT = """\
import numpy as np
import torch
from base import BaseAgent


class Agent(BaseAgent):
    def sample(self, count):
        states, actions, rewards = zip(*self.memory.sample(count))
        return torch.FloatTensor(states), torch.LongTensor(actions), np.mean(rewards)
"""


@pytest.mark.parametrize(("attribute", "lists"), [("shape", [9]), ("n", [])])
def test_observations_whose_shape_another_file_reads(tmp_path: Path, attribute: str, lists: list[int]) -> None:
    run = "from agent import Agent\n\nprint(Agent(env, memory).sample(32))\n"
    write(tmp_path, base=BASE_AGENT.replace("{attribute}", attribute), agent=AGENT, main=run)
    assert rows(tmp_path, "agent", "TL108") == lists


READER = """\
import h5py


class Reader:
    def __init__(self, path):
        self.path = path

    def get(self, key):
        return h5py.File(self.path, "r")[key]
"""
VOLUMES = """\
from reader import Reader
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    def __init__(self, paths, keys):
        self.paths, self.keys = paths, keys
        self.reader = Reader(paths[0])

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        return {read}


for volume in DataLoader(Volumes(["a.h5"], ["x"])):
    print(volume.shape)
"""


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ("self.reader.get(self.keys[index])", [9]),
        ("Reader(self.paths[index]).get(self.keys[0])", []),
        ("self.keys[index]", []),
    ],
)
def test_a_file_that_an_object_of_another_file_opens_for_each_item(tmp_path: Path, read: str, found: list[int]) -> None:
    write(tmp_path, {"reader": READER, "main": VOLUMES.replace("{read}", read)})
    assert rows(tmp_path, "reader", "TL107") == found
