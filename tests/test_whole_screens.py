"""Loaders and copies in files that lack a word which the rest of their program contains; near-misses."""

from __future__ import annotations

from pathlib import Path

import pytest
from screened_program import LOOP, Program, check, main

STEPS = """\
from torch import nn


def train_step(model, x, y, optimizer):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
DATASET = """\
from torch.utils.data import Dataset


class Base(Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 10
"""
LOADER = "collate_fn=collate, num_workers=4"
PROGRAMS = {
    "TL201, a metric": Program(
        "TL201",
        "metrics",
        [2],
        "def accuracy(outputs, labels):\n    return (outputs.argmax(1) == labels).float().mean().item()\n",
        "    total += accuracy(outputs, y)",
        "total += accuracy(outputs, y)",
        {"main": main(f"total = 0.0\n{LOOP}    total += accuracy(outputs, y)", "from metrics import accuracy")},
    ),
    "TL201, a loop": Program(
        "TL201",
        "engine",
        [5],
        "def train(model, loader, optimizer, step):\n"
        "    total = 0.0\n"
        "    for x, y in loader:\n"
        "        loss = step(model, x.cuda(), y.cuda(), optimizer)\n"
        "        total += loss.item()\n"
        "    return total\n",
        "    return loss\n",
        "    return loss.detach().cpu()\n",
        {
            "steps": STEPS,
            "main": main(
                "train(model, loader, optimizer, train_step)", "from engine import train\nfrom steps import train_step"
            ),
        },
        "steps",
    ),
    "TL202": Program(
        "TL202",
        "engine",
        [4],
        "def train(model, loader, optimizer, step):\n"
        "    for x, y in loader:\n"
        "        loss = step(model, x.cuda(), y.cuda(), optimizer)\n"
        "        print(loss)\n",
        "    return loss\n",
        "    return 1\n",
        {
            "steps": STEPS,
            "main": main(
                "train(model, loader, optimizer, train_step)", "from engine import train\nfrom steps import train_step"
            ),
        },
        "steps",
    ),
    "TL203": Program(
        "TL203",
        "engine",
        [5],
        "import torch\n"
        "def train(model, loader, optimizer, step):\n"
        "    for x, y in loader:\n"
        "        loss = step(model, x.cuda(), y.cuda(), optimizer)\n"
        "        if loss > 100:\n"
        "            print('diverged')\n",
        "    return loss\n",
        "    return 1\n",
        {
            "steps": STEPS,
            "main": main(
                "train(model, loader, optimizer, train_step)", "from engine import train\nfrom steps import train_step"
            ),
        },
        "steps",
    ),
    "TL209": Program(
        "TL209",
        "metrics",
        [4],
        "def hits(outputs, count):\n    right = 0\n    for i in range(count):\n"
        "        right += outputs[i].item()\n    return right\n",
        "hits(model(x.cuda()).argmax(1), len(x))",
        "hits([1, 2], 2)",
        {
            "main": main(
                "with torch.no_grad():\n    for x, y in loader:\n"
                "        print(hits(model(x.cuda()).argmax(1), len(x)))",
                "from metrics import hits",
            )
        },
    ),
    "TL208": Program(
        "TL208",
        "network",
        [11],
        "from constants import MEAN\n"
        "from torch import nn\n\n\n"
        "class Normalized(nn.Module):\n"
        "    def __init__(self, net):\n"
        "        super().__init__()\n"
        "        self.net = net\n\n"
        "    def forward(self, x):\n"
        "        return self.net(x - MEAN.to(x.device))\n",
        "0.406])",
        '0.406], device="cuda")',
        {
            "constants": "import torch\n\nMEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)\n",
            "main": main(LOOP, "from network import Normalized", network="Normalized(resnet50())"),
        },
        "constants",
    ),
    "TL105, a function": Program(
        "TL105",
        "batches",
        [5, 5],
        "import torch\n\n\ndef collate(batch):\n"
        "    return torch.stack([x for x, _ in batch]).cuda(), torch.tensor([y for _, y in batch]).cuda()\n",
        LOADER,
        "num_workers=4",
        {"main": main(LOOP, "from batches import collate", LOADER)},
    ),
    "TL105, a partial function": Program(
        "TL105",
        "batches",
        [5],
        "import torch\n\n\ndef collate(batch, device):\n    return torch.stack(batch).to(device)\n",
        'device="cuda"',
        'device="cpu"',
        {
            "main": main(
                LOOP,
                "from functools import partial\n\nfrom batches import collate",
                'collate_fn=partial(collate, device="cuda")',
            )
        },
    ),
    "TL105, a class": Program(
        "TL105",
        "photos",
        [7],
        "import torch\nfrom base import Base\n\n\nclass Photos(Base):\n    def __getitem__(self, index):\n"
        "        return torch.load(self.path).cuda(), index\n",
        ".cuda(), index",
        ", index",
        {
            "base": DATASET,
            "main": main(LOOP, "from photos import Photos").replace('ImageFolder("photos")', 'Photos("photos")'),
        },
        "photos",
    ),
    "TL107": Program(
        "TL107",
        "tables",
        [5],
        "import pandas as pd\n\n\ndef read(path):\n    return pd.read_csv(path).values\n",
        "return read(self.path)[index]",
        "return index",
        {
            "base": DATASET,
            "rows": "from base import Base\nfrom tables import read\n\n\nclass Rows(Base):\n"
            "    def __getitem__(self, index):\n        return read(self.path)[index]\n",
            "main": main(LOOP, "from rows import Rows").replace('ImageFolder("photos")', 'Rows("rows.csv")'),
        },
        "rows",
    ),
    "TL101": Program(
        "TL101",
        "main",
        [11],
        main(LOOP, "from speech import SpeechLoader")
        .replace("from torch.utils.data import DataLoader\n", "")
        .replace("= DataLoader(", "= SpeechLoader(")
        .replace(", num_workers=4, pin_memory=True", ", pin_memory=True"),
        "SpeechLoader(DataLoader)",
        "SpeechLoader",
        {
            "speech": "from torch.utils.data import DataLoader\n\n\nclass SpeechLoader(DataLoader):\n"
            "    def count(self):\n        return len(self)\n"
        },
        "speech",
    ),
    "TL102": Program(
        "TL102",
        "main",
        [11],
        main(LOOP, "from speech import SpeechLoader")
        .replace("from torch.utils.data import DataLoader\n", "")
        .replace("= DataLoader(", "= SpeechLoader(")
        .replace(", pin_memory=True", ""),
        "SpeechLoader(DataLoader)",
        "SpeechLoader",
        {
            "speech": "from torch.utils.data import DataLoader\n\n\nclass SpeechLoader(DataLoader):\n"
            "    def count(self):\n        return len(self)\n"
        },
        "speech",
    ),
    "TL103": Program(
        "TL103",
        "main",
        [11],
        main(
            "for epoch in range(10):\n" + LOOP.replace("\n", "\n    ").replace("for x", "    for x"),
            "from speech import SpeechLoader",
        )
        .replace("from torch.utils.data import DataLoader\n", "")
        .replace("= DataLoader(", "= SpeechLoader("),
        "SpeechLoader(DataLoader)",
        "SpeechLoader",
        {
            "speech": "from torch.utils.data import DataLoader\n\n\nclass SpeechLoader(DataLoader):\n"
            "    def count(self):\n        return len(self)\n"
        },
        "speech",
    ),
    "TL111": Program(
        "TL111",
        "main",
        [9],
        "import sys\nfrom glob import glob\n\nfrom inference import predict\n"
        "from torchvision.models import resnet50\n\n"
        "model = resnet50().cuda().eval()\nfor path in glob(sys.argv[1]):\n    print(path, predict(model, path))\n",
        "unsqueeze(0)",
        "repeat(8, 1, 1, 1)",
        {
            "inference": "import torch\nfrom PIL import Image\nfrom torchvision import transforms\n\n"
            "transform = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])\n\n\n"
            "def predict(model, path):\n    image = transform(Image.open(path)).cuda()\n    with torch.no_grad():\n"
            "        return model(image.unsqueeze(0)).argmax(1).item()\n"
        },
        "inference",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_files_may_contain_the_evidence(tmp_path: Path, name: str) -> None:
    check(PROGRAMS[name], tmp_path)
