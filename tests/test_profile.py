"""``check --profile``: what findings take of the steps of a trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from traces import Call, event, python, steps, write

from torchlint.cli import main

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        return torch.rand(1, 28, 28), index % 10

def train(model, loader, optimizer, device):
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total

def main():
    device = torch.device("cuda")
    loader = DataLoader(Images(), batch_size=32)
    model = nn.Sequential(nn.Conv2d(1, 512, 3), nn.Flatten(), nn.Linear(512 * 26 * 26, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        train(model, loader, optimizer, device)

main()
"""
#: One step of 1000 us: 300 in the loader, 200 in the forward pass, 100 in `.item()`.
STEP: list[Call] = [
    ("train.py(29): main", 0, 1000),
    ("train.py(14): train", 0, 1000),
    ("torch/utils/data/dataloader.py(7): __next__", 0, 300),
    ("<built-in method to of Tensor object at 0x7f00>", 310, 320),
    ("<built-in method to of Tensor object at 0x7f00>", 320, 330),
    ("torch/optim/optimizer.py(9): zero_grad", 330, 340),
    ("nn.Module: Sequential_0", 400, 600),
    ("torch/nn/functional.py(9): cross_entropy", 600, 610),
    ("torch/_tensor.py(9): backward", 610, 800),
    ("torch/optim/optimizer.py(9): wrapper", 800, 890),
    ("torch/optim/sgd.py(9): step", 801, 889),
    ("<built-in method item of Tensor object at 0x7f00>", 900, 1000),
]
LOADING = event("user_annotation", ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 299))
READ = event("cpu_op", ("aten::_local_scalar_dense", 910, 990))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """The findings of a run, in its order."""
    capsys.readouterr()
    main(["-n", "--isolated", "--output-format", "json", *arguments])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def shares(capsys: pytest.CaptureFixture[str], trace: Path) -> dict[str, float | None]:
    """By code, in the order of the report, the share of each finding; None if it is not in the trace."""
    return {
        found["code"]: found["profile"] and found["profile"]["share"]
        for found in check(capsys, "--profile", str(trace), ".")
    }


def test_findings_are_sorted_by_their_share(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(folder / "trace.json", [*steps(1000), *python(STEP), LOADING, READ])
    assert shares(capsys, trace) == {"TL101": 0.298, "TL301": 0.21, "TL201": 0.1, "TL102": None}
    assert list(shares(capsys, trace)) == ["TL101", "TL301", "TL201", "TL102"]


def test_json_says_what_was_timed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(folder / "trace.json", [*steps(500, 1000), *python(STEP), LOADING, READ])
    found = {one["code"]: one["profile"] for one in check(capsys, "--profile", str(trace), ".")}
    assert found["TL201"] == {
        "kernels_per_step": 0.0,
        "parts": {"reads and waits": 40.0},
        "share": 0.1,
        "us_per_step": 50.0,
        "where": "statement",
    }
    assert found["TL101"]["where"] == "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert found["TL102"] is None
    assert all("profile" not in one for one in check(capsys, "."))


def test_people_see_shares_and_hot_places(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    write(folder / "trace.json", [*steps(1000), *python(STEP), LOADING, READ])
    assert main(["-n", "--isolated", "--profile", "trace.json", "."]) == 1
    report = capsys.readouterr().out
    assert "= profile: 30 % of the step, 298 us in `enumerate(DataLoader)#" in report
    assert "= profile: not in the profiled steps" in report
    assert "Profile: 1 step of 1.0 ms." in report
    hot = report.partition("Hot places without a finding:\n")[2].splitlines()
    assert [" ".join(line.split()) for line in hot] == [
        "19 % 190 us train.py:18 in train loss.backward()",
        "9.0 % 90 us train.py:19 in train optimizer.step()",
        "2.0 % 20 us train.py:15 in train images, labels = images.to(device), labels.to(device)",
        "1.0 % 10 us train.py:16 in train optimizer.zero_grad()",
    ]


def test_without_annotations_the_trace_is_one_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shares(capsys, write(folder / "trace.json", [*python(STEP), LOADING]))["TL301"] == 0.21


def test_what_is_outside_of_the_steps_does_not_count(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(folder / "trace.json", [*steps(500), *python(STEP), LOADING])
    assert shares(capsys, trace)["TL301"] == 0.2  # 100 of 500 us
    assert shares(capsys, trace)["TL201"] is None


def test_nested_runs_of_a_line_count_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recursive = [("train.py(20): train", 401, 599), ("nn.Module: Sequential_0", 450, 550)]
    calls = sorted([*STEP, *recursive], key=lambda call: (call[1], -call[2]))
    assert shares(capsys, write(folder / "trace.json", [*steps(1000), *python(calls)]))["TL301"] == 0.21


def test_a_compressed_trace_and_a_bare_list_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [*steps(1000), *python(STEP)]
    (folder / "trace.json.gz").write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    (folder / "list.json").write_text(json.dumps(events))
    assert shares(capsys, folder / "trace.json.gz") == shares(capsys, folder / "list.json")


TWICE = """\
import torch

def train(model, batches):
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())
        optimizer.zero_grad()
        print(loss.item())

train(torch.nn.Linear(3, 4), [])
"""


def reads(*extra: Call) -> list[Call]:
    """Two calls of `.item()`, the first of 100 us and the second of 300."""
    frame: list[Call] = [("train.py(3): train", 0, 1000)]
    items: list[Call] = [
        ("<built-in method item of Tensor object at 0x7f00>", 100, 200),
        ("<built-in method item of Tensor object at 0x7f00>", 500, 800),
    ]
    return sorted([*frame, *items, *extra], key=lambda call: call[1])


def only_first(capsys: pytest.CaptureFixture[str], trace: Path) -> float | None:
    """The share of the first of the two lines, the other one being suppressed."""
    return shares(capsys, trace)["TL201"]


@pytest.fixture
def twice(folder: Path) -> Path:
    lines = TWICE.splitlines(keepends=True)
    lines[-3] = lines[-3].rstrip("\n") + "  # noqa: TL201\n"
    (folder / "train.py").write_text("".join(lines))
    return folder


def test_a_name_that_two_lines_have_is_not_guessed(twice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert only_first(capsys, write(twice / "trace.json", [*steps(1000), *python(reads())])) is None


def test_what_runs_before_and_after_tells_two_lines_apart(twice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = reads(
        ("torch/optim/optimizer.py(9): wrapper", 50, 60), ("torch/optim/optimizer.py(9): zero_grad", 300, 310)
    )
    calls.insert(2, ("torch/optim/sgd.py(9): step", 51, 59))
    assert only_first(capsys, write(twice / "trace.json", [*steps(1000), *python(calls)])) == 0.1


def test_the_lines_of_calls_tell_two_lines_apart(twice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(twice / "trace.json", [*steps(1000), *python(reads())], torchlintCallers=[0, 10, 12])
    assert only_first(capsys, trace) == 0.1


def test_lines_that_are_not_in_the_function_do_not_count(twice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(twice / "trace.json", [*steps(1000), *python(reads())], torchlintCallers=[0, 1, -5])
    assert only_first(capsys, trace) is None


GUARD = """\
import torch

def train(model, batches, limit):
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss > limit:
            print("diverges")

train(torch.nn.Linear(3, 4), [], 7)
"""


def test_operators_of_pythons_notation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text(GUARD)
    frame = python([("train.py(3): train", 0, 1000)])
    operators = [event("cpu_op", ("aten::gt", 500, 510)), event("cpu_op", ("aten::is_nonzero", 510, 600))]
    assert shares(capsys, write(folder / "trace.json", [*steps(1000), *frame, *operators]))["TL203"] == 0.1


STACK = "/opt/lib/python3.8/site-packages/torch/nn/functional.py(9): relu;/home/me/work/train.py(17): train;x.py(1): f"


def test_operators_with_call_stacks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        event("Operator", ("ProfilerStep#1", 0, 1000), **{"Call stack": "/home/me/work/train.py(20): train"}),
        event("Operator", ("aten::linear", 100, 300), **{"Call stack": STACK}),
        event("Operator", ("aten::addmm", 110, 290), **{"Call stack": STACK}),
        event("Operator", ("aten::item", 500, 600), **{"Call stack": "/home/me/work/train.py(20): train"}),
    ]
    trace = write(folder / "trace.json", events)
    assert shares(capsys, trace) == {"TL301": 0.2, "TL201": 0.1, "TL101": None, "TL102": None}


@pytest.mark.parametrize(
    ("path", "matches"),
    [
        ("train.py", True),
        ("work/train.py", True),
        ("./work/train.py", True),
        ("/home/other/work/train.py", True),
        ("C:\\Users\\other\\work\\train.py", True),
        ("other/train.py", False),
        ("/opt/lib/python3.11/site-packages/work/train.py", False),
        ("<frozen train.py", False),
    ],
)
def test_paths_of_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str, matches: bool
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path / "work")
    calls = [(name.replace("train.py", path), start, end) for name, start, end in STEP]
    found = shares(capsys, write(tmp_path / "trace.json", [*steps(1000), *python(calls)]))
    assert found["TL301"] == (0.21 if matches else None)


def test_a_path_that_two_files_may_have_is_not_matched(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "train.py").write_text(SCRIPT)
    (folder / "train.py").unlink()
    trace = write(folder / "trace.json", [*steps(1000), *python(STEP)])
    assert all(one["profile"] is None for one in check(capsys, "--profile", str(trace), "."))
    calls = [(name.replace("train.py", "b/train.py"), start, end) for name, start, end in STEP]
    trace = write(folder / "trace.json", [*steps(1000), *python(calls)])
    found = check(capsys, "--profile", str(trace), ".")
    assert {Path(one["filename"]).parent.name for one in found if one["profile"]} == {"b"}


def gpu(name: str, start: float, end: float, correlation: int) -> list[dict[str, Any]]:
    """A launch of 2 us, and what runs on the GPU for it."""
    return [
        event("cuda_runtime", ("cudaLaunchKernel", start, start + 2), correlation=correlation),
        {**event("kernel", (name, start + 5, end), correlation=correlation), "pid": 0, "tid": 7},
    ]


def test_gpu_work_belongs_to_the_line_that_starts_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = [*gpu("gemm", 410, 515, 1), *gpu("bias", 420, 535, 2), *gpu("grad", 620, 700, 3)]
    trace = write(folder / "trace.json", [*steps(1000), *python(STEP), *kernels])
    (found,) = (one["profile"] for one in check(capsys, "--profile", str(trace), ".") if one["code"] == "TL301")
    assert found["kernels_per_step"] == 2
    # The line runs from 400 to 610; the GPU works from 415 to 535 for it, and from 625 for the backward pass.
    assert found["parts"] == {"GPU work started": 120.0, "GPU idle": 90.0}


def test_pageable_copies_are_those_of_the_unpinned_loader(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = [
        event("cuda_runtime", ("cudaMemcpyAsync", 311, 319), correlation=4),
        {**event("gpu_memcpy", ("Memcpy HtoD (Pageable -> Device)", 312, 318), correlation=4), "tid": 7},
    ]
    trace = write(folder / "trace.json", [*steps(1000), *python(STEP), *copy])
    (found,) = (one["profile"] for one in check(capsys, "--profile", str(trace), ".") if one["code"] == "TL102")
    assert (found["us_per_step"], found["where"]) == (8.0, "Memcpy HtoD (Pageable -> Device)")


def test_other_formats_do_not_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(folder / "trace.json", [*steps(1000), *python(STEP), LOADING])
    main(["-n", "--isolated", "--output-format", "sarif", "."])
    before = capsys.readouterr().out
    main(["-n", "--isolated", "--output-format", "sarif", "--profile", str(trace), "."])
    assert capsys.readouterr().out == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not JSON"),
        (b"12", "is not JSON"),
        (b"\x80\x04binary", "is not JSON"),
        (b"[]", "is not a trace of torch.profiler: it has no events"),
        (b'{"a": [1, {}]}', "is not a trace of torch.profiler: it has no `traceEvents`"),
        (b'{"traceEvents": 1}', "is not a trace of torch.profiler: its `traceEvents` are not a list"),
        (b'{"traceEvents": [{"ph": "X"}, {"ph', "is not valid JSON, or is truncated"),
        (b'{"traceEvents": [{"ph": "X"}', "is not valid JSON, or is truncated"),
        (b'{"traceEvents": [1, 2 3]}', "is not valid JSON, or is truncated"),
        (b"[" * 100_000, "is not a trace of torch.profiler: its JSON is nested too deeply"),
        (
            gzip.compress(b'{"traceEvents": []}' * 99, mtime=0)[:30],
            "is damaged or truncated: gzip cannot read it to its end",
        ),
        (
            b'[{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 1}]',
            "names no lines of Python code: record it with `with_stack=True`",
        ),
    ],
)
def test_what_is_not_a_trace_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes, reason: str
) -> None:
    (folder / "trace.json").write_bytes(content)
    assert main(["--isolated", "--profile", "trace.json", "."]) == 2
    assert capsys.readouterr() == ("", f"error: trace.json {reason}\n")


def test_odd_events_are_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = [
        None,
        7,
        {"ph": "X", "cat": "python_function", "name": 3, "ts": 1, "dur": 1},
        {"ph": "X", "cat": "python_function", "name": "train.py(12): train", "ts": "1", "dur": 1},
        {"ph": "X", "cat": "python_function", "name": "train.py(12): train", "ts": 1, "dur": -1},
        {"ph": "X", "cat": "python_function", "name": "train.py(12): train", "ts": float("nan"), "dur": 1},
        {"ph": "X", "cat": "python_function", "name": "train.py(12): train", "ts": 10**400, "dur": 1},
        {"ph": "X", "cat": "python_function", "name": "train.py(999999999): train", "ts": 1, "dur": 1, "args": []},
        {"ph": "X", "cat": ["kernel"], "name": "k", "ts": 1, "dur": 1, "pid": {}, "tid": [1]},
    ]
    trace = folder / "trace.json"
    trace.write_text(json.dumps({"traceEvents": [*odd, *steps(1000), *python(STEP)], "torchlintCallers": {"a": 1}}))
    assert shares(capsys, trace)["TL301"] == 0.21


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--fix"], "--profile and --fix exclude each other"),
        (["--diff"], "--profile and --diff exclude each other"),
        (["--watch"], "--profile and --watch exclude each other"),
        (["--add-noqa"], "--profile and --add-noqa exclude each other"),
        (["--statistics"], "--profile and --statistics exclude each other"),
        (["-"], "--profile needs files"),
    ],
)
def test_options_that_contradict_a_profile(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    trace = write(folder / "trace.json", python(STEP))
    assert main(["--isolated", "--profile", str(trace), *arguments]) == 2
    assert reason in capsys.readouterr().err


def test_a_trace_with_too_many_events_is_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchlint.profile.trace.MAX_EVENTS", 10)
    trace = write(folder / "trace.json", python(STEP))
    assert main(["--isolated", "--profile", str(trace), "."]) == 2
    assert "has more than 10 events: record fewer steps" in capsys.readouterr().err
