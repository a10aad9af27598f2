"""Arguments that come from YAML files by ``**``: parameters of functions and classes, epochs of a trainer."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_config_files import codes, write

DATA = """\
from torch.utils.data import DataLoader

from photos import Photos


class Data:
    def __init__(self, folder, num_workers=0, pin_memory=True):
        self.folder = folder
        self.num_workers = num_workers
        self.pin_memory = pin_memory

    def loader(self):
        return DataLoader(Photos(self.folder), batch_size=64, num_workers=self.num_workers, pin_memory=self.pin_memory)
"""
TRAIN = """\
import yaml

from data import Data
from networks import model

with open("conf/base.yaml") as file:
    config = yaml.safe_load(file)


def main(**options):
    data = {made}
    for epoch in range(90):
        for images in data.loader():
            images = images.cuda()
            model(images).sum().backward()


if __name__ == "__main__":
    main(**config["train"])
"""
FOUR = "train:\n  num_workers: 4\n"


@pytest.mark.parametrize(
    ("made", "config", "expected"),
    [
        ('Data(**config["train"])', FOUR, "TL103"),
        ('Data("photos", **config["train"])', FOUR, "TL103"),
        ("Data(**config.train)", FOUR, "TL103"),
        ('Data(**config["train"], pin_memory=True)', FOUR, "TL103"),
        ('Data(**config["train"])', f"{FOUR}val:\n  num_workers: 0\n", "TL103"),
        ('Data(**config["val"])', f"{FOUR}val:\n  num_workers: 0\n", None),
        ('Data(**config["train"])', "train:\n  folder: photos\n", None),
        ('Data("photos", num_workers=0)', FOUR, None),
        ('Data("photos")', FOUR, None),
        ('Data(**config["train"]) if config else Data("photos")', FOUR, None),
        ('Data(*config["paths"], folder=config["train"])', FOUR, None),
        ('Data(**{"num_workers": 0, "folder": "photos"})', FOUR, None),
    ],
)
def test_a_parameter_that_a_configuration_gives(made: str, config: str, expected: str | None, tmp_path: Path) -> None:
    train = TRAIN.format(made=made).replace("data.loader()", "loader").replace("    for epoch", BUILT)
    write(tmp_path, {"data.py": DATA, "train.py": train, "conf/base.yaml": config})
    assert [code for code in codes(tmp_path, "data.py") if code == "TL103"] == ([expected] if expected else [])


BUILT = "    loader = data.loader()\n    for epoch"

LIGHTNING = """\
import pytorch_lightning as pl
import yaml
from torch.utils.data import DataLoader

from networks import Network
from photos import Photos

with open("conf/base.yaml") as file:
    config = yaml.safe_load(file)


class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Photos(), batch_size=64, num_workers=4)


if __name__ == "__main__":
    trainer = pl.Trainer({arguments})
    trainer.{method}(Network(), Data())
"""


@pytest.mark.parametrize(
    ("arguments", "config", "expected"),
    [
        ('**config["trainer"]', "trainer:\n  max_epochs: 20\n", True),
        ("accelerator='gpu', **config.trainer", "trainer:\n  max_epochs: 20\n  max_steps: -1\n", True),
        ('**config["trainer"]', "trainer:\n  max_epochs: 1\n", False),
        ('**config["trainer"]', "trainer:\n  gpus: 1\n", False),
        ('**config["trainer"]', "trainer:\n  max_epochs: 20\n  max_steps: 1000\n", False),
        ('**config["trainer"]', "trainer:\n  max_epochs: 20\n  reload_dataloaders_every_n_epochs: 1\n", False),
        ('**config["trainer"], fast_dev_run=True', "trainer:\n  max_epochs: 20\n", False),
        ("**options", "trainer:\n  max_epochs: 20\n", False),
    ],
)
def test_a_configuration_sets_the_epochs_of_a_trainer(
    arguments: str, config: str, expected: bool, tmp_path: Path
) -> None:
    write(tmp_path, {"train.py": LIGHTNING.format(arguments=arguments, method="fit"), "conf/base.yaml": config})
    assert ("TL103" in codes(tmp_path)) is expected


def test_a_trainer_that_only_tests_runs_no_epochs(tmp_path: Path) -> None:
    train = LIGHTNING.format(arguments="**config['trainer']", method="test")
    write(tmp_path, {"train.py": train, "conf/base.yaml": "trainer:\n  max_epochs: 20\n"})
    assert "TL103" not in codes(tmp_path)
