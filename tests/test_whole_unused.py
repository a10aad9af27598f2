"""Functions and classes of a program that nothing uses are not reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import codes, write

LOSSES = """\
import torch
from torch import nn


class Used(nn.Module):
    def forward(self, x, y):
        return ((x - y) ** 2).mean()


{decorator}class Masked(nn.Module):
    def __init__(self):
        super(Masked, self).__init__()

    def forward(self, x, y):
        return (x - y).mean() + torch.zeros(4, 4).to(x.device).mean()
"""
MAIN = """\
import torch
from losses import {imported}

model = torch.nn.Linear(8, 2).cuda()
loss = Used()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""
MODULE = "import losses\n\nlosses.Used\n"
PICKED = "import losses\n\n\ndef build(name):\n    return getattr(losses, name)()\n"
TABLE = "import losses\n\nkinds = {'plain': losses}\n"
UNCALLED = "from losses import Masked\n\n\ndef build():\n    return Masked()\n"
TRIED = """\
try:
    from losses import Masked
except ImportError:
    class Masked:
        pass

print(Masked())
"""
LOADED = (
    "import importlib\n\n\ndef build(module, name):\n"
    "    return getattr(importlib.import_module(module), name)()\n\n\nprint(build(a, b))\n"
)


def _codes(folder: Path, decorator: str = "", imported: str = "Used", **others: str) -> list[str]:
    files = {"losses": LOSSES.format(decorator=decorator), "main": MAIN.format(imported=imported)}
    return codes(write(folder, files, **others) / "losses.py")


@pytest.mark.parametrize(
    ("others", "imported"),
    [
        ({}, "Used"),
        ({}, "Used, Masked"),
        ({}, "*"),
        ({"extra": MODULE}, "Used"),
        ({"extra": "# Masked() is worse\nfrom losses import Used\n"}, "Used"),
        ({"extra": 'class Net:\n    """Like `Masked`."""\n'}, "Used"),
        ({"other": "class Masked:\n    pass\n"}, "Used"),
        ({"extra": "def build(config):\n    return getattr(config, name)\n"}, "Used"),
        ({"extra": LOADED.partition("print")[0]}, "Used"),
        ({"extra": LOADED.replace("getattr(", "len(")}, "Used"),
        ({"extra": UNCALLED}, "Used\nimport extra"),
        ({"extra": UNCALLED + "\n\nclass Net:\n    loss = build()\n"}, "Used\nimport extra"),
        ({"extra": "class Masked:\n    pass\n\n\nprint(Masked())\n"}, "Used"),
        ({"extra": "from losses import Used as Masked\n\nprint(Masked())\n"}, "Used"),
        ({"extra": "from other import Masked\n\nprint(Masked())\n", "other": "class Masked:\n    pass\n"}, "Used"),
        ({"extra": "print(data.Masked())\n"}, "Used"),
        ({"extra": "print(kinds[name].Masked())\n"}, "Used"),
        ({"extra": MODULE, "other": "print(kinds[name].Masked())\n"}, "Used"),
        ({"extra": TABLE, "other": "print(kinds[name].other)\n"}, "Used"),
        ({"extra": TABLE.replace("losses}", "main}"), "other": "print(kinds[name].Masked())\n"}, "Used"),
        ({"extra": f"print(data.Masked(), '{'a' * 300_000} {'a.' * 300_000}')\n"}, "Used"),
    ],
)
def test_what_nothing_uses_is_not_reported(tmp_path: Path, others: dict[str, str], imported: str) -> None:
    assert _codes(tmp_path, imported=imported, **others) == []


@pytest.mark.parametrize(
    ("others", "imported"),
    [
        ({"extra": "from losses import Masked\n\nloss = Masked()\n"}, "Used"),
        ({"extra": "from losses import Masked as Loss\n"}, "Used"),
        ({"extra": "import losses\n\nloss = losses.Masked()\n"}, "Used"),
        ({"extra": 'LOSS = "Masked"\n'}, "Used"),
        ({"extra": PICKED}, "Used"),
        ({"extra": PICKED.replace("losses", "kinds"), "kinds": "from losses import *\n"}, "Used"),
        ({"extra": LOADED}, "Used"),
        ({"extra": "def all_of(base):\n    return base.__subclasses__()\n"}, "Used"),
        ({"extra": "from losses import *\n\n\ndef build(name):\n    return globals()[name]()\n"}, "Used"),
        ({"setup": "from setuptools import setup\n\nsetup(name='losses')\n"}, "Used"),
        ({"extra": UNCALLED + "\n\nprint(build())\n"}, "Used\nimport extra"),
        ({"extra": UNCALLED}, "Used"),  # nothing imports it: code out of sight may
        ({"extra": UNCALLED.replace("def", "@hydra.main()\ndef")}, "Used\nimport extra"),
        ({"tests/test_losses": UNCALLED.replace("build", "test_build")}, "Used"),
        ({"extra": "from other import Masked\n\nprint(Masked())\n", "other": "from losses import Masked\n"}, "Used"),
        ({"extra": "import other\n\nprint(other.Masked())\n", "other": "from losses import Masked\n"}, "Used"),
        ({"extra": TRIED}, "Used"),
        ({"extra": TABLE, "other": "print(kinds[name].Masked())\n"}, "Used"),
        ({"extra": TABLE, "other": "def build(kind):\n    return kind.Masked()\n\n\nprint(build(kind))\n"}, "Used"),
        ({"pack/extra": TABLE.replace("import", "from .. import"), "other": "print(kind.Masked())\n"}, "Used"),
    ],
)
def test_what_may_be_used_is_reported(tmp_path: Path, others: dict[str, str], imported: str) -> None:
    assert _codes(tmp_path, imported=imported, **others) == ["TL206"]


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [("@LOSSES.register_module()\n", ["TL206"]), ("@add_start_docstrings('Masked', DOCS)\n", [])],
)
def test_a_decorator_may_register_a_class(tmp_path: Path, decorator: str, expected: list[str]) -> None:
    assert _codes(tmp_path, decorator=decorator) == expected


def test_a_configuration_file_may_name_a_class(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("loss: Masked\n", encoding="utf-8")
    assert _codes(tmp_path) == ["TL206"]


def test_a_setup_that_only_builds_an_extension_installs_no_modules(tmp_path: Path) -> None:
    setup = "from setuptools import setup\n\nsetup(name='ops', ext_modules=[build('ops')])\n"
    assert _codes(tmp_path, setup=setup) == []


def test_a_module_that_is_loaded_by_its_path_may_use_the_names_that_it_imports(tmp_path: Path) -> None:
    main = "import imp\n\nimp.load_source('net', path).Net()\n"
    files = {"losses": LOSSES.format(decorator=""), "net": "from losses import Used, Masked\n\nNet = Used\n"}
    assert codes(write(tmp_path, files, main=main) / "losses.py") == []


@pytest.mark.parametrize(("folder", "expected"), [("examples", []), ("tools/train", []), ("library", ["TL206"])])
def test_a_project_does_not_install_its_examples(tmp_path: Path, folder: str, expected: list[str]) -> None:
    files = {f"{folder}/losses": LOSSES.format(decorator=""), f"{folder}/main": MAIN.format(imported="Used")}
    setup = "from setuptools import find_packages, setup\n\nsetup(name='losses', packages=find_packages())\n"
    assert codes(write(tmp_path, files, setup=setup) / folder / "losses.py") == expected


def test_an_example_that_is_a_package_may_be_installed(tmp_path: Path) -> None:
    files = {"examples/losses": LOSSES.format(decorator=""), "examples/main": MAIN.format(imported="Used")}
    setup = "from setuptools import find_packages, setup\n\nsetup(name='losses', packages=find_packages())\n"
    folder = write(tmp_path, {**files, "examples/__init__": ""}, setup=setup) / "examples"
    assert codes(folder / "losses.py") == ["TL206"]


def test_what_no_script_may_import_is_reported(tmp_path: Path) -> None:
    assert codes(write(tmp_path, {"losses": LOSSES.format(decorator="")}) / "losses.py") == ["TL206"]


def test_an_ignored_file_that_is_imported_may_use_a_class(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("models/\n", encoding="utf-8")
    models = "from losses import Masked\n\nloss = Masked()\n"
    others = {"models/net": models, "models/__init__": "", "extra": "from models.net import loss\n"}
    files = {"losses": LOSSES.format(decorator=""), "main": MAIN.format(imported="Used"), **others}
    assert codes(write(tmp_path, files) / "losses.py") == ["TL206"]


SHARED = """\
import torch
from torch import nn


class Used(nn.Module):
    def forward(self, x, y):
        return ((x - y) ** 2).mean()

    {decorator}
    def masked(self, x):
        return x + torch.zeros(4, 4).to(x.device)
"""


def _codes_of_method(folder: Path, decorator: str = "", base: str = "nn.Module", **others: str) -> list[str]:
    text = SHARED.format(decorator=decorator).replace("nn.Module", base)
    return codes(write(folder, {"losses": text, "main": MAIN.format(imported="Used")}, **others) / "losses.py")


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"extra": "# loss.masked(x)\n"},
        {"extra": "class Other:\n    def masked(self, x):\n        return x\n"},
        {"extra": "import torch\n\nx = torch.masked(y)\n"},
        {"extra": "import torch\n\n\ndef dtype_of(name):\n    return getattr(torch, name)\n"},
        {"extra": 'def built(loss):\n    return getattr(loss, "forward")\n'},
    ],
)
@pytest.mark.parametrize("decorator", ["", "@staticmethod", "@torch.no_grad()"])
def test_a_method_that_nothing_calls_is_not_reported(tmp_path: Path, others: dict[str, str], decorator: str) -> None:
    assert _codes_of_method(tmp_path, decorator, **others) == []


@pytest.mark.parametrize("extra", ["", "def run(loss, x):\n    return loss.masked(x)\n"])
def test_a_method_is_known_in_a_class_that_libcst_parses(tmp_path: Path, extra: str) -> None:
    statement = "y = 1; del y,"  # Python's own tree does not tell it from `del y`
    found = _codes_of_method(tmp_path, f"{statement}\n    @torch.no_grad()", extra=extra)
    assert found == (["TL206"] if extra else [])


@pytest.mark.parametrize(
    "others",
    [
        {"extra": "def run(loss, x):\n    return loss.masked(x)\n"},
        {"extra": "class Other(Base):\n    def forward(self, x):\n        return super().masked(x)\n"},
        {"extra": 'def run(loss, x):\n    return getattr(loss, "masked")(x)\n'},
        {"extra": "def run(loss, name, x):\n    return getattr(loss, name)(x)\n"},
        {"extra": 'def run(loss, name, x):\n    return getattr(loss, f"{name}ed")(x)\n'},
        {"extra": 'def run(loss, name, x):\n    return getattr(loss, "mask" + name)(x)\n'},
        {"extra": "import fire\nfrom losses import Used\n\nfire.Fire(Used)\n"},
        {"extra": "import inspect\n\n\ndef all_of(loss):\n    return inspect.getmembers(loss)\n"},
    ],
)
def test_a_method_that_may_be_called_is_reported(tmp_path: Path, others: dict[str, str]) -> None:
    assert _codes_of_method(tmp_path, **others) == ["TL206"]


@pytest.mark.parametrize(
    ("decorator", "base"), [("", "lightning.LightningModule"), ("", "Base"), ("@METHODS.register", "nn.Module")]
)
def test_a_library_may_call_a_method(tmp_path: Path, decorator: str, base: str) -> None:
    assert _codes_of_method(tmp_path, decorator, base) == ["TL206"]
