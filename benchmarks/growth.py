"""Measures how the time of a check grows with the size of a file, for many shapes of code.

    python benchmarks/growth.py [SHAPE ...] [--sizes 4] [--scale 1] [--limit 60] [--bound 1.2]

Each shape is generated at n, 2n, 4n, ... and checked with all rules of the torchlint that is installed. For each size
the user CPU time of parsing and of the rest (model, rules, suppressions) is printed, and the exponent of each for the
last doubling: 1.0 means twice the time for twice the code. The exit status is 1 if an exponent of the rest is above the
bound.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable

from torchlint.engine.checker import check
from torchlint.model.syntax.pieces import parse_pieces
from torchlint.rule.engine_rules import ENGINE_RULES
from torchlint.rule.registry import load_rules
from torchlint.settings.settings import Settings
from torchlint.source.parsing import garbage_collection_paused
from torchlint.source.source import Source

#: Shorter times are noise: nothing is concluded from them.
SHORTEST = 0.1

IMPORTS = """\
import argparse
import time
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, models
"""
SETUP = """\
device = torch.device("cuda")
model = models.resnet18().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_set = datasets.CIFAR10("data")
loader = DataLoader(train_set, batch_size=64)
"""
STEP = """\
        images = images.to(device)
        labels = labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
"""

#: Each shape's name, the n of its smallest size, and the text for an n.
SHAPES: dict[str, tuple[int, Callable[[int], str]]] = {}


def shape(smallest: int) -> Callable[[Callable[[int], str]], Callable[[int], str]]:
    """Register a generator of code; its name is that of the function."""

    def register(make: Callable[[int], str]) -> Callable[[int], str]:
        SHAPES[make.__name__.replace("_", "-")] = smallest, make
        return make

    return register


def rows(parts: Iterable[str], head: str = IMPORTS) -> str:
    """A program of one part after another."""
    return head + "".join(parts)


# -- many definitions


@shape(60)
def functions(n: int) -> str:
    """Training functions with different names."""
    return rows(
        f"def train{i}(model, loader, optimizer, criterion, device):\n"
        f"    model.train()\n    total = 0\n    for images, labels in loader:\n{STEP}        total += loss.item()\n"
        f"    return total\n"
        for i in range(n)
    )


@shape(60)
def redefinitions(n: int) -> str:
    """The same function again and again under one name."""
    return rows(
        f"def train(model, loader, optimizer, criterion, device):\n"
        f"    total = {i}\n    for images, labels in loader:\n{STEP}        total += loss.item()\n"
        f"    return total\n"
        for i in range(n)
    )


@shape(60)
def called_functions(n: int) -> str:
    """Training functions, each called with a network and a loader."""
    return rows(
        (
            f"def train{i}(model, loader, optimizer, device):\n    for images, labels in loader:\n{STEP}"
            f"train{i}(model, loader, optimizer, device)\n"
            for i in range(n)
        ),
        IMPORTS + SETUP,
    )


@shape(100)
def classes(n: int) -> str:
    """Networks of two layers."""
    return rows(
        f"class Net{i}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.first = nn.Conv2d(3, 8, 3)\n        self.second = nn.Linear(8, 8)\n"
        f"    def forward(self, x):\n        return self.second(F.relu(self.first(x)))\n"
        for i in range(n)
    )


@shape(100)
def instances(n: int) -> str:
    """Networks, each made and run."""
    return rows(
        (
            f"class Net{i}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.first = nn.Dropout(0.1)\n"
            f"    def forward(self, x):\n        return self.first(x)\n"
            f"net{i} = Net{i}().cuda()\nfor images, labels in loader:\n    output = net{i}(images.cuda())\n"
            for i in range(n)
        ),
        IMPORTS + SETUP,
    )


@shape(100)
def inheritance(n: int) -> str:
    """A chain of classes, each derived from the one before."""
    parts = ["class Net0(nn.Module):\n    def forward(self, x):\n        return x\n"]
    parts += [
        f"class Net{i}(Net{i - 1}):\n    def part{i}(self, x):\n        return self.part{i - 1}(x)\n"
        for i in range(1, n)
    ]
    return rows([*parts, f"net = Net{n - 1}()\nnet(1).item()\n"])


@shape(100)
def subclasses(n: int) -> str:
    """Many classes derived from one."""
    parts = ["class Base(nn.Module):\n    def encode(self, x):\n        return self.forward(x)\n"]
    parts += [
        f"class Net{i}(Base):\n    def forward(self, x):\n        return self.encode(x) + {i}\n" for i in range(n)
    ]
    return rows(parts)


@shape(200)
def methods(n: int) -> str:
    """One class whose methods call each other."""
    parts = ["class Net(nn.Module):\n    def part0(self, x):\n        return x\n"]
    parts += [f"    def part{i}(self, x):\n        return self.part{i - 1}(x.to(device))\n" for i in range(1, n)]
    return rows(parts)


@shape(200)
def same_method(n: int) -> str:
    """Many classes with a method of the same name, each called."""
    parts = [
        f"class Part{i}:\n    def run(self, x):\n        return x.item()\npart{i} = Part{i}()\n"
        f"part{i}.run(torch.ones(1))\n"
        for i in range(n)
    ]
    return rows(parts)


@shape(200)
def attributes(n: int) -> str:
    """A network with many layers, each used."""
    parts = ["class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"]
    parts += [f"        self.layer{i} = nn.Linear(8, 8)\n" for i in range(n)]
    parts += ["    def forward(self, x):\n"]
    parts += [f"        x = self.layer{i}(x)\n" for i in range(n)]
    return rows([*parts, "        return x\nnet = Net().cuda()\nnet(torch.ones(8))\n"])


@shape(200)
def stored_attribute(n: int) -> str:
    """One attribute of `self`, assigned and read many times."""
    parts = ["class Trainer:\n    def fit(self, x):\n"]
    parts += [f"        self.value = self.value + {i}\n" for i in range(n)]
    return rows(parts)


@shape(100)
def stored_in_methods(n: int) -> str:
    """One attribute of `self`, assigned and read in many methods."""
    parts = ["class Trainer:\n"]
    parts += [
        f"    def fit{i}(self):\n        self.model = self.model.cuda()\n        self.model(1)\n" for i in range(n)
    ]
    return rows(parts)


@shape(200)
def decorated(n: int) -> str:
    """Decorated functions."""
    return rows(f"@torch.no_grad()\ndef run{i}(x):\n    return model(x).item()\n" for i in range(n))


@shape(200)
def decorators(n: int) -> str:
    """One function with many decorators."""
    return rows([*(f"@wrap{i}\n@torch.compile\n" for i in range(n)), "def run(x):\n    return x.item()\n"])


@shape(200)
def lambdas(n: int) -> str:
    """Lambdas and comprehensions."""
    return rows(f"f{i} = lambda x: [y.item() for y in model(x.cuda())]\n" for i in range(n))


# -- one long scope


@shape(200)
def reassigned(n: int) -> str:
    """One name, assigned many times in a function."""
    return rows(["def run(x):\n", *(f"    x = torch.relu(x) + {i}\n" for i in range(n)), "    return x\n"])


@shape(200)
def reassigned_in_loop(n: int) -> str:
    """One name, assigned many times in a training loop."""
    parts = [*("        images = model(images)\n" for i in range(n)), STEP]
    return rows(["def run(x):\n    for images, labels in loader:\n", *parts], IMPORTS + SETUP)


@shape(200)
def reassigned_in_branches(n: int) -> str:
    """One name, assigned in many branches, none of which settles it."""
    return rows(
        ["def run(x):\n", *(f"    if x > {i}:\n        x = x.to('cuda')\n" for i in range(n)), "    return x.item()\n"]
    )


@shape(200)
def reassigned_global(n: int) -> str:
    """One name of the module, assigned many times and read in a function."""
    parts = [f"x = nn.Linear(8, {i})\nx(torch.ones(8))\n" for i in range(n)]
    return rows([*parts, "def run():\n    return x(1)\n"])


@shape(100)
def global_readers(n: int) -> str:
    """One name of the module, assigned many times and read in many functions."""
    return rows(f"net = nn.Linear(8, {i})\ndef run{i}():\n    return net(torch.ones(8)).item()\n" for i in range(n))


@shape(100)
def global_writers(n: int) -> str:
    """One name of the module, assigned in many functions."""
    parts = [f"def run{i}():\n    global net\n    net = nn.Linear(8, {i})\n    net(1)\n" for i in range(n)]
    return rows(["net = None\n", *parts])


@shape(200)
def augmented(n: int) -> str:
    """One sum of many parts."""
    parts = [f"        loss += criterion(model(images), labels) * {i}\n" for i in range(n)]
    return rows(["def run():\n    for images, labels in loader:\n        loss = 0\n", *parts, STEP], IMPORTS + SETUP)


@shape(300)
def names(n: int) -> str:
    """Many names in one function."""
    return rows(["def run(x):\n", *(f"    y{i} = torch.relu(x.to('cuda'))\n" for i in range(n)), "    return x\n"])


@shape(300)
def statements(n: int) -> str:
    """A training loop of many statements, some of which wait for the GPU."""
    parts = [f"        print({i}, loss.item())\n        history.append(loss)\n" for i in range(n)]
    return rows(["def run():\n    for images, labels in loader:\n", STEP, *parts], IMPORTS + SETUP)


@shape(150)
def module_statements(n: int) -> str:
    """A script of many statements."""
    parts = [f"x{i} = torch.zeros(3).to(device)\nprint(model(x{i}).item())\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


@shape(100)
def loops(n: int) -> str:
    """Many training loops in one function."""
    parts = [f"    for images, labels in loader:\n{STEP}" for i in range(n)]
    return rows(["def run(model, loader, optimizer):\n", *parts])


@shape(100)
def module_loops(n: int) -> str:
    """Many training loops in one script."""
    return rows((f"for images, labels in loader:\n{STEP}" for i in range(n)), IMPORTS + SETUP)


@shape(100)
def withs(n: int) -> str:
    """Many blocks without gradients, with autocast."""
    parts = [
        f"    with torch.no_grad(), autocast():\n        y{i} = model(x)\n    use(y{i}.item())\n" for i in range(n)
    ]
    return rows(["def run(x):\n    model.eval()\n", *parts], IMPORTS + SETUP)


@shape(100)
def handlers(n: int) -> str:
    """Many exception handlers."""
    parts = [f"    try:\n        x = model(x)\n    except ValueError as e{i}:\n        x = x.cpu()\n" for i in range(n)]
    return rows(["def run(x):\n", *parts])


@shape(200)
def modes(n: int) -> str:
    """Many switches between training and evaluation."""
    parts = ["    model.eval()\n    y = model(x)\n    model.train()\n" for i in range(n)]
    return rows(["def run(x):\n", *parts, "    return y\n"], IMPORTS + SETUP)


@shape(200)
def timed(n: int) -> str:
    """Many stretches of timed code."""
    parts = [
        f"    start = time.time()\n    y = model(x.cuda())\n    print(time.time() - start, {i})\n" for i in range(n)
    ]
    return rows(["def run(x):\n", *parts], IMPORTS + SETUP)


# -- chains


@shape(300)
def aliases(n: int) -> str:
    """A chain of aliases in a module."""
    parts = [f"a{i} = a{i - 1}\n" for i in range(1, n)]
    return rows(["a0 = models.resnet18().cuda()\n", *parts, f"a{n - 1}(torch.ones(3))\n"])


@shape(300)
def aliases_of_imports(n: int) -> str:
    """A chain of aliases of a class, each used."""
    parts = [f"a{i} = a{i - 1}\nloader{i} = a{i}(train_set)\n" for i in range(1, n)]
    return rows(["a0 = DataLoader\n", *parts])


@shape(300)
def aliases_backwards(n: int) -> str:
    """A chain of aliases of names bound later in the text, in one loop."""
    parts = [f"        a{i} = a{i + 1}\n" for i in range(n)]
    return rows([f"def run():\n    a{n} = model\n    while True:\n", *parts, "        a0(torch.ones(3))\n"])


@shape(300)
def swaps(n: int) -> str:
    """Two names that take each other's values, in a loop."""
    parts = ["        a = f(b)\n        b = f(a)\n" for i in range(n)]
    return rows(["def run(a, b):\n    while True:\n", *parts])


@shape(150)
def calls_chain(n: int) -> str:
    """A chain of functions, each calling the one before with its own parameter."""
    parts = ["def f0(model, x):\n    return model(x)\n"]
    parts += [f"def f{i}(model, x):\n    return f{i - 1}(model, x)\n" for i in range(1, n)]
    return rows([*parts, f"for images, labels in loader:\n    f{n - 1}(model, images).item()\n"], IMPORTS + SETUP)


@shape(150)
def calls_chain_down(n: int) -> str:
    """A chain of functions, each calling the next with its own parameter."""
    parts = [f"def f{i}(model, x):\n    return f{i + 1}(model, x)\n" for i in range(n)]
    parts += [f"def f{n}(model, x):\n    return model(x)\n"]
    return rows([*parts, "for images, labels in loader:\n    f0(model, images).item()\n"], IMPORTS + SETUP)


@shape(100)
def calls_fan(n: int) -> str:
    """A chain of functions, each calling the one before twice."""
    parts = ["def f0(model, x):\n    return model(x)\n"]
    parts += [f"def f{i}(model, x):\n    f{i - 1}(model, x)\n    return f{i - 1}(model, x)\n" for i in range(1, n)]
    return rows([*parts, f"for images, labels in loader:\n    f{n - 1}(model, images).item()\n"], IMPORTS + SETUP)


@shape(100)
def recursion(n: int) -> str:
    """Functions that all call each other in a ring."""
    parts = [f"def f{i}(model, x):\n    y = model(x)\n    return f{(i + 1) % n}(model, y)\n" for i in range(n)]
    return rows([*parts, "f0(model, 1).item()\n"], IMPORTS + SETUP)


@shape(100)
def sums(n: int) -> str:
    """Long sums and chains of methods, in many statements."""
    return rows(f"y{i} = {'x.to(device) + ' * 10}x{'.float()' * 10}\n" for i in range(n))


# -- many uses of one thing


@shape(300)
def callers(n: int) -> str:
    """One function, called from many places."""
    parts = [f"run(model, images, {i})\n" for i in range(n)]
    return rows(["def run(model, x, i):\n    y = model(x)\n    return y.item()\n", *parts], IMPORTS + SETUP)


@shape(200)
def calling_functions(n: int) -> str:
    """One function, called from many functions, with their own parameters."""
    parts = [f"def run{i}(model, x):\n    return run(model, x, {i})\n" for i in range(n)]
    return rows(["def run(model, x, i):\n    y = model(x)\n    return y.item()\n", *parts], IMPORTS + SETUP)


@shape(200)
def calling_methods(n: int) -> str:
    """One method, called from many methods."""
    parts = [f"    def run{i}(self, x):\n        return self.run(x.cuda())\n" for i in range(n)]
    head = "class Net(nn.Module):\n    def run(self, x):\n        y = self.model(x)\n        return y.item()\n"
    return rows([head, *parts])


@shape(200)
def returns(n: int) -> str:
    """One function with many returns, called many times."""
    parts = [f"    if x == {i}:\n        return torch.zeros({i})\n" for i in range(n)]
    return rows(["def make(x):\n", *parts, *(f"y{i} = make({i}).cuda()\n" for i in range(n))])


@shape(200)
def parameters(n: int) -> str:
    """One function with many parameters, called once."""
    names = [f"p{i}" for i in range(n)]
    parts = [f"    p{i}(torch.ones(1))\n" for i in range(n)]
    given = ", ".join("model" for name in names)
    return rows([f"def run({', '.join(names)}):\n", *parts, f"run({given})\n"], IMPORTS + SETUP)


@shape(200)
def keywords(n: int) -> str:
    """One function with many parameters with defaults, called with keywords."""
    names = [f"p{i}" for i in range(n)]
    parts = [f"    p{i}(torch.ones(1))\n" for i in range(n)]
    given = ", ".join(f"{name}=model" for name in names)
    return rows([f"def run({', '.join(f'{name}=None' for name in names)}):\n", *parts, f"run({given})\n"])


@shape(200)
def loaders(n: int) -> str:
    """Loaders, each iterated over."""
    parts = [
        f"loader{i} = DataLoader(train_set, batch_size={i + 1}, shuffle=True)\n"
        f"for images, labels in loader{i}:\n    model(images.cuda())\n"
        for i in range(n)
    ]
    return rows(parts, IMPORTS + SETUP)


@shape(200)
def loaders_of_one_name(n: int) -> str:
    """Loaders under one name."""
    parts = [
        f"loader = DataLoader(train_set, batch_size={i + 1}, shuffle=True)\n"
        f"for images, labels in loader:\n    model(images.cuda())\n"
        for i in range(n)
    ]
    return rows(parts, IMPORTS + SETUP)


@shape(200)
def loaders_in_functions(n: int) -> str:
    """Loaders, each made by a function and iterated over in another."""
    parts = [
        f"def make{i}():\n    return DataLoader(train_set, batch_size={i + 1})\n"
        f"def run{i}():\n    for epoch in range(10):\n        for images, labels in make{i}():\n"
        f"            model(images.cuda())\n"
        for i in range(n)
    ]
    return rows(parts, IMPORTS + SETUP)


@shape(200)
def loader_dict(n: int) -> str:
    """Loaders in a dictionary."""
    parts = [f"    '{i}': DataLoader(train_set, batch_size={i + 1}),\n" for i in range(n)]
    use = "for name in loaders:\n    for images, labels in loaders[name]:\n        model(images.cuda())\n"
    return rows(["loaders = {\n", *parts, "}\n", use], IMPORTS + SETUP)


@shape(200)
def loader_readers(n: int) -> str:
    """One loader, iterated over in many epochs of many functions."""
    parts = [
        f"def run{i}():\n    for epoch in range(10):\n        for images, labels in loader:\n"
        f"            model(images.cuda())\n"
        for i in range(n)
    ]
    return rows(parts, IMPORTS + SETUP)


@shape(100)
def sets(n: int) -> str:
    """Datasets, each in a loader."""
    parts = [
        f"class Set{i}(Dataset):\n    def __init__(self):\n        self.items = torch.zeros(8)\n"
        f"    def __getitem__(self, index):\n        return self.items[index].cuda()\n"
        f"loader{i} = DataLoader(Set{i}())\nfor batch in loader{i}:\n    model(batch)\n"
        for i in range(n)
    ]
    return rows(parts, IMPORTS + SETUP)


@shape(200)
def copies(n: int) -> str:
    """Copies to a device, of tensors made for it, in one function."""
    parts = [f"    y{i} = torch.zeros({i}).to(device, non_blocking=False)\n" for i in range(n)]
    return rows(["def run():\n", *parts], IMPORTS + SETUP)


@shape(200)
def compiles(n: int) -> str:
    """Compiled functions."""
    parts = [
        f"def f{i}(x):\n    print(x)\n    return x + x.item()\ng{i} = torch.compile(f{i})\ng{i}(1)\n" for i in range(n)
    ]
    return rows(parts, IMPORTS + SETUP)


@shape(200)
def compiled_chain(n: int) -> str:
    """Compiled functions that call each other."""
    parts = [f"@torch.compile\ndef f{i}(x):\n    print(x)\n    return f{i + 1}(x)\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


@shape(60)
def compiled_fan(n: int) -> str:
    """A chain of functions, each calling the one before twice, all compiled from the last one on."""
    parts = ["@torch.compile\ndef f0(x):\n    return x\n"]
    parts += [f"def f{i}(x):\n    f{i - 1}(x)\n    return f{i - 1}(x)\n" for i in range(1, n)]
    return rows([*parts, f"g = torch.compile(f{n - 1})\ng(1)\n"], IMPORTS + SETUP)


@shape(200)
def scripts(n: int) -> str:
    """Networks made, compiled and run under one name."""
    parts = ["net = torch.compile(models.resnet18().cuda())\nnet(images)\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


@shape(200)
def scalers(n: int) -> str:
    """Gradient scalers, autocasts and optimizers."""
    parts = [
        f"scaler{i} = GradScaler()\noptimizer{i} = torch.optim.Adam(model.parameters())\nwith autocast():\n"
        f"    loss{i} = criterion(model(images), labels)\nscaler{i}.scale(loss{i}).backward()\n"
        f"scaler{i}.step(optimizer{i})\noptimizer{i}.zero_grad()\n"
        for i in range(n)
    ]
    return rows(parts, IMPORTS + SETUP)


@shape(200)
def zeroed(n: int) -> str:
    """Gradients set to zero manually."""
    parts = ["for parameter in model.parameters():\n    parameter.grad.zero_()\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


@shape(200)
def options(n: int) -> str:
    """Options of a command line, each read."""
    parts = [f"parser.add_argument('--option{i}', default={i})\n" for i in range(n)]
    uses = [f"DataLoader(train_set, num_workers=args.option{i})\n" for i in range(n)]
    return rows(["parser = argparse.ArgumentParser()\n", *parts, "args = parser.parse_args()\n", *uses])


@shape(300)
def imports(n: int) -> str:
    """Imports."""
    return rows([*(f"from package{i} import name{i}\n" for i in range(n)), *(f"name{i}(1)\n" for i in range(n))])


@shape(100)
def conditional_imports(n: int) -> str:
    """One name, imported in many ways."""
    parts = [
        f"try:\n    from torch{i} import amp\nexcept ImportError:\n    amp = None\namp.autocast()\n" for i in range(n)
    ]
    return rows(parts)


@shape(200)
def version_checks(n: int) -> str:
    """Branches for versions of torch."""
    parts = [f"if torch.__version__ >= '{i}':\n    f{i} = torch.compile(model)\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


# -- literals and text


@shape(500)
def dictionary(n: int) -> str:
    """A dictionary of many entries, read many times."""
    entries = [f"    'key{i}': {i},\n" for i in range(n)]
    uses = [f"print(table['key{i}'])\n" for i in range(n)]
    return rows(["table = {\n", *entries, "}\n", *uses, "torch.save(table['key1'], 'x')\n"])


@shape(300)
def layer_list(n: int) -> str:
    """A network of many layers in one list."""
    layers = ["    nn.Conv2d(8, 8, 3),\n    nn.ReLU(),\n" for i in range(n)]
    return rows(["net = nn.Sequential(\n", *layers, ").cuda()\nnet(torch.ones(8))\n"])


@shape(200)
def unpacking(n: int) -> str:
    """Many names, bound by unpacking one call."""
    bound = ", ".join(f"y{i}" for i in range(n))
    uses = [f"y{i}.cuda()\n" for i in range(n)]
    return rows([f"{bound} = torch.ones(8).split(1)\n", *uses])


@shape(200)
def unpacked_tuples(n: int) -> str:
    """A tuple with many elements, unpacked and passed on."""
    bound = ", ".join(f"y{i}" for i in range(n))
    made = ", ".join("torch.ones(8)" for i in range(n))
    uses = [f"y{i}.cuda()\n" for i in range(n)]
    return rows([f"def make():\n    return {made}\n{bound} = make()\n", *uses])


@shape(500)
def strings(n: int) -> str:
    """Strings, some of which name devices."""
    return rows([*(f'use(\'text {i}\', \'cuda:{i}\', """a # b\n""")\n' for i in range(n)), "torch.save(1, 'x')\n"])


@shape(500)
def exported(n: int) -> str:
    """Functions listed in `__all__`, some of them compiled."""
    listed = [f"    'f{i}',\n" for i in range(n)]
    made = [f"f{i} = torch.compile(model)\n" for i in range(n)]
    return rows(["__all__ = [\n", *listed, "]\n", *made])


@shape(500)
def comments(n: int) -> str:
    """Comments between and behind statements."""
    return rows([*(f"# comment {i}\nx = {i}  # another\n" for i in range(n)), "torch.save(x, 'x')\n"])


@shape(300)
def suppressed(n: int) -> str:
    """Suppressions, each of a finding."""
    parts = [f"loader{i} = DataLoader(train_set, {i})  # noqa: TL101\nfor x in loader{i}: pass\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


@shape(300)
def stale_suppressions(n: int) -> str:
    """Suppressions that nothing needs, next to findings."""
    parts = [f"x{i} = torch.zeros({i}).cuda()  # noqa: TL101, TL811\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


@shape(300)
def file_suppressions(n: int) -> str:
    """Suppressions for the whole file."""
    parts = [f"# torchlint: noqa: TL101\nx{i} = torch.zeros({i}).cuda()\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


@shape(500)
def continued(n: int) -> str:
    """One statement over many rows that end with a backslash."""
    return rows(["x = 1 \\\n", *("\\\n" for i in range(n)), "\ntorch.zeros(1).cuda()  # noqa: TL206\n"])


@shape(500)
def text_rows(n: int) -> str:
    """One statement with a string of many rows, and a finding in each of many statements."""
    return rows([f'torch.zeros({i}).cuda().use("""\n\n\n\n""")  # noqa: TL206\n' for i in range(n)])


@shape(100)
def elif_chains(n: int) -> str:
    """Chains of ten branches."""
    parts = [
        f"def run{i}(x):\n    if x == 0:\n        y = model(x)\n"
        + "".join(f"    elif x == {j}:\n        y = x.to('cuda')\n" for j in range(1, 10))
        + "    return y\n"
        for i in range(n)
    ]
    return rows(parts)


@shape(3)
def nested_blocks(n: int) -> str:
    """Functions of blocks in blocks, nearly as deep as Python accepts: 99."""
    parts = [f"{' ' * i}if x > {i}:\n{' ' * (i + 1)}x = model(x)\n" for i in range(1, 90)]
    return rows([f"def run{i}(x):\n{''.join(parts)}" for i in range(n)], IMPORTS + SETUP)


@shape(5)
def nested_loops(n: int) -> str:
    """Functions of loops, blocks, functions and classes in each other."""
    kinds = ["for images in loader:", "if x:", "with torch.no_grad():", "if x is None:", "def f(x):", "class C:"]
    parts = [f"{' ' * i}{kinds[i % len(kinds)]}\n{' ' * (i + 1)}x = model(x)\n" for i in range(1, 30)]
    return rows([f"def run{i}(x):\n{''.join(parts)}" for i in range(n)], IMPORTS + SETUP)


@shape(3)
def nested_functions(n: int) -> str:
    """Functions in functions."""
    parts = [f"{' ' * i}def run{i}(x):\n{' ' * (i + 1)}x = model(x)\n" for i in range(1, 60)]
    return rows([f"def run{i}(x):\n{''.join(parts)}" for i in range(n)], IMPORTS + SETUP)


@shape(5)
def nested_calls(n: int) -> str:
    """Calls in calls, nearly as deep as Python accepts: 200."""
    return rows((f"y{i} = {'f(' * 80}{'model(' * 80}x{')' * 160}\n" for i in range(n)), IMPORTS + SETUP)


@shape(5)
def long_chains(n: int) -> str:
    """Methods of what a method returns."""
    return rows((f"y{i} = model(x){'.to(device)' * 150}\n" for i in range(n)), IMPORTS + SETUP)


@shape(5)
def long_sums(n: int) -> str:
    """Long sums."""
    return rows((f"y{i} = {' + '.join(['model(x).item()'] * 150)}\n" for i in range(n)), IMPORTS + SETUP)


@shape(3)
def long_elif_chains(n: int) -> str:
    """Chains of a hundred branches."""
    chain = "".join(f"    elif x == {j}:\n        y = model(x.to('cuda'))\n" for j in range(100))
    parts = [f"def run{i}(x):\n    if x is None:\n        y = 0\n{chain}    return y\n" for i in range(n)]
    return rows(parts, IMPORTS + SETUP)


def user_time() -> float:
    """User CPU time of this process, in seconds."""
    return os.times().user


def measure(text: str, settings: Settings) -> tuple[float, float, int]:
    """User CPU time of parsing ``text`` and of the rest of a check, and the number of findings."""
    parse_pieces("pass\n")  # what is known of the text before is forgotten
    start = user_time()
    with garbage_collection_paused():
        parse_pieces(text)
    parsed = user_time()
    found = check(Source.from_text(text, "shape.py"), settings)  # takes the trees that were just made
    return parsed - start, user_time() - parsed, len(found)


def exponent(times: list[float]) -> float:
    """How the last time grows with the last doubling; NaN if they are too short to tell."""
    if len(times) < 2 or times[-1] < SHORTEST:
        return math.nan
    return math.log2(times[-1] / max(times[-2], 0.01))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", nargs="*", help=f"default: all of {', '.join(SHAPES)}")
    parser.add_argument("--sizes", type=int, default=4, help="number of sizes, each twice the one before (default 4)")
    parser.add_argument("--scale", type=float, default=1, help="factor of the smallest size (default 1)")
    parser.add_argument("--limit", type=float, default=60, help="no larger size after so many seconds (default 60)")
    parser.add_argument("--bound", type=float, default=1.2, help="the largest exponent that is accepted (default 1.2)")
    options = parser.parse_args()
    if unknown := [name for name in options.shape if name not in SHAPES]:
        parser.error(f"unknown shape: {', '.join(unknown)}")
    settings = Settings(codes=frozenset(rule.code for rule in (*load_rules(), *ENGINE_RULES)))
    measure("import torch\ntorch.compile(f)\n", settings)  # imports the rules
    above = []
    for name in options.shape or SHAPES:
        smallest, make = SHAPES[name]
        parsing: list[float] = []
        checking: list[float] = []
        lines = found = 0
        for doubling in range(options.sizes):
            text = make(max(1, round(smallest * options.scale)) * 2**doubling)
            lines = text.count("\n")
            parsed, checked, found = measure(text, settings)
            parsing.append(parsed)
            checking.append(checked)
            if parsed + checked > options.limit:
                break
        grown = exponent(checking)
        if grown > options.bound:
            above.append(name)
        print(
            f"{name:24} {lines:6} lines {found:6} findings"
            f"  parse {' '.join(f'{one:6.2f}' for one in parsing)}  exponent {exponent(parsing):5.2f}"
            f"  rest {' '.join(f'{one:6.2f}' for one in checking)}  exponent {grown:5.2f}",
            flush=True,
        )
    if above:
        print(f"above {options.bound}: {', '.join(above)}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
