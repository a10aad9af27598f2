"""The oldest torch that a project supports: from all the files that may state it, and from the code itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchlint
from torchlint.settings.layers import layer_of
from torchlint.settings.requirements import of_torch
from torchlint.settings.resolver import Resolver
from torchlint.settings.settings import Settings
from torchlint.settings.torch_versions import needed_by, oldest_torch
from torchlint.source.ranges import apply

Version = tuple[int, int]


def target(folder: Path, files: dict[str, str]) -> Version | None:
    """The oldest torch that a project of these files supports."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Resolver().for_folder(str(folder)).target_torch


PROJECT = "[project]\nname = 'x'\nversion = '1'\n"
LINUX, OTHERS = 'sys_platform == "linux"', 'sys_platform != "linux"'
POETRY = "[tool.poetry.dependencies]\npython = '^3.10'\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PROJECT + "dependencies = ['Torch >= 2.1']", (2, 1)),
        (PROJECT + f"dependencies = ['torch>=2.4; {LINUX}', 'torch>=2.1; {OTHERS}']", (2, 1)),
        (PROJECT + f"dependencies = ['torch>=2.4; {LINUX}', 'torch; {OTHERS}']", None),
        (PROJECT + "dependencies = ['torch>=2.1', 'torch>=2.4; python_version >= \"3.13\"']", (2, 4)),
        (PROJECT + "dependencies = ['torch-geometric>=2.4', 'torchvision>=0.18']", None),
        (PROJECT + "dependencies = ['numpy']\n[project.optional-dependencies]\ngpu = ['torch>=2.2']", (2, 2)),
        (PROJECT + "[project.optional-dependencies]\na = ['torch>=2.2']\nb = ['torch==2.0']", (2, 0)),
        (PROJECT + "dependencies = ['torch>=2.3']\n[project.optional-dependencies]\na = ['torch==2.1']", (2, 3)),
        (PROJECT + "dependencies = ['torch']\n[project.optional-dependencies]\na = ['torch==2.1']", None),
        (PROJECT + "dependencies = []\n[dependency-groups]\ndev = ['torch==2.6', {include-group = 'x'}]", (2, 6)),
        ("[dependency-groups]\ndev = ['torch==2.6', {include-group = 'x'}]\nx = []", (2, 6)),
        (POETRY + "torch = '^2.1'", (2, 1)),
        (POETRY + "torch = '^1.4'", (1, 11)),
        (POETRY + "torch = '~1.8.1'", (1, 8)),
        (POETRY + "torch = '2.3.1'", (2, 3)),
        (POETRY + "torch = '*'", None),
        (POETRY + "torch = '>=2.0,<2.5'", (2, 0)),
        (POETRY + "torch = '^2.4 || ~2.1'", (2, 1)),
        (POETRY + "torch = {version = '^2.2', optional = true}", (2, 2)),
        (
            POETRY + f"torch = [{{version = '^2.4', markers = '{LINUX}'}}, {{version = '^2.2', markers = '{OTHERS}'}}]",
            (2, 2),
        ),
        (POETRY + "[tool.poetry.group.train.dependencies]\ntorch = '^2.5'", (2, 5)),
        ("[tool.poetry.group.train.dependencies]\ntorch = '^2.5'", (2, 5)),
        (
            PROJECT
            + "dynamic = ['dependencies']\n[tool.setuptools.dynamic]\ndependencies = {file = ['deps/torch.txt']}",
            (2, 7),
        ),
    ],
)
def test_pyproject(tmp_path: Path, text: str, expected: Version | None) -> None:
    assert target(tmp_path, {"pyproject.toml": text, "deps/torch.txt": "torch==2.7.1\n"}) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"requirements.txt": "-r a/b.txt\nnumpy\n", "a/b.txt": "-r ../requirements.txt\ntorch>=2.2\n"}, (2, 2)),
        ({"requirements.txt": "torch==2.3.0 \\\n    --hash=sha256:abc\n"}, (2, 3)),
        ({"requirements.txt": "--index-url https://download.pytorch.org/whl/cu121\ntorch~=2.3 # why\n"}, (2, 3)),
        ({"requirements.txt": "# torch>=2.9\nnumpy\n"}, None),
        ({"requirements/a.txt": "torch>=2.2\n", "requirements/b.txt": "torch==2.0\n"}, (2, 0)),
        ({"setup.cfg": "[options.extras_require]\nall =\n    torch>=2.2\n"}, (2, 2)),
        ({"setup.py": "NEEDED = ['torch>=2.1', 'numpy']\nsetup(install_requires=NEEDED)\n"}, (2, 1)),
        ({"setup.py": "setup(extras_require={'a': ['torch>=2.4'], 'b': ['torch>=2.2'] + more})\n"}, (2, 2)),
        ({"setup.py": "setup(**{'install_requires': ['torch>=2.4']})\n"}, None),
        ({"environment.yml": "dependencies:\n  - python=3.11\n  - pytorch=2.1\n  - torchvision\n"}, (2, 1)),
        ({"environment.yml": "dependencies:\n  - pytorch::pytorch=2.1.2=py3.11_cuda12.1\n"}, (2, 1)),
        ({"environment.yaml": "dependencies:\n  - pytorch>=1.13,<2\n"}, (1, 13)),
        ({"environment.yml": "dependencies:\n  - pip:\n    - torch==2.5.1\n    - pytorch-lightning==2.0\n"}, (2, 5)),
        ({"environment.yml": "dependencies:\n  - pytorch\n"}, None),
        ({"conda_env.yml": "dependencies:\n  - pytorch=1.6.0\n"}, (1, 6)),
        ({"environment_cpu.yml": "- pytorch=1.9\n", "environment_gpu.yml": "- pytorch=1.6.0\n"}, (1, 6)),
        ({"environment.yml": "- pytorch=2.1\n", "environment_gpu.yml": "- pytorch=1.6.0\n"}, (2, 1)),
        ({"env.yml": "channels:\n- pytorch \n- dgl\ndependencies:\n- pytorch=1.6.0\n"}, (1, 6)),
        ({"envoy.yaml": "- pytorch=1.6.0\n"}, None),
        ({"environment3090.yml": "- pytorch=1.7.0\n"}, (1, 7)),
        ({"my_environments.yml": "- pytorch=1.6.0\n"}, None),
        ({"setup.py": "setup(install_requires=['torch'])\n", "environment.yaml": "- pytorch=1.7.0\n"}, (1, 7)),
        ({"setup.py": "setup(install_requires=['torch>=2.1'])\n", "environment.yaml": "- pytorch=1.7.0\n"}, (2, 1)),
        ({"setup.py": "setup(install_requires=['torch'])\n", "environment.yaml": "- pytorch\n"}, None),
        ({"pyproject.toml": PROJECT + "dependencies = ['torch']", "requirements.txt": "torch==2.2.0\n"}, None),
        ({"requirement.txt": "torch==1.8\n"}, (1, 8)),
    ],
)  # fmt: skip
def test_other_files(tmp_path: Path, files: dict[str, str], expected: Version | None) -> None:
    assert target(tmp_path, files) == expected


def test_what_a_project_supports_comes_before_what_one_environment_has(tmp_path: Path) -> None:
    files = {"environment.yml": "dependencies:\n  - pytorch=2.6\n", "requirements.txt": "torch==2.5\n"}
    assert target(tmp_path, files) == (2, 5)
    assert target(tmp_path, {"pyproject.toml": PROJECT + "dependencies = ['torch>=2.0']"}) == (2, 0)


@pytest.mark.parametrize(
    "text",
    [
        "torch>=" + "9" * 5000,
        "torch>=2.0; " + "(" * 3000 + "python_version>'3'",
        "torch " * 5000,
        "torch===latest",
        "torch>=",
        "torch[" * 2000,
    ],
)
def test_odd_requirements_state_nothing(tmp_path: Path, text: str) -> None:
    assert target(tmp_path, {"requirements.txt": text}) is None


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    assert target(tmp_path, {"requirements.txt": "-r /dev/zero\ntorch==2.4\n"}) == (2, 4)


def test_only_requirements_of_torch_count() -> None:
    given = ["torch", " TORCH>1", "torch[x]>=2; python_version>'3'", "torchvision", "torch-scatter", "torch.x", 3]
    assert of_torch(given) == ("torch", " TORCH>1", "torch[x]>=2; python_version>'3'")
    assert oldest_torch(["torchaudio>=2.4", "not a requirement", "torch>=2.2"]) == (2, 2)


@pytest.mark.parametrize(
    ("wheel", "version"),
    [
        ("http://download.pytorch.org/whl/cu80/torch-0.1.11.post5-cp35-cp35m-linux_x86_64.whl", (0, 1)),
        ("https://download.pytorch.org/whl/cu121/torch-2.3.1%2Bcu121-cp311-cp311-linux_x86_64.whl", (2, 3)),
        ("torch @ https://download.pytorch.org/whl/cu121/torch-2.3.1%2Bcu121-cp311-cp311-linux_x86_64.whl", (2, 3)),
        ("https://download.pytorch.org/whl/torch-scatter-2.1.0-cp311-cp311-linux_x86_64.whl", None),
        ("pytorch=0.4.0", (0, 4)),
        ("pytorch=1.4.0=py3.7_cuda10.1.243_cudnn7.6.3_0", (1, 4)),
        ("pytorch-lightning=0.4.0", None),
        ("https://download.pytorch.org/whl/torchvision-0.18.1-cp311-cp311-linux_x86_64.whl", None),
    ],
)
def test_the_address_of_a_wheel_and_a_package_of_conda_state_their_version(
    tmp_path: Path, wheel: str, version: Version | None
) -> None:
    assert target(tmp_path, {"requirements.txt": f"numpy\n{wheel}\n"}) == version


@pytest.mark.parametrize(
    ("code", "version"),
    [
        ("import torch\nmodel = torch.compile(model)\n", (2, 0)),
        ("import torch\nscaler = torch.amp.GradScaler('cuda')\n", (2, 3)),
        ("from torch.amp import GradScaler, autocast\n", (2, 3)),
        ("import torch\nx = torch.compile(y)\nscaler = torch.amp.GradScaler('cuda')\n", (2, 3)),
        ("import torch.nn.functional as F\ny = F.scaled_dot_product_attention(q, k, v)\n", (2, 0)),
        ("import torch\n# torch.compile(model)\n", None),
        ('"""torch.compile"""\nimport torch\n', None),
        ("import torch\nif hasattr(torch, 'compile'):\n    model = torch.compile(model)\n", None),
        ("import torch\nif torch.__version__ >= '2':\n    model = torch.compile(model)\n", None),
        ("import torch\ntry:\n    model = torch.compile(model)\nexcept AttributeError:\n    pass\n", None),
        ("import re\nre.compile('torch')\n", None),
    ],
)
def test_code_shows_what_it_needs(code: str, version: Version | None) -> None:
    assert needed_by(code) == version


NEW = "import torch\nmodel = torch.compile(NEWER)\nscaler = torch.amp.GradScaler('cuda')\n"


def test_an_outdated_requirement_silences_no_advice(tmp_path: Path) -> None:
    """ZZ202 is advice for torch 2.4 and later: here the file shows 2.3, 2.0 or nothing."""
    (tmp_path / "requirements.txt").write_text("torch>=1.0\n")
    layer = layer_of({"plugins": ["demo_pack"], "select": ["ZZ202", "TL303"]}, "x", str(tmp_path))
    settings = Resolver([layer]).for_folder(str(tmp_path))
    assert settings.target_torch == (1, 11)
    path = str(tmp_path / "a.py")

    def target_of(text: str, settings: Settings = settings) -> Version | None:
        return settings.target_for(path, text)

    assert target_of("x = 1\n") == (1, 11)
    assert target_of(NEW) == (2, 3)
    assert "ZZ202" not in {rule.code for rule in settings.rules(path, NEW)}
    fixed = layer_of({"target-torch": "1.13"}, "x", str(tmp_path))
    assert target_of(NEW, Resolver([layer, fixed]).for_folder(str(tmp_path))) == (1, 13)  # said, not guessed


LOOP = """\
import torch
import torchvision

model = torchvision.models.resnet50().cuda()
for images, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("requirement", "number", "fixed"),
    [("torch==1.5", 0, False), ("torch==1.6", 1, False), ("torch==1.9", 1, False), ("torch==1.10", 1, True)],
)
def test_before_bfloat16_autocast_is_advice_without_a_fix(
    tmp_path: Path, requirement: str, number: int, fixed: bool
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement)
    settings = torchlint.load_settings(str(tmp_path), {"select": ["TL301"]})
    found = torchlint.check_text(LOOP, str(tmp_path / "a.py"), settings)
    assert len(found) == number
    assert all((one.fix is not None) is fixed for one in found)
    assert any("GradScaler" in note.message for one in found for note in one.notes) is (found != [] and not fixed)


@pytest.mark.parametrize(("requirement", "expected"), [("torch==0.3.1", []), ("torch==0.4.1", ["TL206"])])
def test_before_factories_had_a_device_nothing_advises_one(
    tmp_path: Path, requirement: str, expected: list[str]
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement)
    settings = torchlint.load_settings(str(tmp_path), {"select": ["TL206", "TL402"]})
    code = "import torch\n\n\ndef mask(x):\n    return torch.zeros(4, 4).cuda()\n"
    found = torchlint.check_text(code, str(tmp_path / "a.py"), settings)
    assert [one.code for one in found] == expected


ATTENDING = """\
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 8)

    def forward(self, x):
        return self.attention(x, x, x)[0]
"""


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [("torch>=1.8", ["TL701"]), ("torch>=2.1", ["TL701"]), ("torch==1.9.1", []), ("torch<1.11", [])],
)
def test_an_argument_of_all_versions_is_advice_where_a_newer_one_may_be_installed(
    tmp_path: Path, requirement: str, expected: list[str]
) -> None:
    (tmp_path / "requirements.txt").write_text(f"{requirement}\n")
    settings = torchlint.load_settings(str(tmp_path), {"select": ["TL701", "TL703"]})
    assert [found.code for found in torchlint.check_text(ATTENDING, str(tmp_path / "a.py"), settings)] == expected


def test_a_pattern_of_files_has_its_own_target(tmp_path: Path) -> None:
    values = {
        "plugins": ["demo_pack"],
        "select": ["ZZ202"],
        "target-torch": "2.0",
        "per-file-target-torch": {"examples/*": "2.6", "examples/old/*": "1.13"},
    }
    settings = Resolver([layer_of(values, "x", str(tmp_path))], isolated=True).for_folder(str(tmp_path))
    assert settings.rules(str(tmp_path / "a.py")) == ()
    assert [rule.code for rule in settings.rules(str(tmp_path / "examples" / "a.py"))] == ["ZZ202"]
    assert settings.target_for(str(tmp_path / "examples" / "old" / "a.py")) == (2, 6)  # the first pattern counts


SCALER = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
AUTOCAST = "import torch\nwith torch.cuda.amp.autocast():\n    pass\n"


@pytest.mark.parametrize(
    ("code", "requirement", "applicability"),
    [
        (SCALER, "", "unsafe"),
        (SCALER, "torch\n", "unsafe"),
        (SCALER, "torch>=2.4\n", "safe"),
        (SCALER, "torch>=2\n", None),  # not deprecated in all versions that the project supports
        (AUTOCAST, "", "safe"),
        (AUTOCAST, "torch>=2\n", None),
    ],
)
def test_a_fix_that_needs_a_newer_torch_is_safe_only_where_one_is_required(
    tmp_path: Path, code: str, requirement: str, applicability: str | None
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement)
    found = torchlint.check_text(code, str(tmp_path / "a.py"), torchlint.load_settings(str(tmp_path)))
    assert [one.fix.applicability.value for one in found if one.fix is not None] == [applicability] * bool(
        applicability
    )


#: By code of a rule a text, and what its fix writes for a torch and the one before it; "" for no fix.
WRITTEN = {
    "TL207": (
        "import torch\n\ndef train(model, loader, optimizer):\n    for x in loader:\n"
        '        zero = torch.tensor(0, device="cuda")\n        loss = model(x.cuda()).mean() + zero\n'
        "        loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()\n",
        "1.7",
        "full((), 0",
        "1.6",
        "",
    ),
    "TL803": (
        "import torch\n\ndef update_ema(ema, model):\n"
        "    for e, p in zip(ema.parameters(), model.parameters()):\n        e.lerp_(p, 0.1)\n",
        "2.0",
        "_foreach_lerp_",
        "1.8",
        "",
    ),
    "TL709": (
        "import torch\n\ndef f(a, b):\n    return torch.trace(a @ b)\n",
        "1.11",
        "b.mT",
        "1.10",
        "b.transpose(-1, -2)",
    ),
}


@pytest.mark.parametrize("code", WRITTEN)
def test_a_fix_writes_what_the_oldest_supported_torch_has(code: str) -> None:
    text, new, with_new, old, with_old = WRITTEN[code]
    for target, written in ((new, with_new), (old, with_old)):
        settings = torchlint.load_settings(".", {"select": [code], "target-torch": target})
        (found,) = torchlint.check_text(text, settings=settings)
        assert (found.fix is not None) is bool(written)
        assert found.fix is None or written in apply(text, found.fix.edits)
