"""Fixes in code that is formatted as nobody expects: each edit lands where it belongs, and nothing else is lost."""

from __future__ import annotations

import pytest

import torchlint
from torchlint import edits
from torchlint.engine.fixer import fix
from torchlint.model.module import Module
from torchlint.source.ranges import apply
from torchlint.source.source import Source

LOADER = "import torch\nfrom torch.utils.data import DataLoader\n\noptions = dict(batch_size=4, num_workers=2)\n"
MOVES = "\nfor images in loader:\n    images.cuda()\n"
FORWARD = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
NET = "import torch\nnet = torch.nn.Linear(9, 9).cuda().eval()\n"


def fixed(text: str, *codes: str) -> str:
    """The text after all fixes of some rules."""
    settings = torchlint.load_settings(overrides={"select": list(codes), "unsafe-fixes": True})
    result = fix(Source.from_text(text, "odd.py"), settings)
    assert result.errors == ()
    return result.source.text


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        pytest.param(
            "TL407",
            "import torch\ntry:\n    pass\nexcept OSError :\n    opt = torch.optim.SGD(w)\n    opt.zero_grad(False)\n",
            "import torch\ntry:\n    pass\nexcept OSError :\n    opt = torch.optim.SGD(w)\n    opt.zero_grad()\n",
            id="behind a blank before a colon, which libcst drops",
        ),
        pytest.param(
            "TL102",
            f"{LOADER}loader = DataLoader(data, **\n    options)\nprint(**options){MOVES}",
            f"{LOADER}loader = DataLoader(data, pin_memory=torch.cuda.is_available(), **\n    options)\n"
            f"print(**options){MOVES}",
            id="stars on another row than what they unpack",
        ),
        pytest.param(
            "TL102",
            f"{LOADER}loader = DataLoader(data, batch_size=4  # small, for now\n,){MOVES}",
            f"{LOADER}loader = DataLoader(data, batch_size=4  # small, for now\n, pin_memory=torch.cuda.is_available())"
            f"{MOVES}",
            id="a comma in a comment before the comma",
        ),
        pytest.param(
            "TL407",
            "import torch\nopt = torch.optim.SGD(w)\n(opt.zero_grad  # it fills) and (waits\n )(set_to_none=False)\n",
            "import torch\nopt = torch.optim.SGD(w)\n(opt.zero_grad  # it fills) and (waits\n )()\n",
            id="parentheses in a comment before the parentheses",
        ),
        pytest.param(
            "TL509",
            "import torch as th\nnet = th.nn.Sequential(*[th.compile(th.nn.Linear(8, 8)) for _ in range(9)])\n",
            "import torch as th\nnet = th.compile(th.nn.Sequential(*[th.nn.Linear(8, 8) for _ in range(9)]))\n",
            id="torch under another name",
        ),
        pytest.param(
            "TL501",
            "import torch\nnet = torch.compile(build()\n    .cuda())\nnet = torch.compile(net)\n",
            "import torch\nnet = (build()\n    .cuda())\nnet = torch.compile(net)\n",
            id="rows that only the removed parentheses join",
        ),
        pytest.param(
            "TL403",
            f"{NET}with(torch).no_grad():\n    print(net(x).argmax())\n",
            f"{NET}with torch.inference_mode():\n    print(net(x).argmax())\n",
            id="a keyword without a blank behind it",
        ),
        pytest.param(
            "TL407",
            "import torch\nfor p in net.parameters():\n    p.grad.zero_(  # not None\n    )\n",
            "import torch\nfor p in net.parameters():\n    p.grad.zero_(  # not None\n    )\n",
            id="a comment that would be dropped: no fix",
        ),
        pytest.param(
            "TL206",
            f"{FORWARD}        return (torch.zeros(3).to)(x.device)\n",
            f"{FORWARD}        return (torch.zeros(3).to)(x.device)\n",
            id="parentheses around a method: no fix",
        ),
    ],
)
def test_fixes(code: str, before: str, after: str) -> None:
    assert fixed(before, code) == after


def test_two_fixes_do_not_meet_between_empty_parentheses() -> None:
    text = (
        "import torch\nscaler = torch.cuda.amp.GradScaler(  # float16\n)\n"
        "with torch.autocast('cuda', dtype=torch.bfloat16):\n    loss = net(x)\nscaler.scale(loss).backward()\n"
    )
    assert 'torch.amp.GradScaler("cuda", enabled=False  # float16\n)' in fixed(text, "TL303", "TL304")


def test_a_row_goes_behind_all_that_shares_the_row_of_a_statement() -> None:
    text = "a = 1; b = f(\n    2)\nc = 3\n"
    module = Module.parse(text)
    edited = edits.insert_after(module, module.tree.statement_of(module.tree.names["a"][0]), "d = 4")
    assert edited is not None
    assert apply(text, edited) == "a = 1; b = f(\n    2)\nd = 4\nc = 3\n"


def test_a_block_with_tabs_in_a_file_with_blanks() -> None:
    text = "def f():\n    a()\n    b()\nif c:\n\td(\n 1)\n\tif e:\n\t\tg()\n"
    module = Module.parse(text)
    block = [module.tree.statement_of(module.tree.names["d"][0]), module.tree.parent(module.tree.names["e"][0])]
    edited = edits.wrap_in_with(module, [one for one in block if one is not None], "h")
    assert edited is not None
    wrapped = "\twith h:\n\t\td(\n\t 1)\n\t\tif e:\n\t\t\tg()\n"
    assert apply(text, edited) == text[: text.index("\td")] + wrapped


def test_an_import_in_the_same_block_serves_what_is_behind_it() -> None:
    module = Module.parse("if a:\n    import os\n    b = f()\n")
    assert edits.name_module(module, "os", module.tree.calls[0]) == ("os", ())
