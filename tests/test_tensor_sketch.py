"""Which expressions may be tensors, as far as the syntax tree of a file shows."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from torchlint.rule.sketch import Sketch
from torchlint.rule.tensor_sketch import may_be_tensor


def may_be(text: str, *, alone: bool = True) -> bool:
    """Whether the argument of the last statement, a call, may be a tensor."""
    text = dedent(text)
    sketch = Sketch(text, ast.parse(text), alone=alone)
    statement = sketch.statements[-1]
    (call, *_) = sketch.calls(statement)
    return may_be_tensor(sketch, call.args[0], statement)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nsum(torch.zeros(3))",
        "import torch\nx = torch.zeros(3)\ny = x * 2\nsum(y)",
        "from torch import *\nsum(zeros(3))",
        "import torch\nx, y = torch.zeros(3), 1\nsum(x)",
        "import torch\nfor x in torch.zeros(3):\n    sum(x)",
        "import torch\nx = [torch.zeros(3)]\nsum(x[0])",
        "import torch\ndef make():\n    return torch.zeros(3)\nsum(make())",
        "import torch\ndef use(x):\n    sum(x)\nuse(torch.zeros(3))\ndef use_other(x: torch.Tensor):\n    sum(x)",
        "def build(model):\n    x = model(1)\n    sum(x)",
        "class A:\n    def run(self):\n        sum(self.net(1))\n        self.net = 1\n        sum(self.net(2))",
        "import torch\nclass A:\n    x = torch.zeros(3)\n    def run(self):\n        sum(self.x)",
        "import torch\nclass A:\n    def run(self):\n        self.register_buffer('x', 1)\n        sum(self.x)",
        "import torch\nx = 1 if a else torch.zeros(3)\nsum(x)",
        "import torch\nx = None\nx = x or torch.zeros(3)\nsum(x)",
        "import torch\nglobal_ = 1\ndef set_it():\n    global g\n    g = torch.zeros(3)\ndef use():\n    sum(g)",
    ],
)
def test_what_a_tensor_leads_to_may_be_one(text: str) -> None:
    assert may_be(text)
    assert may_be(text, alone=False)


@pytest.mark.parametrize(
    "text",
    [
        "sum([1, 2])",
        "x = [len(y) for y in z]\nsum(x)",
        "import numpy as np\nx = np.zeros(3)\nsum(x)",
        "def use(x):\n    sum(x)",
        "def use(x):\n    y = x.split(',')\n    sum(y)\nuse('a')\ndef use_other(x):\n    sum(x)",
        "import torch\nx = torch.zeros(3)\ndef use():\n    x = [1]\n    sum(x)",
        "class A:\n    sizes = [1]\n    def run(self):\n        sum(self.sizes)",
        "import torch\nx = torch.zeros(3)\nsum(x.shape)",
        "from .other import make\nsum(make())",
        "names = {'a': 1}\nsorted(names.keys())",
    ],
)
def test_what_is_known_to_be_something_else_is_no_tensor(text: str) -> None:
    assert not may_be(text)


@pytest.mark.parametrize(
    "text", ["def use(x):\n    sum(x)", "from .other import make\nsum(make())", "sum(config.sizes)"]
)
def test_other_files_may_make_a_tensor(text: str) -> None:
    assert not may_be(text)
    assert may_be(text, alone=False)
