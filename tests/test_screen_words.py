"""What screens ask of a text without parsing it: loops, code that runs once per batch, possible tensors."""

from __future__ import annotations

import re

import pytest

from torchlint.rule.growth_words import growing_loops, grows_by_cat
from torchlint.rule.loop_words import is_repeated, loop_around
from torchlint.rule.step_words import PER_BATCH
from torchlint.rule.tensor_words import may_be_tensor

# -- loops


@pytest.mark.parametrize(
    "text",
    [
        "for x in y:\n    use(x)\n",
        "while True:\n    if x:\n        use(x)\n",
        "async def f():\n    async for x in y:\n        use(x)\n",
        "for x in range(\n    3,\n):\n    use(x)\n",
        "for x in y:\n    z = [\n        1,\n    ]\n    use(x)\n",
    ],
)
def test_a_place_in_a_loop(text: str) -> None:
    assert loop_around(text, text.index("use")) is not None


@pytest.mark.parametrize(
    "text",
    [
        "use(x)\n",
        "for x in y:\n    pass\nuse(x)\n",
        "for x in y:\n    def f():\n        use(x)\n",
        "def f():\n    if x:\n        use(x)\n",
    ],
)
def test_a_place_outside_of_a_loop(text: str) -> None:
    assert loop_around(text, text.index("use")) is None


def test_the_body_of_a_function_that_a_loop_calls_is_repeated() -> None:
    text = "def f():\n    use(x)\n\nfor x in y:\n    f()\n"
    assert is_repeated(text, text.index("use"))
    assert not is_repeated(text.replace("for x in y", "if y"), text.index("use"))


def test_the_methods_of_an_object_that_is_called_may_be_repeated() -> None:
    text = "class A:\n    def __call__(self):\n        use(x)\n"
    assert is_repeated(text, text.index("use"))


# -- code that runs once per batch


def _runs_per_batch(text: str) -> bool:
    return any(word in text if isinstance(word, str) else word.search(text) for word in PER_BATCH)


@pytest.mark.parametrize(
    "text",
    [
        "for batch in train_loader:",
        "loss.backward()",
        "optimizer.step()",
        "def forward(self, x):",
        "def training_step(self, batch):",
        "dataset = DataLoader(data)",
    ],
)
def test_words_of_steps(text: str) -> None:
    assert _runs_per_batch(text)


@pytest.mark.parametrize(
    "text", ["sample = self.scheduler.step(noise, t)", "class Pipeline(LoraLoaderMixin):", "from .loaders import A"]
)
def test_words_that_are_no_steps(text: str) -> None:
    assert not _runs_per_batch(text)


# -- tensors


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("mask = x > 0\nany(mask)", "mask"),
        ("x = torch.rand(3)", "x"),
        ("def f(x): return sum(x)", "x"),
        ("def f(x: torch.Tensor = None): return sum(x)", "x"),
        ("def f(other: int, x: Tensor) -> int: return sum(x)", "x"),
        ("def f(x: Optional[torch.Tensor]) -> int: return sum(x)", "x"),
        ("for row in table:\n    sum(row)", "row"),
        ("for i, row in enumerate(table):\n    sum(row)", "row"),
        ("sums = [sum(row) for row in table]", "row"),
        ("a, b = f()\nsum(a)", "a"),
        ("self.counts = torch.zeros(3)\nsum(self.counts)", "self.counts"),
        ("y = torch.rand(3)\nx = y\nsum(x)", "x"),
        ("x = torch.rand(3)", "x[0]"),
        ("", "f(x)"),
        ("", "x + 1"),
    ],
)
def test_what_may_be_a_tensor(text: str, expression: str) -> None:
    assert may_be_tensor(text, expression)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("sizes = [1, 2]\nsum(sizes)", "sizes"),
        ("def f(sizes: list[int] = (1, 2)): return sum(sizes)", "sizes"),
        ("def f(sizes: list[int], other: torch.Tensor): return sum(sizes)", "sizes"),
        ("total = len(x)", "total"),
        ("x = np.zeros(3)", "x"),
        ("self.depths = depths\ndepths = [2, 2]", "self.depths"),
        ("other_x = torch.rand(3)", "x"),
        ("", "[1, 2]"),
        ("", "3"),
    ],
)
def test_what_is_no_tensor(text: str, expression: str) -> None:
    assert not may_be_tensor(text, expression)


# -- growth by `cat`

_GROWS = "for x in y:\n    out = torch.cat([out, x])\n"


@pytest.mark.parametrize(
    "text",
    [
        _GROWS,
        "for x in y:\n    if out is None:\n        out = x\n    else:\n        out = torch.cat([out, x])\n",
        "for x in y:\n    out = x if out is None else torch.cat((out, x), dim=0)\n",
        "for x in y:\n    self.out = torch.cat([self.out, x])\n",
        _GROWS + '    print("out")\n',
        _GROWS + "print(out)\n",
    ],
)
def test_a_loop_that_appends(text: str) -> None:
    assert grows_by_cat(text)


@pytest.mark.parametrize(
    "text",
    [
        _GROWS + "    use(out)\n",
        "out = torch.cat([out, x])\n",
        "for x in y:\n    out = f(x)\n    out = torch.cat([out, x])\n",
        "for x in y:\n    f(out=torch.cat([out, x]))\n",
        "for x in y:\n    other = torch.cat([out, x])\n",
    ],
)
def test_a_loop_that_does_not_append_or_reads_what_it_appends(text: str) -> None:
    assert not grows_by_cat(text)


def test_loops_that_append_may_read() -> None:
    text = _GROWS + "    use(out)\n"
    assert list(growing_loops(text + "done()\n")) == [text.rstrip("\n")]
    assert not list(growing_loops(re.sub("out, x", "x, out", text)))
