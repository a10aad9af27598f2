"""Shapes of chains."""

from __future__ import annotations

from .shape import IMPORTS, SETUP, rows, shape


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
