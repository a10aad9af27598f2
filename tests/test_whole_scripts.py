"""What a script sets at its top level or in a function, and what it runs once, for the functions of other files."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import write

from torchlint import check_text

STEP = """\
import torch


@torch.compile
def step(x):
    rows = x.nonzero()
    return x[x > 0] * x.sum().item(), rows
"""
STEPS = """\
import torch
from step import step

{settings}


def main():
    for _ in range(100):
        step(torch.randn(3, device="cuda"))


if __name__ == "__main__":
    main()
"""
NOISE = """\
import torch


def noise(size):
    return torch.randn(size).cuda()
"""
NOISES = """\
import torch
from noise import noise

{setting}

for _ in range(100):
    print(noise(3).shape)
"""
TRIAL = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet50


def run():
    model = resnet50().cuda()
    loader = DataLoader(ImageFolder("photos"), num_workers=8, pin_memory=True)
    for images, labels in loader:
        images = images.cuda()
        model(images)
        {end}
    torch.save(model.state_dict(), "initial.pt")
"""
SETUP = """\
import torch


def setup({parameters}):
    {body}
"""
NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(512, 4096)

    def forward(self, x):
        return self.layer(x)


def predict(loader):
    model = Net().to("cuda")
    model.load_state_dict(torch.load("weights.pt"))
    model.eval()
    return [model(batch.to("cuda")).cpu() for batch in loader]
"""
ENGINE = """\
import gc
from torch import nn


def train(model, loader, optimizer):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gc.collect()
"""
TRAIN = """\
import torch
from engine import train
from settings import setup
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet50


def main():
    setup()
    model = resnet50().cuda()
    train(model, DataLoader(ImageFolder("photos"), batch_size=64), torch.optim.SGD(model.parameters(), lr=0.1))


if __name__ == "__main__":
    main()
"""
PREDICT = """\
import torch
from net import predict
from settings import setup


def main():
    {body}


if __name__ == "__main__":
    main()
"""


def codes_of(path: Path) -> list[str]:
    """The findings of a file."""
    return [item.code for item in check_text(path.read_text(encoding="utf-8"), str(path))]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("capture_scalar_outputs = True\n{}capture_dynamic_output_shape_ops = True", 0),
        ("capture_scalar_outputs = True", 2),
        ("capture_scalar_outputs = False", 3),
        ("verbose = True", 3),
    ],
    ids=["both", "scalars", "off", "another"],
)
def test_options_of_the_compiler_at_the_top_level_count(settings: str, expected: int, tmp_path: Path) -> None:
    """The statements use no name of the file with the compiled function."""
    text = "torch._dynamo.config." + settings.format("torch._dynamo.config.")
    folder = write(tmp_path, main=STEPS.format(settings=text), step=STEP)
    assert codes_of(folder / "step.py").count("TL504") == expected


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ('torch.set_default_tensor_type("torch.cuda.FloatTensor")', False),
        ('torch.set_default_device("cuda")', False),
        ('torch.set_default_tensor_type("torch.FloatTensor")', True),
        ("torch.manual_seed(0)", True),
    ],
)
def test_default_device_at_the_top_level_counts(setting: str, expected: bool, tmp_path: Path) -> None:
    """So it is for `torch.set_default_dtype`."""
    folder = write(tmp_path, main=NOISES.format(setting=setting), noise=NOISE)
    assert ("TL206" in codes_of(folder / "noise.py")) == expected


def test_default_device_of_one_of_two_scripts(tmp_path: Path) -> None:
    """The other one copies the tensor."""
    gpu, cpu = (NOISES.format(setting=text) for text in ("torch.set_default_device('cuda')", "torch.manual_seed(0)"))
    folder = write(tmp_path, main=gpu, other=cpu.replace("3", "4"), noise=NOISE)
    assert "TL206" in codes_of(folder / "noise.py")


@pytest.mark.parametrize(
    ("main", "end", "expected"),
    [
        ("from trial import run\n\nif __name__ == '__main__':\n    run()\n", "break", False),
        (
            "from trial import run\n\n\ndef main():\n    run()\n\n\nif __name__ == '__main__':\n    main()\n",
            "break",
            False,
        ),
        ("from trial import run\n\nif __name__ == '__main__':\n    for _ in range(9):\n        run()\n", "break", True),
        ("from trial import run\n\nif __name__ == '__main__':\n    run()\n", "print(labels)", True),
    ],
    ids=["once", "by main", "in a loop", "all batches"],
)
def test_function_that_a_script_calls_once(main: str, end: str, expected: bool, tmp_path: Path) -> None:
    """One batch is copied, once."""
    folder = write(tmp_path, main=main, trial=TRIAL.format(end=end))
    assert ("TL204" in codes_of(folder / "trial.py")) == expected


@pytest.mark.parametrize(
    ("parameters", "setup", "body", "expected"),
    [
        ("", "torch.set_grad_enabled(False)", "setup()\n    predict(torch.load('b.pt'))", False),
        ("", "print(1)\n    torch.set_grad_enabled(False)", "setup()\n    predict(torch.load('b.pt'))", False),
        ("", "torch.set_grad_enabled(True)", "setup()\n    predict(torch.load('b.pt'))", True),
        ("", "torch.manual_seed(0)", "setup()\n    predict(torch.load('b.pt'))", True),
        ("", "torch.set_grad_enabled(False)", "predict(torch.load('b.pt'))\n    setup()", True),
        ("", "torch.set_grad_enabled(False)", "predict(torch.load('b.pt'))", True),
        (
            "on",
            "if on:\n        torch.set_grad_enabled(False)",
            "setup(False)\n    predict(torch.load('b.pt'))",
            True,
        ),
    ],
    ids=["off", "second", "on", "another", "afterwards", "not called", "condition"],
)
def test_function_that_a_script_calls_first(
    parameters: str, setup: str, body: str, expected: bool, tmp_path: Path
) -> None:
    """It turns gradients off for all that the script calls afterwards."""
    settings = SETUP.format(parameters=parameters, body=setup)
    folder = write(tmp_path, main=PREDICT.format(body=body), net=NET, settings=settings)
    assert ("TL402" in codes_of(folder / "net.py")) == expected


@pytest.mark.parametrize(("body", "expected"), [("gc.disable()", False), ("gc.collect()", True)])
def test_garbage_collector_is_off_for_all_files(body: str, expected: bool, tmp_path: Path) -> None:
    """A loop in another file has to run it."""
    settings = SETUP.format(parameters="", body=body).replace("torch", "gc")
    folder = write(tmp_path, main=TRAIN, engine=ENGINE, settings=settings)
    assert ("TL601" in codes_of(folder / "engine.py")) == expected


@pytest.mark.parametrize("second", ["torch.set_grad_enabled(False)", "torch.manual_seed(0)"])
def test_one_of_two_scripts_turns_gradients_off(second: str, tmp_path: Path) -> None:
    """The other one records an autograd graph."""
    script = "import torch\nfrom net import predict\n\n{}\nprint(predict(torch.load('{}.pt')))\n"
    first = "torch.set_grad_enabled(False)"
    folder = write(tmp_path, net=NET, first=script.format(first, "a"), second=script.format(second, "b"))
    assert ("TL402" in codes_of(folder / "net.py")) == (second != first)
