"""Findings about moves and wrappers whose definitions are in another file of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import DATA, ENGINE, MAIN, codes, found, rows, write

PARALLEL = """\
import torch
from torch import nn


class ScatteredDataParallel(nn.{base}):
    def scatter(self, inputs, kwargs, device_ids):
        return inputs, kwargs
"""
WRAPPING = """\
import torch
from parallel import ScatteredDataParallel

network = ScatteredDataParallel(torch.nn.Linear(8, 8))
network.cuda()
"""
MOVING = """\
import torch


def copy_to_gpu(data, device):
    if torch.is_tensor(data):
        return {returned}
    return [copy_to_gpu(item, device) for item in data]
"""
EVALUATING = """\
import torch
from moving import copy_to_gpu


def evaluate(network, images, device):
    for image in images:
        scores = torch.zeros(1, 150, 64, 64)
        scores = copy_to_gpu(scores, device)
        scores = scores + network(copy_to_gpu(image, device))


evaluate(torch.nn.Conv2d(3, 150, 1), [], 0)
"""


@pytest.mark.parametrize(("base", "expected"), [("DataParallel", [4]), ("Module", [])])
def test_a_wrapper_that_another_file_derives_is_found(tmp_path: Path, base: str, expected: list[int]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "parallel.py").write_text(PARALLEL.replace("{base}", base))
    (tmp_path / "main.py").write_text(WRAPPING)
    assert rows(tmp_path, "main", "TL811") == expected
    assert rows(tmp_path, "parallel", "TL811") == []


@pytest.mark.parametrize(("base", "expected"), [("DataParallel", [5]), ("Module", [])])
def test_a_wrapper_is_found_in_a_file_that_does_not_name_torch(tmp_path: Path, base: str, expected: list[int]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "parallel.py").write_text(PARALLEL.replace("{base}", base))
    trainer = "from parallel import ScatteredDataParallel\n\n\ndef wrapped(network):\n"
    (tmp_path / "trainer.py").write_text(f"{trainer}    return ScatteredDataParallel(network)\n")
    (tmp_path / "main.py").write_text("from trainer import wrapped\n\nwrapped(make())\n")
    assert rows(tmp_path, "trainer", "TL811") == expected


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("data.cuda(device, non_blocking=True)", [7]),
        ("data.to(device)", [7]),
        ("data.to('cpu')", []),
        ("data.cuda(device).sum()", []),
    ],
)
def test_a_function_of_another_file_that_moves_is_followed(tmp_path: Path, returned: str, expected: list[int]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "moving.py").write_text(MOVING.replace("{returned}", returned))
    (tmp_path / "main.py").write_text(EVALUATING)
    assert rows(tmp_path, "main", "TL206") == expected


@pytest.mark.parametrize("name", ["make_variable", "to_var", "as_cuda"])
def test_a_function_of_another_file_that_moves_has_a_telling_name(tmp_path: Path, name: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "moving.py").write_text(MOVING.replace("{returned}", "data.cuda()").replace("copy_to_gpu", name))
    (tmp_path / "main.py").write_text(EVALUATING.replace("copy_to_gpu", name))
    assert rows(tmp_path, "main", "TL206") == [7]


MASKING = """\
from basis import *


class Decoder(nn.Module):
    def forward(self, inputs):
        mask = {made}
        return inputs * mask


if __name__ == "__main__":
    decoder = Decoder()
    for inputs in batches:
        decoder(inputs.cuda())
"""


@pytest.mark.parametrize(
    ("made", "expected"),
    [("t.triu(t.ones(8, 8).cuda())", [6]), ("t.triu(t.ones(8, 8, device='cuda'))", []), ("u.ones(8, 8).cuda()", [])],
)
def test_torch_may_come_from_a_star_import(tmp_path: Path, made: str, expected: list[int]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "basis.py").write_text("import torch as t\nimport torch.nn as nn\n")
    (tmp_path / "main.py").write_text(MASKING.replace("{made}", made))
    assert rows(tmp_path, "main", "TL206") == expected


GUARD = """\
from fitting import fit
from settings import PINNED
from torch.utils.data import DataLoader

if __name__ == "__main__":
    from images import Images

    fit(None, DataLoader(Images(), batch_size=4, num_workers=4, pin_memory=PINNED))
"""
FITTING = """\
def fit(model, batches):
    for images in batches:
        images = images.cuda()
        model(images)
"""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [("PINNED = True\n", [3]), ("PINNED = False\n", []), ("import os; PINNED = True\n", [3])],
)
def test_a_main_guard_that_imports_is_followed(tmp_path: Path, settings: str, expected: list[int]) -> None:
    for script in ("main.py", "again.py"):  # of two programs, so that they are not analysed with it as a whole
        (tmp_path / script).write_text(GUARD)
    (tmp_path / "fitting.py").write_text(FITTING)
    (tmp_path / "settings.py").write_text(settings)
    (tmp_path / "images.py").write_text(
        "from torch.utils.data import Dataset\n\n\nclass Images(Dataset):\n    def __len__(self):\n        return 4\n"
    )
    assert rows(tmp_path, "fitting", "TL204") == expected


RESTORING = """\
import torch


class {name}:
    def take(self, batch):
        self.low = batch["low"].to("cuda")
"""
CHOOSING = """\
def choose(kind):
    if kind == "plain":
        from plain import Plain as M
    elif kind == "adversarial":
        from adversarial import {imported} as M
    else:
        raise ValueError(kind)
    return M()
"""
FEEDING = """\
from choosing import choose
from torch.utils.data import DataLoader


def main(options, photos):
    model = choose(options["model"])
    for batch in DataLoader(photos, num_workers=4, pin_memory={pinned}):
        model.take(batch)


if __name__ == "__main__":
    main(options, photos)
"""


@pytest.mark.parametrize(
    ("imported", "pinned", "expected"),
    [("Adversarial", "True", ([6], [6])), ("Missing", "True", ([6], [])), ("Adversarial", "False", ([], []))],
)
def test_an_object_of_one_of_the_classes_that_branches_import_is_followed(
    tmp_path: Path, imported: str, pinned: str, expected: tuple[list[int], list[int]]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "plain.py").write_text(RESTORING.replace("{name}", "Plain"))
    (tmp_path / "adversarial.py").write_text(RESTORING.replace("{name}", "Adversarial"))
    (tmp_path / "choosing.py").write_text(CHOOSING.replace("{imported}", imported))
    (tmp_path / "main.py").write_text(FEEDING.replace("{pinned}", pinned))
    assert (rows(tmp_path, "plain", "TL204"), rows(tmp_path, "adversarial", "TL204")) == expected


OPTIONS = """\
import argparse


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default={default})
    return parser.parse_args()
"""
SAMPLING = """\
from torch.utils.data import DataLoader
from options import read_options
from photos import Photos


class Sampler:
    def __init__(self, options):
        self.device = options.device
        self.loader = DataLoader(Photos(), batch_size=1, num_workers=4)

    def sample(self, network):
        for image, _ in self.loader:
            network(image.to(self.device))


if __name__ == "__main__":
    Sampler(read_options()).sample(network)
"""


@pytest.mark.parametrize(("default", "expected"), [("'cuda'", [9]), ("'cpu'", []), ("None", [])])
def test_a_device_that_is_an_option_of_another_file_has_its_default(
    tmp_path: Path, default: str, expected: list[int]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "options.py").write_text(OPTIONS.replace("{default}", default))
    (tmp_path / "main.py").write_text(SAMPLING)
    assert rows(tmp_path, "main", "TL102") == expected


@pytest.mark.parametrize(("default", "expected"), [("cuda", True), ("cuda:1", True), ("cpu", False)])
def test_the_device_is_the_default_of_an_option_of_another_file(default: str, expected: bool, tmp_path: Path) -> None:
    options = (
        f'import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument("--device", default="{default}")\n'
    )
    main = MAIN.format(data="data", engine="engine").replace('torch.device("cuda")', "torch.device(args.device)")
    main = main.replace("import torch\n", "import torch\nfrom options import parser\n")
    main = main.replace("def main():\n", "def main():\n    args = parser.parse_args()\n")
    folder = write(tmp_path, options=options, data=DATA, engine=ENGINE, main=main)
    assert ("TL102" in codes(folder / "data.py")) is expected


BUILDING = """\
import torch
from torch import nn


def build(path):
    model = nn.DataParallel(nn.Linear(8, 8).cuda())
    model.load_state_dict(torch.load(path))
    return model
"""


@pytest.mark.parametrize(
    ("use", "expected"), [("model(images).mean().backward()", True), ("print(model(images))", False)]
)
def test_a_wrapper_that_another_file_trains_does_more_than_load(use: str, expected: bool, tmp_path: Path) -> None:
    script = (
        "import torch\nfrom building import build\n\nmodel = build('model.pt')\nfor images in torch.load('x.pt'):\n"
    )
    main = f"{script}    {use}\n"
    folder = write(tmp_path, building=BUILDING, main=main)
    assert ("TL811" in codes(folder / "building.py")) is expected


TRAINERS = """\
class Trainer:
    def __init__(self, model, batches):
        self.model = model.cuda()
        self.batches = batches

    def train(self):
        for images in self.batches:
            self.loss(images.{use}).backward()


class Regression(Trainer):
    def __init__(self, model, batches):
        super().__init__(model, batches)

    def loss(self, images):
        return self.model(images).square().mean()


class Contrast(Trainer):
    def loss(self, images):
        return self.model(images).std()


TRAINERS = {{"regression": Regression, "contrast": Contrast}}


def build(kind, model, batches):
    trainer = TRAINERS[kind]
    return trainer(model, batches)
"""
PICKING = """\
import sys

import torch
from photos import Photos
from torch.utils.data import DataLoader
from trainers import build

loader = DataLoader(Photos(), batch_size=64, num_workers=8)
build(sys.argv[1], torch.load("model.pt"), loader).train()
"""


@pytest.mark.parametrize(("use", "expected"), [("cuda()", True), ("float()", False)])
def test_a_loader_goes_to_the_class_that_a_dict_of_another_file_holds(use: str, expected: bool, tmp_path: Path) -> None:
    folder = write(tmp_path, trainers=TRAINERS.format(use=use), main=PICKING)
    assert ("TL102" in codes(folder / "main.py")) is expected


COPYING = """\
import torch
from torch import nn


def copied(model, path):
    if isinstance(model, nn.DataParallel):
        copy = nn.DataParallel(type(model.module)().cuda())
    else:
        copy = type(model)().cuda()
    copy.load_state_dict(torch.load(path))
    return copy
"""


def test_a_copy_that_is_wrapped_as_its_network_is_left_alone(tmp_path: Path) -> None:
    main = "import torch\nfrom copying import copied\n\nmodel = copied(torch.load('model.pt'), 'weights.pt')\n"
    folder = write(tmp_path, copying=COPYING, main=f"{main}model(torch.load('x.pt')).mean().backward()\n")
    assert "TL811" not in codes(folder / "copying.py")


@pytest.mark.parametrize(
    ("made", "wrapper", "expected"),
    [
        ("DataLoader(dataset, shuffle=True,", "DistributedDataParallel", [6]),
        ("DataLoader(dataset, shuffle=False,", "DistributedDataParallel", []),
        ("DataLoader(dataset, shuffle=True,", "DataParallel", []),
    ],
)
def test_a_loader_of_a_training_that_another_file_distributes(
    tmp_path: Path, made: str, wrapper: str, expected: list[int]
) -> None:
    wrapping = f"model = torch.nn.parallel.{wrapper}(torch.nn.Linear(4096, 4096).to(device))"
    data = DATA.replace("DataLoader(dataset,", made)
    main = MAIN.replace("model = torch.nn.Linear(4096, 4096).to(device)", wrapping)
    write(tmp_path, data=data, engine=ENGINE, main=main.format(data="data", engine="engine"))
    assert rows(tmp_path, "data", "TL814") == expected


STEP = """\
def train_epoch(model, loader, optimizer, device):
    for images, labels in loader:
        images = images.to(device)
        loss = (model(images) - labels.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CALLER = """\
import torch
from step import train_epoch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4096, 4096).cuda()
loader = DataLoader(photos, num_workers=4, pin_memory=True)
train_epoch(model, loader, torch.optim.Adam(model.parameters()), torch.device("cuda"))
"""
#: The loader of a test is not pinned, and its device is a CPU.
CHECK = """\
{imports}
import torch
from step import train_epoch
from torch.utils.data import DataLoader


class TestStep{base}:
    def test_step(self):
        model = torch.nn.Linear(4, 4)
        train_epoch(model, DataLoader(digits), torch.optim.Adam(model.parameters()), torch.device("cpu"))
"""


@pytest.mark.parametrize(
    ("imports", "base", "expected"),
    [("import unittest", "(unittest.TestCase)", [3]), ("", "", [])],
    ids=["a test", "another caller"],
)
def test_what_a_test_passes_says_nothing_about_the_program(
    tmp_path: Path, imports: str, base: str, expected: list[int]
) -> None:
    write(tmp_path, step=STEP, main=CALLER, check=CHECK.format(imports=imports, base=base))
    assert rows(tmp_path, "step", "TL204") == expected


GRID = """\
import torch


def coords_grid(batch, height, width):
    grid = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width)), dim=0).float()
    return grid[None].repeat(batch, 1, 1, 1){end}
"""

WARPING = """\
import torch.nn as nn
from geometry import coords_grid


class Warp(nn.Module):
    def forward(self, flow):
        batch, _, height, width = flow.shape
        return coords_grid(batch, height, width).to({device}) + flow


if __name__ == "__main__":
    network = Warp().cuda()
    for flow in batches:
        network(flow.cuda())
"""


@pytest.mark.parametrize(
    ("end", "device", "expected"),
    [
        ("", "flow.device", [8]),
        (".cuda()", "flow.device", []),
        (" + torch.load('offset.pt')", "flow.device", []),
        ("", "'cpu'", []),
    ],
)
def test_a_tensor_that_a_function_of_another_file_makes_of_sizes_is_moved(
    tmp_path: Path, end: str, device: str, expected: list[int]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "geometry.py").write_text(GRID.replace("{end}", end))
    (tmp_path / "main.py").write_text(WARPING.replace("{device}", device))
    assert rows(tmp_path, "main", "TL206") == expected


LOADING = """\
import torch


def load_model(model, path):
    model.{method}(torch.load(path))
    return model
"""

SCORING = """\
import torch
from loading import load_model
from networks import Net


def main(batches):
    model = torch.nn.DataParallel(Net())
    model = load_model(model, "net.pt")
    model.eval()
    for batch in batches:
        print(model(batch.cuda()).sum())


if __name__ == "__main__":
    main(read())
"""


@pytest.mark.parametrize(("method", "expected"), [("load_state_dict", []), ("register_weights", [7])])
def test_a_wrapper_that_a_function_of_another_file_fills_for_a_test_is_silent(
    tmp_path: Path, method: str, expected: list[int]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "loading.py").write_text(LOADING.replace("{method}", method))
    (tmp_path / "main.py").write_text(SCORING)
    assert rows(tmp_path, "main", "TL811") == expected


WRITING = """\
def shown(images):
    return images.mean(dim=0)


def masked(images):
    erase(images)


def erase(images):
    images[:, 0] = 0
"""
MASKED = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from writing import masked, shown


def train(model, images):
    for (batch,) in DataLoader(TensorDataset(images), batch_size=4, num_workers=4, pin_memory=True):
        {name}(batch.view(4, -1))
        copied = batch.cuda()
        {name}(batch.view(4, -1))
        model(copied)


if __name__ == "__main__":
    train(torch.nn.Linear(8, 4), torch.rand(64, 8))
"""


@pytest.mark.parametrize(("name", "expected"), [("masked", "unsafe"), ("shown", "safe")])
def test_a_function_of_another_file_writes_to_the_batch(tmp_path: Path, name: str, expected: str) -> None:
    write(tmp_path, writing=WRITING, main=MASKED.replace("{name}", name))
    fixes = [item.fix for item in found(tmp_path / "main.py") if item.code == "TL204"]
    assert [fix and fix.applicability.value for fix in fixes] == [expected]


KEEPING = """\
import torch


def save(network):
    torch.save(network{method}.state_dict(), "network.pt")
"""
SAVED = """\
import torch
from keeping import save


def train(loader, optimizer):
    network = torch.nn.Linear(8, 4)
    for x, y in loader:
        network.cuda()
        torch.nn.functional.cross_entropy(network(x.cuda()), y.cuda()).backward()
        optimizer.step()
        save(network)


if __name__ == "__main__":
    train([], None)
"""


@pytest.mark.parametrize(("method", "expected"), [(".cpu()", []), ("", ["safe"])])
def test_a_function_of_another_file_moves_the_network(tmp_path: Path, method: str, expected: list[str]) -> None:
    write(tmp_path, keeping=KEEPING.replace("{method}", method), main=SAVED)
    fixes = [item.fix for item in found(tmp_path / "main.py") if item.code == "TL208"]
    assert [fix and fix.applicability.value for fix in fixes] == expected


PROCESSES = """\
import abc

import torch


class Process(abc.ABC):
    @abc.abstractmethod
    def {name}(self, shape):
        pass


class Plain(Process):
    def {name}(self, shape):
        return torch.randn(shape)


class Scaled(Process):
    def __init__(self, scale):
        self.scale = scale

    def {name}(self, shape):
        return torch.randn(shape{device}) * self.scale
"""
DRAWING = """\
import torch


def get_sampler(process, shape, device="cuda"):
    def sample(model):
        return model(process.{name}(shape).to(device))

    return sample
"""
DRAWN = """\
import torch
from drawing import get_sampler
from processes import Plain, Scaled


def main(name):
    if name == "plain":
        process = Plain()
    elif name == "scaled":
        process = Scaled(50)
    else:
        raise NotImplementedError(name)
    sample = get_sampler(process, (8, 3, 32, 32))
    model = torch.nn.Conv2d(3, 3, 3).cuda()
    for _ in range(10):
        print(sample(model).mean())


if __name__ == "__main__":
    main("plain")
"""


@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        ("prior_sampling", "", [6]),
        ("get_z0", "", [6]),
        ("prior_sampling", ", device='cuda'", []),
    ],
)
def test_noise_that_methods_of_another_file_make_is_moved(
    tmp_path: Path, name: str, device: str, expected: list[int]
) -> None:
    processes = PROCESSES.replace("{name}", name).replace("{device}", device)
    write(tmp_path, processes=processes, drawing=DRAWING.replace("{name}", name), main=DRAWN)
    assert rows(tmp_path, "drawing", "TL206") == expected


POSITIONS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.places = torch.arange(size).float()[None]
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x + self.places.type_as(x).to(x.device))
"""
ADAPTING = """\
import torch
from positions import Net


def main():
    net = Net(8)
    places = net.places
    {adapted}
    net.places = places
    net.cuda()
    for x in torch.load("data.pt"):
        print(net(x.cuda()))
    {later}


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("adapted", "later", "expected"),
    [
        ("places = torch.nn.functional.interpolate(places[None], 8)[0]", "pass", [12]),
        ("places = torch.nn.functional.interpolate(places[None].cuda(), 8)[0]", "pass", []),
        ("places = torch.load('places.pt')", "pass", []),
        ("pass", "for x in range(8): net.places = net.places + x", []),
    ],
)
def test_a_tensor_of_a_network_that_a_script_adapts_once(
    adapted: str, later: str, expected: list[int], tmp_path: Path
) -> None:
    files = {"positions": POSITIONS, "main": ADAPTING.replace("{adapted}", adapted).replace("{later}", later)}
    assert rows(write(tmp_path, files), "positions", "TL208") == expected


SCALES = "import torch\n\nSCALE = torch.tensor([0.2, 0.3, 0.5]){made}\n"
SCALED_BY_MODULE = """\
import torch
from torch import nn

from tools import scales


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        return self.layer(x * scales.SCALE.to(x.device))
"""


@pytest.mark.parametrize(
    ("made", "prepared", "expected"),
    [
        ("", "", [13]),
        (".cuda()", "", []),
        ("", "scales.SCALE = scales.SCALE.cuda()", []),
        ("", "scales.SCALE[0] = 1", []),
        ("\nSCALE = SCALE / SCALE.sum()", "", []),
    ],
)
def test_a_tensor_of_an_imported_module_is_moved_at_each_step(
    made: str, prepared: str, expected: list[int], tmp_path: Path
) -> None:
    main = RUNNING.format(file="scaled", name="Scaled").replace("net =", f"from tools import scales\n{prepared}\nnet =")
    files = {"tools/scales": SCALES.format(made=made), "scaled": SCALED_BY_MODULE, "main": main}
    assert rows(write(tmp_path, files), "scaled", "TL208") == expected


RUNNING = """\
import torch
from {file} import {name}

net = {name}().cuda()
for x in torch.load("data.pt"):
    print(net(x.cuda()))
"""
TIMES = """\
import torch
from torch import distributions as dist


def truncated_normal(shape, left=0.1):
    normal = dist.Normal(0, 1)
    values = normal.cdf({drawn})
    return torch.sigmoid(normal.icdf(normal.cdf(torch.logit(torch.tensor(left))) + values))
"""
DIFFUSING = """\
import torch
from times import truncated_normal


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x) * truncated_normal({given}).to(x.device)
"""


@pytest.mark.parametrize(
    ("drawn", "given", "expected"),
    [("torch.randn(shape)", "len(x)", [11]), ("shape", "x.cpu()", [])],
)
def test_a_function_of_another_file_computes_with_a_distribution(
    drawn: str, given: str, expected: list[int], tmp_path: Path
) -> None:
    files = {"times": TIMES.replace("{drawn}", drawn), "net": DIFFUSING.replace("{given}", given)}
    files["main"] = RUNNING.format(file="net", name="Net")
    assert rows(write(tmp_path, files), "net", "TL206") == expected


LEVELS = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, levels=(0.1, 0.5, 0.9)):
        super().__init__()
        self.levels = levels
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)

    def adapt(self, levels):
        {adapted}
"""
FORECAST = """\
import torch
from levels import Net


class Forecast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        return torch.quantile(self.net(x), torch.tensor(self.net.levels, device=x.device), dim=-1)
"""


@pytest.mark.parametrize(("adapted", "expected"), [("print(levels)", [11]), ("self.levels = levels", [])])
def test_numbers_of_a_network_of_another_file(adapted: str, expected: list[int], tmp_path: Path) -> None:
    files = {"levels": LEVELS.replace("{adapted}", adapted), "forecast": FORECAST}
    files["main"] = RUNNING.format(file="forecast", name="Forecast")
    assert rows(write(tmp_path, files), "forecast", "TL207") == expected


CODERS = """\
from people import coder_of
from torch import nn


class Diffusion(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.coder = coder_of(name)
        self.net = nn.Linear(8, 8)

    def forward(self, x):
        return self.net(x)
"""
LIGHTNING = """\
import lightning as L
from coders import Diffusion


class Training(L.LightningModule):
    def __init__(self, name):
        super().__init__()
        self.diffusion = Diffusion(name)

    def training_step(self, batch, index):
        if self.diffusion.coder is not None:
            self.diffusion.coder.to(self.device)
            batch = self.diffusion.coder.encode(batch)
        return self.diffusion(batch).mean()

    def on_train_epoch_end(self):
        {later}
"""


@pytest.mark.parametrize(("later", "expected"), [("print(self.device)", [12]), ("self.diffusion.coder.cpu()", [])])
def test_a_step_moves_a_part_of_a_network_of_another_file(later: str, expected: list[int], tmp_path: Path) -> None:
    main = "import lightning as L\nfrom training import Training\n\nL.Trainer().fit(Training('conv'))\n"
    files = {"coders": CODERS, "training": LIGHTNING.replace("{later}", later), "main": main}
    assert rows(write(tmp_path, files), "training", "TL208") == expected


TOKENS = """\
import torch


def begin_with(labels, start):
    first = torch.tensor([start], dtype=torch.long, device=labels.device)
    return torch.cat([first.expand(len(labels), 1), labels], dim=1)
"""
SPEAKER = """\
import torch
from tokens import begin_with


class Speaker(torch.nn.Module):
    def __init__(self, size, tokens=None):
        super().__init__()
        self.start = size - 1 if tokens is None else tokens.get("start", size - 1)
        self.net = torch.nn.Embedding(size, 8)

    def start_symbol(self):
        return self.start

    def forward(self, x):
        return self.net(begin_with(x, {start})).sum()
"""


@pytest.mark.parametrize(
    ("start", "expected"),
    [("self.start", [5]), ("self.start_symbol()", [5]), ("x.shape[1]", []), ("self.net.pick()", [])],
)
def test_a_function_of_another_file_is_given_a_constant(start: str, expected: list[int], tmp_path: Path) -> None:
    files = {"tokens": TOKENS, "speaker": SPEAKER.replace("{start}", start)}
    files["main"] = RUNNING.format(file="speaker", name="Speaker").replace("Speaker()", "Speaker(100)")
    assert rows(write(tmp_path, files), "tokens", "TL207") == expected


RESIDUES = """\
import numpy as np

atoms = ["C", "N", "O"]
radii = {"C": 1.7, "N": 1.55, "O": 1.52}
angles = np.zeros((3, 4))
for row, atom in enumerate(atoms):
    angles[row] = radii[atom]
{more}
"""
CLASHES = """\
import residues
import torch


class Clashes(torch.nn.Module):
    def forward(self, x):
        sizes = x.new_tensor([residues.radii[atom] for atom in residues.atoms])
        return (x * sizes * torch.tensor(residues.angles, device=x.device)).sum()
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", [7, 8]),
        ("\n\ndef widen(atom):\n    radii[atom] += 0.5", [8]),
        ("\n\ndef reset():\n    global angles\n    angles = np.ones((3, 4))", [7]),
    ],
)
def test_tables_of_another_module_are_constants(more: str, expected: list[int], tmp_path: Path) -> None:
    files = {"residues": RESIDUES.replace("{more}", more), "clashes": CLASHES}
    files["main"] = RUNNING.format(file="clashes", name="Clashes")
    assert rows(write(tmp_path, files), "clashes", "TL207") == expected


def test_another_file_may_set_a_table_of_a_module(tmp_path: Path) -> None:
    files = {"residues": RESIDUES.replace("{more}", ""), "clashes": CLASHES}
    files["main"] = "import residues\n\n" + RUNNING.format(file="clashes", name="Clashes")
    files["main"] += "\n\ndef scale(factor):\n    residues.angles = residues.angles * factor\n"
    assert rows(write(tmp_path, files), "clashes", "TL207") == [7]
