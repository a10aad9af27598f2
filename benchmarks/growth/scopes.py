"""Shapes of one long scope."""

from __future__ import annotations

from .shape import IMPORTS, SETUP, STEP, rows, shape


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
