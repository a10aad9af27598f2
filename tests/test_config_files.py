"""Settings in YAML, JSON and TOML files: numbers of workers, pinning."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from torchlint import check_text, load_settings
from torchlint.engine.checker import texts_around
from torchlint.project.configs import MAX_BYTES, Configs, is_own, listed
from torchlint.project.context import read_again
from torchlint.project.folder_scan import scan_folder
from torchlint.source.source import Source

TRAIN = """\
import torch
import yaml
from torch.utils.data import DataLoader

from photos import Photos

with open("conf/base.yaml") as file:
    config = yaml.safe_load(file)


def main(config):
    loader = DataLoader(Photos(), batch_size=64, num_workers={workers}, pin_memory={pinned})
    for epoch in range(90):
        for images in loader:
            images = images.cuda()
            model(images).sum().backward()


if __name__ == "__main__":
    main(config)
"""
WORKERS = TRAIN.format(workers='config["num_workers"]', pinned="True, persistent_workers=False")
PINNED = TRAIN.format(workers="4", pinned='config["pin_memory"]')


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Make a repository of these files."""
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def codes(folder: Path, checked: str = "train.py") -> list[str]:
    """The codes of the findings of a file."""
    path = folder / checked
    return [item.code for item in check_text(path.read_text(encoding="utf-8"), str(path))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("num_workers: 4\n", True),
        ("num_workers: 4  # of a DataLoader\r\nlr: 1\r\n", True),
        ("data:\n  num_workers: 4\n", True),
        ("stages:\n  - num_workers: 4\n    lr: 1\n", True),
        ("'num_workers': 4\n", True),
        ("data: {root: photos, num_workers: 4}\n", True),
        ("# num_workers: 0\nnum_workers: 4\n", True),
        ("lr: [1\n  : }\nnum_workers: 4\n", True),
        ("num_workers: 0\n", False),
        ("num_workers: 4\nval:\n  num_workers: 0\n", False),
        ("num_workers: '4'\n", False),
        ("num_workers: four\n", False),
        ("num_workers: true\n", False),
        ("num_workers: -1\n", False),
        ("num_workers:\n  value: 4\n", False),
        ("num_workers: [4, 4]\n", False),
        ("num_workers: &workers 4\n", False),
        ("num_workers: *workers\n", False),
        ("num_workers: ${data.workers}\n", False),
        ("max_num_workers: 4\nnum_workers_max: 4\n", False),
        ("num_workers:4\n", False),
        ("# num_workers: 4\n", False),
        ("note: there are num_workers: 4\n", False),
        ("num_workers: 4\n" + "# much\n" * MAX_BYTES, False),
        ("", False),
    ],
    ids=[
        "number", "comment", "nested", "in a list", "quoted key", "flow mapping", "other value in a comment",
        "not valid", "none", "two values", "string", "word", "switch", "negative", "mapping", "list", "anchor", "alias",
        "interpolation", "other keys", "no key", "in a comment", "in a text", "too large", "empty",
    ],
)  # fmt: skip
def test_a_number_of_a_yaml_file(text: str, expected: bool, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": WORKERS, "conf/base.yaml": text})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ('config["num_workers"]', True),
        ('config["data"]["num_workers"]', True),
        ("config.num_workers", True),
        ("config.data.num_workers", True),
        ("config.dataloader.num_workers", True),
        ('config.get("num_workers")', True),
        ('config.get("num_workers", 2)', True),
        ('int(config["num_workers"])', True),
        ('min(config["num_workers"], os.cpu_count())', True),
        ('config.get("num_workers", 0)', False),
        ('config["workers"]', False),
        ("config[num_workers]", False),
        ('{"num_workers": 0, **config}["num_workers"]', False),
        ('os.environ["num_workers"]', False),
        ("torch.num_workers", False),
        ("num_workers", False),
    ],
)
def test_what_reads_a_setting(read: str, expected: bool, tmp_path: Path) -> None:
    train = TRAIN.format(workers=read, pinned="True").replace("import torch\n", "import os\n\nimport torch\n")
    write(tmp_path, {"train.py": train, "conf/base.yaml": "num_workers: 4\n"})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("read", "config", "expected"),
    [
        ('config.get("loader", "num_workers")', "loader:\n  num_workers: 4\n", True),
        ('config.get("loader", "num_workers")', "loader:\n  num_workers: 4\nval:\n  num_workers: 0\n", True),
        ('config.get("loader", "num_workers")', "loader:\n  num_workers: 0\nval:\n  num_workers: 4\n", False),
        ('config.get("loader", "num_workers")', "val:\n  num_workers: 4\n", False),
        ('config.get("loader", "num_workers", 0)', "loader:\n  num_workers: 4\n", False),
        ('config.find("loader", "num_workers")', "loader:\n  num_workers: 4\n", False),
        ('config.get("loader", "num_workers") // torch.cuda.device_count()', "loader:\n  num_workers: 8\n", True),
        ('config.get("loader", "num_workers") // torch.cuda.device_count()', "loader:\n  num_workers: 4\n", False),
        ('config["num_workers"] // torch.cuda.device_count()', "num_workers: 16\n", True),
        ('config["num_workers"] // torch.cuda.device_count()', "num_workers: 16\nval:\n  num_workers: 2\n", False),
        ('config["num_workers"] // config["parts"]', "num_workers: 16\n", False),
    ],
)
def test_a_method_reads_a_part_of_a_setting(read: str, config: str, expected: bool, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAIN.format(workers=read, pinned="True"), "conf/base.yaml": config})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("unpacked", "config", "expected"),
    [
        ('config["loader"]', "loader:\n  num_workers: 4\n", True),
        ('config["data"]["loader"]', "data:\n  loader:\n    num_workers: 4\n", True),
        ("config.loader", "loader:\n  num_workers: 4\n", True),
        ("options", "loader:\n  num_workers: 4\n", True),
        ('config["loader"]', "loader:\n  num_workers: 4\n  persistent_workers: true\n", False),
        ('config["loader"]', "loader:\n  num_workers: 0\n", False),
        ('config["loader"]', "loader:\n  batch_size: 8\n", False),
        ('{**config["loader"], "num_workers": 0}', "loader:\n  num_workers: 4\n", False),
    ],
)
def test_a_call_unpacks_settings(unpacked: str, config: str, expected: bool, tmp_path: Path) -> None:
    given = "num_workers={workers}, pin_memory={pinned}"
    train = TRAIN.replace(given, f"**{unpacked}").replace(
        "    loader =", '    options = config["loader"]\n    loader ='
    )
    write(tmp_path, {"train.py": train, "conf/base.yaml": config})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"conf/a.yaml": "num_workers: 4\n", "conf/b.yml": "num_workers: 2\n"}, True),
        ({"conf/a.yaml": "num_workers: 4\n", "conf/b.yaml": "lr: 1\n"}, True),
        ({"conf/debug.yaml": "num_workers: 0\n", **{f"{n}.yaml": "num_workers: 4\n" for n in range(9)}}, True),
        ({"conf/debug.yaml": "num_workers: 0\n", **{f"{n}.yaml": "num_workers: 4\n" for n in range(8)}}, False),
        ({"conf/a.yaml": "num_workers: 4\n", "conf/b.yaml": "num_workers: 0\n"}, False),
        ({"conf/a.yaml": "num_workers: 4\n", "tests/b.yaml": "num_workers: 0\n"}, True),
        ({"tests/a.yaml": "num_workers: 4\n"}, False),
        ({".github/a.yaml": "num_workers: 4\n"}, False),
        ({"third_party/lib/a.yaml": "num_workers: 4\n"}, False),
        ({"conf/a.json": '{"num_workers": 4}\n'}, False),
        ({"conf/a.txt": "num_workers: 4\n"}, False),
        ({"other/a.yaml": "num_workers: 4\n", "other/main.py": "if __name__ == '__main__':\n    pass\n"}, False),
        ({"conf/a.yaml": "num_workers: 4\n", "main.py": "if __name__ == '__main__':\n    pass\n"}, True),
        ({}, False),
    ],
    ids=[
        "all", "not in all files", "one in ten has none", "one in nine has none", "one of two has none",
        "none for tests", "only for tests", "hidden", "vendored", "JSON is not read", "neither YAML nor JSON",
        "of another program", "next to another program", "no files",
    ],
)  # fmt: skip
def test_files_of_a_project(files: Mapping[str, str], expected: bool, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": WORKERS, **files})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("train", "other", "expected"),
    [
        ("import reading\n" + WORKERS.replace("import yaml\n", ""), "import yaml\n", True),
        ("import reading\n" + WORKERS.replace("import yaml\n", ""), "import json\n", False),
        (WORKERS.replace("import yaml\n", ""), "import yaml\n\nprint(yaml.safe_load(open('a')))\n", False),
    ],
    ids=["a module imports yaml", "another library", "another script imports it"],
)
def test_any_file_of_the_program_may_read_yaml(train: str, other: str, expected: bool, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": train, "reading.py": other, "conf/base.yaml": "num_workers: 4\n"})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n  "num_workers": 4,\n  "lr": 1e-3\n}\n', True),
        ('{"data": {"lr": 1e-3, "num_workers":4}}', True),
        ('{"num_workers": 0}', False),
        ('{"num_workers": "4"}', False),
        ('{"num_workers": null}', False),
        ('["num_workers", 4]', False),
    ],
)
def test_json_files_of_a_program_that_reads_json(text: str, expected: bool, tmp_path: Path) -> None:
    train = WORKERS.replace("import yaml", "import json").replace("yaml.safe_load", "json.load")
    write(tmp_path, {"train.py": train, "config.json": text, "conf/unread.yaml": "num_workers: 0\n"})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("num_workers = 4\n", "config.toml", True),
        ("[data]\n'num_workers'=4  # of one GPU\n", "conf/base.toml", True),
        ("data = {lr = 1e-3, num_workers = 4}\n", "config.toml", True),
        ("[data]\nnum_workers = 0\n", "config.toml", False),
        ('num_workers = "4"\n', "config.toml", False),
        ("# num_workers = 4\n", "config.toml", False),
        ("old_num_workers = 4\n", "config.toml", False),
        ("num_workers: 4\n", "config.toml", False),
        ("num_workers = 4\n", "pyproject.toml", False),
        ("num_workers: 4\n", "config.yaml", False),
    ],
)
def test_toml_files_of_a_program_that_reads_toml(text: str, name: str, expected: bool, tmp_path: Path) -> None:
    train = WORKERS.replace("import yaml", "import tomllib").replace("yaml.safe_load", "tomllib.load")
    write(tmp_path, {"train.py": train, name: text, "conf/unread.json": '{"num_workers": 0}'})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("read", "expected"),
    [("config.train.num_workers", "TL103"), ("config.val.num_workers", "TL101"), ("config.test.num_workers", None)],
)
def test_the_table_around_a_key_counts(read: str, expected: str | None, tmp_path: Path) -> None:
    train = TRAIN.format(workers=read, pinned="True").replace("yaml.safe_load", "tomllib.load")
    tables = "[train]\nnum_workers = 4\n\n[loading.val]\nlr = 1\nnum_workers = 0\n"
    write(tmp_path, {"train.py": train.replace("yaml", "tomllib"), "base.toml": tables})
    assert [code for code in codes(tmp_path) if code in ("TL101", "TL103")] == ([expected] if expected else [])


DEFAULTS = """\
from easydict import EasyDict

CONFIG = EasyDict({})
CONFIG.data = EasyDict({})
CONFIG.data.num_workers = 0


def merge(given):
    for key, value in given.items():
        CONFIG[key].update(value)
"""


@pytest.mark.parametrize(
    ("defaults", "config", "expected"),
    [
        (DEFAULTS, "data:\n  num_workers: 4\n", True),
        (DEFAULTS, "data:\n  num_workers: 0\n", False),
        (DEFAULTS, "data:\n  batch_size: 4\n", False),
        (DEFAULTS + "    CONFIG.data.num_workers = 0\n", "data:\n  num_workers: 4\n", False),
        (DEFAULTS.replace("EasyDict({})", "read('a.yaml')", 1), "data:\n  num_workers: 4\n", False),
    ],
    ids=["in a file", "0 in a file", "in no file", "set after reading", "read before"],
)
def test_a_file_replaces_a_default(defaults: str, config: str, expected: bool, tmp_path: Path) -> None:
    train = WORKERS.replace('config["num_workers"]', "CONFIG.data.num_workers")
    train = train.replace("from photos", "from defaults import CONFIG, merge\nfrom photos")
    train = train.replace("    config = yaml.safe_load(file)", "    merge(yaml.safe_load(file))")
    write(tmp_path, {"train.py": train, "defaults.py": defaults, "conf/base.yaml": config})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pin_memory: true\n", True),
        ("pin_memory: yes\n", True),
        ("pin_memory: false\n", False),
        ("pin_memory: 1\n", False),
        ("pin_memory: 'true'\n", False),
        ("pinned: true\n", False),
    ],
)
def test_batches_that_a_yaml_file_pins(text: str, expected: bool, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": PINNED, "conf/base.yaml": text})
    assert ("TL204" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("pinned", "expected"),
    [
        ("config.get('pin_memory')", True),
        ("config.get('pin_memory', True)", True),
        ("bool(config['pin_memory'])", True),
        ("config.get('pin_memory', False)", False),
        ("not config['pin_memory']", False),
    ],
)
def test_what_reads_a_switch(pinned: str, expected: bool, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAIN.format(workers="4", pinned=pinned), "conf/base.yaml": "pin_memory: true\n"})
    assert ("TL204" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("pinned", "text", "expected"),
    [
        ("True if config['cache'] == 'cpu' else False", "cache: 'cpu'  # or cuda\n", True),
        ("config['cache'] == 'cpu'", "cache: cpu\n", True),
        ("config['cache'] == 'cpu'", "cache: cuda\n", False),
        ("config['cache'] == 'cpu'", "caches: cpu\n", False),
        ("False if config['cache'] == 'cpu' else True", "cache: cpu\n", False),
    ],
)
def test_a_yaml_file_decides_whether_batches_are_pinned(pinned: str, text: str, expected: bool, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAIN.format(workers="4", pinned=pinned), "conf/base.yaml": text})
    assert ("TL204" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("num_workers: 0\npin_memory: false\n", ["TL101", "TL102"]),
        ("num_workers: 0  # while debugging\npin_memory: True\n", ["TL101"]),
        ("num_workers: 4\npin_memory: off\n", ["TL102"]),
        ("num_workers: ${workers}\npin_memory: ${pinned}\n", []),
        ("num_workers:\n  - 0\npin_memory: 'false'\n", []),
        ("lr: 1\n", []),
    ],
)
def test_a_file_turns_something_off(config: str, expected: list[str], tmp_path: Path) -> None:
    train = TRAIN.format(workers='config["num_workers"]', pinned='config["pin_memory"]')
    write(tmp_path, {"train.py": train, "conf/base.yaml": config})
    assert [code for code in codes(tmp_path) if code in ("TL101", "TL102")] == expected


def test_a_note_names_the_file_that_turns_something_off(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": WORKERS, "conf/base.yaml": "num_workers: 0\n", "conf/large.yaml": "num_workers: 0\n"})
    found = check_text(WORKERS, str(tmp_path / "train.py"))
    notes = [(item.code, item.fix, note.message) for item in found for note in item.notes]
    assert ("TL101", None, "`num_workers` is 0 in conf/base.yaml and set in 1 other file") in notes


GROUPS = """\
train:
  loader: {shuffle: true}
  num_workers: 4

val:
  # a few images
  num_workers: 0
"""


@pytest.mark.parametrize(
    ("read", "config", "expected"),
    [
        ('config["train"]["num_workers"]', GROUPS, "TL103"),
        ('config["val"]["num_workers"]', GROUPS, "TL101"),
        ("config.train.num_workers", GROUPS, "TL103"),
        ("config.val.num_workers", GROUPS, "TL101"),
        ("config.val.get('num_workers')", GROUPS, "TL101"),
        ("int(config.val.num_workers)", GROUPS, "TL101"),
        ("part.num_workers", GROUPS, "TL101"),
        ("config.test.num_workers", GROUPS, None),
        ("config.num_workers", GROUPS, None),
        ("config.val.num_workers", "train:\n- num_workers: 4\nval:\n- num_workers: 0\n", None),
        ("config.val.num_workers", '{"train": {\n  "num_workers": 4},\n"val": {\n  "num_workers": 0}}\n', "TL101"),
    ],
)
def test_the_mapping_around_a_key_counts(read: str, config: str, expected: str | None, tmp_path: Path) -> None:
    train = TRAIN.format(workers=read, pinned="True").replace("    loader =", "    part = config.val\n    loader =")
    write(tmp_path, {"train.py": train, "conf/base.yaml": config})
    assert [code for code in codes(tmp_path) if code in ("TL101", "TL103")] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("pinned", "config", "expected"),
    [
        ("config.get('pin_memory', False)", "num_workers: 4\n", True),
        ("config.get('pin_memory', False)", "num_workers: 4\npin_memory: true\n", False),
        ("config.get('pin_memory', False)", "lr: 1\n", False),
        ("config.get('pin_memory', True)", "num_workers: 4\n", False),
        ("config.get('pin_memory', pinned)", "num_workers: 4\n", False),
        ("config.get('pin_memory')", "num_workers: 4\n", False),
        ("config['pin_memory']", "num_workers: 4\n", False),
    ],
    ids=[
        "in no file",
        "in a file",
        "no settings",
        "other default",
        "unknown default",
        "no default",
        "no default either",
    ],
)
def test_a_switch_that_no_file_sets_has_its_default(pinned: str, config: str, expected: bool, tmp_path: Path) -> None:
    train = TRAIN.format(workers='config["num_workers"]', pinned=pinned)
    write(tmp_path, {"train.py": train, "conf/base.yaml": config})
    assert ("TL102" in codes(tmp_path)) is expected
    if expected:
        found = check_text(train, str(tmp_path / "train.py"))
        notes = [note.message for item in found if item.code == "TL102" for note in item.notes]
        assert "no configuration file of the project sets `pin_memory`, which defaults to False" in notes


OVERRIDDEN = WORKERS.replace("def main(config):\n", "def main(config):\n    {statement}\n").replace(
    'config["num_workers"]', "config.num_workers"
)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("if config.debug:\n        config.num_workers = 0", True),
        ("config.num_workers = config.num_workers // 2", True),
        ("config.num_workers = 0", False),
        ("config.num_workers = count()", False),
        ("options['num_workers'] = count()", False),
        ("parser.add_argument('--num_workers', type=int)", False),
    ],
    ids=["on a condition", "divided", "none", "unknown", "unknown item", "option"],
)
def test_what_a_program_sets_itself(statement: str, expected: bool, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": OVERRIDDEN.format(statement=statement), "conf/base.yaml": "num_workers: 4\n"})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        ("import yaml\n\n\ndef load():\n    return yaml.safe_load(open('a.yaml'))\n", True),
        ("from omegaconf import OmegaConf\n\n\ndef load():\n    return OmegaConf.load('a.yaml')\n", True),
        (
            "from fvcore.common.config import CfgNode\n\n\ndef load():\n    return CfgNode.load_yaml('a.yaml')\n",
            True,
        ),
        ("from other import read\n\n\ndef load():\n    return read('a.yaml')\n", False),
        ("import yaml\n\n\nclass Config:\n    num_workers = 0\n\n\ndef load():\n    return Config()\n", False),
        (
            "import yaml\n\n\nclass Config:\n    def __init__(self, given):\n        self.__dict__.update(given)\n\n\n"
            "def load():\n    return Config(yaml.safe_load(open('a.yaml')))\n",
            True,
        ),
    ],
    ids=["yaml", "omegaconf", "fvcore", "no reader", "class with the setting", "class without it"],
)
def test_another_file_reads_the_configuration(reader: str, expected: bool, tmp_path: Path) -> None:
    train = WORKERS.replace("import yaml\n", "").replace('config["num_workers"]', "config.num_workers")
    train = train.replace("from photos", "from reader import load\nfrom photos")
    train = train.replace('with open("conf/base.yaml") as file:\n    config = yaml.safe_load(file)', "config = load()")
    write(tmp_path, {"train.py": train, "reader.py": reader, "conf/base.yaml": "num_workers: 4\n"})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [("from options.reading import load\n", True), ("import sys\n\nload = sys.modules\n", False)],
    ids=["imported by the script", "a script of its own"],
)
def test_a_self_test_is_next_to_the_file(start: str, expected: bool, tmp_path: Path) -> None:
    reading = (
        "def load(path):\n    return open(path)\n\n\nif __name__ == '__main__':\n    print(load('options/a.yaml'))\n"
    )
    files = {"train.py": start + WORKERS, "options/reading.py": reading, "options/a.yaml": "num_workers: 4\n"}
    write(tmp_path, files)
    assert ("TL103" in codes(tmp_path)) is expected


def test_no_files_are_read_for_isolated_files(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": WORKERS, "conf/base.yaml": "num_workers: 4\n"})
    settings = replace(load_settings(), isolated_files=True)
    assert "TL103" not in [item.code for item in check_text(WORKERS, str(tmp_path / "train.py"), settings)]


def test_a_note_names_the_file(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": WORKERS, **{f"conf/{name}.yaml": "num_workers: 4\n" for name in "abc"}})
    found = check_text(WORKERS, str(tmp_path / "train.py"))
    notes = [note.message for item in found if item.code == "TL103" for note in item.notes]
    assert "`num_workers` is 4 in conf/a.yaml and set in 2 other files" in notes


def test_an_editor_sees_a_changed_value(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": WORKERS, "conf/base.yaml": "num_workers: 0\n"})
    path, config = str(tmp_path / "train.py"), tmp_path / "conf" / "base.yaml"
    source, settings = Source.from_text(WORKERS, path), load_settings()
    assert "TL103" not in codes(tmp_path)
    before = texts_around(source, settings)
    assert before[str(config)] == "num_workers: 0\n"
    config.write_text("num_workers: 4\n")
    read_again(str(config))
    assert texts_around(source, settings) != before
    assert "TL103" in codes(tmp_path)
    config.write_text("num_workers: 4\nlr: 1\n")
    (tmp_path / "result.json").write_text("{}\n")
    read_again(str(tmp_path / "result.json"))
    assert texts_around(source, settings)[str(config)] == "num_workers: 4\n"


def test_unreadable_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00num_workers: 4\n")
    (tmp_path / "mark.yaml").write_bytes("\ufeffnum_workers: 8\n".encode())
    (tmp_path / "folder.yaml").mkdir()
    os.symlink(tmp_path / "loop.yaml", tmp_path / "loop.yaml")
    names = ["binary.yaml", "folder.yaml", "gone.yaml", "loop.yaml", "mark.yaml"]
    assert [value.text for value in Configs(str(tmp_path), names).values("num_workers")] == ["8"]


def test_folders_full_of_files_contain_data(tmp_path: Path) -> None:
    write(tmp_path, {"b.yaml": "", "conf/a.yml": "", **{f"labels/{number}.json": "" for number in range(301)}})
    assert scan_folder(str(tmp_path)).configs == ("b.yaml", "conf/a.yml")
    assert listed([f"{number}/a.json" for number in range(3_001)]) == ()


@pytest.mark.parametrize(
    ("config", "reader", "scripts", "expected"),
    [
        ("conf/a.yaml", "tools/train.py", {"tools"}, True),
        ("a.yaml", "train.py", {""}, True),
        ("conf/deep/a.yaml", "lib/data.py", {"", "conf"}, False),
        ("one/conf/a.yaml", "two/train.py", {"one", "two"}, False),
        ("one/conf/a.yaml", "one/lib/data.py", {"one", "two"}, True),
    ],
)
def test_whose_file_it_is(config: str, reader: str, scripts: set[str], expected: bool) -> None:
    assert is_own(config, reader, scripts) is expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"local/conf.yml": "num_workers: 4\n"}, True),
        ({"local/conf.yml": "num_workers: 4\n", "local/other.yml": "num_workers: 0\n"}, True),
        ({"local/other.yml": "num_workers: 4\n"}, False),
        ({"local/conf.yml": "num_workers: 0\n"}, False),
        ({"net/local/conf.yml": "num_workers: 4\n", "net/eval.py": "open('local/conf.yml')\n"}, False),
    ],
    ids=["named", "next to the one that is named", "not named", "without workers", "named by another program"],
)
def test_a_program_names_a_file_in_the_folder_of_a_script(
    files: Mapping[str, str], expected: bool, tmp_path: Path
) -> None:
    train = WORKERS.replace("conf/base.yaml", "local/conf.yml")
    script = "if __name__ == '__main__':\n    pass\n"
    write(tmp_path, {"train.py": train, "local/prepare.py": script, "net/local/prepare.py": script, **files})
    assert ("TL103" in codes(tmp_path)) is expected


@pytest.mark.parametrize(
    "unit", [" ", ",", "{", "- ", "num_workers", "num_workers:", ", ", "'", "#", "[", "[a]\n", "num_workers=1\n"]
)
@pytest.mark.parametrize("ending", [".yaml", ".toml"])
def test_time_to_read_grows_linearly(unit: str, ending: str, tmp_path: Path) -> None:
    def time_of(size: int) -> float:
        (tmp_path / f"a{ending}").write_text((unit * size)[: size - 20] + "num_workers: 4")
        times = []
        for _ in range(3):
            begin = time.process_time()
            Configs(str(tmp_path), [f"a{ending}"]).values("num_workers")
            times.append(time.process_time() - begin)
        return min(times)

    one, two = time_of(MAX_BYTES // 16), time_of(MAX_BYTES // 8)
    assert two < 3 * one + 0.05  # four times as long if it grew with the square: seconds at this size


OF_CLASS = """\
import torch
from torch.utils.data import DataLoader

from photos import Photos


class Data:
    def __init__(self, batch_size, num_workers=0):
        self.loader = DataLoader(Photos(), batch_size=batch_size, num_workers=num_workers, pin_memory=True)

    def train(self, model):
        for epoch in range(90):
            for images in self.loader:
                model(images.to("cuda", non_blocking=True)).sum().backward()
"""
MAKING = """\
import yaml
from loading import instantiate_from_config
from nets import net

data = instantiate_from_config(yaml.safe_load(open("conf/base.yaml"))["data"])
data.train(net)
"""


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("data:\n  target: data.Data\n  params:\n    num_workers: 4\n", ["TL103"]),
        ("data:\n  _target_: data.Data\n  num_workers: 4\n", ["TL103"]),
        ("data:\n  target: data.Data\n  params:\n    batch_size: 4\n", ["TL113"]),
        ("data:\n  target: data.Data\nother:\n  num_workers: 4\n", ["TL113"]),
        ("data:\n  target: other.Data2\n  params:\n    num_workers: 4\n", ["TL113"]),
    ],
    ids=["target", "hydra", "another parameter", "another object", "another class"],
)
def test_a_file_names_the_class_that_gets_a_number(config: str, expected: list[str], tmp_path: Path) -> None:
    write(tmp_path, {"data.py": OF_CLASS, "main.py": MAKING, "conf/base.yaml": config})
    assert [code for code in codes(tmp_path, "data.py") if code in ("TL103", "TL113")] == expected
