"""Shapes of programs of many files: ``PROGRAMS`` has them all."""

from __future__ import annotations

from collections.abc import Callable

#: A function with a training loop; ``{before}`` is a term of its loss.
_STEP = """\
def step_{i}(model, loader, optimizer):
    total = 0.0
    for images, labels in loader:
        images = images.cuda()
        labels = labels.cuda()
        loss = {before}torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""
_MAIN = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet50

{imports}

def main():
    model = resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(ImageFolder("data"), batch_size=64)
{calls}

if __name__ == "__main__":
    main()
"""


def _main(n: int) -> str:
    return _MAIN.format(
        imports="\n".join(f"from step_{i} import step_{i}" for i in range(n)),
        calls="\n".join(f"    step_{i}(model, loader, optimizer)" for i in range(n)),
    )


def separate_steps(n: int) -> dict[str, str]:
    """A script that runs the training steps of ``n`` other files."""
    steps = {f"step_{i}.py": "import torch\n\n\n" + _STEP.format(i=i, before="") for i in range(n)}
    return {"main.py": _main(n), **steps}


def chained_steps(n: int) -> dict[str, str]:
    """The same; each step runs that of the file before."""
    found = {"main.py": _main(n)}
    for i in range(n):
        imports = f"from step_{i - 1} import step_{i - 1}\n" if i else ""
        before = f"step_{i - 1}(model, loader, optimizer) + " if i else ""
        found[f"step_{i}.py"] = f"import torch\n{imports}\n\n" + _STEP.format(i=i, before=before)
    return found


#: Each shape's name, the n of its smallest size, and the texts of its files, by name, for an n.
PROGRAMS: dict[str, tuple[int, Callable[[int], dict[str, str]]]] = {
    "separate-steps": (25, separate_steps),
    "chained-steps": (25, chained_steps),
}
