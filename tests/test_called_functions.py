"""Calls that do not name the function they run, in programs of several files: overrides, closures, dicts, objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import libcst as cst
import pytest

from torchlint import check_text
from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.training.steps import Steps
from torchlint.rule import Diagnostic

LOSSES = """\
def noise_loss(model, images):
    return (model(images) - images).square().mean()


def image_loss(model, images):
    return (model(images * 2) - images).square().mean()


REGISTRY = {"noise": noise_loss, "image": image_loss}
"""
TRAIN = """\
import torch
from losses import REGISTRY


def train(loader, name):
    model = torch.nn.Linear(4096, 4096).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, _ in loader:
        loss = REGISTRY[name](model, images.to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ENGINE = """\
class Engine:
    def __init__(self, model, loader, optimizer):
        self.model = model.cuda()
        self.train_loader = loader
        self.optimizer = optimizer

    def train(self, epochs):
        for epoch in range(epochs):
            for batch in self.train_loader:
                self.forward_backward(batch)

    def forward_backward(self, batch):
        raise NotImplementedError
"""
SOFTMAX = """\
import torch
from engine import Engine


class SoftmaxEngine(Engine):
    def forward_backward(self, batch):
        images, labels = batch
        loss = torch.nn.functional.cross_entropy(self.model(images.cuda()), labels.cuda())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
MAIN = """\
import torch
from softmax import SoftmaxEngine

model = torch.nn.Linear(4096, 4096)
SoftmaxEngine(model, loader, torch.optim.SGD(model.parameters(), lr=0.1)).train(10)
"""


def found(folder: Path, files: Mapping[str, str]) -> dict[str, list[Diagnostic]]:
    """The findings of TL301 in modules of a repository, by module."""
    (folder / ".git").mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return {
        name: [item for item in check_text(text, str(folder / f"{name}.py")) if item.code == "TL301"]
        for name, text in files.items()
    }


def test_a_forward_of_another_file_is_reported_where_the_loop_runs_it(tmp_path: Path) -> None:
    main = "from train import train\n\ntrain(loader, 'noise')\n"
    (finding,) = found(tmp_path, {"losses": LOSSES, "train": TRAIN, "main": main})["train"]
    assert TRAIN[finding.start :].startswith("REGISTRY[name](model")
    assert finding.fix is None
    first = finding.notes[0].place
    assert first is not None and first.path == str(tmp_path / "losses.py")
    assert LOSSES[first.start :].startswith("model(images)")


@pytest.mark.parametrize(
    "losses",
    [
        LOSSES.replace("model(images) -", "0.5 *").replace("model(images * 2) -", "0.5 *"),
        LOSSES.replace("    return", "    with torch.no_grad():\n        return").replace(
            "def", "import torch\ndef", 1
        ),
        LOSSES.replace('"noise": noise_loss, "image": image_loss', ""),
    ],
    ids=["no network", "no gradients", "nothing in the dict"],
)
def test_functions_of_a_dict_that_train_no_network_are_left_alone(losses: str, tmp_path: Path) -> None:
    main = "from train import train\n\ntrain(loader, 'noise')\n"
    assert not found(tmp_path, {"losses": losses, "train": TRAIN, "main": main})["train"]


def test_a_loss_that_takes_gradients_of_inputs_is_reported_where_the_loop_runs_it(tmp_path: Path) -> None:
    main = "from train import train\n\ntrain(loader, 'noise')\n"
    taken = "    (slope,) = torch.autograd.grad(images.square().sum(), images)\n    return slope.mean() +"
    losses = "import torch\n" + LOSSES.replace("    return", taken, 1)
    assert len(found(tmp_path, {"losses": losses, "train": TRAIN, "main": main})["train"]) == 1


def test_a_loss_of_another_file_that_differentiates_twice_is_left_alone(tmp_path: Path) -> None:
    main = "from train import train\n\ntrain(loader, 'noise')\n"
    taken = "torch.autograd.grad(model(images).sum(), images, create_graph=True)[0].square().mean()"
    losses = LOSSES.replace("(model(images) - images).square().mean()", taken)
    losses = "import torch\n" + losses.replace("(model(images * 2) - images).square().mean()", taken)
    assert not found(tmp_path, {"losses": losses, "train": TRAIN, "main": main})["train"]


def test_the_loop_of_a_base_class_runs_the_step_of_another_file(tmp_path: Path) -> None:
    findings = found(tmp_path, {"engine": ENGINE, "softmax": SOFTMAX, "main": MAIN})
    assert len(findings["softmax"]) == 1
    assert not findings["engine"]


def test_a_step_that_no_loop_runs_is_left_alone(tmp_path: Path) -> None:
    engine = ENGINE.replace("for batch in self.train_loader:", "if epoch == 0:")
    engine = engine.replace("for epoch in range(epochs)", "if epochs")
    assert not found(tmp_path, {"engine": engine, "softmax": SOFTMAX, "main": MAIN})["softmax"]


def test_a_step_that_a_computed_name_may_call_is_one_of_other_code(tmp_path: Path) -> None:
    engine = ENGINE.replace("self.forward_backward(batch)", "getattr(self, self.mode)(batch)")
    assert len(found(tmp_path, {"engine": engine, "softmax": SOFTMAX, "main": MAIN})["softmax"]) == 1


def test_a_step_that_nothing_calls_never_runs(tmp_path: Path) -> None:
    engine = ENGINE.replace("self.forward_backward(batch)", "self.show(batch)")
    assert not found(tmp_path, {"engine": engine, "softmax": SOFTMAX, "main": MAIN})["softmax"]


CALLED = """\
import functools
import torch
from torch import nn

class Base:
    def run(self):
        self.hook()
        self.kept()
        self.added()
    def hook(self):
        pass
    def kept(self):
        return 1

class First(Base):
    def hook(self):
        return 1
    def kept(self):
        return 2
    def added(self):
        return 3

class Loss(nn.Module):
    def forward(self, x):
        return x

class Transform:
    def __call__(self, x):
        return x

def make(flag):
    def one(x): return x
    def two(x): return x
    return one if flag else two

def plain(x): return x
def other(x): return x

TABLE = {"plain": plain, "other": other}
loss = Loss()
transform = Transform()
chosen = plain if torch else other
step = make(1)
bound = functools.partial(plain, 1)
"""


@pytest.mark.parametrize(
    ("call", "functions"),
    [
        ("plain(1)", ["plain"]),
        ("TABLE['plain'](1)", ["plain"]),
        ("TABLE[name](1)", ["plain", "other"]),
        ("TABLE.get(name)(1)", ["plain", "other"]),
        ("chosen(1)", ["plain", "other"]),
        ("step(1)", ["one", "two"]),
        ("make(0)(1)", ["one", "two"]),
        ("bound(1)", ["plain"]),
        ("loss(1)", ["forward"]),
        ("nn.DataParallel(loss)(1)", ["forward"]),
        ("transform(1)", ["__call__"]),
        ("First().hook()", ["hook"]),
        ("Loss()", []),
        ("unknown(1)", []),
        ("torch.compile(1)", []),
        ("nn.Linear(2, 2)(1)", []),
        ("'text'.strip()", []),
    ],
)
def test_a_call_runs_what_may_be_in_its_place(call: str, functions: list[str]) -> None:
    module = Module.parse(f"{CALLED}{call}\n")
    line = module.root.body[-1]
    assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr)
    node = line.body[0].value
    assert isinstance(node, cst.Call)
    assert [item.name.value for item in module.fact(Dispatch).run(node)] == functions


@pytest.mark.parametrize(
    ("call", "classes"), [("self.hook()", ["First"]), ("self.kept()", ["Base", "First"]), ("self.added()", ["First"])]
)
def test_a_method_called_on_self_may_be_an_override(call: str, classes: list[str]) -> None:
    module = Module.parse(CALLED)
    node = next(item for item in module.tree.calls if module.code(item) == call)
    owners = [module.tree.class_of(function) for function in module.fact(Dispatch).run(node)]
    assert [owner.name.value for owner in owners if owner is not None] == classes
    for function in module.fact(Dispatch).run(node):
        assert node in module.fact(Dispatch).callers(function)


@pytest.mark.parametrize("count", [2, 40])
def test_a_method_that_many_classes_override_is_called_by_their_base(count: int) -> None:
    lines = [
        "class Base:",
        "    def run(self): self.hook(); Base().hook()",
        "    def hook(self): raise NotImplementedError",
    ]
    for number in range(count):
        lines += [f"class Loss{number}(Base):", "    def hook(self): super().hook()"]
    module = Module.parse("\n".join(lines) + "\n")
    hooks = [item for item in module.tree.functions if item.name.value == "hook"]
    for function in hooks[1:]:
        assert [module.code(call) for call in module.fact(Dispatch).callers(function)] == ["self.hook()"]


@pytest.mark.parametrize(("caller", "codes"), [("forward", ["TL709"]), ("__init__", [])])
def test_what_a_network_calls_runs_once_per_batch_in_each_of_many_derived_classes(
    caller: str, codes: list[str]
) -> None:
    lines = ["import torch", "class Base(torch.nn.Module):", "    def compute(self, x): raise NotImplementedError"]
    lines += [f"    def {caller}(self, x): return self.compute(x)"]
    for number in range(20):
        lines += [f"class Loss{number}(Base):", f"    def compute(self, x): return x + {number}"]
    lines += ["class Scaled(Base):", "    def compute(self, x):", "        scales = torch.diag(x.sum(dim=1))"]
    lines += ["        return scales.mm(x)"]
    assert [item.code for item in check_text("\n".join(lines) + "\n")] == codes


def test_a_function_with_many_callers_is_followed_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["import torch", "def update(loss):", "    loss.backward()"]
    for number in range(200):
        lines += [f"def step_{number}(model, x):", "    update(model(x).sum())", "    model.optimizer.step()"]
    module = Module.parse("\n".join(lines) + "\n")
    asked: list[cst.FunctionDef] = []
    callers = Dispatch.callers

    def counted(self: Dispatch, function: cst.FunctionDef) -> tuple[cst.Call, ...]:
        asked.append(function)
        return callers(self, function)

    monkeypatch.setattr(Dispatch, "callers", counted)
    assert not module.fact(Steps).loops
    assert len(asked) < 200


def test_a_class_made_by_a_class_method_of_its_base_is_an_object_of_the_base() -> None:
    module = Module.parse(
        "class Net:\n"
        "    @classmethod\n"
        "    def build(cls):\n"
        "        class Local(cls):\n"
        "            def run(self): pass\n"
        "        return Local()\n"
        "    def run(self): pass\n"
        "Net.build().run()\n"
    )
    node = next(item for item in module.tree.calls if module.code(item) == "Net.build().run()")
    net, local = module.tree.classes
    assert [module.tree.class_of(item) for item in module.fact(Dispatch).run(node)] == [local]
    assert module.definitions.lineage(local) == (local, net)
    assert module.definitions.derived(net) == [local]


def test_a_network_that_loads_itself_is_followed_once() -> None:
    text = """\
import torch


class Trainer:
    def __init__(self, build):
        self.model = build()

    def train(self, loader, path):
        for images in loader:
            loss = self.model.loss_of(images.cuda())
            loss.backward()
            print(loss.item())
        self.model = self.model.from_pretrained(path)
"""
    assert [item.code for item in check_text(text)] == ["TL201"]


@pytest.mark.parametrize(
    ("made", "call", "given"),
    [
        ("run = partial(step, 1)", "run(2, 3)", ["1", "2", "3"]),
        ("run = partial(step, 1, c=3)", "run(2)", ["1", "2", "3"]),
        ("run = partial(step, c=3)", "run(1, b=2)", ["1", "2", "3"]),
        ("run = partial(step, c=3)", "run(1, 2, c=4)", ["1", "2", "4"]),
        ("", "partial(step, 1)(2, 3)", ["1", "2", "3"]),
        ("first = partial(step, 1)\nrun = partial(first, 2)", "run(3)", ["1", "2", "3"]),
        ("run = partial(step, *some)", "run(2, c=3)", [None, None, "3"]),
        ("run = partial(run, 1)", "run(2)", ["1", "2", None]),
        ("run = partial(step, 1)\nif some:\n    run = step", "run(2)", ["2", None, None]),
        ("run = step", "run(1, 2)", ["1", "2", None]),
    ],
)
def test_a_prepared_function_gets_what_its_calls_pass_behind_what_it_was_prepared_with(
    made: str, call: str, given: list[str | None]
) -> None:
    module = Module.parse(f"from functools import partial\ndef step(a, b, c): ...\n{made}\n{call}\n")
    node = module.tree.calls_in(module.root.body[-1])[0]
    step = module.tree.functions[0]
    passed = [module.definitions.argument_of(node, step, param) for param in step.params.params]
    assert [None if value is None else module.code(value) for value in passed] == given


@pytest.mark.parametrize(
    ("made", "is_caller"),
    [
        ("run = partial(step, 1)", True),
        ("run = other = partial(step, b=1)", True),
        ("run = partial(step, 1)\nif some:\n    run = print", False),
        ("run = partial(print, step)", False),
        ("run, other = partial(step, 1), 2", False),
    ],
)
def test_what_partial_returns_calls_the_function(made: str, is_caller: bool) -> None:
    module = Module.parse(f"from functools import partial\ndef step(a, b): ...\n{made}\nrun(2)\n")
    callers = module.callers(module.tree.functions[0])
    assert [module.code(call) for call in callers.calls] == (["run(2)"] if is_caller else [])
    assert not callers.complete
