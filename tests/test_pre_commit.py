"""The hooks, run by the real pre-commit in a git repository: what stops a commit, and what does not.

The hooks' environment is built once, by pip, from a copy of this checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: Together in one process: the hooks that they share take long to install.
pytestmark = pytest.mark.xdist_group("hooks")

CHECKOUT = Path(__file__).resolve().parent.parent

CLEAN = "import torch\n\nx = torch.zeros(3)\n"
BAD = (
    "from torch.utils.data import DataLoader\n\nloader = DataLoader([1.0] * 99, batch_size=3)\n"
    "for batch in loader:\n    batch.cuda().sum()\n"
)
FIXABLE = "import torch\n\nprecision = torch.cuda.amp.autocast()\n"
FIXED = 'import torch\n\nprecision = torch.amp.autocast("cuda")\n'


def run(folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command, pre-commit at hand, with no git settings of this machine and no module path of this test run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_CONFIG", "PYTHON"))}
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set where the tests themselves run in a hook
        environment.pop(name, None)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        command,
        cwd=folder,
        env={**environment, **quiet, "PATH": path, **more},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


def git(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run git as somebody."""
    return run(folder, "git", "-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", *arguments, **more)


def git_well(folder: Path, *arguments: str) -> str:
    """Run git, which must succeed."""
    done = git(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True)
class Hooks:
    """A repository with the hooks, and where pre-commit keeps their environment."""

    repository: Path
    revision: str
    home: Path


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Hooks:
    repository = tmp_path_factory.mktemp("torchlint")
    for name in ("torchlint", "rules", "fixtures"):
        shutil.copytree(CHECKOUT / name, repository / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in", ".pre-commit-hooks.yaml"):
        shutil.copy(CHECKOUT / name, repository / name)
    git_well(repository, "init", "--quiet")
    git_well(repository, "add", "--all", "--force")
    git_well(repository, "commit", "--quiet", "--message", "Everything")
    return Hooks(repository, git_well(repository, "rev-parse", "HEAD").strip(), tmp_path_factory.mktemp("home"))


class Repository:
    """A git repository in which pre-commit is installed."""

    def __init__(self, folder: Path, hooks: Hooks, hook: str) -> None:
        self.folder = folder
        self.home = hooks.home
        git_well(folder, "init", "--quiet")
        (folder / ".pre-commit-config.yaml").write_text(
            f"repos:\n- repo: {hooks.repository}\n  rev: {hooks.revision}\n  hooks:\n  - id: {hook}\n"
        )
        done = run(folder, sys.executable, "-m", "pre_commit", "install", PRE_COMMIT_HOME=str(self.home))
        assert done.returncode == 0, done.stdout + done.stderr
        self.commit()

    def write(self, name: str, content: str) -> None:
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(content)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def commit(self) -> subprocess.CompletedProcess[str]:
        """Commit everything there is, through the installed hook."""
        git_well(self.folder, "add", "--all")
        return git(self.folder, "commit", "--message", "A step", PRE_COMMIT_HOME=str(self.home))

    def commits(self) -> int:
        return int(git_well(self.folder, "rev-list", "--count", "HEAD"))


@pytest.fixture
def checked(tmp_path: Path, hooks: Hooks) -> Repository:
    return Repository(tmp_path, hooks, "torchlint")


@pytest.fixture
def fixed(tmp_path: Path, hooks: Hooks) -> Repository:
    return Repository(tmp_path, hooks, "torchlint-fix")


def test_a_bad_commit_is_stopped_and_a_clean_one_passes(checked: Repository) -> None:
    checked.write("train.py", BAD)
    done = checked.commit()
    assert done.returncode == 1
    assert "torchlint" in done.stderr and "Failed" in done.stderr
    assert "train.py:3:10: TL102 unpinned-dataloader: " in done.stderr
    assert checked.commits() == 1
    assert checked.read("train.py") == BAD
    checked.write("train.py", CLEAN)
    done = checked.commit()
    assert done.returncode == 0, done.stderr
    assert checked.commits() == 2


def test_only_what_is_committed_is_checked(checked: Repository) -> None:
    checked.write("notes.txt", BAD)
    assert checked.commit().returncode == 0
    checked.write("train.py", CLEAN)
    git_well(checked.folder, "add", "train.py")
    checked.write("other.py", BAD)
    done = git(checked.folder, "commit", "--message", "A step", PRE_COMMIT_HOME=str(checked.home))
    assert done.returncode == 0, done.stderr


def test_the_fixing_hook_stops_once_and_shows_what_it_changed(fixed: Repository) -> None:
    fixed.write("train.py", FIXABLE)
    done = fixed.commit()
    assert done.returncode == 1
    assert "files were modified by this hook" in done.stderr
    assert "Fixed 1 finding." in done.stderr
    assert fixed.read("train.py") == FIXED
    assert fixed.commits() == 1
    done = fixed.commit()
    assert done.returncode == 0, done.stderr
    assert fixed.commits() == 2


def test_the_fixing_hook_reports_what_it_cannot_fix(fixed: Repository) -> None:
    fixed.write("train.py", BAD)
    done = fixed.commit()
    assert done.returncode == 1
    assert "TL102" in done.stderr
    assert "files were modified" not in done.stderr
    assert fixed.read("train.py") == BAD


def test_excluded_files_stay_out_though_they_are_named(checked: Repository) -> None:
    checked.write("torchlint.toml", 'extend-exclude = ["legacy"]\n')
    checked.write("legacy/train.py", BAD)
    assert checked.commit().returncode == 0
    checked.write("train.py", BAD)
    done = checked.commit()
    assert done.returncode == 1
    assert "legacy" not in done.stderr


def test_the_settings_and_the_baseline_of_the_project_count(checked: Repository) -> None:
    checked.write("torchlint.toml", 'select = ["TL303"]\n')
    checked.write("train.py", BAD)
    assert checked.commit().returncode == 0
    checked.write("torchlint.toml", 'baseline = "known.json"\n')
    update = [sys.executable, "-m", "torchlint", "--update-baseline"]
    subprocess.run(update, cwd=checked.folder, capture_output=True, check=True)
    checked.write("train.py", "# known by now\n" + BAD)
    assert checked.commit().returncode == 0
    checked.write("train.py", BAD + BAD)
    assert "train.py:8:10: TL102" in checked.commit().stderr


def notebook(*sources: str) -> str:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source.splitlines(True)}
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, indent=1) + "\n"


def test_notebooks_are_checked(checked: Repository) -> None:
    checked.write("train.ipynb", notebook("%matplotlib inline", BAD))
    done = checked.commit()
    assert done.returncode == 1
    assert "train.ipynb:cell 2:3:10: TL102" in done.stderr


def test_notebooks_are_fixed(fixed: Repository) -> None:
    fixed.write("train.ipynb", notebook("%matplotlib inline", FIXABLE))
    assert "files were modified by this hook" in fixed.commit().stderr
    assert fixed.read("train.ipynb") == notebook("%matplotlib inline", FIXED)
    assert fixed.commit().returncode == 0


def test_many_files_and_odd_names(checked: Repository) -> None:
    for number in range(300):
        checked.write(f"clean {number:03}.py", CLEAN)
    assert checked.commit().returncode == 0
    for number in range(300):
        checked.write(f"clean {number:03}.py", CLEAN + "y = 1\n")
    checked.write("a 'b' ünd c.py", BAD)
    done = checked.commit()
    assert done.returncode == 1
    assert "a 'b' ünd c.py:3:10: TL102" in done.stderr
    assert done.stderr.count("TL102") == 1
