"""The device of a program that options, classes of settings and configuration files set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from torchlint import check_text

ENGINE = """\
def train(model, loader, optimizer, criterion, device):
    for epoch in range(90):
        for images, labels in loader:
            images = images.to(device)
            labels = labels.to(device)
            optimizer.zero_grad()
            criterion(model(images), labels).backward()
            optimizer.step()
"""
MAIN = """\
import torch
from torch.utils.data import DataLoader

from engine import train
from photos import Photos, build
{imports}

print(torch.version.cuda)


{decorators}
def main({parameters}):
    device = {device}
    model = build().to(device)
    loader = DataLoader(Photos(), batch_size=64, num_workers=8)
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), torch.nn.CrossEntropyLoss(), device)


if __name__ == "__main__":
    {run}
"""
FLAGS = """
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("device", "{device}", "where to train")
"""
CLASS = """
import tyro
from dataclasses import dataclass, field


@dataclass
class Config:
    device: str = {device}
    rate: float = 0.1


config = tyro.cli(Config)
"""
LOADED = 'import yaml\n\nconfig = yaml.safe_load(open("config.yaml"))\n'


def has_finding(folder: Path, main: str, files: Mapping[str, str] | None = None) -> bool:
    """Whether `main.py` has a finding of TL102: its batches are copied to a GPU."""
    (folder / ".git").mkdir()
    for name, text in {"engine.py": ENGINE, "main.py": main, **(files or {})}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return "TL102" in [item.code for item in check_text(main, str(folder / "main.py"))]


def program(device: str, *, imports: str = "", decorators: str = "", parameters: str = "", run: str = "main()") -> str:
    """The text of `main.py`."""
    return MAIN.format(device=device, imports=imports, decorators=decorators, parameters=parameters, run=run)


@pytest.mark.parametrize(("default", "expected"), [("cuda", True), ("cuda:1", True), ("cpu", False), ("", False)])
def test_an_option_of_click_is_a_device(default: str, expected: bool, tmp_path: Path) -> None:
    given = f', default="{default}"' if default else ""
    decorators = f'@click.command()\n@click.option("--device"{given})'
    main = program("torch.device(device)", imports="import click", decorators=decorators, parameters="device")
    assert has_finding(tmp_path, main) is expected


@pytest.mark.parametrize(("default", "expected"), [('"cuda"', True), ('"cpu"', False), ("...", False)])
def test_an_option_of_typer_is_a_device(default: str, expected: bool, tmp_path: Path) -> None:
    parameters = f"place: str = typer.Option({default})"
    main = program("place", imports="import typer", parameters=parameters, run="typer.run(main)")
    assert has_finding(tmp_path, main) is expected


@pytest.mark.parametrize(("default", "expected"), [("cuda", True), ("cpu", False)])
def test_a_flag_of_absl_is_a_device(default: str, expected: bool, tmp_path: Path) -> None:
    imports = FLAGS.format(device=default)
    main = program("torch.device(FLAGS.device)", imports=imports, parameters="argv", run="app.run(main)")
    assert has_finding(tmp_path, main) is expected


@pytest.mark.parametrize(
    ("default", "expected"),
    [('"cuda"', True), ('field(default="cuda:0")', True), ('"cpu"', False), ("field(default_factory=find)", False)],
)
def test_a_field_of_a_class_of_settings_is_a_device(default: str, expected: bool, tmp_path: Path) -> None:
    main = program("torch.device(config.device)", imports=CLASS.format(device=default))
    assert has_finding(tmp_path, main) is expected


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        (["device: cuda\n"], True),
        (['device: "cuda:0"  # the first\n'], True),
        (["training:\n  device: cuda\n"], True),
        (["device: cpu\n"], False),
        (["device: cuda\n", "device: cpu\n"], False),
        (["device: auto\n"], False),
        (["devices: cuda\n"], False),
    ],
    ids=["plain", "index", "in a mapping", "cpu", "files differ", "chosen", "another key"],
)
def test_a_configuration_file_sets_the_device(configs: list[str], expected: bool, tmp_path: Path) -> None:
    main = program('torch.device(config["device"])', imports=LOADED)
    files = {f"config{index or ''}.yaml": text for index, text in enumerate(configs)}
    assert has_finding(tmp_path, main, files) is expected


def test_a_file_that_the_program_cannot_read_does_not_set_the_device(tmp_path: Path) -> None:
    main = program('torch.device(config["device"])', imports="config = load()")
    assert not has_finding(tmp_path, main, {"config.yaml": "device: cuda\n"})


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ('int(os.environ["LOCAL_RANK"])', True),
        ("0", True),
        ('os.environ["DEVICE"]', False),
    ],
)
def test_a_number_is_the_index_of_a_gpu(device: str, expected: bool, tmp_path: Path) -> None:
    assert has_finding(tmp_path, program(device, imports="import os")) is expected
