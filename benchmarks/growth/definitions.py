"""Shapes of many definitions."""

from __future__ import annotations

from .shape import IMPORTS, SETUP, STEP, rows, shape


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
