"""Shapes of literals, of text, and of code within code."""

from __future__ import annotations

from .shape import IMPORTS, SETUP, rows, shape


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
