"""A program in which a file lacks a word that other files contain; the findings in that file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whole_program import write

from torchlint import check_text, load_settings


@dataclass(frozen=True)
class Program:
    """Files of a program, of which one has findings of a rule; with `new` for `old` it has none."""

    code: str
    name: str  #: of the module that is checked
    rows: list[int]  #: where it has findings
    text: str  #: of the module
    old: str
    new: str
    others: dict[str, str]
    where: str = "main"  #: the module in which `new` is put for `old`


def main(
    body: str, imports: str = "", loader: str = "num_workers=4, pin_memory=True", network: str = "resnet50()"
) -> str:
    """A script with a network, an optimizer, a loader and some more lines."""
    rows = "\n".join(f"    {row}" for row in body.splitlines())
    return f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet50
{imports}


def main():
    model = {network}.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(ImageFolder("photos"), batch_size=64, {loader})
{rows}


if __name__ == "__main__":
    main()
"""


LOOP = """\
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    outputs = model(x)
    loss = nn.functional.cross_entropy(outputs, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def check(program: Program, folder: Path) -> None:
    """Compare the findings of the module with those expected, and expect none after the change."""
    (folder / "with").mkdir()
    (folder / "without").mkdir()
    files = {**program.others, program.name: program.text}
    assert _rows(write(folder / "with", files), program) == program.rows
    assert files[program.where].count(program.old) == 1
    files[program.where] = files[program.where].replace(program.old, program.new)
    assert _rows(write(folder / "without", files), program) == []


def _rows(folder: Path, program: Program) -> list[int]:
    """The rows of the module where the rule reports."""
    path = folder / f"{program.name}.py"
    text = path.read_text(encoding="utf-8")
    settings = load_settings(overrides={"select": [program.code], "target-torch": "2.6"})
    found = check_text(text, str(path), settings)
    return sorted(text.count("\n", 0, item.start) + 1 for item in found)
