"""Functions and classes that a program takes from a module by name: ``trainers.__dict__[name]``, ``getattr``."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from project_files import make

from torchlint import check_text
from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.name_patterns import matches, pattern_of

MAIN = """\
import argparse
import torch
from torch.utils.data import DataLoader
import trainers
from photos import Photos


def main(args):
    loader = DataLoader(Photos(args.root), batch_size=64, num_workers=4, pin_memory={pinned})
    trainer = {made}
    for epoch in range(20):
        trainer.train(epoch)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainer", default="plain")
    main(parser.parse_args())
"""
PHOTOS = """\
from PIL import Image
from torch.utils.data import Dataset


class Photos(Dataset):
    def __getitem__(self, index):
        return Image.open(self.files[index])
"""
PLAIN = """\
import torch


class Plain:
    def __init__(self, loader, model=None):
        self.loader = loader
        self.model = torch.nn.Linear(512, 512).to("cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, epoch):
        for images in self.loader:
            loss = self.model(images.to("cuda")).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
PACKAGE = """\
from .plain import Plain


def plain(**options):
    return Plain(**options)
"""
MAKING = PACKAGE.replace("**options", "loader")


def found(folder: Path, made: str, pinned: bool = True, package: str = PACKAGE) -> list[str]:
    """The findings of TL204 in the file of the trainer, with this call in the main script."""
    (folder / ".git").mkdir()
    files = {"main.py": MAIN.replace("{made}", made).replace("{pinned}", str(pinned)), "photos.py": PHOTOS}
    make(folder, {**files, "trainers/__init__.py": package, "trainers/making.py": MAKING, "trainers/plain.py": PLAIN})
    path = folder / "trainers" / "plain.py"
    return [item.code for item in check_text(PLAIN, str(path)) if item.code == "TL204"]


@pytest.mark.parametrize(
    "made",
    [
        "trainers.__dict__[args.trainer](loader=loader)",
        "vars(trainers)[args.trainer](loader=loader)",
        "getattr(trainers, args.trainer)(loader=loader)",
        "getattr(trainers, 'Pla' + args.trainer)(loader)",
        "eval('trainers.' + args.trainer)(loader=loader)",
        "eval(f'trainers.{args.trainer}')(loader=loader)",
    ],
)
def test_a_class_is_taken_from_a_package_by_name(tmp_path: Path, made: str) -> None:
    assert found(tmp_path, made) == ["TL204"]


@pytest.mark.parametrize(
    "made",
    [
        "getattr(trainers, 'other_' + args.trainer)(loader=loader)",
        "getattr(trainers, args.trainer)(batches=loader, network=None)",
        "getattr(args, args.trainer)(loader=loader)",
        "trainers.__dict__.get(args.trainer)",
        "eval(args.trainer)(loader=loader)",
    ],
    ids=["another prefix", "other arguments", "no module", "not called", "another module"],
)
def test_a_class_that_is_not_taken_has_no_loader(tmp_path: Path, made: str) -> None:
    assert not found(tmp_path, made, package=MAKING)


def test_a_package_takes_all_names_of_its_modules(tmp_path: Path) -> None:
    made = "getattr(trainers, 'pla' + args.trainer)(loader=loader)"
    assert found(tmp_path, made, package="from .making import *\n") == ["TL204"]


def test_a_loader_that_does_not_pin_stays_one(tmp_path: Path) -> None:
    assert not found(tmp_path, "trainers.__dict__[args.trainer](loader=loader)", pinned=False)


MODULE = """\
def load_train(path, size=4): pass
def load_test(path): pass
def show(first, second): pass
def _private(path): pass
class Net:
    def __init__(self, path=None): pass
class Wide(Net):
    pass

def main(name, path):
    chosen = globals()[name]
"""


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("globals()['load_' + name](path)", ["load_train", "load_test"]),
        ("globals()[f'load_{name}'](path)", ["load_train", "load_test"]),
        ("globals()['load_%s' % name](path)", ["load_train", "load_test"]),
        ("globals()['load_{}'.format(name)](path)", ["load_train", "load_test"]),
        ("globals()['show'](1, 2)", ["show"]),
        ("eval(name)(path, size=8)", ["load_train"]),
        ("eval(name)()", ["Net", "Wide"]),
        ("chosen(path, size=2)", ["load_train"]),
        ("globals()[name](*path, **name)", ["load_train", "load_test", "show", "Net", "Wide"]),
        ("globals()['_private'](path)", []),
        ("globals()[name](1, 2, 3)", []),
        ("globals()[name](path, depth=2)", []),
        ("locals()[name](path)", []),
        ("getattr(path, name)(path)", []),
    ],
)
def test_a_call_by_name_runs_what_takes_its_arguments(call: str, names: list[str]) -> None:
    module = Module.parse(f"{MODULE}    {call}\n")
    node = next(item for item in reversed(module.tree.calls) if module.code(item) == call)
    assert [item.name.value for item in module.definitions.called(node, module.values)] == names
    for definition in module.definitions.called(node, module.values):
        if isinstance(definition, cst.FunctionDef):
            assert node in module.fact(Dispatch).callers(definition)
        else:
            assert node in module.definitions.calls_of_class(definition)


def test_of_many_candidates_none_is_run() -> None:
    functions = "".join(f"def load_{index}(path): pass\n" for index in range(40))
    module = Module.parse(f"{functions}globals()[name](path)\n")
    assert not module.definitions.called(module.tree.calls[-1], module.values)


@pytest.mark.parametrize(
    ("written", "pattern"),
    [
        ("'a.' + b + '.c'", "a.*.c"),
        ("b + 'c'", "*c"),
        ("f'{a}{b}_{c}'", "*_*"),
        ("'%s_%d' % (a, b)", "*_*"),
        ("a.lower()", "*"),
        ("b'a'", "*"),
        ("'a' * 2", "*"),
    ],
)
def test_the_pattern_of_a_name(written: str, pattern: str) -> None:
    assert pattern_of(cst.parse_expression(written)) == pattern


def test_a_name_has_a_pattern() -> None:
    assert matches("load_*", "load_train")
    assert not matches("load_*", "reload_train")
    assert not matches("*.b*c*d", "a" * 10_000)
    assert not matches("*a*a*a*a*b", "a" * 100)
