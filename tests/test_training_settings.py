"""Settings of training whose meaning another file of the program decides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from torchlint import check_text, load_settings

NET = """\
import torch
from lightning.pytorch import LightningModule


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4096, 4096)

    def training_step(self, batch, batch_idx):
        positions, target = batch
        energy = self.net(positions).sum()
        return (energy - target).square().mean()
"""
FIT = """\
from lightning.pytorch import Trainer

from net import Net

trainer = Trainer(accelerator="gpu", devices=1, max_epochs=5)
trainer.fit(Net(), data.train_dataloader())
"""


def rows(folder: Path, files: Mapping[str, str], code: str, name: str) -> list[int]:
    """The rows of the findings of a rule in one module of a repository."""
    (folder / ".git").mkdir()
    for module, text in files.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    settings = load_settings(None, {"select": [code]})
    found = check_text(files[name], str(folder / f"{name}.py"), settings)
    return [files[name].count("\n", 0, item.start) + 1 for item in found]


def test_a_trainer_runs_the_network_of_another_file_in_float32(tmp_path: Path) -> None:
    assert rows(tmp_path, {"net": NET, "fit": FIT}, "TL310", "fit") == [5]


@pytest.mark.parametrize(
    "net",
    [
        NET.replace("(energy - target)", "(torch.autograd.grad(energy, positions, create_graph=True)[0] - target)"),
        NET.replace("self.net(positions)", "self.net(positions.half())"),
    ],
    ids=["gradients of gradients", "16 bits"],
)
def test_a_network_of_another_file_may_need_the_precision_of_its_trainer(net: str, tmp_path: Path) -> None:
    assert rows(tmp_path, {"net": net, "fit": FIT}, "TL310", "fit") == []


NETS = """\
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4096, 4096)
        self.head = nn.Linear(4096, 10)

    def forward(self, x):
        return self.head(self.body(x))
"""
ENGINE = """\
from torch.nn import functional as F


def train(model, teacher, loader, optimizer):
    for x, _ in loader:
        loss = F.mse_loss(model(x.cuda()), teacher(x.cuda()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
DISTILL = """\
import torch

from engine import train
from nets import Classifier

model = Classifier().cuda()
teacher = Classifier().cuda()
teacher.load_state_dict(torch.load("teacher.pt"))
optimizer = torch.optim.AdamW(model.parameters())
train(model, teacher, loader, optimizer)
"""


def test_no_optimizer_updates_the_teacher_of_a_loop_in_another_file(tmp_path: Path) -> None:
    assert rows(tmp_path, {"nets": NETS, "engine": ENGINE, "distill": DISTILL}, "TL408", "distill") == [7]


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": ENGINE.replace("teacher(x.cuda())", "teacher(x.cuda()).detach()")},
        {"nets": NETS.replace("self.head(self.body(x))", "self.head(self.body(x)).detach()")},
        {
            "nets": NETS + "\n\ndef freeze(net):\n    net.requires_grad_(False)\n",
            "distill": DISTILL.replace("import Classifier", "import Classifier, freeze").replace(
                "optimizer =", "freeze(teacher)\noptimizer ="
            ),
        },
        {"engine": ENGINE.replace("optimizer.step()", "optimizer.step()\n        follow(teacher, model)")},
        {"distill": DISTILL.replace("model.parameters()", "[*model.parameters(), *teacher.parameters()]")},
    ],
    ids=["detached", "detaches", "freezes", "updated", "trained"],
)
def test_the_teacher_may_be_frozen_or_updated_in_another_file(changed: Mapping[str, str], tmp_path: Path) -> None:
    files = {"nets": NETS, "engine": ENGINE, "distill": DISTILL, **changed}
    assert rows(tmp_path, files, "TL408", "distill") == []


DISTRIBUTED = """\
import torch.distributed as dist


def average(value):
    dist.all_reduce(value)
    return value / dist.get_world_size()
"""
LOOP = """\
from utils import average


def train(model, loader, optimizer, criterion):
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(average(loss.detach()))


train(model, loader, optimizer, criterion)
"""


def test_a_function_of_another_file_exchanges_a_value_at_every_step(tmp_path: Path) -> None:
    assert rows(tmp_path, {"utils": DISTRIBUTED, "loop": LOOP}, "TL815", "loop") == [10]


@pytest.mark.parametrize(
    "changed",
    [
        {"utils": DISTRIBUTED.replace("    dist", "    if value.step % 10:\n        return value\n    dist", 1)},
        {
            "loop": LOOP.replace("loss.backward()", "average(loss).backward()").replace(
                "print(average(loss.detach()))", ""
            )
        },
        {"loop": LOOP.replace("        print(", "    print(")},
    ],
    ids=["sometimes", "part of the loss", "after the loop"],
)
def test_a_function_of_another_file_may_exchange_what_is_needed(changed: Mapping[str, str], tmp_path: Path) -> None:
    assert rows(tmp_path, {"utils": DISTRIBUTED, "loop": LOOP, **changed}, "TL815", "loop") == []
