"""What is found in a program does not depend on which rules ran before, or on the files that were checked before."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import write

from benchmarks.eager import differences
from benchmarks.order import everything_reversed
from torchlint import check_text
from torchlint.model import forests
from torchlint.model.module import Module
from torchlint.model.training.networks import Networks
from torchlint.settings.settings import Settings

#: Values of this program are asked for in a cycle: what `test` is given, and what the discriminator returns.
PROGRAM = {
    "model": """\
from networks import Decoder, Critic


class Translator(nn.Module):
    def __init__(self, hp):
        self.gen = Decoder()

    def forward(self, co_data, cl_data, hp, mode):
        if mode == "gen_update":
            pass
        elif mode == "dis_update":
            real, accuracy, response = self.dis.real_loss()
            penalty = self.dis.gradient_penalty(response)
            with torch.no_grad():
                translated = self.gen.decode()
            fake, accuracy, response = self.dis.fake_loss(translated.detach())

    def test(self, co_data, cl_data):
        images = co_data[0].cuda()
        content = self.gen.enc_content(images)
        current = self.gen.decode(content)
""",
    "networks": """\
from torch import autograd


class Critic(nn.Module):
    def forward(self, x, y):
        features = self.cnn_f(x)
        return out, features

    def fake_loss(self, fake, label):
        response, features = self.forward(fake)

    def real_loss(self, real, label):
        response, features = self.forward()
        correct = (response >= 0).sum()
        accuracy = correct.type_as() / total
        return loss, accuracy, response

    def gradient_penalty(self, output, x):
        penalty = autograd.grad(outputs=output.mean())[0]


class Decoder(nn.Module):
    def decode(self, content, code):
        images = self.dec(content)
        return images
""",
    "train": """\
from utils import loaders_of
from trainer import Trainer

trainer = Trainer()
loaders = loaders_of()
test_content_loader = loaders[2]
while True:
    for it, (co_data, cl_data) in enumerate():
        if it % 100 == 0:
            with torch.no_grad():
                for t, (test_co_data, test_cl_data) in enumerate(zip(test_content_loader)):
                    outputs = trainer.test(test_cl_data)
""",
    "trainer": """\
from model import Translator


class Trainer(nn.Module):
    def __init__(self, config):
        self.model = Translator()

    def test(self, co_data, cl_data, multigpus):
        this_model = self.model.module if multigpus else self.model
        return this_model.test(co_data)
""",
    "utils": """\
from torch.utils.data import DataLoader


def loader_of(root, names):
    loader = DataLoader()
    return loader


def loaders_of(conf):
    test_content_loader = loader_of()
    return train_content_loader, train_class_loader, test_content_loader, test_class_loader
""",
}


@pytest.mark.parametrize("before", [set(), {"TL401"}, {"TL402"}, {"TL403"}])
def test_a_rule_finds_the_same_whichever_rules_run_too(before: set[str], tmp_path: Path) -> None:
    write(tmp_path, PROGRAM)
    forests.forget()
    settings = Settings(codes=frozenset({"TL102", *before}))
    found = [
        (name, item.start)
        for name, text in PROGRAM.items()
        for item in check_text(text, str(tmp_path / f"{name}.py"), settings)
        if item.code == "TL102"
    ]
    assert found == [("utils", PROGRAM["utils"].index("DataLoader()"))]


def test_the_order_of_files_and_rules_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text('select = ["TL102", "TL402"]', encoding="utf-8")
    count, lines = differences(write(tmp_path, PROGRAM), everything_reversed)
    assert lines == []
    assert count > 0


#: Of two methods that read their input with NumPy, `forward` runs `near` two calls deep, and `far` four.
TWO_DEPTHS = """\
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def far(self, x):
        {far}
        return x * s

    def between(self, x):
        return self.far(x)

    def near(self, x):
        s = torch.from_numpy(np.abs(x.detach().cpu().numpy())).to(x.device)
        return self.between(x * s)

    def outer(self, x):
        return self.near(x)

    def forward(self, x):
        return self.outer(x)
"""


@pytest.mark.parametrize("far", ["s = x", "s = torch.from_numpy(np.abs(x.detach().cpu().numpy())).to(x.device)"])
def test_a_question_about_a_deeper_function_changes_no_answer(far: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(TWO_DEPTHS.format(far=far), encoding="utf-8")
    forests.forget()
    found = check_text(TWO_DEPTHS.format(far=far), str(tmp_path / "net.py"), Settings(codes=frozenset({"TL715"})))
    assert [item.message.partition(" ")[0] for item in found] == ["`near`"]


#: `first` and `second` call each other, and only `first` runs a layer.
TWO_METHODS = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def first(self, x):
        y = self.second(x)
        return self.last(y)

    def second(self, x):
        return self.first(x)

    def last(self, x):
        return self.layer(x)


net = Net()
net.first(x)
net.second(x)
"""


@pytest.mark.parametrize("order", [1, -1])
def test_methods_that_call_each_other_run_a_network_whichever_is_asked_for_first(order: int) -> None:
    module = Module.parse(TWO_METHODS)
    calls = [call for call in module.tree.calls_in(module.root) if module.code(call.func).startswith("net.")]
    assert len(calls) == 2
    assert all(map(module.fact(Networks).is_seen_to_run, calls[::order]))
