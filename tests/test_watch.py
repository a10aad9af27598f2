"""``--watch``: the real process in a folder that changes under it, on a pipe and on a terminal."""

from __future__ import annotations

import functools
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import pytest
from forks import Fork
from torchlint_processes import can_fork, environment, forks

pytest.importorskip("watchfiles", reason="watchfiles (the extra `watch`) is not installed")

TESTS = Path(__file__).resolve().parent
RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

#: Seconds after which something has surely gone wrong.
_PATIENCE = 120.0
_END = "Watching for changes; Ctrl-C ends."


class Watching:
    """A running ``torchlint --watch``, whose reports are read one by one."""

    def __init__(self, folder: Path, *arguments: str, terminal: bool = False) -> None:
        variables = environment(PYTHONUNBUFFERED="1", TERM="xterm")
        arguments = ("--watch", "--output-format", "concise", *arguments)
        if terminal:
            import pty

            self._reader, writer = pty.openpty()
        else:
            self._reader, writer = os.pipe()
        self.process: Fork | subprocess.Popen[bytes]
        if can_fork(variables):
            self.process = forks().start(
                "torchlint", *arguments, cwd=folder, env=variables, stdout=writer, stderr=writer
            )
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "torchlint", *arguments],
                cwd=folder,
                env=variables,
                stdout=writer,
                stderr=writer,
                # a shell that runs the tests in the background ignores SIGINT, for its children too
                preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            )
        os.close(writer)
        self._pieces: queue.Queue[str] = queue.Queue()
        self._text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def report(self) -> str:
        """The next report: all that is written until torchlint waits again."""
        return re.sub(r" \(\d+ info\)", "", self.until(_END))  # severities are tested elsewhere

    def until(self, text: str) -> str:
        """All that is written up to ``text``."""
        deadline = time.monotonic() + _PATIENCE
        while text not in self._text:
            try:
                self._text += self._pieces.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"waited for {text!r}; got {self._text!r}") from None
        before, _, self._text = self._text.partition(text)
        return before

    def report_with(self, text: str) -> str:
        """The next report that says ``text``: a change made in two steps may be seen in two."""
        while True:
            report = self.report()
            if text in report:
                return report

    def interrupt(self) -> int:
        """End it as Ctrl-C does, and return the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(_PATIENCE)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._reader, 65536)
            except OSError:  # how a pseudo-terminal says that the other side is gone
                return
            if not data:
                return
            self._pieces.put(data.decode())

    def __enter__(self) -> Watching:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._reader)


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that is not watched."""
    yield tmp_path_factory.mktemp("elsewhere")


def test_findings_come_and_go_with_the_files(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    with Watching(project) as watching:
        report = watching.report()
        assert "a.py:1:5: ZZ101" in report and "1 finding in 1 of 1 file" in report

        (project / "b.py").write_text("x = 1\ny = RISKY\n")  # a new file
        report = watching.report_with("b.py:2:5: ZZ102")
        assert "a.py:1:5: ZZ101" in report  # what did not change is still shown

        (project / "a.py").write_text("x = 1\n")  # a changed one
        assert "a.py" not in watching.report_with("1 finding in 1 of 2 files")

        (project / "b.py").unlink()
        watching.report_with("No findings in 1 file.")

        (project / "pkg").mkdir()
        (project / "pkg" / "c.py").write_text("x = LOUD\n")  # in a new folder
        watching.report_with("pkg/c.py:1:5: ZZ101".replace("/", os.sep))

        (project / "pkg").rename(project / "other")
        assert "pkg" not in watching.report_with("other/c.py:1:5: ZZ101".replace("/", os.sep))

        shutil.rmtree(project / "other")
        watching.report_with("No findings in 1 file.")


def test_only_what_changed_is_checked_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")]))
    (project / "a.py").write_text("x = CRASH\n")  # says so whenever it is checked
    (project / "b.py").write_text("x = 1\n")
    (project / "rules_that_count.py").write_text(COUNTING)
    (project / "torchlint.toml").write_text('plugins = ["rules_that_count"]\nselect = ["YY"]\n')
    with Watching(project) as watching:
        watching.report()
        (project / "b.py").write_text("x = 2\n")
        watching.report_with("finding")
        (project / "b.py").write_text("x = 3\n")
        watching.report_with("finding")
        watching.interrupt()
    checked = (project / "checked.log").read_text().splitlines()
    assert checked.count("a.py") == 1
    assert checked.count("b.py") == 3


def test_what_depends_on_a_changed_file_is_checked_again(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "options.py").write_text("WORKERS = 0\n")
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n\nimport options\n\n\n"
        "def main(net, dataset, optimizer):\n"
        "    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=options.WORKERS)\n"
        "    for epoch in range(10):\n"
        "        for images in loader:\n"
        "            loss = net(images.cuda()).mean()\n"
        "            optimizer.zero_grad()\n"
        "            loss.backward()\n"
        "            optimizer.step()\n\n\n"
        'if __name__ == "__main__":\n    main(None, None, None)\n'
    )
    with Watching(tmp_path, "--select", "TL101") as watching:
        assert "train.py:8" in watching.report()
        (tmp_path / "options.py").write_text("WORKERS = 4\n")
        watching.report_with("No findings in 2 files.")


#: A rule pack that notes which files its rule is run on.
COUNTING = '''\
from torchlint.rule import Rule


class Counting(Rule):
    """Counts."""

    code = "YY101"
    name = "counting-rule"
    words = ("x",)

    def check(self, module):
        with open("checked.log", "a") as log:
            print(module.path, file=log)
        return iter(())
'''


def test_an_editor_that_renames_on_save(project: Path, elsewhere: Path) -> None:
    (project / "a.py").write_text("x = 1\n")
    with Watching(project) as watching:
        watching.report()
        (project / "a.py.tmp").write_text("x = LOUD\n")
        (project / "a.py").rename(project / "a.py~")
        (project / "a.py.tmp").rename(project / "a.py")
        assert "1 of 1 file" in watching.report_with("a.py:1:5: ZZ101")


def test_changed_settings_are_read(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    settings = project / "torchlint.toml"
    good = settings.read_text()
    with Watching(project) as watching:
        watching.report_with("ZZ101")
        settings.write_text("selec = []\n")
        report = watching.report_with("error:")
        assert "error: torchlint.toml:1:1: unknown setting `selec`; did you mean `select`?" in report
        assert "ZZ101" not in report
        settings.write_text(good + 'ignore = ["ZZ101"]\n')
        watching.report_with("No findings in 1 file.")
        (project / "sub").mkdir()
        (project / "sub" / "b.py").write_text("x = LOUD\n")
        watching.report_with("No findings in 2 files.")
        (project / "sub" / "torchlint.toml").write_text(good)  # settings of a folder below
        watching.report_with("b.py:1:5: ZZ101")


def test_settings_above_and_named_files_elsewhere_are_followed(project: Path, elsewhere: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("x = LOUD\n")
    shutil.copy(project / "torchlint.toml", elsewhere)
    named = elsewhere / "named.py"
    named.write_text("x = 1\n")
    with Watching(project, "src", str(named)) as watching:
        watching.report_with("1 finding in 1 of 2 files")
        named.write_text("x = RISKY\n")
        watching.report_with("2 findings in 2 of 2 files")
        (project / "torchlint.toml").write_text('plugins = ["demo_pack"]\nselect = ["ZZ102"]\n')
        watching.report_with("1 finding in 1 of 2 files")
        named.unlink()
        report = watching.report_with("No findings in 1 file.")
        assert f"error: {named}: no such file or folder" in report
        named.write_text("x = RISKY\n")
        watching.report_with("1 finding in 1 of 2 files")


def test_a_file_alone_is_watched_without_its_neighbours(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    with Watching(project, "a.py") as watching:
        watching.report_with("1 finding in 1 of 1 file")
        (project / "b.py").write_text("x = LOUD\n")
        (project / "a.py").write_text("x = 1\n")
        watching.report_with("No findings in 1 file.")


def test_a_changed_baseline_is_read(project: Path, elsewhere: Path, torchlint_in: RunTorchlint) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    baseline = elsewhere / "known.json"
    arguments = ("--baseline", str(baseline))
    torchlint_in(project, *arguments, "--update-baseline", "--ignore", "ZZ101")
    with Watching(project, *arguments) as watching:
        assert "a.py:1:5: ZZ101" in watching.report()
        torchlint_in(project, *arguments, "--update-baseline")
        watching.report_with("No findings in 1 file.")


def test_what_is_excluded_does_not_show(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    for folder in ("node_modules", ".git"):
        (project / folder).mkdir()
    with Watching(project) as watching:
        watching.report()
        for folder in ("node_modules", ".git"):
            (project / folder / "b.py").write_text("x = LOUD\n")
        (project / "notes.txt").write_text("no code\n")
        (project / "a.py").write_text("x = 1\n")
        assert "No findings in 1 file." in watching.report()  # the first report there is: nothing else made one


def test_fixes_are_made_once_per_change(project: Path) -> None:
    path = project / "a.py"
    path.write_text("x = LOUD\ny = RISKY\n")
    with Watching(project, "--fix") as watching:
        assert "Fixed 1 finding. 1 finding left" in watching.report()
        assert path.read_text() == "x = loud\ny = RISKY\n"
        path.write_text("x = 1\ny = LOUD\n")
        # The file that was written by the fix is no news: this is the very next report.
        assert "Fixed 1 finding. No findings left" in watching.report()
        assert path.read_text() == "x = 1\ny = loud\n"


def test_rules_that_undo_each_other_do_not_keep_it_busy(project: Path) -> None:
    path = project / "a.py"
    path.write_text("x = FLIP\n")
    with Watching(project, "--fix") as watching:
        watching.report_with("FLIP")
        (project / "b.py").write_text("x = LOUD\n")
        assert "Fixed 1 finding." in watching.report()
    assert path.read_text() == "x = FLIP\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_on_a_terminal_the_screen_is_cleared(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    with Watching(project, terminal=True) as watching:
        report = watching.report()
        assert report.index("\x1b[2J") < report.index("ZZ101")
        assert re.search(r"1 finding in 1 of 1 file.*\[\d\d:\d\d:\d\d\] $", report, re.DOTALL)
        (project / "a.py").write_text("x = 1\n")
        report = watching.report_with("No findings in 1 file.")
        assert report.index("\x1b[2J") < report.index("No findings")
        (project / "torchlint.toml").write_text("selec = []\n")
        report = watching.report_with("error:")
        assert report.index("\x1b[2J") < report.index("error:")


def test_elsewhere_the_output_is_plain(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    with Watching(project) as watching:
        assert "\x1b" not in watching.report()


def test_the_user_ends_it_cleanly(project: Path) -> None:
    (project / "a.py").write_text("x = LOUD\n")
    with Watching(project) as watching:
        watching.report()
        (project / "a.py").write_text("x = 1\n")
        watching.report_with("No findings")
        assert watching.interrupt() == 0
        said = watching.until("Stopped watching.\n")
        assert "Traceback" not in said and "error" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "--watch needs files: standard input cannot be watched"),
        (["--diff"], "--watch and --diff exclude each other"),
        (["--add-noqa"], "--add-noqa and --watch exclude each other"),
        (["--update-baseline", "--baseline", "b.json"], "--update-baseline and --watch exclude each other"),
        (["--output-file", "o.txt"], "--watch and --output-file exclude each other"),
        (["--output-format", "json"], "--watch shows findings to people: use --output-format "),
        (["nowhere"], "nowhere: no such file or folder"),
        (["--config", "selec = []"], "--config 'selec = []': unknown setting `selec`; did you mean `select`?"),
    ],
)
def test_what_cannot_be_watched(project: Path, torchlint_in: RunTorchlint, arguments: list[str], message: str) -> None:
    done = torchlint_in(project, "--watch", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1


def test_without_watchfiles_it_says_what_to_install(project: Path) -> None:
    program = (
        "import sys\nsys.modules['watchfiles'] = None\nfrom torchlint.cli import main\nsys.exit(main(['--watch']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "error: --watch needs watchfiles: pip install watchfiles\n"
