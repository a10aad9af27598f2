"""Several projects under one folder: each file is analysed with its own project, under its own settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_cache import DATA, FILES, TRAIN, printed

from torchlint.project.project import Project
from torchlint.project.roots import find_root

ON_CPU = TRAIN.replace(".cuda()", '.to("cpu")')
#: By name of the project: files in addition to, or in place of, those of the program.
PROJECTS = {
    "repository": {".git/HEAD": ""},
    "other": {".git/HEAD": "", "train.py": ON_CPU, "options.py": "WORKERS = 4\n"},
    "packaged": {"setup.py": "", "options.py": "WORKERS = 4\n"},
    "described": {"pyproject.toml": '[project]\nname = "described"\n', "train.py": ON_CPU},
    "configured": {"pyproject.toml": '[tool.torchlint]\nignore = ["TL102"]\n'},
    "unmarked": {"options.py": "WORKERS = 4\n"},
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(output: str) -> list[str]:
    """The findings in a report, without the folder."""
    return re.findall(r"(\w+\.py:\d+:\d+: TL\d+)", output.replace("\\n", "\n"))


@pytest.fixture
def everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of projects that is none itself."""
    for name, files in PROJECTS.items():
        write(tmp_path / "all" / name, FILES | files)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "all"


def test_a_folder_of_projects_has_the_findings_of_each(
    everything: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = printed(capsys, "--output-format", "concise", "all")
    assert together == printed(capsys, "--output-format", "concise", "all")
    assert together == printed(capsys, "--output-format", "concise", "--no-cache", "all")
    expected = {
        "repository": ["data.py:7:12: TL101", "data.py:7:12: TL102"],
        "other": ["data.py:7:12: TL104"],
        "packaged": ["data.py:7:12: TL102", "data.py:7:12: TL104"],
        "described": [],
        "configured": ["data.py:7:12: TL101"],
        "unmarked": ["data.py:7:12: TL102", "data.py:7:12: TL104"],
    }
    for name in PROJECTS:
        lines = [line for line in together.split("\\n") if f"all/{name}/" in line]
        assert found("\n".join(lines)) == expected[name]
        monkeypatch.chdir(everything / name)
        assert found(printed(capsys, "--output-format", "concise", "--no-cache", ".")) == expected[name]


def test_no_project_contains_the_files_of_another(everything: Path) -> None:
    (everything / "run.py").write_text("from repository.data import build\n\nbuild([])\n")
    own = {path.relative_to(everything).parts[0] for path in Project.around(everything / "run.py", everything).files}
    assert own == {"run.py", "unmarked"}
    for name in PROJECTS:
        if name != "unmarked":
            assert find_root(str(everything / name / "train.py")) == (str(everything / name), True)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["tools/__init__.py", "tools/setup.py"], "."),
        (["tools/setup.py"], "tools"),
        (["tools/__init__.py", "tools/setup.py", "tools/LICENSE"], "tools"),
        (["tools/__init__.py", "tools/requirements.txt"], "tools"),
    ],
)
def test_a_module_called_setup_makes_no_project_of_its_package(tmp_path: Path, files: list[str], expected: str) -> None:
    write(tmp_path, dict.fromkeys(("setup.py", "tools/train.py", *files), ""))
    assert find_root(str(tmp_path / "tools" / "train.py")) == (str((tmp_path / expected).resolve()), True)


def test_a_package_with_a_module_called_setup_belongs_to_the_folder_of_projects(everything: Path) -> None:
    write(everything, {"run.py": "", "tools/__init__.py": "", "tools/setup.py": ""})
    own = {path.relative_to(everything).as_posix() for path in Project.around(everything, everything).files}
    assert {"run.py", "tools/__init__.py", "tools/setup.py"} <= own


def test_distributions_of_a_repository_are_one_project(everything: Path) -> None:
    (everything / ".git").mkdir()
    own = {path.relative_to(everything).parts[0] for path in Project.around(everything / "packaged").files}
    assert own == {"packaged", "described", "configured", "unmarked"}


def test_a_submodule_belongs_to_the_project_around_it(everything: Path) -> None:
    (everything / ".git").mkdir()
    write(everything / "inner", {".git": "gitdir: ../.git/modules/inner\n", "part.py": "X = 1\n"})
    assert everything / "inner" / "part.py" in Project.around(everything / "unmarked").files


def test_settings_above_a_repository_apply_and_join_no_projects(
    everything: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder `src` of a repository is on the path of its scripts: it is found from the root of the repository."""
    (everything / "torchlint.toml").write_text('ignore = ["TL101"]\n')
    write(
        everything / "laid out",
        {".git/HEAD": "", "src/data.py": DATA, "src/model.py": FILES["model.py"], "src/options.py": "WORKERS = 0\n"},
    )
    write(everything / "laid out", {"scripts/train.py": TRAIN})
    report = printed(capsys, "--output-format", "concise", "all/laid out")
    assert found(report) == ["data.py:7:12: TL102"]
    assert find_root(str(everything / "laid out" / "src")) == (str(everything / "laid out"), True)


def test_findings_do_not_depend_on_the_working_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file marks the root, and no folder is a package: the root is the outermost folder with Python files."""
    monkeypatch.setattr("torchlint.project.roots._shared_folders", frozenset)
    project = tmp_path / "unmarked"
    write(project, FILES | {"lib/part.py": "X = 1\n"})
    assert find_root(str(project / "lib")) == (str(project), True)
    expected = ["data.py:7:12: TL101", "data.py:7:12: TL102"]
    for folder, named in ((project, "."), (project, "data.py"), (tmp_path, "unmarked"), (tmp_path, "unmarked/data.py")):
        monkeypatch.chdir(folder)
        report = printed(capsys, "--output-format", "concise", "--no-cache", named)
        assert [line for line in found(report) if line.startswith("data.py")] == expected
