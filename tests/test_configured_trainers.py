"""Trainers of Lightning that Hydra makes of configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from torchlint import check_text

MAIN = """\
import hydra
from photos import Photos


@hydra.main("conf")
def main(cfg):
    trainer = hydra.utils.instantiate(cfg.trainer, logger=None)
    trainer.fit(hydra.utils.instantiate(cfg.model), datamodule=Photos("train"))


if __name__ == "__main__":
    main()
"""
PHOTOS = """\
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


class Photos(LightningDataModule):
    def __init__(self, folder):
        super().__init__()
        self.photos = ImageFolder(folder)

    def train_dataloader(self):
        return DataLoader(self.photos, batch_size=64, num_workers=4)
"""
TARGET = "_target_: pytorch_lightning.Trainer\n"


def codes_of(folder: Path, configs: Mapping[str, str], main: str = MAIN) -> set[str]:
    """The findings about the loader of a program with these configuration files."""
    (folder / ".git").mkdir()
    files = {"main.py": main, "photos.py": PHOTOS, **{f"conf/{name}": text for name, text in configs.items()}}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return {item.code for item in check_text(PHOTOS, str(folder / "photos.py"))} & {"TL102", "TL103"}


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"trainer/default.yaml": f"{TARGET}accelerator: gpu\nmax_epochs: 20\n"}, {"TL102", "TL103"}),
        ({"config.yaml": "trainer:\n  _target_: lightning.Trainer\n  max_epochs: 20\n"}, {"TL102", "TL103"}),
        ({"config.yaml": "trainer:\n  _target_: pytorch_lightning.Trainer\n  gpus: 2\n"}, {"TL102", "TL103"}),
        ({"trainer/a.yaml": f"{TARGET}accelerator: gpu\nmax_epochs: 1\n"}, {"TL102"}),
        ({"trainer/a.yaml": f"{TARGET}accelerator: gpu\nmax_steps: 1000\n"}, {"TL102"}),
        ({"trainer/a.yaml": f"{TARGET}accelerator: cpu\nmax_epochs: 20\n"}, {"TL103"}),
        ({"trainer/a.yaml": f"{TARGET}max_epochs: 20\n"}, {"TL103"}),
        ({"trainer/a.yaml": f"{TARGET}accelerator: null\ngpus: 0\n"}, {"TL103"}),
        (
            {"trainer/a.yaml": f"{TARGET}max_epochs: 20\n", "data/b.yaml": "accelerator: gpu\n"},
            {"TL103"},
        ),
    ],
    ids=[
        *("a file of its own", "any accelerator", "old name", "one epoch", "steps", "CPU", "CPU by default", "no GPUs"),
        "another file",
    ],
)
def test_configuration_says_where_and_how_long_it_trains(
    configs: Mapping[str, str], expected: set[str], tmp_path: Path
) -> None:
    assert codes_of(tmp_path, configs) == expected


@pytest.mark.parametrize(
    ("main", "target"),
    [
        (MAIN.replace("cfg.trainer, ", "cfg.other, "), "pytorch_lightning.Trainer"),
        (MAIN, "photos.Trainer"),
        (MAIN.replace("hydra.utils.instantiate(cfg.trainer", "make(cfg.trainer"), "pytorch_lightning.Trainer"),
    ],
    ids=["another setting", "another class", "another function"],
)
def test_other_objects_copy_nothing_to_a_gpu(main: str, target: str, tmp_path: Path) -> None:
    """Without a trainer that is seen, the hook of Lightning still runs in epochs."""
    configs = {"config.yaml": f"trainer:\n  _target_: {target}\n  accelerator: gpu\n"}
    assert "TL102" not in codes_of(tmp_path, configs, main)
