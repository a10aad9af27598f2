"""Classes that decorators store in a table of a class or a module, and that another file takes out of it by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows_of

CLASS = """\
class Registry:
    mapping = {"trainer": {}, "other": {}}

    @classmethod
    def register_trainer(cls, name):
        def wrap(trainer):
            cls.mapping["trainer"][name] = trainer
            return trainer

        return wrap

    @classmethod
    def register_other(cls, name):
        def wrap(trainer):
            cls.mapping["other"][name] = trainer
            return trainer

        return wrap

    @classmethod
    def get_trainer_class(cls, name):
        return cls.mapping["trainer"].get(name, None)

    @classmethod
    def get_other_class(cls, name):
        return cls.mapping["other"][name]


registry = Registry()
"""
MODULE = """\
TRAINERS = {}
OTHERS = {}


def register_trainer(trainer):
    TRAINERS[trainer.__name__] = trainer
    return trainer


def register_other(trainer):
    OTHERS[trainer.__name__] = trainer
    return trainer


def get_trainer_class(name):
    found = TRAINERS[name]
    return found


def get_other_class(name):
    return OTHERS[name]
"""
INSTANCE = """\
class Registry:
    def __init__(self):
        self.items = {}

    def register_trainer(self, name):
        def wrap(trainer):
            self.items[name] = trainer
            return trainer

        return wrap

    def get_trainer_class(self, name):
        return self.items.get(name)


registry = Registry()
others = Registry()
"""
PLAIN = """\
import torch
from registry import {registry}


@{decorator}
class Plain:
    def __init__(self, loader=None):
        self.loader = loader
        self.model = torch.nn.Linear(512, 512).to("cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    @classmethod
    def from_config(cls, loader):
        return cls(loader)

    def train(self, epoch):
        for images in self.loader:
            loss = self.model(images.to("cuda")).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
MAIN = """\
import argparse
import trainers.plain
from photos import Photos
from registry import {registry}
from torch.utils.data import DataLoader

{helper}
def main(args):
    loader = DataLoader(Photos(args.root), batch_size=64, num_workers=4, pin_memory=True)
    trainer = {made}
    for epoch in range(20):
        trainer.train(epoch)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainer", default="plain")
    main(parser.parse_args())
"""
HELPER = """

def trainer_class(args):
    found = registry.get_trainer_class(args.trainer)
    return found

"""
PHOTOS = """\
from PIL import Image
from torch.utils.data import Dataset


class Photos(Dataset):
    def __getitem__(self, index):
        return Image.open(self.files[index])
"""
MOVE = [18]


def blocking(
    folder: Path, registry: str, decorator: str, made: str, helper: str = "", name: str = "registry", count: int = 1
) -> list[int]:
    """The rows of TL204 in the file of the trainer: of a pinned batch, if the loader reaches it."""
    plain = PLAIN.replace("{registry}", name).replace("{decorator}", decorator)
    others = "".join(f"\n\n@{decorator}\nclass Other{number}(Plain):\n    pass\n" for number in range(count - 1))
    main = MAIN.replace("{registry}", name).replace("{made}", made).replace("{helper}", helper)
    files = {"main": main, "registry": registry, "photos": PHOTOS, "trainers/plain": plain + others}
    return rows_of(folder, {**files, "trainers/__init__": ""}, "trainers/plain", "TL204")


@pytest.mark.parametrize(
    ("decorator", "made", "expected"),
    [
        ('registry.register_trainer("plain")', "registry.get_trainer_class(args.trainer)(loader)", MOVE),
        ('registry.register_trainer("plain")', "registry.get_trainer_class(args.trainer).from_config(loader)", MOVE),
        ('registry.register_trainer("plain")', 'registry.get_trainer_class("plain")(loader)', MOVE),
        ('registry.register_trainer("plain")', 'registry.get_trainer_class("other")(loader)', []),
        ('registry.register_other("plain")', "registry.get_other_class(args.trainer)(loader)", MOVE),
        ('registry.register_other("plain")', "registry.get_trainer_class(args.trainer)(loader)", []),
        ('registry.describe("plain")', "registry.get_trainer_class(args.trainer)(loader)", []),
    ],
)
def test_a_registry_has_tables_in_its_class(tmp_path: Path, decorator: str, made: str, expected: list[int]) -> None:
    assert blocking(tmp_path, CLASS, decorator, made) == expected


@pytest.mark.parametrize(("default", "expected"), [("trainer", MOVE), ("other", [])])
def test_a_function_of_the_script_gives_the_class(tmp_path: Path, default: str, expected: list[int]) -> None:
    decorator = f'registry.register_{default}("plain")'
    assert blocking(tmp_path, CLASS, decorator, "trainer_class(args)(loader)", HELPER) == expected


@pytest.mark.parametrize(
    ("decorator", "made", "expected"),
    [
        ("register_trainer", "get_trainer_class(args.trainer)(loader)", MOVE),
        ("register_trainer", "TRAINERS[args.trainer](loader)", MOVE),
        ("register_other", "get_trainer_class(args.trainer)(loader)", []),
        ("register_other", "TRAINERS[args.trainer](loader)", []),
    ],
)
def test_a_registry_is_a_dictionary_of_a_module(tmp_path: Path, decorator: str, made: str, expected: list[int]) -> None:
    names = "TRAINERS, get_trainer_class, register_other, register_trainer"
    assert blocking(tmp_path, MODULE, decorator, made, name=names) == expected


def test_the_items_of_an_object_are_those_of_all_registries(tmp_path: Path) -> None:
    """It is not known which of two objects of one class has the item."""
    decorator, made = 'registry.register_trainer("plain")', "others.get_trainer_class(args.trainer)(loader)"
    assert blocking(tmp_path, INSTANCE, decorator, made, name="others, registry") == []


@pytest.mark.parametrize(("count", "expected"), [(30, MOVE), (60, [])])
def test_a_registry_of_many_classes_gives_an_unknown_one(tmp_path: Path, count: int, expected: list[int]) -> None:
    decorator, made = 'registry.register_trainer("plain")', "registry.get_trainer_class(args.trainer)(loader)"
    assert blocking(tmp_path, CLASS, decorator, made, count=count) == expected
