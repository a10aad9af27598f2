"""Numbers of workers that are set in other files: options, configuration objects, keyword arguments of packages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from torchlint import check_text

TRAIN = """\
from torch.utils.data import DataLoader
{imports}
from photos import Photos


def main():
    loader = DataLoader(Photos(), batch_size=64, num_workers={workers})
    for epoch in range(90):
        for images in loader:
            print(images)


if __name__ == "__main__":
    main()
"""
PARSER = "import argparse\n\nparser = argparse.ArgumentParser()\n"
NODE = "from yacs.config import CfgNode as CN\n\n_C = CN()\n"


def has_finding(folder: Path, files: Mapping[str, str], checked: str = "train") -> bool:
    """Whether a file of a repository with these modules, by their path without the suffix, has a finding of TL103."""
    (folder / ".git").mkdir()
    for name, text in files.items():
        path = folder / (name if name.endswith(".toml") else f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    path = folder / f"{checked}.py"
    return "TL103" in [item.code for item in check_text(path.read_text(encoding="utf-8"), str(path))]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('parser.add_argument("--workers", type=int, default=8)\n', True),
        ('group = parser.add_argument_group("data")\ngroup.add_argument("--workers", type=int, default=8)\n', True),
        ('parser.add_argument("--workers", type=int)\nparser.set_defaults(workers=8)\n', True),
        ('for name in ("--workers",):\n    parser.add_argument("--workers", type=int, default=8)\n', True),
        ('parser.add_argument("--workers", type=int, default=0)\n', False),
        ('parser.add_argument("--workers", type=int)\n', False),
        ('parser.add_argument("--workers", type=int, default=8)\nparser.set_defaults(workers=0)\n', False),
        (
            'if __name__ == "__main__":\n    parser.add_argument("--workers", type=int, default=8)\n',
            False,
        ),
    ],
    ids=["default", "group", "set_defaults", "in a loop", "no workers", "no default", "set to none", "of a script"],
)
def test_options_of_another_file_have_their_defaults(options: str, expected: bool, tmp_path: Path) -> None:
    train = TRAIN.format(imports="from opts import parser\n\nargs = parser.parse_args()", workers="args.workers")
    assert has_finding(tmp_path, {"opts": PARSER + options, "train": train}) is expected


@pytest.mark.parametrize(
    ("stores", "workers", "expected"),
    [
        ("_C.WORKERS = 4\n", "config.WORKERS", True),
        ("_C.DATA = CN()\n_C.DATA.WORKERS = 4\n", "config.DATA.WORKERS", True),
        ("_C.DATA = CN(dict(WORKERS=4))\n_C.DATA.WORKERS = 2\n", "config.DATA.WORKERS", True),
        ('_C.DATA = CN({"WORKERS": 4})\n', "config.DATA.WORKERS", True),
        ("__C = CN()\n_C = __C\n__C.WORKERS = 4\n", "config.WORKERS", True),
        ("_C.WORKERS = 0\n", "config.WORKERS", False),
        ("_C.TRAIN = CN()\n_C.TRAIN.WORKERS = 4\n", "config.TEST.WORKERS", False),
        ("_D = CN()\n_D.WORKERS = 4\n", "config.WORKERS", False),
        ("_C.WORKERS = read_workers()\n", "config.WORKERS", False),
        ("_C.WORKERS = 4\n_C.WORKERS = 0\n", "config.WORKERS", False),
    ],
    ids=[
        "attribute", "nested", "made with and stored", "made with a dictionary", "alias", "none", "of another node",
        "of another object", "unknown", "two values",
    ],
)  # fmt: skip
def test_attributes_stored_on_an_object_are_found_under_its_other_name(
    stores: str, workers: str, expected: bool, tmp_path: Path
) -> None:
    files = {
        "lib/defaults": NODE + stores,
        "lib/__init__": "from .defaults import _C as config\n",
        "train": TRAIN.format(imports="from lib import config", workers=workers),
    }
    assert has_finding(tmp_path, files) is expected


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("from lib.defaults import _C\n\nloop(build(_C.clone()))", True),
        ("from lib.defaults import _C\n\ncfg = _C.clone()\ncfg.merge_from_file('a.yml')\nloop(build(cfg))", True),
        ("from other import _C\n\nloop(build(_C))", False),
    ],
    ids=["copied", "overridden by a file", "of an unknown object"],
)
def test_a_configuration_object_is_followed_through_parameters(caller: str, expected: bool, tmp_path: Path) -> None:
    files = {
        "lib/defaults": NODE + "_C.WORKERS = 4\n",
        "data": "from torch.utils.data import DataLoader\nfrom photos import Photos\n\n\n"
        "def build(cfg):\n    return DataLoader(Photos(), batch_size=8, num_workers=cfg.WORKERS)\n\n\n"
        "def loop(loader):\n    for epoch in range(9):\n        for batch in loader:\n            print(batch)\n",
        "main": f"from data import build, loop\n{caller}\n",
    }
    assert has_finding(tmp_path, files, "data") is expected


PACKAGE = {
    "data/__init__": "from torch.utils.data import DataLoader\nfrom photos import Photos\n\n\n"
    "def build(**options):\n    return DataLoader(Photos(), batch_size=8, **options)\n",
    "train": "from data import build\n\nloader = build({given})\nfor epoch in range(9):\n    for batch in loader:\n"
    "        print(batch)\n",
}


RUNNER = """\
from torch.utils.data import DataLoader
from photos import Photos


class Runner:
    def __init__(self, config, other=None):
        self.config = config
        self.prepare()

    def prepare(self):
        pass


class Tester(Runner):
    pass


class Trainer(Runner):
    def prepare(self):
        self.tester = Tester({passed})

    def run(self):
        loader = DataLoader(Photos(), batch_size=8, num_workers={workers})
        for epoch in range(9):
            for batch in loader:
                print(batch)
"""


@pytest.mark.parametrize(
    ("passed", "workers", "given", "expected"),
    [
        ("self.config", "self.config.WORKERS", "_C", True),
        ("self.config.clone()", "self.config.WORKERS", "_C", True),
        ("self.config", "self.config.WORKERS", "read()", False),
        ("self.config", "self.config", "_C.NONE", False),
    ],
    ids=["object", "copy", "of an unknown object", "without workers"],
)
def test_an_object_may_pass_its_configuration_on_to_another_one_of_its_class(
    passed: str, workers: str, given: str, expected: bool, tmp_path: Path
) -> None:
    files = {
        "lib/defaults": NODE + "_C.WORKERS = 4\n_C.NONE = 0\n",
        "runner": RUNNER.format(passed=passed, workers=workers),
        "main": f"from lib.defaults import _C\nfrom reading import read\nfrom runner import Trainer\n\n"
        f"Trainer({given}).run()\n",
    }
    assert has_finding(tmp_path, files, "runner") is expected


@pytest.mark.parametrize(
    ("given", "files", "expected"),
    [
        ("num_workers=4", {}, True),
        ("num_workers=4", {"pyproject.toml": "[tool.ruff]\nline-length = 100\n"}, True),
        ("num_workers=4", {"pyproject.toml": '[project]\nname = "photos"\n'}, False),
        ("num_workers=4", {"setup": "from setuptools import setup\nsetup()\n"}, False),
        ("num_workers=0", {}, False),
        ("num_workers=4, persistent_workers=True", {}, False),
        ("**read_options()", {}, False),
    ],
    ids=["a program", "a program with settings", "a project", "a distribution", "none", "persistent", "unknown"],
)
def test_a_package_that_nothing_installs_has_no_other_callers(
    given: str, files: Mapping[str, str], expected: bool, tmp_path: Path
) -> None:
    package = {**PACKAGE, "train": PACKAGE["train"].format(given=given)}
    assert has_finding(tmp_path, {**package, **files}, "data/__init__") is expected


@pytest.mark.parametrize(
    ("derived", "expected"),
    [
        ("class Own(Engine):\n    pass\n", True),
        ("class Own(Engine):\n    def __init__(self, loader):\n        super().__init__(loader)\n", True),
        ("class Own(Engine):\n    def __init__(self, loader):\n        super().__init__([])\n", False),
        ("class Own(Engine):\n    def __init__(self, loader):\n        self.count = len(loader)\n", False),
    ],
    ids=["inherited", "handed up", "not handed on", "not handed up"],
)
def test_a_derived_trainer_hands_its_loader_to_its_base(derived: str, expected: bool, tmp_path: Path) -> None:
    files = {
        "engine": "class Engine:\n    def __init__(self, loader):\n        self.loader = loader\n\n"
        "    def run(self):\n        for epoch in range(9):\n            for batch in self.loader:\n"
        "                print(batch)\n",
        "own": f"from engine import Engine\n\n\n{derived}",
        "train": "from torch.utils.data import DataLoader\nfrom own import Own\nfrom photos import Photos\n\n"
        "loader = DataLoader(Photos(), batch_size=8, num_workers=4)\nOwn(loader).run()\n",
    }
    assert has_finding(tmp_path, files) is expected


@pytest.mark.parametrize(("workers", "expected"), [(4, True), (0, False)], ids=["some", "none"])
def test_a_constant_of_a_module_is_not_an_option(workers: int, expected: bool, tmp_path: Path) -> None:
    train = TRAIN.format(imports="import config\nimport opts", workers="config.workers")
    options = PARSER + f'parser.add_argument("--workers", default={4 - workers})\n'
    assert has_finding(tmp_path, {"config": f"workers = {workers}\n", "opts": options, "train": train}) is expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("loader = build()\nfor epoch in range(9):\n    for batch in loader:\n        print(batch)\n", True),
        ("loader = build()\nfor batch in loader:\n    print(batch)\n", False),
        ("loader = build()\nfor epoch in range(9):\n    print(epoch)\n", False),
    ],
    ids=["in a loop over epochs", "once", "not at all"],
)
def test_a_script_at_module_level_is_followed_from_a_value_to_its_uses(
    script: str, expected: bool, tmp_path: Path
) -> None:
    files = {
        "data": "from torch.utils.data import DataLoader\nfrom photos import Photos\n\n\n"
        "def build():\n    return DataLoader(Photos(), batch_size=8, num_workers=4)\n",
        "train": f"from data import build\n\n{script}",
    }
    assert has_finding(tmp_path, files, "data") is expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("from photos import Photos\nfrom train import count\n\ntrain_set = Photos()\ntrain_set.adjust = True\n", True),
        ("def prepare(train_set, epoch):\n    train_set.adjust = epoch\n", False),
    ],
    ids=["its own dataset", "a parameter that the dataset is passed for"],
)
def test_a_dataset_of_the_same_name_in_another_file_may_be_another_one(
    script: str, expected: bool, tmp_path: Path
) -> None:
    photos = (
        "from torch.utils.data import Dataset\n\n\nclass Photos(Dataset):\n"
        "    def __getitem__(self, index):\n        return read(index)\n"
    )
    train = (
        "from torch.utils.data import DataLoader\nfrom photos import Photos\nfrom shifts import prepare\n\n\n"
        "def count(items):\n    return len(items)\n\n\n"
        "def main():\n    train_set = Photos()\n    loader = DataLoader(train_set, batch_size=8, num_workers=4)\n"
        "    for epoch in range(9):\n        prepare(train_set, epoch)\n"
        "        for batch in loader:\n            print(batch)\n\n\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    if "Photos()" in script:
        train = train.replace("from shifts import prepare\n", "").replace("        prepare(train_set, epoch)\n", "")
        script = f"{script}count(train_set)\n"
    assert has_finding(tmp_path, {"photos": photos, "train": train, "shifts": script}) is expected


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ("{1: dict(WORKERS=4), 2: dict(WORKERS=0)}", True),
        ("{1: {'WORKERS': 4}}\nRUNS[1]['WORKERS'] = 2", True),
        ("{1: dict(WORKERS=0), 2: dict(WORKERS=4)}", False),
        ("{2: dict(WORKERS=4)}", False),
        ("read('runs.yaml')", False),
    ],
    ids=["some", "stored", "none", "another key", "unknown"],
)
def test_a_dictionary_of_dictionaries_in_another_file_is_followed(runs: str, expected: bool, tmp_path: Path) -> None:
    train = TRAIN.format(imports="from config import RUNS\n\nrun = RUNS[1]", workers="run['WORKERS']")
    assert has_finding(tmp_path, {"config": f"RUNS = {runs}\n", "train": train}) is expected


LAUNCHED = """\
from torch.utils.data import DataLoader
from config import read_config
from elsewhere import launch
from photos import Photos


def main(cfg):
    loader = DataLoader(Photos(), batch_size=64, num_workers={workers})
    for epoch in range(90):
        for images in loader:
            print(images)


if __name__ == "__main__":
    launch(main, read_config())
"""


@pytest.mark.parametrize(
    ("workers", "stored", "expected"),
    [
        ("cfg.DATA.WORKERS", "_C.DATA.WORKERS = 4\n", True),
        ("cfg.DATA.WORKERS", "_C.DATA.WORKERS = 0\n", False),
        ("cfg.DATA.WORKERS", "_C.TEST.WORKERS = 4\n", False),
        ("cfg.WORKERS", "_C.WORKERS = 4\n", False),
        ("cfg.DATA.WORKERS", "_C.DATA.WORKERS = 4\n_D = CN()\n_D.DATA = CN()\n_D.DATA.WORKERS = 0\n", False),
    ],
    ids=["the same path", "none", "another path", "one name alone", "two configurations"],
)
def test_a_setting_of_a_configuration_from_out_of_sight_is_recognised_by_its_path(
    workers: str, stored: str, expected: bool, tmp_path: Path
) -> None:
    config = f"{NODE}_C.DATA = CN()\n_C.TEST = CN()\n{stored}\n\ndef read_config():\n    return _C.clone(), "
    config += "_D\n" if "_D" in stored else "None\n"
    assert has_finding(tmp_path, {"config": config, "train": LAUNCHED.format(workers=workers)}) is expected


@pytest.mark.parametrize(("place", "expected"), [("options, config", True), ("config, options", False)])
def test_a_configuration_is_followed_through_a_pair_that_a_function_returns(
    place: str, expected: bool, tmp_path: Path
) -> None:
    config = (
        f"{NODE}_C.WORKERS = 4\n\n\ndef read_config(options):\n    config = _C.clone()\n    return options, config\n"
    )
    imports = f"from config import read_config\n\n{place} = read_config(None)"
    train = TRAIN.format(imports=imports, workers="config.WORKERS")
    assert has_finding(tmp_path, {"config": config, "train": train}) is expected


def test_a_configuration_is_chosen_before_long_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = "".join(f"        self.layer{i} = Linear({i}, {i})\n" for i in range(200))
    networks = f"from torch.nn import Linear, Module\n\n\nclass Network(Module):\n    def __init__(self):\n{layers}"
    settings = "".join(f"_C.SETTING{i} = {i}\n" for i in range(40))
    files = {
        "config": f"{NODE}{settings}_C.WORKERS = 4\n\n\ndef read_config():\n    return _C.clone()\n",
        "networks": networks,
        "building": "from networks import Network\n\n\ndef build():\n    return Network()\n",
        "data": "from torch.utils.data import DataLoader\nfrom photos import Photos\n\n\n"
        "def load(config):\n    return DataLoader(Photos(), batch_size=8, num_workers=config.WORKERS)\n",
        "train": "from building import build\nfrom config import read_config\nfrom data import load\n\n\n"
        "def main():\n    network = build()\n    loader = load(read_config())\n"
        "    for epoch in range(9):\n        for batch in loader:\n            network(batch)\n\n\n"
        'if __name__ == "__main__":\n    main()\n',
    }
    monkeypatch.setattr("torchlint.project.choice.BUDGET", len(networks) + 600)
    assert has_finding(tmp_path, files, "data")


def test_long_options_are_chosen_before_long_networks_that_are_further_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = "".join(f"        self.layer{i} = Linear({i}, {i})\n" for i in range(150))
    networks = f"from torch.nn import Linear, Module\n\n\nclass Network(Module):\n    def __init__(self):\n{layers}"
    arguments = "".join(f"    parser.add_argument('--option{i}', type=int, default={i})\n" for i in range(100))
    options = (
        "from argparse import ArgumentParser\n\n\ndef read_options():\n    parser = ArgumentParser()\n"
        f"    parser.add_argument('--processes', type=int, default=4)\n{arguments}    return parser.parse_args()\n"
    )
    assert 4_000 < len(networks) < len(options)
    building = "from networks import Network\n\n\ndef build():\n    return Network()\n"
    imports = (
        "from building import build\nfrom options import read_options\n\nnetwork = build()\noptions = read_options()"
    )
    train = TRAIN.format(imports=imports, workers="options.processes")
    monkeypatch.setattr("torchlint.project.choice.BUDGET", len(options) + 1_000)
    files = {"networks": networks, "options": options, "building": building, "train": train}
    assert has_finding(tmp_path, files)


TAKEN = """\
from photos import Photos
from torch.utils.data import DataLoader


def build_loader(options):
    options = options.copy()
    {taken}
    return DataLoader(Photos(), num_workers=workers, **options)
"""


@pytest.mark.parametrize(
    ("taken", "options", "expected"),
    [
        ('workers = options.pop("workers")', '{"workers": 4, "batch_size": 64}', True),
        ('workers = options["workers"]\n    del options["workers"]', '{"workers": 4, "batch_size": 64}', True),
        ('workers = options.pop("workers")', '{"workers": 0, "batch_size": 64}', False),
        ('workers = options.pop("cores")', '{"workers": 4, "batch_size": 64}', False),
        ('options.pop("workers")\n    workers = options.get("workers", 0)', '{"workers": 4, "batch_size": 64}', False),
        ("workers = options.pop()", '{"workers": 4, "batch_size": 64}', False),
    ],
    ids=["pop", "read and deleted", "no workers", "another key", "taken before", "not a dictionary"],
)
def test_a_setting_may_be_taken_out_of_a_dictionary(tmp_path: Path, taken: str, options: str, expected: bool) -> None:
    train = TRAIN.format(imports="from data import build_loader", workers=4)
    train = train.replace("DataLoader(Photos(), batch_size=64, num_workers=4)", f"build_loader({options})")
    assert has_finding(tmp_path, {"data": TAKEN.format(taken=taken), "train": train}, "data") is expected


CHANGING = """\
from data import build_loader


def look():
    loader = build_loader()
    loader.dataset.choose_crops()
    for images in loader:
        print(images)


look()
"""


@pytest.mark.parametrize(("imports", "expected"), [("import os", True), ("import look", False)])
def test_a_script_of_its_own_does_not_change_the_dataset(tmp_path: Path, imports: str, expected: bool) -> None:
    data = TAKEN.format(taken="workers = 4").replace("build_loader(options)", "build_loader()")
    data = data.replace("    options = options.copy()\n", "").replace(", **options", "")
    train = TRAIN.format(imports=f"{imports}\nfrom data import build_loader", workers=4)
    train = train.replace("DataLoader(Photos(), batch_size=64, num_workers=4)", "build_loader()")
    assert has_finding(tmp_path, {"data": data, "train": train, "look": CHANGING}, "data") is expected
