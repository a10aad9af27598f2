"""Scripts measured in copies: what a step is, whose turn it is, what is compared, and that the user's files stay."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from stand_in_torch import make_project

from torchlint.trial.comparison import Comparison, compare_losses
from torchlint.trial.copies import FULL_FOLDER, LARGEST_COPY, ProjectError, make_copy, program_of
from torchlint.trial.side import Block, ScriptError
from torchlint.trial.trial import Trial
from torchlint.trial.turns import Turns

STEP = """\
import sys, time, torch
optimizer = torch.optim.SGD()
for step in range(200):
    {work}
    torch.Tensor({loss}).backward()
    optimizer.step()
"""


def script(work: str = "time.sleep(0.002)", loss: str = "1 / (step + 1)") -> str:
    """A script with 200 steps."""
    return STEP.format(work=work, loss=loss)


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trial]:
    """``trial(text)``: of a script in a project of its own, which is the current folder."""

    def make(text: str, *command: str, **options: float) -> Trial:
        folder = make_project(tmp_path / "project", train=text)
        monkeypatch.chdir(folder)
        given = {"steps": 20, "warmup": 1, "budget": 60.0, **options}
        program = program_of(command or (sys.executable, "train.py"))
        return Trial(
            program,
            steps=int(given["steps"]),
            warmup=int(given["warmup"]),
            budget=given["budget"],
            progress=lambda *state: None,
        )

    return make


def compared(trial: Trial, after: Mapping[str, bytes] | None = None) -> Comparison:
    """The script as it is against the script with other files."""
    with trial.running():
        trial.files()
        return trial.against({}, after or {}, "")


def test_a_faster_script_is_measured_as_such(trial: Callable[..., Trial]) -> None:
    one = trial(script("time.sleep(0.02)"))
    found = compared(one, {str(Path("train.py").resolve()): script("time.sleep(0.01)").encode()})
    assert found.outcome == "faster"
    assert len(found.runs) == 2, "a difference is measured twice"
    assert 1.5 < found.interval.ratio < 2.5
    assert found.losses is not None
    assert found.losses.verdict == "the same"


def test_equal_scripts_are_neither_faster_nor_slower(trial: Callable[..., Trial]) -> None:
    assert compared(trial(script("time.sleep(0.02)"))).outcome in ("no difference", "inconclusive")


def test_one_side_computes_at_a_time(trial: Callable[..., Trial], tmp_path: Path) -> None:
    log = tmp_path / "log"
    note = f"f = open({str(log)!r}, 'a'); f.write(sys.argv[0] + '\\n'); f.close(); time.sleep(0.02)"
    compared(trial(script(note).replace("import sys", "import os, sys").replace("sys.argv[0]", "os.getcwd()")))
    sides = log.read_text().splitlines()
    turns = sum(before != after for before, after in pairwise(sides))
    assert turns < len(sides) / 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (script(), "optimizer"),
        (
            script().replace("for step", "for x in torch.utils.data.DataLoader(range(99)): pass\nfor step", 1),
            "optimizer",
        ),
        ("import torch\nfor step in range(99):\n    torch.Tensor().backward()\n", "backward"),
        ("import torch\nfor batch in torch.utils.data.DataLoader(range(99)):\n    pass\n", "batch"),
        ("import torch\nfor batch in torch.utils.data.DataLoader(range(9)):\n    pass\n", "batch"),
        (
            "import torch\nclass A(torch.nn.Module):\n    forward = abs\nclass B(torch.nn.Module):\n"
            "    def forward(self, x):\n        return A.forward(x)\nfor token in range(9):\n    B()(token)\n",
            "forward",
        ),
    ],
)
def test_the_step_of_a_script_is_found(trial: Callable[..., Trial], text: str, kind: str) -> None:
    one = trial(text)
    with one.running():
        assert {Path(path).name for path in one.files()} >= {"train.py", "optimizer.py"}
        assert one.found.kind == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "open('photos.zip')",
            "No such file or directory: 'photos.zip'",
        ),
        ("import sys; sys.exit('no data: run prepare.py')", "the script failed: no data: run prepare.py"),
        ("print('hello')", "the script ended without a step, a backward pass, a batch or a forward pass"),
        ("import time; time.sleep(60)", "the script made no step before the budget was used up"),
        ("import torch\ntorch.optim.SGD().step()\n", "ended within the 1 steps of the warm-up; see --warmup"),
        (script().replace("200", "5"), "the script ended after too few steps: try --warmup 2 --steps 5"),
    ],
)
def test_a_script_that_cannot_be_measured_ends_in_one_line(
    trial: Callable[..., Trial], text: str, message: str
) -> None:
    with pytest.raises(ScriptError) as raised:
        compared(trial(text, budget=1.5 if "60" in text else 60.0))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_command_without_python_cannot_be_observed(trial: Callable[..., Trial]) -> None:
    with pytest.raises(ScriptError, match="the script cannot be observed"):
        compared(trial("", "true"))
    with pytest.raises(ScriptError, match="no-such-program: No such file or directory"):
        compared(trial("", "no-such-program"))


def state(folder: Path) -> dict[str, str]:
    """The content of all files below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


WRITES = (
    "torch.save(step, 'large.pt')",
    "open('large.pt', 'ab').write(b'x')",
    "open('checkpoints/large.pt', 'r+b').write(b'x')",
    "open('small.txt', 'w').write('x')",
    "open(f'checkpoints/{step}.pt', 'w').write('x')",
    "os.path.exists('large.pt') and os.remove('large.pt')",
    "os.path.exists('large.pt') and os.rename('large.pt', 'other.pt')",
    "os.makedirs(f'runs/{step}')",
)


@pytest.mark.parametrize("write", WRITES)
def test_what_a_script_writes_is_in_its_copy(trial: Callable[..., Trial], tmp_path: Path, write: str) -> None:
    one = trial(script(write).replace("import sys", "import os, sys"), steps=5)
    project = tmp_path / "project"
    (project / "checkpoints").mkdir()
    (project / "small.txt").write_text("small")
    for name in ("large.pt", "checkpoints/large.pt"):
        (project / name).write_bytes(bytes(LARGEST_COPY + 1))
    before = state(project)
    compared(one)
    assert state(project) == before
    assert one.changed_files() == []


@pytest.mark.parametrize("write", ["open({path!r}, 'w')", "os.remove({path!r})", "os.mkdir({path!r} + '.d')"])
def test_what_would_change_the_project_itself_is_refused(
    trial: Callable[..., Trial], tmp_path: Path, write: str
) -> None:
    path = tmp_path / "project" / "notes.txt"
    one = trial(script(write.format(path=str(path))).replace("import sys", "import os, sys"))
    path.write_text("mine")
    with pytest.raises(ScriptError, match="PermissionError: torchlint measure: the script would change"):
        compared(one)
    assert path.read_text() == "mine"
    assert not path.with_suffix(".txt.d").exists()


def test_a_copy_contains_code_and_links_to_data(trial: Callable[..., Trial], tmp_path: Path) -> None:
    program = trial(script()).program
    project = tmp_path / "project"
    for folder in (".git", "photos", "venv", "src"):
        (project / folder).mkdir()
    (project / "venv" / "pyvenv.cfg").touch()
    (project / "src" / "model.py").touch()
    (project / "large.bin").write_bytes(bytes(LARGEST_COPY + 1))
    for number in range(FULL_FOLDER + 1):
        (project / "photos" / f"{number}.jpg").touch()
    copy = make_copy(program, tmp_path / "copy", {str(project / "src" / "model.py"): b"fixed"})
    made = Path(copy.folder)
    assert {path.name for path in made.iterdir()} == {
        "large.bin",
        "photos",
        "pyproject.toml",
        "src",
        "torch",
        "train.py",
    }
    assert [path.name for path in made.iterdir() if path.is_symlink()].sort() == ["large.bin", "photos"].sort()
    assert (made / "src" / "model.py").read_bytes() == b"fixed"
    assert copy.original_of("src/model.py") == str(project / "src" / "model.py")
    assert copy.original_of(__file__) is None


def test_paths_of_the_command_lead_to_the_copy(trial: Callable[..., Trial], tmp_path: Path) -> None:
    project = tmp_path / "project"
    program = trial(script(), sys.executable, str(project / "train.py"), f"--out={project}/runs", "/data").program
    copy = make_copy(program, tmp_path / "copy", {})
    assert copy.command == [sys.executable, f"{copy.root}/train.py", f"--out={copy.root}/runs", "/data"]


def test_a_folder_that_is_no_project_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ProjectError, match="is not the folder of a project"):
        program_of(["python", "train.py"])


def turns(before: float, after: float, blocks: int = 10) -> Turns:
    """Blocks of ten steps that take so many seconds."""
    ours, theirs = (Block(10, seconds, 0.0, (), 0, 0) for seconds in (before, after))
    return Turns((ours,) * blocks, (theirs,) * blocks, (ours, theirs))


@pytest.mark.parametrize(
    ("runs", "outcome"),
    [
        ([(2.0, 1.0)], "inconclusive"),
        ([(2.0, 1.0), (2.0, 1.0)], "faster"),
        ([(1.0, 2.0), (1.0, 2.0)], "slower"),
        ([(2.0, 1.0), (1.0, 1.0)], "inconclusive"),
        ([(1.0, 1.0)], "no difference"),
        ([(1.02, 1.0)], "no difference"),
    ],
)
def test_a_difference_counts_if_two_pairs_of_processes_show_it(runs: list[tuple[float, float]], outcome: str) -> None:
    found = Comparison(tuple(turns(*run) for run in runs))
    assert found.outcome == outcome
    assert found.needs_another_run == (len(runs) == 1 and runs[0] != (1.0, 1.0) and runs[0] != (1.02, 1.0))


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([3.0, 2.0, 1.0, 1.0], [3.0, 2.0, 1.0, 1.0], "the same"),
        ([3.0, 2.0, 1.0, 1.0], [3.0, 2.1, 1.1, 1.0], "agree"),
        ([3.0, 2.0, 1.0, 1.0], [3.0, 3.0, 3.0, 3.0], "differ"),
        ([3.0, 2.0, 1.0, 1.0], [3.0, 2.0, float("nan"), float("nan")], "differ"),
        ([0.0, 0.0], [0.0, 0.0], "the same"),
    ],
)
def test_loss_curves_are_compared(before: list[float], after: list[float], verdict: str) -> None:
    found = compare_losses(before, after)
    assert found is not None
    assert found.verdict == verdict
    assert compare_losses(before, []) is None
