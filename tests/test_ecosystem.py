"""The snapshot of findings in pinned code (`benchmarks/ecosystem`): its rows, its differences, how code gets there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.ecosystem import projects
from benchmarks.ecosystem.__main__ import FINDINGS
from benchmarks.ecosystem.findings import Finding, read, report, write
from benchmarks.ecosystem.projects import LABELS, PACKAGES, Package, Repository, UnavailableError

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = Finding("demo", "demo/train.py", 0, 12, "TL101", "single-process-dataloader", "unsafe")
NOTEBOOK = Finding("demo", "a notebook.ipynb", 3, 7, "TL402", "missing-no-grad", "")
OTHER = Finding("other/demo", "train.py", 0, 4, "TL101", "single-process-dataloader", "")


def test_a_row_names_project_place_rule_and_fix() -> None:
    assert str(SCRIPT) == "demo demo/train.py:12 TL101 single-process-dataloader unsafe"
    assert str(NOTEBOOK) == "demo a notebook.ipynb:cell 3:7 TL402 missing-no-grad"


@pytest.mark.parametrize("finding", [SCRIPT, NOTEBOOK, OTHER], ids=str)
def test_a_row_can_be_read_back(finding: Finding) -> None:
    assert Finding.from_row(str(finding)) == finding


def test_a_row_that_is_not_a_finding_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "found.txt").write_text("<<<<<<< HEAD\n")
    with pytest.raises(ValueError, match="not a finding: <<<<<<< HEAD"):
        read(tmp_path / "found.txt")


def test_control_characters_of_a_file_name_are_escaped(tmp_path: Path) -> None:
    item = {
        "filename": str(tmp_path / "a\n\x1b.py"),
        "cell": None,
        "location": {"row": 1, "column": 1},
        "code": "TL101",
        "name": "single-process-dataloader",
        "fix": {"applicability": "safe"},
    }
    assert Finding.from_report("demo", tmp_path, item).place == r"a\n\x1b.py:1"


def test_writing_replaces_only_the_projects_that_were_checked(tmp_path: Path) -> None:
    file = tmp_path / "found.txt"
    write(file, [SCRIPT, OTHER], ["demo", "other/demo"])
    assert read(file) == [SCRIPT, OTHER]
    write(file, [NOTEBOOK], ["demo"])
    assert read(file) == [NOTEBOOK, OTHER]
    write(file, [], ["demo"])
    assert read(file) == [OTHER]


def test_no_difference_is_no_report() -> None:
    assert list(report([SCRIPT, OTHER], [OTHER, SCRIPT], str)) == []


def test_a_difference_is_grouped_by_rule_with_counts_and_source() -> None:
    moved = Finding("demo", "demo/train.py", 0, 14, "TL101", "single-process-dataloader", "unsafe")
    rows = list(report([SCRIPT, OTHER], [OTHER, moved, NOTEBOOK, NOTEBOOK], lambda one: f"<row {one.row}>"))
    assert rows == [
        "3 new and 1 gone in 1 project",
        "",
        "TL101 single-process-dataloader: 2 before, 2 now (1 new, 1 gone)",
        "- demo demo/train.py:12 (unsafe fix)",
        "    | <row 12>",
        "+ demo demo/train.py:14 (unsafe fix)",
        "    | <row 14>",
        "",
        "TL402 missing-no-grad: 0 before, 2 now (2 new, 0 gone)",
        "+ demo a notebook.ipynb:cell 3:7 (no fix)",
        "+ demo a notebook.ipynb:cell 3:7 (no fix)",
        "    | <row 7>",
    ]


def test_another_kind_of_fix_is_a_difference() -> None:
    safe = Finding("demo", "demo/train.py", 0, 12, "TL101", "single-process-dataloader", "safe")
    rows = list(report([SCRIPT], [safe], lambda _: "loader"))
    assert rows[3:] == [
        "+ demo demo/train.py:12 (safe fix)",
        "    | loader",
        "- demo demo/train.py:12 (unsafe fix)",
        "    | loader",
    ]


@pytest.mark.parametrize(
    "name", ["../evil.py", "a/../../evil.py", "/etc/evil", "C:/evil.py", "C:evil.py", "a\\..\\evil.py", "\\evil.py"]
)
def test_a_wheel_with_a_path_elsewhere_is_not_unpacked(tmp_path: Path, name: str) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo/__init__.py", "")
        archive.writestr(name, "")
    into = tmp_path / "into"
    with pytest.raises(UnavailableError, match=r"demo-1\.0-py3-none-any\.whl is not unpacked"):
        projects.unpack(wheel, into)
    assert not into.exists()


def test_an_unpacked_wheel_is_a_project_of_its_own(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo/..odd..name.py", "x = 1\n")
    projects.unpack(wheel, tmp_path / "into")
    assert {path.name for path in (tmp_path / "into").rglob("*.*")} == {"..odd..name.py", "torchlint.toml"}


def test_every_package_is_pinned_with_a_hash() -> None:
    assert len(projects.packages(PACKAGES.read_text())) > 10
    for row in ("demo", "demo>=1", "demo==1.0", "-r other.txt", f"demo==1.* --hash=sha256:{'0' * 64}"):
        with pytest.raises(ValueError, match="not pinned"):
            projects.packages(row)


def test_the_committed_findings_are_sorted_and_of_pinned_projects() -> None:
    pinned = {
        "packages.txt": {package.name for package in projects.packages(PACKAGES.read_text())},
        "repositories.txt": {repository.name for repository in projects.repositories(LABELS)},
    }
    for name, known in pinned.items():
        found = read(FINDINGS / name)
        assert found == sorted(found)
        assert {finding.project for finding in found} <= known


def test_a_checkout_at_another_commit_is_not_compared(tmp_path: Path) -> None:
    repository = Repository("demo/net", "1" * 40)
    with pytest.raises(UnavailableError, match="no checkout of demo/net"):
        projects.checkout(repository, tmp_path)
    git = tmp_path / "demo+net" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    with pytest.raises(UnavailableError, match="demo/net is not at 1111"):
        projects.checkout(repository, tmp_path)
    (git / "HEAD").write_text(f"{repository.commit}\n")
    assert projects.checkout(repository, tmp_path) == tmp_path / "demo+net"


def test_a_failed_download_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(UnavailableError) as error:
        projects.download([Package("demo", f"demo==1.0 --hash=sha256:{'0' * 64}")], tmp_path)
    assert str(error.value).startswith("pip cannot download the packages: ERROR: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["no-such-project"], 2, "not among the pinned packages: no-such-project"),
        (["karpathy/minGPT"], 2, "not among the pinned packages: karpathy/minGPT"),
        (["catalyst"], 3, "not compared: pip cannot download the packages: ERROR: "),
        (["karpathy/minGPT", "--checkouts", "nowhere"], 3, "not compared: no checkout of karpathy/minGPT"),
    ],
)
def test_the_command_says_in_one_line_why_it_cannot_compare(arguments: list[str], status: int, message: str) -> None:
    command = [sys.executable, "-m", "benchmarks.ecosystem", *arguments]
    environment = {"PIP_NO_INDEX": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr.splitlines()[-1]


def test_the_command_compares_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.ecosystem import __main__ as command

    folder = tmp_path / "checkouts" / "karpathy+minGPT"
    folder.mkdir(parents=True)
    code = (ROOT / "fixtures" / "single-process-dataloader" / "before.py").read_text(encoding="utf-8")
    (folder / "train.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(command, "FINDINGS", tmp_path)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(
            sys, "argv", ["ecosystem", "karpathy/minGPT", "--checkouts", str(folder.parent), *arguments]
        )
        return command.main()

    assert run() == 1
    assert run("--update") == 0
    found = read(tmp_path / "repositories.txt")
    assert "TL101" in {finding.code for finding in found}
    assert run() == 0
    write(tmp_path / "repositories.txt", found[1:], ["karpathy/minGPT"])
    assert run() == 1
