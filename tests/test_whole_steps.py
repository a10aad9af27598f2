"""Findings in functions that a training loop of another file calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import codes, rows, rows_of, write

from torchlint import check_text

LOOP = """\
import torch
from torch.utils.data import DataLoader
from parts import *
from photos import Photos


def main():
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = torch.zeros((), device="cuda")
    for images in DataLoader(Photos()):
        loss = model(images.cuda()).mean()
        loss.backward()
        optimizer.step()
        {called}


if __name__ == "__main__":
    main()
"""
SMOOTHED = """\
import torch


def smoothed(average, loss):
    torch.cuda.synchronize()
    return average.lerp_(loss.detach(), 0.1)
"""


@pytest.mark.parametrize(
    ("code", "parts", "called", "expected"),
    [
        ("TL211", SMOOTHED, "smoothed(average, loss)", [5]),
        ("TL211", SMOOTHED, "pass", []),
    ],
)
def test_the_loop_is_in_another_file(tmp_path: Path, code: str, parts: str, called: str, expected: list[int]) -> None:
    write(tmp_path, parts=parts, main=LOOP.replace("{called}", called))
    found = [item for item in check_text(parts, str(tmp_path / "parts.py")) if item.code == code]
    assert [parts.count("\n", 0, item.start) + 1 for item in found] == expected


PHASES = """\
import enum


class Phase(enum.Enum):
    TRAIN = "train"
    TEST = "test"
"""
PHASED = """\
import torch
from net import Net
from phases import *


def run(phase, net, optimizer, loader):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        if phase == Phase.TRAIN:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(9):
        run(Phase.TRAIN, net, optimizer, torch.load("train.pt"))
        {evaluation}
"""


@pytest.mark.parametrize(
    ("evaluation", "expected"),
    [
        ('run(Phase.TEST, net, optimizer, torch.load("val.pt"))', True),
        ('torch.no_grad()(run)(Phase.TEST, net, optimizer, torch.load("val.pt"))', False),
        ('with torch.no_grad(): run(Phase.TEST, net, optimizer, torch.load("val.pt"))', False),
        ('run(Phase.TRAIN, net, optimizer, torch.load("val.pt"))', False),
    ],
)
def test_the_phases_are_an_enumeration_of_another_file(evaluation: str, expected: bool, tmp_path: Path) -> None:
    text = PHASED.format(evaluation=evaluation)
    write(tmp_path, phases=PHASES, net="import torch\n\n\nclass Net(torch.nn.Linear):\n    pass\n", main=text)
    assert any(item.code == "TL402" for item in check_text(text, str(tmp_path / "main.py"))) is expected


LOGGER = """\
import torch


class MetricLogger:
    def __init__(self):
        self.totals = {}

    def update(self, step=0, **values):
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                value = value.item()
            self.totals[name] = self.totals.get(name, 0) + value

    def log_every(self, batches, interval):
        for batch in batches:
            yield batch
"""
LOGGING = """\
import torch
from meters import MetricLogger
from photos import Photos
from torch.utils.data import DataLoader


def main():
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    meters = MetricLogger()
    for images in meters.log_every(DataLoader(Photos()), 10):
        output = model(images.cuda())
        losses = {"mean": output.mean(), "norm": output.norm()}
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {updated}


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("updated", "expected"),
    [
        ("meters.update(loss=loss)", [11]),
        ("meters.update(**losses)", [11]),
        ('meters.update(lr=optimizer.param_groups[0]["lr"], size=len(images))', []),
        ("meters.update(step=loss)", []),
        ("pass", []),
    ],
)
def test_a_logger_reads_what_it_gets_by_keywords(tmp_path: Path, updated: str, expected: list[int]) -> None:
    write(tmp_path, meters=LOGGER, main=LOGGING.replace("{updated}", updated))
    found = [item for item in check_text(LOGGER, str(tmp_path / "meters.py")) if item.code == "TL201"]
    assert [LOGGER.count("\n", 0, item.start) + 1 for item in found] == expected


BUILDING = """\
import torch


def build(path):
    model = torch.nn.Conv2d(3, 64, 3)
    model.load_state_dict(torch.load(path))
    return model.cuda()
"""
DRAWING = """\
from building import build


class Maps:
    def __init__(self, loader):
        self.loader = loader
        self.model = build("model.pt")
        self.model.eval()

    def draw(self):
        for images in self.loader:
            for one in self.model(images.cuda()).detach().cpu().numpy():
                print(one)
"""


@pytest.mark.parametrize(("disabled", "expected"), [(False, ["TL402"]), (True, [])])
def test_a_file_that_does_not_import_torch_may_run_a_network(
    disabled: bool, expected: list[str], tmp_path: Path
) -> None:
    script = "import torch\nfrom drawing import Maps\n\n\n{}def main():\n    Maps(load()).draw()\n\n\nmain()\n"
    files = {"building": BUILDING, "drawing": DRAWING, "main": script.format("@torch.no_grad()\n" if disabled else "")}
    write(tmp_path, files)
    assert [code for code in codes(tmp_path / "drawing.py") if code == "TL402"] == expected


TIMING = """\
import time{imported}


class Timer:
    def __init__(self):
        self.total = 0.0

    def tic(self):
        self.start = time.time()

    def toc(self):
        {before}self.total += time.time() - self.start
"""
TIMED = """\
import torch
from torch.backends import cudnn
from building import build
from timing import Timer


def main(loader):
    model, timer = build("model.pt"), Timer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images in loader:
        timer.tic()
        loss = model(images).mean()
        loss.backward()
        optimizer.step()
        timer.toc()
    print(timer.total)


cudnn.benchmark = True
main(load())
"""


@pytest.mark.parametrize(
    ("imported", "before", "expected"),
    [("", "", [15]), ("\nimport torch", "torch.cuda.synchronize()\n        ", [])],
    ids=["does not wait", "waits"],
)
def test_a_timer_of_another_file_may_not_wait_for_the_gpu(
    imported: str, before: str, expected: list[int], tmp_path: Path
) -> None:
    files = {"building": BUILDING, "timing": TIMING.format(imported=imported, before=before), "main": TIMED}
    assert rows_of(tmp_path, files, "main", "TL903") == expected


AVERAGING = """\
import torch


class Average(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.decay = 0.999
        self.shadow = {name: item.clone() for name, item in model.named_parameters()}

    def blend(self, model):
        with torch.no_grad():
            for name, item in model.named_parameters():
                self.shadow[name].mul_(self.decay).add_(item, alpha=1 - self.decay)
"""
LIGHTNING = """\
import pytorch_lightning as pl
import torch
from averaging import Average


class Model(pl.LightningModule):
    def __init__(self, network):
        super().__init__()
        self.network = network
        self.average = Average(network)

    def training_step(self, batch):
        return self.network(batch).mean()

    def {hook}(self, *args):
        self.average.blend(self.network)


pl.Trainer(devices=1, max_epochs=9).fit(Model(torch.nn.Linear(8, 8)))
"""


@pytest.mark.parametrize(("hook", "expected"), [("on_train_batch_end", [12]), ("on_fit_end", [])])
def test_lightning_runs_hooks_after_every_batch(hook: str, expected: list[int], tmp_path: Path) -> None:
    files = {"averaging": AVERAGING, "main": LIGHTNING.format(hook=hook)}
    assert rows_of(tmp_path, files, "averaging", "TL803") == expected


SELF_TEST = """\
import time

import torch


class Net(torch.nn.Conv2d):
    def forward(self, images):
        return super().forward(images).relu()


if __name__ == "__main__":
    net = Net(3, 64, 3)
    start = time.time()
    outputs = net(torch.randn(2, 3, 32, 32))
    print(time.time() - start)
"""


def test_a_file_that_tries_its_network_out_on_the_cpu_measures_it(tmp_path: Path) -> None:
    main = "import torch\nfrom net import Net\n\nfor images in load():\n    Net(3, 64, 3).cuda()(images.cuda())\n"
    assert rows_of(tmp_path, {"net": SELF_TEST, "main": main}, "net", "TL903") == []


LEARNER = """\
import torch


class Learner:
    def __init__(self, backbone):
        self.model = torch.nn.DataParallel(backbone).cuda()

    def infer(self, faces, known):
        found = torch.cat([self.model(face[None].cuda()) for face in faces])
        distances = (found.unsqueeze(-1) - known).pow(2).sum(1)
        return distances.min(1)
"""
FACES = """\
from backbones import build
from learner import Learner

learner = Learner(build())
{before}
for faces, known in camera():
    print({call})
"""


@pytest.mark.parametrize(
    ("before", "call", "expected"),
    [
        ("learner.model.eval()", "learner.infer(faces, known)", [9]),
        ("learner.model.eval()\nlearner.model.train()", "learner.infer(faces, known)", []),
        ("learner.other.eval()", "learner.infer(faces, known)", []),
        ("learner.model.eval()", "learner.infer(faces, known)[0].mean().backward()", []),
    ],
    ids=["evaluates", "trains again", "another network", "back-propagates"],
)
def test_a_script_evaluates_the_network_of_an_object(
    before: str, call: str, expected: list[int], tmp_path: Path
) -> None:
    files = {"learner": LEARNER, "main": FACES.format(before=before, call=call)}
    assert rows_of(tmp_path, files, "learner", "TL402") == expected


@pytest.mark.parametrize(("framework", "expected"), [("chainer", []), ("numpy", ["TL201"])])
def test_a_step_of_another_framework_is_none_of_torch(framework: str, expected: list[str], tmp_path: Path) -> None:
    step = f"import {framework}\n\ndef fit(model, loader, optimizer):\n    total = 0\n    for x in loader:\n"
    step += "        loss = model(x.cuda()).mean()\n        total += float(loss)\n"
    step += "        loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()\n    return total\n"
    main = (
        "import torch\nfrom step import fit\n\nif __name__ == '__main__':\n    model = torch.nn.Linear(2, 1).cuda()\n"
    )
    main += "    fit(model, torch.utils.data.DataLoader(data), torch.optim.SGD(model.parameters()))\n"
    folder = write(tmp_path, step=step, main=main)
    assert [code for code in codes(folder / "step.py") if code == "TL201"] == expected


SEARCH = """\
import math

import torch


def search(trainer, batches, factor):
    best = 1e9
    for batch in batches:
        loss = trainer.batch_outputs(batch, for_training=True)["loss"]
        loss.backward()
        CONVERTED
        if factor is not None and (math.isnan(loss) or loss > factor * best):
            break
        trainer.optimizer.step()
"""
TRAINER = """\
import torch
from search import search


class Trainer:
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer

    def batch_outputs(self, batch, for_training):
        return self.net(batch.cuda())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(10, 1)

    def forward(self, x):
        return {"loss": self.layer(x).mean()}


def main(batches):
    net = Net().cuda()
    search(Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1)), batches, 4)


if __name__ == "__main__":
    main(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(100, 10))))
"""


@pytest.mark.parametrize(
    ("converted", "expected"), [("loss = loss.detach().cpu().item()", []), ("loss = loss * 2", ["TL203"])]
)
def test_a_loss_that_became_a_number_is_not_tested_on_the_gpu(
    tmp_path: Path, converted: str, expected: list[str]
) -> None:
    write(tmp_path, main=TRAINER, search=SEARCH.replace("CONVERTED", converted))
    assert [code for code in codes(tmp_path / "search.py") if code == "TL203"] == expected


AVERAGED = """\
import lightning
import torch
import yaml
from networks import build


class Average(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network
        self.register_buffer("updates", torch.tensor(0))

    def forward(self, network):
        if self.updates >= 0:
            self.updates += 1


class Model(lightning.LightningModule):
    def __init__(self, network, use_average=False):
        super().__init__()
        self.network, self.use_average = network, use_average
        self.average = Average(network)

    def training_step(self, batch, index):
        return self.network(batch).mean()

    def on_train_batch_end(self, *args):
        if self.use_average:
            self.average(self)


model = build(yaml.safe_load(open("config.yaml")), Model)
lightning.Trainer(accelerator="gpu").fit(model)
"""


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        (["use_average: true\n"], [14]),
        (["use_average: true\n", "model:\n  use_average: true\n", "use_average: false\n"], [14]),
        (["use_average: false\n"], []),
        (["average: true\n"], []),
    ],
    ids=["on", "mostly on", "off", "another key"],
)
def test_a_configuration_file_may_turn_on_a_part_of_a_step(
    tmp_path: Path, configs: list[str], expected: list[int]
) -> None:
    write(tmp_path, main=AVERAGED)
    for index, text in enumerate(configs):
        (tmp_path / f"config{index or ''}.yaml").write_text(text, encoding="utf-8")
    assert rows(tmp_path, "main", "TL203") == expected
