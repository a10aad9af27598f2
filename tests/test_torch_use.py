"""A file that has nothing to do with torch has no finding, whatever words it contains."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import write

from torchlint import check_text, load_settings

#: What would be reported by names alone: inference, a training loop, gradients that are filled with zeros.
PROGRAM = """\
{head}
device = "cuda"


def evaluate(model, loader):
    model.eval()
    correct = 0
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum()
    return correct


def train(model, loader, optimizer):
    for images, labels in loader:
        loss = model(images.cuda(), labels.cuda())
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        for param in model.parameters():
            param.grad.zero_()
        optimizer.step()


if __name__ == "__main__":
    train(*make())
"""
OTHER = "from paddle import nn\n"


def codes_of(tmp_path: Path, head: str, helpers: str) -> list[str]:
    """The codes of what is found in a program that begins with ``head``, next to a file ``helpers.py``."""
    text = PROGRAM.format(head=head)
    path = write(tmp_path, helpers=helpers, train=text) / "train.py"
    return sorted({item.code for item in check_text(text, str(path), load_settings(None, {"select": ["ALL"]}))})


@pytest.mark.parametrize(
    "head",
    [
        "BACKENDS = ('paddle', 'torch')",
        "use_torch = False",
        "import paddle\ndef from_torch(weights): ...",
        "import paddle\nfrom helpers import nn as torch_like",
        "import mxnet  # like torch",
    ],
)
def test_a_file_that_only_mentions_torch_has_no_finding(head: str, tmp_path: Path) -> None:
    assert codes_of(tmp_path, head, OTHER) == []


@pytest.mark.parametrize(
    ("head", "helpers"),
    [
        ("import torch", OTHER),
        ("from d2l import torch as d2l", OTHER),
        ("import pytorch_lightning as pl", OTHER),
        ("FRAMEWORK = 'torch'\nfrom transformers import AutoModel", OTHER),
        ("FRAMEWORK = 'torch'\nfrom helpers import nn", "from torch import nn\n"),
        (
            "FRAMEWORK = 'torch'\nfrom helpers import build",
            "import timm\n\ndef build():\n    return timm.create_model('vit')\n",
        ),
        ("from elsewhere import *\nmodel = torch.nn.Linear(2, 1)", OTHER),
    ],
)
def test_a_file_that_uses_torch_itself_or_by_what_it_imports_is_checked(
    head: str, helpers: str, tmp_path: Path
) -> None:
    assert "TL407" in codes_of(tmp_path, head, helpers)


def test_a_file_of_a_program_with_torch_is_checked(tmp_path: Path) -> None:
    """It needs no import for what others hand it."""
    main = "import torch\nfrom train import train\n\n\nif __name__ == '__main__':\n    train(torch.nn.Linear(2, 1))\n"
    text = PROGRAM.format(head="FRAMEWORK = 'torch'")
    path = write(tmp_path, main=main, train=text) / "train.py"
    assert "TL407" in {item.code for item in check_text(text, str(path))}


def test_reads_of_another_library_do_not_wait(tmp_path: Path) -> None:
    text = """\
import paddle
BACKENDS = ("paddle", "torch")


def train(model, loader, optimizer):
    for images, labels in loader:
        loss = model(images.cuda(), labels.cuda())
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
    path = write(tmp_path, train=text) / "train.py"
    assert check_text(text, str(path)) == []
    own = text.replace("import paddle", "import torch")
    assert "TL201" in {item.code for item in check_text(own, str(path))}
