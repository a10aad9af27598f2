"""Shapes of many uses of one thing."""

from __future__ import annotations

from .shape import IMPORTS, SETUP, rows, shape


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


@shape(100)
def open_bindings(n: int) -> str:
    """A tensor that one function computes again under many conditions, and returns to a move."""
    parts = [f"    if x > {i}:\n        t = t + torch.arange({i} + 1)\n" for i in range(n)]
    rest = ["    return t\n", "def use(x):\n    return made(x.size(0)).to(x.device)\n"]
    return rows(["def made(x):\n    t = torch.zeros(x)\n", *parts, *rest])


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
