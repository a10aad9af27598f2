"""Networks and steps in files that lack a word which the rest of their program contains; near-misses."""

from __future__ import annotations

from pathlib import Path

import pytest
from screened_program import LOOP, Program, check, main

NETWORK = """\
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.steps = 0

    def forward(self, x):
        x = self.layer(x)
        {rows}
        return x
"""
COMPILING = "model = torch.compile(Network().cuda())"


def compiled(compiling: str = COMPILING) -> str:
    """A script that trains a network, compiled or not."""
    return f"""\
import torch
from network import Network


def main():
    {compiling}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        model(torch.randn(8, 8, device="cuda")).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


BRANCH = NETWORK.replace("{rows}", "if x.mean().item() > 0:\n            x = -x")
LAYERS = """\
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(1024, 8) for _ in range(12)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
PROGRAMS = {
    "TL302": Program(
        "TL302",
        "main",
        [9],
        "import torch\nfrom network import Network\n\n\n@torch.no_grad()\ndef predict(loader):\n"
        '    model = Network().to("cuda")\n    model.eval()\n    return [model(x.to("cuda")).cpu() for x in loader]\n\n'
        '\nif __name__ == "__main__":\n    predict(torch.load("batches.pt"))\n',
        "nn.TransformerEncoderLayer(1024, 8)",
        "nn.Conv2d(3, 3, 3)",
        {"network": LAYERS},
        "network",
    ),
    "TL308": Program(
        "TL308",
        "decoding",
        [8],
        "import torch\n\n\n@torch.no_grad()\ndef decode(decoder, x):\n    while x.size(1) < 64:\n"
        '        with torch.autocast("cuda", dtype=torch.bfloat16):\n'
        "            x = torch.cat([x, decoder(x)[:, -1:].argmax(-1)], dim=1)\n    return x\n",
        "nn.TransformerEncoderLayer(1024, 8)",
        "nn.Conv2d(3, 3, 3)",
        {
            "network": LAYERS,
            "main": "import torch\nfrom decoding import decode\nfrom network import Network\n\n\ndef main():\n"
            '    decoder = Network().to("cuda")\n    decoder.load_state_dict(torch.load("decoder.pt"))\n'
            '    decoder.eval()\n    print(decode(decoder, torch.zeros(1, 1, device="cuda")))\n\n\n'
            'if __name__ == "__main__":\n    main()\n',
        },
        "network",
    ),
    "TL401": Program(
        "TL401",
        "validation",
        [4],
        "def evaluate(model, loader):\n    hits = 0\n    for x, y in loader:\n"
        "        hits += (model(x.cuda()).argmax(1) == y.cuda()).sum()\n    return hits\n",
        "with torch.no_grad():",
        "model.eval()\n        with torch.no_grad():",
        {
            "main": main(
                f"for epoch in range(9):\n    model.train()\n    {LOOP.rstrip()}\n".replace(
                    "\n    x, y", "\n        x, y"
                )
                .replace("\n    outputs", "\n        outputs")
                .replace("\n    loss", "\n        loss")
                .replace("\n    optimizer", "\n        optimizer")
                + "    with torch.no_grad():\n        print(evaluate(model, loader))",
                "from validation import evaluate",
            )
        },
    ),
    "TL504, a branch": Program(
        "TL504", "network", [12], BRANCH, COMPILING, "model = Network().cuda()", {"main": compiled()}
    ),
    "TL504, a method": Program(
        "TL504",
        "network",
        [12],
        BRANCH,
        "model.compile()",
        "model.train()",
        {"main": compiled("model = Network().cuda()\n    model.compile()")},
    ),
    "TL504, a function": Program(
        "TL504",
        "operations",
        [2],
        "def act(x):\n    print(x.mean())\n    return x.relu()\n",
        COMPILING,
        "model = Network().cuda()",
        {
            "network": NETWORK.replace("{rows}", "x = act(x)").replace("from", "from operations import act\nfrom", 1),
            "main": compiled(),
        },
    ),
    "TL505": Program(
        "TL505",
        "network",
        [12],
        NETWORK.replace("{rows}", "self.steps += 1"),
        COMPILING,
        "model = Network().cuda()",
        {"main": compiled()},
    ),
    "TL811": Program(
        "TL811",
        "main",
        [13],
        main(f"model = DP(model)\n{LOOP}", "from parallel import DP"),
        "DP(nn.DataParallel)",
        "DP(nn.Module)",
        {
            "parallel": "from torch import nn\n\n\nclass DP(nn.DataParallel):\n"
            "    def count(self):\n        return len(self.device_ids)\n"
        },
        "parallel",
    ),
    "TL903": Program(
        "TL903",
        "timing",
        [8],
        "import time\n\n\ndef measure(model, images):\n    images = images.cuda()\n    start = time.time()\n"
        "    model(images)\n    print(time.time() - start)\n",
        "    model(images)\n",
        "    model(images).item()\n",
        {"main": main("for x, y in loader:\n    measure(model.eval(), x)", "from timing import measure")},
        "timing",
    ),
    "TL407": Program(
        "TL407",
        "steps",
        [2],
        "def clear(optimizer):\n    optimizer.zero_grad(set_to_none=False)\n",
        "set_to_none=False",
        "set_to_none=chosen",
        {"main": main(LOOP.replace("optimizer.zero_grad()", "clear(optimizer)"), "from steps import clear")},
        "steps",
    ),
    "TL412": Program(
        "TL412",
        "engine",
        [4],
        "def train(model, loader, optimizer, loss_of):\n    for x, y in loader:\n"
        "        loss_of(model(x.cuda()), y.cuda()).backward()\n        optimizer.step()\n",
        "        optimizer.step()\n",
        "        optimizer.step()\n        optimizer.zero_grad()\n",
        {"main": main("train(model, loader, optimizer, nn.functional.cross_entropy)", "from engine import train")},
        "engine",
    ),
    "TL506": Program(
        "TL506",
        "speed",
        [2],
        'def fast(network):\n    network.compile(backend="eager")\n    return network\n',
        '"eager"',
        '"inductor"',
        {"main": main(f"model = fast(model)\n{LOOP}", "from speed import fast")},
        "speed",
    ),
    "TL603": Program(
        "TL603",
        "masks",
        [2],
        "def fill(mask, lengths):\n    for i, length in enumerate(lengths):\n"
        "        mask[i, :length] = True\n    return mask\n",
        "torch.zeros(",
        "numpy.zeros(",
        {
            "main": main(
                "for x, y in loader:\n    mask = fill(torch.zeros(64, 9), y)\n"
                "    print(model(x.cuda() * mask.cuda()))\n",
                "import numpy\nfrom masks import fill",
            )
        },
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_files_may_contain_the_evidence(tmp_path: Path, name: str) -> None:
    check(PROGRAMS[name], tmp_path)
