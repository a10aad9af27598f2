"""What a file and the code in it is there for: tests, vendored copies, code that runs once, dead code."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchlint
from torchlint.findings.diagnostic import Severity
from torchlint.model.forest import Forest, ForestFile
from torchlint.model.module import Module
from torchlint.model.syntax.pieces import parse_pieces
from torchlint.model.training.purpose import Purpose, Purposes
from torchlint.source.paths import in_project, is_in_package

LOOP = """\
import torch

def start(size):
    return torch.zeros(size).cuda()
"""


@pytest.mark.parametrize(
    ("place", "purpose"),
    [
        ("third_party/net/train.py", Purpose.VENDORED),
        ("src/pkg/_vendor/net.py", Purpose.VENDORED),
        ("vendor/net.py", Purpose.VENDORED),
        ("externals/net.py", Purpose.VENDORED),
        ("external_data/net.py", Purpose.WORK),
        ("src/vendor.py", Purpose.WORK),
        ("tests/models/net.py", Purpose.TEST),
        ("conftest.py", Purpose.TEST),
        ("test/net.py", Purpose.WORK),
        ("test_net.py", Purpose.WORK),
        ("test/test_net.py", Purpose.TEST),
        ("net/test/gpu/test_net.py", Purpose.TEST),
        ("test/nets/evaluate_net.py", Purpose.WORK),
        ("train.py", Purpose.WORK),
    ],
)
def test_a_file_by_its_folder(place: str, purpose: Purpose) -> None:
    assert of_file("x = 1\n", place) is purpose


def test_a_test_library_makes_a_test() -> None:
    assert of_file("import pytest\n", "train.py") is Purpose.TEST
    assert of_file("from unittest import TestCase\nclass Step(TestCase): ...\n", "train.py") is Purpose.TEST
    assert of_file("from unittest.mock import patch\n", "train.py") is Purpose.WORK


@pytest.mark.parametrize(
    ("place", "purpose"),
    [
        ("ops/test.py", Purpose.TEST),
        ("pointnet2/pointnet2_test.py", Purpose.TEST),
        ("test_deform.py", Purpose.TEST),
        ("ops/deform_conv.py", Purpose.WORK),
        ("ops/testing/conv.py", Purpose.WORK),
    ],
)
def test_a_script_that_compares_gradients_with_numerical_ones(place: str, purpose: Purpose) -> None:
    assert of_file("from torch.autograd import Function, gradcheck\n", place) is purpose
    assert of_file("from torch.autograd import Function\n# gradcheck\n", place) is Purpose.WORK


@pytest.mark.parametrize(
    "text",
    [
        "import os, pytest\n",
        "import os as system, torch.testing\n",
        "from numpy.testing import assert_allclose\n",
        "import os, unittest\nclass Step(unittest.TestCase): ...\n",
        "import unittest as ut\nclass Step(ut.TestCase): ...\n",
        "import unittest.mock\nmodel = unittest.mock.MagicMock()\n",
        "from unittest import (\n    TestCase as Case,  # with a comment\n    main,\n)\nclass Step(Case): ...\n",
        "from unittest import mock\nmodel = mock.Mock()\n",
        "from unittest.mock import patch\n@patch('train.step')\ndef run(step): ...\n",
        "from unittest.mock import patch\nwith patch.object(train, 'step'):\n    train.main()\n",
    ],
)
def test_a_test_library_in_any_import(text: str) -> None:
    assert of_file(text, "train.py") is Purpose.TEST


@pytest.mark.parametrize(
    "text",
    [
        "from unittest.mock import patch\nfor patch in patches:\n    patch.cuda()\n    net(patch)\n",
        "from unittest import result\nresult = net(x)\n",
        "from unittest import (\n    mock,\n)\nx = 1\n",
        "import unittest\nimport torch\n",
        "import mock_data\nmock = mock_data.load()\nx = 'unittest'\n",
        "import subprocess\nfrom unittest.mock import call\nsubprocess.call(['ls'])\n",
        "import tests.pytest_like\nimport torch, mypytest\n",
    ],
)
def test_an_import_of_unittest_that_nothing_uses(text: str) -> None:
    assert of_file(text, "train.py") is Purpose.WORK


CODE = """\
import torch
torch.zeros(1).cuda()
for _ in range(3):
    torch.zeros(2).cuda()

class Net:
    def __init__(self):
        self.x = torch.zeros(3).cuda()
    def reset(self):
        self.x = torch.zeros(4).cuda()

def main():
    torch.zeros(5).cuda()
    [torch.zeros(6).cuda() for _ in range(3)]
    load()
    for _ in range(3):
        train()
    visit(passed)

def load():
    torch.zeros(7).cuda()

def train():
    torch.zeros(8).cuda()

def passed():
    torch.zeros(9).cuda()

def unused():
    torch.zeros(10).cuda()
    helper()

def helper():
    torch.zeros(11).cuda()
    helper()
"""
GUARD = '\nif __name__ == "__main__":\n    main()\n'


def of_file(text: str, place: str) -> Purpose:
    """What a file is there for."""
    module = Module.parse(text, place=place)
    return module.fact(Purposes).of_file(module.root)


def purposes(text: str, in_package: bool = False) -> dict[int, Purpose]:
    """What the code at each ``torch.zeros(number)`` of ``text`` is there for."""
    module = Module.parse(text, place="train.py", in_package=in_package)
    return {
        int(module.code(call.node.args[0])): module.fact(Purposes).of(call.node) for call in module.calls("torch.zeros")
    }


def test_code_of_a_script() -> None:
    found = purposes(CODE + GUARD)
    assert [number for number, purpose in found.items() if purpose is Purpose.ONCE] == [1, 3, 5, 7]
    assert [number for number, purpose in found.items() if purpose is Purpose.WORK] == [2, 4, 6, 8, 9]
    assert [number for number, purpose in found.items() if purpose is Purpose.DEAD] == [10, 11]


def test_functions_of_a_file_that_is_no_script_may_be_called_from_anywhere() -> None:
    for found in (purposes(CODE), purposes(CODE + GUARD, in_package=True)):
        assert [number for number, purpose in found.items() if purpose is not Purpose.WORK] == [1, 3]


TRAINING = """
model = Net()
for batch in batches:
    model(batch).backward()
"""


@pytest.mark.parametrize(
    "work",
    [TRAINING, "options = parser.parse_args()\n", "def fit():\n    loss.backward()\n\nfor _ in range(3):\n    fit()\n"],
)
def test_a_file_that_works_at_module_level_is_a_script(work: str) -> None:
    found = purposes(CODE + work + "main()\n")
    assert [number for number, purpose in found.items() if purpose is Purpose.DEAD] == [10, 11]
    assert found[5] is found[7] is Purpose.ONCE
    assert purposes(CODE + work + "main()\n", in_package=True)[10] is Purpose.WORK


@pytest.mark.parametrize("work", ["", "def fit():\n    loss.backward()\n", "names = [str(i) for i in range(3)]\n"])
def test_definitions_alone_make_no_script(work: str) -> None:
    assert purposes(CODE + work)[10] is Purpose.WORK


@pytest.mark.parametrize(
    ("name", "importer", "purpose"),
    [
        ("train.py", "", Purpose.DEAD),
        ("train.py", "import train\n", Purpose.WORK),
        ("train.py", "from train import main\n", Purpose.WORK),
        ("train.py", "def later():\n    from train import *\n", Purpose.WORK),
        ("train.ipynb", "", Purpose.WORK),
    ],
)
def test_what_another_file_imports_is_no_script(name: str, importer: str, purpose: Purpose) -> None:
    files = [("sample.py", importer or "import torch\n"), (name, CODE + TRAINING)]
    places = {"train": name}
    forest = Forest(
        [ForestFile(place, place, text, parse_pieces(text)) for place, text in files],
        lambda module, importer: places.get(module),
    )
    call = next(call for call in forest.calls("torch.zeros") if forest.code(call.node.args[0]) == "10")
    assert forest.fact(Purposes).of(call.node) is purpose


@pytest.mark.parametrize(
    ("way", "purpose"),
    [
        ("options = parser.parse_args()\nprint(vars(options))\n", Purpose.DEAD),
        ("vars()[name]()\n", Purpose.WORK),
        ("import train\nvars(train)[name]()\n", Purpose.WORK),
        ("vars(modules[name])\n", Purpose.WORK),
    ],
)
def test_the_values_of_an_object_are_no_functions(way: str, purpose: Purpose) -> None:
    assert purposes(CODE + way + GUARD)[10] is purpose


@pytest.mark.parametrize("way", ["globals()[name]()\n", "import fire\n", "handlers = {'unused': 1}\n", "x.unused\n"])
def test_what_may_be_reached_by_its_name_is_not_dead(way: str) -> None:
    assert purposes(CODE + way + GUARD)[10] is Purpose.WORK


def test_a_file_next_to_an_init_file_is_in_a_package(tmp_path: Path) -> None:
    assert not is_in_package(str(tmp_path / "x.py"))
    (tmp_path / "__init__.py").touch()
    assert is_in_package(str(tmp_path / "x.py"))


def test_places_count_from_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "vendor" / "project"
    (project / ".git").mkdir(parents=True)
    (project / "third_party" / "net").mkdir(parents=True)
    (project / "third_party" / "net" / ".git").write_text("gitdir: ../../.git/modules/net\n")
    assert in_project(str(project / "train.py")) == "train.py"
    assert in_project(str(project / "third_party" / "net" / "x.py")) == "third_party/net/x.py"
    assert in_project(str(tmp_path / "vendor" / "lone.py")) == "lone.py"
    monkeypatch.chdir(project / "third_party")
    assert in_project("net/x.py") == "third_party/net/x.py"


def test_a_worktree_is_a_repository_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / ".git").write_text("gitdir: /elsewhere/.git/worktrees/vendor\n")
    assert in_project(str(tmp_path / "vendor" / "x.py")) == "x.py"


def test_a_vendored_file_has_no_findings(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "vendor").mkdir()
    text = LOOP + "x = 1  # noqa: TL204\n"
    vendored = torchlint.check_text(text, str(tmp_path / "vendor" / "x.py"))
    own = torchlint.check_text(text, str(tmp_path / "x.py"))
    assert vendored == []
    assert [item.code for item in own] == ["TL206", "TL001"]


@pytest.mark.parametrize(("name", "severity"), [("input_example", Severity.INFO), ("initial_state", Severity.WARNING)])
def test_inputs_of_an_export_are_information(name: str, severity: Severity) -> None:
    text = f"import torch\n\nclass Encoder:\n    def {name}(self):\n        return torch.zeros(4).to(self.device)\n"
    (found,) = [item for item in torchlint.check_text(text) if item.code == "TL206"]
    assert found.severity is severity


@pytest.mark.parametrize(
    ("statement", "severity"),
    [("model(new)", Severity.INFO), ("y = model(new)", Severity.WARNING), ("rows.append(new)", Severity.WARNING)],
)
def test_the_input_of_a_network_whose_output_is_not_used_is_information(statement: str, severity: Severity) -> None:
    text = (
        "import torch\n\ndef prepare(model, device, rows):\n    model = model.to(device).eval()\n"
        f"    {statement.replace('new', 'torch.zeros(4).to(device)')}\n    return model\n"
    )
    (found,) = [item for item in torchlint.check_text(text) if item.code == "TL206"]
    assert found.severity is severity


def test_code_that_ends_in_an_error_is_dead() -> None:
    text = (
        "def check(x, y):\n"
        "    if x:\n"
        "        print(1)\n"
        "        raise ValueError(print(2))\n"
        "    assert y, print(3)\n"
        "    if y:\n"
        "        print(4)\n"
        "        raise SystemExit\n"
        "    print(5)\n"
        "    raise NotImplementedError(print(6))\n"
    )
    module = Module.parse(text)
    dead = {
        module.code(call.args[0].value)
        for call in module.tree.calls
        if call.args and module.fact(Purposes).is_dead_at(module.span(call)[0])
    }
    assert dead == {"1", "2", "print(2)", "3", "6", "print(6)"}


def test_a_private_method_of_a_package_that_only_a_constructor_calls_runs_once() -> None:
    code = """\
import torch

class Trainer:
    def __init__(self):
        self._prepare()
        self.prepare()
        self._reset()

    def _prepare(self):
        self.weights = torch.zeros(1).cuda()

    def prepare(self):
        self.weights = torch.zeros(2).cuda()

    def _reset(self):
        self.weights = torch.zeros(3).cuda()

    def train(self):
        self._reset()
"""
    assert purposes(code, in_package=True) == {1: Purpose.ONCE, 2: Purpose.WORK, 3: Purpose.WORK}
