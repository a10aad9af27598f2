"""Which process checks which files, and when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import pytest

from torchlint.engine.processes import _next_chunk, _shares
from torchlint.settings.files import File
from torchlint.settings.settings import Settings


def files_of(folder: Path, sizes: list[int]) -> list[File]:
    """Files with texts of these lengths."""
    for index, size in enumerate(sizes):
        (folder / f"{index:03}.py").write_text("#" * size)
    return [
        File(str(folder / f"{index:03}.py"), Settings(codes=frozenset()), named=False) for index in range(len(sizes))
    ]


def test_each_process_begins_with_neighbours_of_about_the_same_size(tmp_path: Path) -> None:
    sizes = [300] * 20 + [100] * 60
    shares = _shares(files_of(tmp_path, sizes), 2)
    indices = [[index for chunk in share for index in chunk] for share in shares]
    assert indices[0] + indices[1] == list(range(80))
    weights = [sum(sizes[index] for index in share) for share in indices]
    assert abs(weights[0] - weights[1]) <= 10 * 300  # one chunk


@pytest.mark.parametrize("sizes", [[0] * 10, [0] * 9 + [5]])
def test_files_without_text_are_shared_too(tmp_path: Path, sizes: list[int]) -> None:
    shares = _shares(files_of(tmp_path, sizes), 3)
    assert sorted(index for share in shares for chunk in share for index in chunk) == list(range(10))


def test_a_process_takes_its_own_chunks_in_order_and_then_the_last_of_who_has_most_left() -> None:
    shares = [deque([range(1)]), deque([range(1, 2), range(2, 3), range(3, 4)]), deque([range(4, 5)])]
    taken = [_next_chunk(shares, 0) for _ in range(5)]
    assert taken[:3] == [range(1), range(3, 4), range(2, 3)]
    assert sorted(map(str, taken[3:])) == ["range(1, 2)", "range(4, 5)"]
    assert _next_chunk(shares, 0) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the pid is no longer known after the death of the parent")
def test_processes_end_with_the_one_that_started_them() -> None:
    script = (
        "import time\n"
        "from torchlint.engine.processes import _Worker\n"
        "if __name__ == '__main__':\n"
        "    workers = [_Worker() for _ in range(2)]\n"
        "    print(*[worker._process.pid for worker in workers], flush=True)\n"
        "    time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert all(map(runs, pids))
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(runs, pids))


def runs(pid: int) -> bool:
    """Whether a process has not ended; one that has, and that nobody asked, counts as ended."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
