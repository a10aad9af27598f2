"""What can go wrong around a run: signals, pipes, disks, memory, files that change. Each is brought about for real."""

from __future__ import annotations

import functools
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from torchlint_processes import run_module

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = """\
import torch
from torch.utils.data import DataLoader
from p import Photos

def train(model, opt):
    loader = DataLoader(Photos(), batch_size=64)
    for x, y in loader:
        loss = model(x.cuda(), y.cuda())
        loss.backward()
        opt.step()
"""
FIXES = ("check", "--fix", "--unsafe-fixes", "--select", "TL102")
FIXED = PROGRAM.replace("batch_size=64)", "batch_size=64, pin_memory=torch.cuda.is_available())")
COMMAND = [sys.executable, "-m", "torchlint"]


def environment(**variables: str) -> dict[str, str]:
    """That of this process, in which torchlint of this folder is imported."""
    places = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    return {**os.environ, "PYTHONPATH": places, **variables}


def run(
    folder: Path, *arguments: str, prepare: Callable[[], None] | None = None, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A run in a folder; `prepare` is called in the new process before it."""
    if prepare is None:
        done = run_module("torchlint", folder, *arguments, env=variables)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(**variables or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=prepare,
    )


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line of shell, in which `torchlint` is a command."""
    script = f'torchlint() {{ "{sys.executable}" -m torchlint "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a file that has something to fix."""
    (tmp_path / "a.py").write_text(PROGRAM)
    return tmp_path


# -- streams


@pytest.mark.parametrize(
    ("line", "status", "error"),
    [
        ("torchlint check - <&-", 2, "error: standard input is closed"),
        ("torchlint check --fix - <&-", 2, "error: standard input is closed"),
        ("torchlint check a.py >&-", 1, ""),
        ("torchlint check a.py >/dev/full", 2, "error: the output: No space left on device"),
        ("torchlint rules >/dev/full", 2, "error: the output: No space left on device"),
        ("torchlint check --output-format json a.py >/dev/full", 2, "error: the output: No space left on device"),
        ("mkdir gone && cd gone && rmdir ../gone && torchlint", 2, "error: the current folder no longer exists"),
    ],
)
def test_a_stream_or_folder_that_is_not_there(project: Path, line: str, status: int, error: str) -> None:
    outcome = shell(project, line)
    assert (outcome.stderr.strip(), outcome.returncode) == (error, status)


def test_a_closed_standard_error(project: Path) -> None:
    outcome = shell(project, "torchlint check a.py nothing.py 2>&-")
    assert (outcome.returncode, outcome.stderr) == (2, "")
    assert "TL102" in outcome.stdout


def test_a_reader_that_has_seen_enough(project: Path) -> None:
    for number in range(300):
        (project / f"b{number}.py").write_text(PROGRAM)
    outcome = shell(project, "torchlint check . | head -1; exit ${PIPESTATUS[0]}")
    assert (outcome.stderr, outcome.returncode) == ("", 0)
    assert outcome.stdout.count("\n") == 1


@pytest.mark.parametrize(
    "variables",
    [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}],
)
def test_an_environment_without_unicode(project: Path, variables: dict[str, str]) -> None:
    (project / "ä.py").write_text(f"# 日本\n{PROGRAM}", encoding="utf-8")
    outcome = run(project, *FIXES, ".", variables=variables)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert (project / "ä.py").read_text(encoding="utf-8") == f"# 日本\n{FIXED}"


def test_no_home(project: Path) -> None:
    variables = {name: value for name, value in environment().items() if name not in ("HOME", "USER", "LOGNAME")}
    outcome = subprocess.run(
        [*COMMAND, "check", "a.py"],
        cwd=project,
        env=variables,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (1, "")


# -- files


def test_what_is_no_file_is_told(project: Path) -> None:
    os.mkfifo(project / "pipe.py")
    (project / "loop.py").symlink_to(project / "loop.py")
    (project / "gone.py").symlink_to(project / "nowhere.py")
    outcome = run(project, "check", "--output-format", "concise", "pipe.py", "loop.py", "gone.py", "/dev/zero")
    assert outcome.returncode == 2
    assert outcome.stdout == "No findings in 0 files.\n" or "No findings" in outcome.stdout
    assert len(outcome.stderr.splitlines()) == 4
    assert all(line.startswith("error: ") for line in outcome.stderr.splitlines())
    whole = run(project, "check", ".")
    assert (whole.returncode, whole.stderr) == (1, "")


def test_a_row_of_fifty_megabytes(project: Path) -> None:
    (project / "long.py").write_text("import torch\nx = '" + "a" * 50_000_000 + "'\n")
    outcome = run(project, "check", "--output-format", "concise", "long.py")
    assert "the file is too large: 50,000,020 bytes" in outcome.stdout
    assert (outcome.returncode, outcome.stderr) == (1, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk(project: Path) -> None:
    disk = project / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no file system can be mounted")
    try:
        (disk / "a.py").write_text(PROGRAM)
        with pytest.raises(OSError, match="No space left"), open(disk / "fill", "wb", buffering=0) as file:
            while file.write(b"x" * 1024):
                pass
        outcome = run(project, *FIXES, "disk")
        assert (disk / "a.py").read_text() == PROGRAM
        assert sorted(os.listdir(disk)) == ["a.py", "fill"]
        assert outcome.stderr == "error: disk/a.py: not fixed: No space left on device\n"
        assert outcome.returncode == 2
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def test_links_are_kept(project: Path) -> None:
    (project / "link.py").symlink_to("a.py")
    assert run(project, *FIXES, "link.py").returncode == 0
    assert (project / "link.py").is_symlink()
    assert (project / "a.py").read_text() == FIXED


def test_hard_links_are_each_fixed(project: Path) -> None:
    os.link(project / "a.py", project / "b.py")
    assert run(project, *FIXES, ".").returncode == 0
    assert (project / "a.py").read_text() == (project / "b.py").read_text() == FIXED


# -- processes


def start(folder: Path, count: int) -> subprocess.Popen[str]:
    """A run that fixes many files, in a group of processes of its own."""
    for number in range(count):
        (folder / f"b{number:03}.py").write_text(PROGRAM)
    return subprocess.Popen(
        [*COMMAND, *FIXES, "."],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def whole(folder: Path) -> bool:
    """Whether each file is as it was, or fixed."""
    return {path.read_text() for path in folder.glob("b*.py")} <= {PROGRAM, FIXED}


def until_begun(folder: Path) -> None:
    """Wait until a file is fixed."""
    for _ in range(4000):
        if any(path.read_text() == FIXED for path in folder.glob("b*.py")):
            return
        time.sleep(0.05)


@pytest.mark.parametrize("delay", [0.3, 0.9, 1.6])
def test_a_kill_at_any_moment_leaves_whole_files(tmp_path: Path, delay: float) -> None:
    process = start(tmp_path, 80)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=240)
    assert whole(tmp_path)
    assert run(tmp_path, *FIXES, ".").returncode == 0
    assert {path.read_text() for path in tmp_path.glob("b*.py")} == {FIXED}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_run_soon(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, 500)
    until_begun(tmp_path)
    os.killpg(process.pid, number)
    _, error = process.communicate(timeout=240)
    assert whole(tmp_path)
    assert not all(path.read_text() == FIXED for path in tmp_path.glob("b*.py"))
    assert not list(tmp_path.glob(".torchlint-*"))
    if number is signal.SIGINT:
        fixed = sorted(path.name for path in tmp_path.glob("b*.py") if path.read_text() == FIXED)
        assert error.splitlines() == [
            *(f"fixed before the interruption: {name}" for name in fixed),
            "error: interrupted",
        ]
        assert process.returncode == 130
    else:
        assert process.returncode == -signal.SIGTERM


SLOW_RULES = """\
import time
from torchlint.rule import Rule

class Slow(Rule):
    \"""A rule that takes long.\"""

    code, name = "ZS101", "slow-rule"

    def check(self, module):
        time.sleep(60)
        yield from ()
"""


def test_an_interruption_of_the_parent_alone_ends_the_run_at_once(tmp_path: Path) -> None:
    """While each process is in the middle of a file."""
    (tmp_path / "slow_rules.py").write_text(SLOW_RULES)
    for number in range(100):
        (tmp_path / f"b{number:03}.py").write_text("x = 1\n")
    inner = environment()
    process = subprocess.Popen(
        [*COMMAND, "--fix", "--config", 'plugins = ["slow_rules"]', "--select", "ZS101", "--allow-plugins", "."],
        cwd=tmp_path,
        env={**inner, "PYTHONPATH": f"{tmp_path}{os.pathsep}{inner.get('PYTHONPATH', '')}"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    time.sleep(4)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=50)
    assert time.monotonic() - begin < 30  # a process of its own would sleep for a minute
    assert (error, process.returncode) == ("error: interrupted\n", 130)


#: Gets a signal while the temporary file is there.
KILLED = """\
import os, signal
from torchlint.source.replacing import replace_file

signal.signal(signal.{signal}, signal.SIG_DFL)  # under nohup, SIGHUP is ignored
sync = os.fsync
def fsync(descriptor):
    os.kill(os.getpid(), signal.{signal})
    sync(descriptor)
os.fsync = fsync
replace_file("b.py", b"new", 0o644)
"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_leaves_no_temporary_file(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "b.py").write_text("old")
    script = KILLED.format(signal=number.name)
    process = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment(), timeout=240, check=False)
    assert process.returncode == -number
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("b.py", "new")]


def test_two_fixers_at_once(tmp_path: Path) -> None:
    first, second = start(tmp_path, 80), start(tmp_path, 0)
    for process in (first, second):
        _, error = process.communicate(timeout=240)
        told = {line.partition(": not fixed: ")[2] for line in error.splitlines()}
        assert told <= {"the file has changed since it was read"}
    assert {path.read_text() for path in tmp_path.glob("b*.py")} == {FIXED}


@pytest.mark.parametrize("megabytes", [200, 300, 1000])
def test_little_memory_is_told_in_a_line(project: Path, megabytes: int) -> None:
    limit = megabytes * 1024 * 1024
    outcome = run(project, "check", "a.py", prepare=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert "Traceback" not in outcome.stderr
    assert outcome.returncode in (1, 2, -signal.SIGABRT)  # the parser ends the process where it gets no memory
    assert outcome.stdout or outcome.stderr


def test_files_that_go_and_come_meanwhile(tmp_path: Path) -> None:
    process = start(tmp_path, 300)
    until_begun(tmp_path)
    for number in range(150, 300):
        if number % 2:
            (tmp_path / f"b{number}.py").unlink(missing_ok=True)
        else:
            (tmp_path / f"b{number}.py").write_text("import torch  # edited\n")
    _, error = process.communicate(timeout=240)
    for line in error.splitlines():
        assert line.endswith(
            ("No such file or directory", "not fixed: the file has changed since it was read", "no such file or folder")
        )
    assert {path.read_text() for path in tmp_path.glob("b*.py")} <= {FIXED, "import torch  # edited\n"}
    assert not list(tmp_path.glob(".torchlint-*"))
