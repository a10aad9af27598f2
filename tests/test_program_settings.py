"""Settings of a loader that the script of its program gives: constants, options, objects, keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from whole_program import DATA, ENGINE, MAIN, codes, found, write

#: By pattern: what `main.py` begins with, the number of workers that it passes, and further files.
SETTINGS = {
    "a constant of a module": ("import config", "config.WORKERS", {"config": "WORKERS = 4\n"}),
    "an imported constant": ("from config import WORKERS", "WORKERS", {"config": "WORKERS = 4\n"}),
    "a renamed constant": ("from config import WORKERS as count", "count", {"config": "WORKERS = 4\n"}),
    "a configuration class": (
        "from config import Config",
        "Config.workers",
        {"config": "class Config:\n    workers = 4\n"},
    ),
    "a configuration object": (
        "from config import cfg",
        "cfg.workers",
        {"config": "class Config:\n    def __init__(self):\n        self.workers = 4\n\n\ncfg = Config()\n"},
    ),
    "a dataclass": (
        "from config import Config",
        "Config(root='photos').workers",
        {
            "config": "from dataclasses import dataclass\n\n\n@dataclass\nclass Config:\n"
            "    root: str\n    workers: int = 4\n"
        },
    ),
    "options of another file": (
        "from options import parse",
        "parse().workers",
        {
            "options": "import argparse\n\n\ndef parse():\n    parser = argparse.ArgumentParser()\n"
            "    parser.add_argument('--workers', type=int, default=4)\n    return parser.parse_args()\n"
        },
    ),
    "an option that another script declares without a default": (
        "import argparse\nimport report\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--workers', type=int, default=4)\nargs = parser.parse_args()",
        "args.workers",
        {
            "report": "import argparse\n\n\ndef main():\n    parser = argparse.ArgumentParser()\n"
            "    parser.add_argument('--workers', type=int)\n    print(parser.parse_args().workers)\n\n\n"
            "if __name__ == '__main__':\n    main()\n"
        },
    ),
    "a dictionary": ("from config import OPTIONS", 'OPTIONS["workers"]', {"config": 'OPTIONS = {"workers": 4}\n'}),
}
#: The same, where the number is unknown or may be 0.
OTHER_SETTINGS = {
    "a constant that another file sets": (
        "import config\nconfig.WORKERS = 0",
        "config.WORKERS",
        {"config": "WORKERS = 4\n"},
    ),
    "an attribute that another file sets": (
        "from config import cfg\ncfg.workers = 0",
        "cfg.workers",
        {"config": "class Config:\n    workers = 4\n\n\ncfg = Config()\n"},
    ),
    "a dictionary that another file changes": (
        "from config import OPTIONS\nOPTIONS['workers'] = 0",
        'OPTIONS["workers"]',
        {"config": 'OPTIONS = {"workers": 4}\n'},
    ),
    "a file that is not of the project": ("from elsewhere import cfg", "cfg.workers", {}),
    "an attribute by name": (
        "from config import cfg",
        'getattr(cfg, "workers")',
        {"config": "class Config:\n    workers = 4\n\n\ncfg = Config()\n"},
    ),
    "no workers by default": (
        "from options import parse",
        "parse().workers",
        {
            "options": "import argparse\n\n\ndef parse():\n    parser = argparse.ArgumentParser()\n"
            "    parser.add_argument('--workers', type=int, default=0)\n    return parser.parse_args()\n"
        },
    ),
    "what another object is set to": (
        "from config import cfg",
        "cfg.workers",
        {"config": "class Config:\n    pass\n\n\nclass Other:\n    workers = 4\n\n\ncfg = Config()\n"},
    ),
}


def _with_setting(folder: Path, setting: tuple[str, str, Mapping[str, str]]) -> list[str]:
    """The codes of the findings of `data.py`, which gets the number of workers from `main.py`."""
    imports, value, files = setting
    main = MAIN.format(data="data", engine="engine").replace("import torch\n", f"import torch\n{imports}\n", 1)
    main = main.replace("build_loader(Photos())", f"build_loader(Photos(), {value})")
    data = DATA.replace("workers=4", "workers")
    return codes(write(folder, files, data=data, engine=ENGINE, main=main) / "data.py")


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))
def test_a_setting_is_followed_to_where_it_is_written(
    setting: tuple[str, str, Mapping[str, str]], tmp_path: Path
) -> None:
    assert _with_setting(tmp_path, setting) == ["TL102", "TL103"]


@pytest.mark.parametrize("setting", OTHER_SETTINGS.values(), ids=list(OTHER_SETTINGS))
def test_a_setting_that_is_not_known_is_not_taken_for_one(
    setting: tuple[str, str, Mapping[str, str]], tmp_path: Path
) -> None:
    assert _with_setting(tmp_path, setting) == ["TL102"]


def test_a_number_of_workers_that_is_0_elsewhere_is_reported(tmp_path: Path) -> None:
    config = "from dataclasses import dataclass\n\n\n@dataclass\nclass Config:\n    workers: int = 4\n"
    setting = ("from config import Config", "Config(workers=0).workers", {"config": config})
    assert _with_setting(tmp_path, setting) == ["TL101", "TL102"]
    diagnostic = next(item for item in found(tmp_path / "data.py") if item.code == "TL101")
    assert diagnostic.fix is None
    place = diagnostic.notes[-1].place
    assert place is not None and place.path == str(tmp_path / "main.py")


DICTIONARY = """\
from torch.utils.data import DataLoader


def build_loader(dataset, **options):
    return DataLoader(dataset, batch_size=64, **options)
"""


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        ("num_workers=4", ["TL102", "TL103"]),
        ("num_workers=4, pin_memory=True", ["TL103"]),
        ("num_workers=4, persistent_workers=True", ["TL102"]),
        ("shuffle=True", ["TL101", "TL102"]),
        ("**OPTIONS", ["TL102", "TL103"]),
        ("**unknown", []),
        ("**(OPTIONS if len(__file__) else {})", ["TL102", "TL103"]),
    ],
)
def test_keyword_arguments_are_followed_from_the_caller(passed: str, expected: list[str], tmp_path: Path) -> None:
    main = MAIN.format(data="data", engine="engine").replace(
        "build_loader(Photos())", f"build_loader(Photos(), {passed})"
    )
    main = main.replace("def main():", "from config import OPTIONS\nfrom elsewhere import unknown\n\n\ndef main():", 1)
    config = 'OPTIONS = {"num_workers": 4}\n'
    folder = write(tmp_path, data=DICTIONARY, engine=ENGINE, main=main, config=config)
    assert codes(folder / "data.py") == expected
