"""Results that are kept between runs: what a run prints is the same with and without them, whatever has changed."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torchlint
from torchlint.cache.folder import CacheFolder, is_cache, recorded_below
from torchlint.cli import main
from torchlint.engine.results import Mode, Result
from torchlint.engine.runner import run
from torchlint.settings.files import File

CACHE = ".torchlint_cache"

DATA = """\
from torch.utils.data import DataLoader

import options


def build(dataset):
    return DataLoader(dataset, batch_size=64, shuffle=True, num_workers=options.WORKERS)
"""
TRAIN = """\
import torch
import torch.nn.functional as F

import data
from model import Net


def main(dataset):
    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(10):
        for images, labels in data.build(dataset):
            loss = F.cross_entropy(net(images.cuda()), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main([])
"""
MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 512), nn.Linear(512, 10))

    def forward(self, x):
        return self.body(x)
"""
FILES = {"data.py": DATA, "train.py": TRAIN, "model.py": MODEL, "options.py": "WORKERS = 0\n", "notes.py": "X = 1\n"}
#: Edits, each of one file: what stands there, and what takes its place; None in place of both: the file is removed.
EDITS: list[tuple[str, str | None, str]] = [
    ("options.py", "WORKERS = 0", "WORKERS = 4"),
    ("options.py", "WORKERS = 4", "WORKERS = 0"),
    ("options.py", "WORKERS", "# how many\nWORKERS"),
    ("data.py", "shuffle=True", "shuffle=True, pin_memory=True"),
    ("data.py", ", pin_memory=True", ""),
    ("data.py", "num_workers=options.WORKERS", "num_workers=options.WORKERS  # noqa: TL101"),
    ("data.py", "  # noqa: TL101", ""),
    ("train.py", ".cuda()", '.to("cpu")'),
    ("train.py", '.to("cpu")', ".cuda()"),
    ("train.py", "import data\n", "from data import build\n"),
    ("train.py", "data.build", "build"),
    ("train.py", "range(10)", "range(1)"),
    ("notes.py", "X = 1", "X = 2"),
    ("notes.py", "X = 2", "import train\nX = 2"),
    ("model.py", "512", "5"),
    ("model.py", None, ""),
    ("other.py", "", "import data\n\ndata.build(0)\n"),
    ("sub/data.py", "", "def build(dataset):\n    return []\n"),
    ("pyproject.toml", "", '[tool.torchlint]\nignore = ["TL102"]\n'),
    ("conf.yaml", "", "workers: 0\n"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder: Path) -> None:
    (folder / ".git").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a run prints, with its status; on standard output and standard error."""
    capsys.readouterr()
    status = main(["check", *arguments])
    return f"{status} {capsys.readouterr()}"


def edit(folder: Path, name: str, old: str | None, new: str) -> None:
    """Make an edit, if what it replaces is there."""
    path = folder / name
    if old is None:
        path.unlink(missing_ok=True)
    elif not old:
        path.parent.mkdir(exist_ok=True)
        path.write_text(new)
    elif path.exists():
        path.write_text(path.read_text().replace(old, new))


def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that are analysed from now on."""
    from torchlint.engine import work

    found: list[str] = []
    check = vars(work)["check"]

    def recorded(source: Any, *arguments: Any, **keywords: Any) -> Any:
        found.append(source.path)
        return check(source, *arguments, **keywords)

    monkeypatch.setattr(work, "check", recorded)
    return found


# -- what is taken from the cache


def test_a_second_run_analyses_nothing_and_prints_the_same(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = printed(capsys)
    assert "TL101" in first
    files = analysed(monkeypatch)
    assert printed(capsys) == first
    assert files == []


def test_a_second_run_loads_neither_the_parser_nor_rules(project: Path) -> None:
    program = (
        "import sys; from torchlint.cli import main; main(['--output-format', 'concise']);"
        "print([name for name in sys.modules if name.split('.')[0] in ('libcst', 'rich')"
        " or name.startswith('torchlint_rules.') or name == 'torchlint.engine.checker'])"
    )

    def output() -> list[str]:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    first, second = output(), output()
    assert "libcst" in first[-1]
    assert second[:-1] == first[:-1]
    assert second[-1] == "[]"


def test_only_what_a_change_concerns_is_analysed_again(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed(capsys)
    files = analysed(monkeypatch)
    edit(project, "notes.py", "X = 1", "X = 2")
    printed(capsys)
    assert files == ["notes.py"]
    files.clear()
    edit(project, "options.py", "WORKERS = 0", "WORKERS = 4")
    assert "TL101" not in printed(capsys)
    assert "data.py" in files
    assert "notes.py" not in files


def test_a_file_with_another_time_and_the_same_content_is_not_analysed_again(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = printed(capsys)
    for name in FILES:
        os.utime(project / name, ns=(10**18, 10**18))
    files = analysed(monkeypatch)
    assert printed(capsys) == first
    assert files == []


def test_a_change_that_leaves_size_and_time_is_seen_shortly_after_a_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time = os.stat(project / "options.py").st_mtime_ns
    assert "TL101" in printed(capsys)
    (project / "options.py").write_text("WORKERS = 4\n")
    os.utime(project / "options.py", ns=(time, time))
    assert "TL101" not in printed(capsys)


def test_a_file_that_becomes_a_caller_counts(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(project, "data.py", "build(dataset)", "build(dataset, workers)")
    edit(project, "data.py", "num_workers=options.WORKERS", "num_workers=workers")
    edit(project, "train.py", "data.build(dataset)", "data.build(dataset, 0)")
    assert "TL101" in printed(capsys)
    edit(project, "notes.py", "X = 1", "import torch\nimport data\n\nfor x in data.build([], 4):\n    print(x.cuda())")
    output = printed(capsys)
    assert "TL101" not in output
    assert output == printed(capsys, "--no-cache")


def test_what_a_file_begins_to_use_is_reported_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(project, "model.py", "from torch import nn\n", "import torch\nfrom torch import nn\n")
    unused = "\n\ndef mask(x):\n    return torch.zeros(4, 4).to(x.device)\n"
    edit(project, "model.py", "        return self.body(x)\n", f"        return self.body(x)\n{unused}")
    assert "TL206" not in printed(capsys)
    edit(project, "notes.py", "X = 1", "import model\n\nmodel.mask(X)")
    assert "TL206" in printed(capsys)
    edit(project, "notes.py", "model.mask(X)", "X = 1")
    assert "TL206" not in printed(capsys)
    (project / "kinds.yaml").write_text("kind: other\n")
    assert "TL206" not in printed(capsys)
    (project / "kinds.yaml").write_text("kind: mask\n")
    assert "TL206" in printed(capsys)


def test_a_file_that_begins_to_call_a_method_without_gradients_counts(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "agent.py").write_text(
        "from torch import nn\n\n\nclass Agent:\n    def __init__(self):\n"
        "        self.actor = nn.Linear(8, 8).cuda()\n        self.kept = []\n\n"
        "    def act(self, x):\n        y = self.actor(x).detach()\n        self.kept.append(y)\n        return y\n"
    )
    assert "TL402" in printed(capsys)
    edit(project, "notes.py", "X = 1", "import torch\n\n\ndef run(agent, x):\n    agent.act(x)\n")
    assert "TL402" in printed(capsys)
    edit(project, "notes.py", "    agent.act(x)", "    with torch.no_grad():\n        agent.act(x)")
    assert "TL402" not in printed(capsys)
    edit(project, "notes.py", "torch.no_grad()", "open(x)")
    output = printed(capsys)
    assert "TL402" in output
    assert output == printed(capsys, "--no-cache")


def test_a_changed_configuration_file_counts(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "run.py").write_text(
        "import torch\nimport yaml\nfrom torch.utils.data import DataLoader\n\nfrom photos import Photos\n\n"
        "with open('conf.yaml') as file:\n    config = yaml.safe_load(file)\n\n\n"
        "def main(config):\n"
        "    loader = DataLoader(Photos(), num_workers=config['num_workers'], persistent_workers=False)\n"
        "    for epoch in range(90):\n        for images in loader:\n            print(images.cuda())\n\n\n"
        "if __name__ == '__main__':\n    main(config)\n"
    )
    (project / "conf.yaml").write_text("num_workers: 0\n")
    (project / "unrelated.json").write_text("{}")
    assert "TL103" not in printed(capsys)
    (project / "conf.yaml").write_text("num_workers: 4\n")
    output = printed(capsys)
    assert "TL103" in output
    assert output == printed(capsys, "--no-cache")
    (project / "conf.yaml").unlink()
    assert printed(capsys) == printed(capsys, "--no-cache")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.lists(st.sampled_from(EDITS), min_size=1, max_size=3), min_size=1, max_size=6))
def test_whatever_is_edited_a_run_prints_the_same_as_without_a_cache(
    steps: list[list[tuple[str, str | None, str]]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path_factory.mktemp("project")
    make(folder)
    monkeypatch.chdir(folder)
    printed(capsys)
    for step in steps:
        for change in step:
            edit(folder, *change)
        assert printed(capsys) == printed(capsys, "--no-cache")
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--select", "TL103"],
        ["--ignore-noqa"],
        ["--isolated-files"],
        ["--config", "rules.single-process-dataloader.unknown = 1"],
        ["--output-format", "json"],
        ["--target-torch-is-not-an-option"],
        ["train.py", "data.py"],
        ["--diff"],
        ["--statistics"],
    ],
    ids=" ".join,
)
def test_other_arguments_do_not_get_the_results_of_these(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    def output(*more: str) -> str:
        try:
            return printed(capsys, *arguments, *more)
        finally:
            capsys.readouterr()

    printed(capsys)
    assert output() == output("--no-cache")
    assert output() == output("--no-cache")


def test_a_changed_baseline_counts(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.torchlint]\nbaseline = "known.json"\n')
    printed(capsys, "--update-baseline")
    assert "TL101" not in printed(capsys)
    known = json.loads((project / "known.json").read_text())
    known["findings"] = {}
    (project / "known.json").write_text(json.dumps(known))
    assert "TL101" in printed(capsys)


def test_a_file_that_is_named_is_reported_as_invalid_after_a_run_that_found_it_in_a_folder(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "broken.py").write_text("def f(:\n")
    assert "TL002" not in printed(capsys)
    assert "TL002" in printed(capsys, "broken.py")
    assert "TL002" not in printed(capsys)


def test_a_changed_notebook_is_analysed_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": []}
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    source = "import torch\n\nfor i in range(9):\n    x = torch.zeros(3, 3).cuda()\n"
    for text, found in (("pass", False), (source, True), (source.replace(".cuda()", ""), False)):
        cells[0]["source"] = text.splitlines(keepends=True)
        (project / "trial.ipynb").write_text(json.dumps(notebook))
        assert ("TL206" in printed(capsys, "trial.ipynb")) is found
        assert printed(capsys, "trial.ipynb") == printed(capsys, "trial.ipynb", "--no-cache")


# -- fixes


def test_fixes_are_made_after_a_run_that_only_checks(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys)
    printed(capsys, "--fix", "--unsafe-fixes")
    fixed = {name: (project / name).read_text() for name in FILES}
    assert fixed["data.py"] != DATA
    shutil.rmtree(project / CACHE)
    for name, text in FILES.items():
        (project / name).write_text(text)
    printed(capsys, "--fix", "--unsafe-fixes", "--no-cache")
    assert {name: (project / name).read_text() for name in FILES} == fixed
    assert printed(capsys) == printed(capsys, "--no-cache")


def test_an_edit_that_stands_in_the_cache_is_never_made(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys)
    planted = "import os; os.system('true')"
    cache = CacheFolder(str(project / CACHE))
    for path in kept(project):
        text = json.dumps(cache.read(path.stem))
        assert path.stem == "settings" or "num_workers=" in text
        cache.write(path.stem, json.loads(re.sub(r"(num_workers|pin_memory)=[^\"`]*", planted, text)))
    printed(capsys, "--fix", "--unsafe-fixes")
    assert planted not in (project / "data.py").read_text()


# -- a cache that does not work


def kept(project: Path) -> list[Path]:
    return sorted((project / CACHE).glob("*/*.json"))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[1:],
        lambda data: b"\xff" * 100,
        lambda data: b"[" * 100_000,
        lambda data: b"null",
        lambda data: b"[]",
        lambda data: b"[{}, [], null]",
        lambda data: data.replace(b"[", b"{", 3),
        lambda data: data.replace(b"0", b"-1"),
        lambda data: data.replace(b"0", b"99999"),
        lambda data: data.replace(b'"', b""),
        lambda data: data.replace(b"TL101", b"TL1\\u0000"),
    ],
)
def test_whatever_a_cache_contains_nothing_breaks(
    project: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[bytes], bytes]
) -> None:
    printed(capsys)
    for path in kept(project):
        path.write_bytes(spoil(path.read_bytes()))
    assert printed(capsys)[0] in "012"
    for name in FILES:  # what is wrong is gone with the next change
        edit(project, name, "import", "import os\nimport")
    assert printed(capsys, "train.py")[0] == "1"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_value_in_a_cache_raises(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("project")
    make(folder)
    monkeypatch.chdir(folder)
    files = [File(name, torchlint.load_settings(), named=False) for name in sorted(FILES)]
    cache = CacheFolder(str(folder / CACHE))
    run(files, Mode.CHECK, cache=cache)
    name = kept(folder)[0].stem
    content = cache.read(name)
    places = list(places_in(content))
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(places))
        holder[key] = data.draw(st.sampled_from([None, -1, 0, 10**9, "", "x", [], {}, 1.5, True, [[]], "../../etc"]))
    cache.write(name, content)
    results = run(files, Mode.CHECK, cache=cache)
    assert [result.path for result in results] == sorted(FILES)
    assert all(isinstance(result, Result) for result in results)
    shutil.rmtree(folder)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """The containers and keys of all values in data."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places_in(item)


def test_a_folder_that_cannot_be_written_is_no_cache(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "file").write_text("")
    first = printed(capsys, "--cache-dir", "file/cache")
    assert "TL101" in first
    assert printed(capsys, "--cache-dir", "file/cache") == first
    assert (project / "file").read_text() == ""


def test_a_full_disk_is_no_error(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("torchlint.cache.folder.replace_file", full)
    assert printed(capsys) == printed(capsys, "--no-cache")


def test_another_version_reads_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = printed(capsys)
    monkeypatch.setattr("torchlint.cache.folder.version", lambda: "another")
    files = analysed(monkeypatch)
    assert printed(capsys) == first
    assert sorted(files) == sorted(FILES)


def test_an_installation_is_known_by_its_records_not_by_its_times(tmp_path: Path) -> None:
    (tmp_path / "pack_rules").mkdir()
    (tmp_path / "pack-1.0.dist-info").mkdir()
    record = tmp_path / "pack-1.0.dist-info" / "RECORD"
    assert recorded_below(str(tmp_path / "pack_rules")) == []
    record.write_text("pack_rules/a.py,sha256=1,5\npack_rules/__pycache__/a.pyc,,\npack/b.py,sha256=2,5\n")
    assert recorded_below(str(tmp_path / "pack_rules")) == ["pack_rules/a.py,sha256=1,5\n"]


def test_two_runs_at_once_print_the_same(project: Path) -> None:
    command = [sys.executable, "-m", "torchlint", "--output-format", "json"]
    for _ in range(2):
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=project) for _ in range(2)]
        outputs = [one.communicate()[0] for one in runs]
        assert outputs[0] == outputs[1]
        assert b"TL101" in outputs[0]


def test_plugins_are_not_cached(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = torchlint.load_settings(None, {"plugins": ["tests.demo_pack"]})
    run([File("data.py", settings, named=False)], cache=CacheFolder(str(project / CACHE)))
    assert kept(project) == []


# -- where it is


def test_the_cache_says_what_it_is_and_is_ignored_by_git(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys)
    assert is_cache(str(project / CACHE))
    assert (project / CACHE / ".gitignore").read_text().endswith("\n*\n")


def test_no_cache_leaves_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "--no-cache")
    assert not (project / CACHE).exists()


def test_a_setting_and_an_option_move_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "torchlint.toml").write_text('cache-dir = "kept"\n')
    printed(capsys)
    assert is_cache(str(project / "kept"))
    printed(capsys, "--cache-dir", "elsewhere")
    assert is_cache(str(project / "elsewhere"))
    assert not (project / CACHE).exists()


def test_a_repository_cannot_lead_it_out_of_itself(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "torchlint.toml").write_text('cache-dir = "../kept"\n')
    output = printed(capsys)
    assert output.startswith("2 ")
    assert "`cache-dir` leads out of" in output
    assert not (project.parent / "kept").exists()


def test_a_link_in_a_repository_leads_nowhere(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project.parent / "private").mkdir()
    (project / CACHE).symlink_to(project.parent / "private")
    assert printed(capsys) == printed(capsys, "--no-cache")
    assert list((project.parent / "private").iterdir()) == []
    (project / "mine").symlink_to(project.parent / "private")
    printed(capsys, "--cache-dir", "mine")  # the user says so
    assert is_cache(str(project.parent / "private"))


def test_clean_deletes_caches_and_nothing_else(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys)
    (project / "sub" / CACHE).mkdir(parents=True)
    (project / "sub" / CACHE / "mine.txt").write_text("not a cache of torchlint")
    assert main(["clean"]) == 0
    assert CACHE in capsys.readouterr().err
    assert not (project / CACHE).exists()
    assert (project / "sub" / CACHE / "mine.txt").exists()
    assert sorted(path.name for path in project.glob("*.py")) == sorted(FILES)
    assert main(["clean", "missing"]) == 2
    assert capsys.readouterr().err == "error: missing: no such folder\n"


def test_clean_says_that_a_cache_stays_if_its_name_cannot_be_read(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text('[tool.torchlint]\ncache-dir = "kept"\n')
    printed(capsys)
    assert is_cache(str(project / "kept"))
    (project / "pyproject.toml").write_text('[tool.torchlint]\ncache-dir = "kept"\nslect = ["TL1"]\n')
    assert main(["clean"]) == 0
    assert capsys.readouterr().err == (
        "warning: a cache named in the settings is not deleted; correct them and run this again: "
        "pyproject.toml:3:1: unknown setting `slect`; did you mean `select`?\n"
    )
    assert is_cache(str(project / "kept"))
