"""Loaders of several files: in base classes, in lists of settings, on the device of an option."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import DATA, ENGINE, MAIN, codes, rows_of, write

from torchlint.project.choice import Choice
from torchlint.project.project import Project

BASE = """\
class Trainer:
    def __init__(self, model):
        self.model = model

    def run(self):
        for epoch in range(90):
            self.train()
            self.evaluate(self.val_loader)
"""
DERIVED = """\
from base import Trainer
from data import get_loaders


class Finetuning(Trainer):
    def __init__(self, model):
        super().__init__(model)
        {stored} = get_loaders()

    def train(self):
        for images in self.train_loader:
            self.model(images.cuda()).mean().backward()

    def evaluate(self, loader):
        for images in loader:
            print(self.model(images.cuda()).mean())
"""
LOADERS = """\
from photos import Photos
from torch.utils.data import DataLoader


def get_loaders():
    train = DataLoader(Photos("train"), batch_size=64, num_workers=4)
    val = DataLoader(Photos("val"), batch_size=64, num_workers=4)
    return train, val
"""
RUN = """\
from derived import Finetuning
from nets import make_net

Finetuning(make_net().cuda()).run()
"""


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("self.train_loader, self.val_loader", [6, 7]),
        ("self.train_loader, self.test_loader", [6]),
        ("self.train_loader, _", [6]),
    ],
)
def test_a_base_class_takes_the_loader_that_a_derived_class_sets(
    tmp_path: Path, stored: str, expected: list[int]
) -> None:
    files = {"base": BASE, "derived": DERIVED.replace("{stored}", stored), "data": LOADERS, "run": RUN}
    assert rows_of(tmp_path, files, "data", "TL103") == expected


LISTED = """\
from torch.utils.data import DataLoader


def create_loaders(datasets, workers, pinned):
    loaders = []
    for dataset, count, pin in zip(datasets, workers, pinned):
        loaders.append(DataLoader(dataset, batch_size=64, num_workers=count, pin_memory=pin))
    return loaders
"""
LISTING = """\
from listed import create_loaders
from nets import make_net
from photos import Photos

net = make_net().cuda()
train, val = create_loaders([Photos("train"), Photos("val")], workers={workers}, pinned=[True, True])
for epoch in range(90):
    for images in train:
        net(images.cuda()).mean().backward()
    for images in val:
        print(net(images.cuda()).mean())
"""


@pytest.mark.parametrize(
    ("workers", "expected"),
    [("[4, 4]", [7]), ("(8, 2)", [7]), ("[4, 0]", []), ("[4] * 2", []), ("read_workers()", []), ("[*counts]", [])],
)
def test_the_numbers_of_workers_are_a_list_of_another_file(tmp_path: Path, workers: str, expected: list[int]) -> None:
    files = {"listed": LISTED, "main": LISTING.replace("{workers}", workers)}
    assert rows_of(tmp_path, files, "listed", "TL103") == expected


EVALUATION = """\
from torch.utils.data import DataLoader
from photos import Photos


def evaluate(net, params):
    for images in DataLoader(Photos(), batch_size=64):
        print(net(images.to(params.device)).mean())
"""
PARSING = """\
import argparse
from evaluation import evaluate
from nets import make_net


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="{device}")
    return parser.parse_args()


params = {made}
evaluate(make_net().to(params.device), params)
"""


@pytest.mark.parametrize(
    ("device", "made", "expected"),
    [("cuda:0", "parse_args()", [6]), ("cpu", "parse_args()", []), ("cuda:0", "read_settings()", [])],
)
def test_the_device_is_an_option_of_an_object_of_any_name(
    tmp_path: Path, device: str, made: str, expected: list[int]
) -> None:
    files = {"evaluation": EVALUATION, "main": PARSING.replace("{device}", device).replace("{made}", made)}
    assert rows_of(tmp_path, files, "evaluation", "TL102") == expected


WRAPPED = """\
from torch.utils.data import DataLoader
from photos import Photos


class Batches:
    def __init__(self, options):
        self.loader = DataLoader(Photos(), batch_size=64, num_workers=int(options.workers))

    def __iter__(self):
        yield from self.loader
"""
OPTIONS = """\
import argparse


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    return parser.parse_args()
"""
TRAINING = """\
from nets import make_net
from options import parse
from wrapped import Batches

if __name__ == "__main__":
    options = parse()
    net = make_net().cuda()
    batches = Batches(options)
    for epoch in range(90):
        for images in batches:
            net(images).mean().backward()
"""
USING = """\
from nets import load_net
from options import parse
from wrapped import Batches

if __name__ == "__main__":
    options = parse()
    options.workers = 0
    net = load_net()
    for images in Batches(options):
        print(net(images))
"""
SETTING = TRAINING.replace("    net =", "    options.workers = 0\n    net =")
SHOWING = USING.replace("    for images", "    net.eval()\n    for images")
TUNING = SHOWING.replace("        print(net(images))", "        train_step(net, images)")
TRYING = """\
from options import parse
from wrapped import Batches


def run_dataset():
    options = parse()
    options.workers = 0
    for images in Batches(options):
        pass


if __name__ == "__main__":
    run_dataset()
"""
FITTING = TRYING.replace("        pass", "        net(images).mean().backward()")
OTHERWISE = TRYING.replace("    for images in Batches(options):\n        pass", "    return Batches(options)")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"train": TRAINING, "test": USING}, [7]),
        ({"train": TRAINING, "generate_masks": USING}, [7]),
        ({"train": TRAINING, "distill": USING}, []),
        ({"train": TRAINING, "run": SHOWING}, [7]),
        ({"train": TRAINING, "run": TUNING}, []),
        ({"train": TRAINING, "run": TRYING}, [7]),
        ({"train": TRAINING, "run": FITTING}, []),
        ({"train": TRAINING, "run": OTHERWISE}, []),
        ({"train": TRAINING, "test": SETTING}, []),
        ({"train": SETTING}, []),
        ({"test": USING}, []),
    ],
)
def test_only_a_script_for_inference_sets_the_number_of_workers_to_0(
    tmp_path: Path, files: dict[str, str], expected: list[int]
) -> None:
    assert rows_of(tmp_path, {"wrapped": WRAPPED, "options": OPTIONS, **files}, "wrapped", "TL103") == expected


FILLED = """\
from photos import Photos, PLACES
from torch.utils.data import DataLoader

loaders = dict()
for place in PLACES:
    if place == "none":
        loaders[place] = None
        continue
    loaders[place] = DataLoader(Photos(place), batch_size=64)
"""
EVALUATING = """\
def evaluate(model, loaders):
    for place, loader in loaders.items():
        for images in loader:
            print(place, model(images.cuda()).mean())
"""


@pytest.mark.parametrize(
    ("imported", "expected"),
    [
        ("from filled import *\nevaluate(model, loaders)", [9]),
        ("from filled import loaders\nevaluate(model, loaders)", [9]),
        ("import filled\nevaluate(model, filled.loaders)", [9]),
        ("from filled import *\nloaders = dict(test=range(4))\nevaluate(model, loaders)", []),
        ("from filled import loaders as given\nloaders = {}\nevaluate(model, loaders)", []),
    ],
    ids=["star", "name", "module", "other dictionary", "other name"],
)
def test_another_file_fills_a_dictionary_with_loaders(tmp_path: Path, imported: str, expected: list[int]) -> None:
    start = "import torch\nfrom evaluation import evaluate\nfrom nets import make_net\n\nmodel = make_net().cuda()\n"
    files = {"filled": FILLED, "evaluation": EVALUATING, "test": f"{start}{imported}\n"}
    assert rows_of(tmp_path, files, "filled", "TL102") == expected


PRINTED = "".join(f"    print('what is done in row {number} of a script')\n" for number in range(300))


@pytest.mark.parametrize(
    ("count", "guard", "is_found"),
    [
        (20, 'if __name__ == "__main__":\n    main()', True),
        (20, "", False),
        (70, 'if __name__ == "__main__":\n    main()', False),
    ],
    ids=["scripts", "modules", "the examples of a library"],
)
def test_the_scripts_of_many_experiments_show_what_a_loader_is_for(
    tmp_path: Path, count: int, guard: str, is_found: bool
) -> None:
    main = MAIN.format(data="data", engine="engine").replace('if __name__ == "__main__":\n    main()', guard)
    files = {f"run_{number}": main for number in range(count)}
    write(tmp_path, {"data": DATA, "engine": ENGINE, "start": "import run_1", **files})
    assert ("TL102" in codes(tmp_path / "data.py")) is is_found


@pytest.mark.parametrize("alike", [True, False])
def test_what_one_script_uses_comes_before_scripts_that_look_alike(tmp_path: Path, alike: bool) -> None:
    """The scripts together are longer than what a file is analysed with."""
    main = MAIN.format(data="data", engine="engine").replace("    for epoch", f"{PRINTED}    for epoch")
    scripts = {
        f"run_{number}": main if alike else main.replace("build_loader(Photos())", f"build_loader(Photos({number}))")
        for number in range(12)
    }
    write(tmp_path, {"data": DATA, "engine": ENGINE + PRINTED, **scripts})
    chosen = Choice(Project.around(tmp_path / "data.py"), ["data.py"]).run()
    assert ("engine.py" in chosen) is alike


BUILDERS = """\
from photos import Photos
from torch.utils.data import DataLoader


def whole(pin_memory=False):
    return DataLoader(Photos("train"), batch_size=64, num_workers=4, pin_memory=pin_memory)


def cropped(pin_memory=False):
    return DataLoader(Photos("cropped"), batch_size=64, num_workers=4, pin_memory=pin_memory)
"""
CHOOSING = """\
import data
from nets import args, net

if args.cropped:
    build = data.cropped
else:
    build = data.whole
for images in build({given}):
    net(images.cuda()).mean().backward()
"""


@pytest.mark.parametrize(("given", "expected"), [("pin_memory=True", [9]), ("", []), ("args.pinned", [])])
def test_a_script_calls_one_of_two_functions_of_a_module(tmp_path: Path, given: str, expected: list[int]) -> None:
    files = {"data": BUILDERS, "train": CHOOSING.replace("{given}", given)}
    assert rows_of(tmp_path, files, "train", "TL204") == expected


PREPARED = """\
from engine import train_one_epoch
from functools import partial

run = partial(train_one_epoch, {prepared})
"""


@pytest.mark.parametrize(
    ("prepared", "call", "is_copied"),
    [
        ("device='cuda'", "run(model, loader, optimizer)", True),
        ("device='cuda'", "run(model, optimizer=optimizer, loader=loader)", True),
        ("None", "run(loader, optimizer, 'cuda')", True),
        ("None, optimizer=optimizer", "run(loader, device='cuda')", True),
        ("None", "run(optimizer, loader, 'cuda')", False),
        ("device='cpu'", "run(model, loader, optimizer)", False),
    ],
)
@pytest.mark.parametrize("is_imported", [False, True])
def test_a_loader_is_given_to_a_function_that_is_prepared(
    tmp_path: Path, prepared: str, call: str, is_copied: bool, is_imported: bool
) -> None:
    steps = PREPARED.replace("{prepared}", prepared)
    main = MAIN.replace("{data}", "data").replace("{engine}", "engine")
    main = main.replace("train_one_epoch(model, loader, optimizer, device)", call)
    made = "from steps import run" if is_imported else steps.replace("from engine import train_one_epoch\n", "")
    files = {"data": DATA, "engine": ENGINE, "steps": steps, "main": main.replace("\n\n\n", f"\n{made}\n\n\n", 1)}
    assert rows_of(tmp_path, files, "data", "TL102") == ([6] if is_copied else [])


@pytest.mark.parametrize(("rows", "is_chosen"), [(600, True), (1800, False)])
def test_a_script_may_do_everything_in_one_long_function(tmp_path: Path, rows: int, is_chosen: bool) -> None:
    printed = "".join(f"    print('this is what the script does in its row number {n:06}')\n" for n in range(rows))
    main = MAIN.format(data="data", engine="engine").replace("    for epoch", f"{printed}    for epoch")
    write(tmp_path, {"data": DATA, "engine": ENGINE, "run": main})
    chosen = Choice(Project.around(tmp_path / "data.py"), ["data.py"]).run()
    assert ("run.py" in chosen) is is_chosen


STATE_ENGINE = """\
class Engine:
    def train(self, network, iterator, optimizer, epochs):
        state = {
            "network": network,
            "iterator": iterator,
            "optimizer": optimizer,
            "epochs": epochs,
            "epoch": 0,
        }
        while state["epoch"] < state["epochs"]:
            for sample in state["%s"]:
                state["sample"] = sample

                def closure():
                    loss = state["network"](state["sample"])
                    loss.backward()
                    return loss

                state["optimizer"].zero_grad()
                state["optimizer"].step(closure)
            state["epoch"] += 1
"""
STATE_MAIN = """\
import torch
from engine import Engine
from photos import Photos
from torch.utils.data import DataLoader
from torchvision.models import resnet50

model = resnet50().cuda()


def network(sample):
    return model(sample["image"].cuda()).square().mean()


loader = DataLoader(Photos(), batch_size=64, num_workers=4)
Engine().train(network, loader, torch.optim.Adam(model.parameters()), 10)
"""


@pytest.mark.parametrize(("key", "expected"), [("iterator", [14]), ("epochs", [])])
def test_the_state_of_an_engine_is_a_dictionary_of_different_things(
    tmp_path: Path, key: str, expected: list[int]
) -> None:
    files = {"engine": STATE_ENGINE % key, "main": STATE_MAIN}
    assert rows_of(tmp_path, files, "main", "TL102") == expected


@pytest.mark.parametrize(("key", "expected"), [("optimizer", [15]), ("scheduler", [])])
def test_the_optimizer_of_an_engine_is_an_item_of_its_state(tmp_path: Path, key: str, expected: list[int]) -> None:
    engine = (STATE_ENGINE % "iterator").replace('"optimizer"', f'"{key}"')
    assert rows_of(tmp_path, {"engine": engine, "main": STATE_MAIN}, "engine", "TL301") == expected


OF_CLASS = """\
import registry
from torch.utils.data import DataLoader


class Loader(DataLoader):
    {decorator}
    def of({first}dataset, workers=4, **options):
        return {made}(dataset, batch_size=64, num_workers=workers, **options)
"""
WITH_LOADER = MAIN.replace("from {data} import build_loader", "from data import Loader").replace(
    "build_loader(Photos())", "Loader.of(Photos(){given})"
)


@pytest.mark.parametrize(
    ("decorator", "first", "made", "given", "expected"),
    [
        ("@classmethod", "cls, ", "cls", "", ["TL102", "TL103"]),
        ("@staticmethod", "", "DataLoader", "", ["TL102", "TL103"]),
        ("@classmethod", "cls, ", "cls", ", pin_memory=True", ["TL103"]),
        ("@classmethod", "cls, ", "cls", ", persistent_workers=True", ["TL102"]),
        ("@classmethod\n    @registry.with_options", "cls, ", "cls", "", []),
    ],
)
def test_method_of_a_class_of_loaders_passes_options(
    decorator: str, first: str, made: str, given: str, expected: list[str], tmp_path: Path
) -> None:
    main = WITH_LOADER.format(engine="engine", given=given)
    data = OF_CLASS.format(decorator=decorator, first=first, made=made)
    assert codes(write(tmp_path, {"data": data, "engine": ENGINE, "main": main}) / "data.py") == expected
