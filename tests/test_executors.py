"""Work that other executors do: the same results, also when files have changed since their last work."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import pytest

import torchlint

DATA = """\
from torch.utils.data import DataLoader


def build(dataset, workers):
    return DataLoader(dataset, batch_size=64, shuffle=True, num_workers=workers)
"""
TRAIN = """\
import torch

import data


def main(net, dataset, optimizer):
    for epoch in range(10):
        for images, labels in data.build(dataset, {workers}):
            loss = torch.nn.functional.cross_entropy(net(images.cuda()), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(None, None, None)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "data.py").write_text(DATA)
    (tmp_path / "train.py").write_text(TRAIN.format(workers=0))
    for index in range(20):
        (tmp_path / f"net{index}.py").write_text(f"import torch\n\nx = torch.zeros({index}).cuda()\n" * 3)
    return tmp_path


@pytest.fixture(params=["processes", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "processes":
        with ProcessPoolExecutor(2) as pool:
            yield pool
        return
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor()


def test_a_cluster_finds_what_this_process_finds_in_whole_projects(project: Path, executor: Executor) -> None:
    here = torchlint.check_paths([str(project)])
    assert any(one.code == "TL101" for result in here for one in result.diagnostics)
    assert torchlint.check_paths([str(project)], executor=executor) == here
    (project / "train.py").write_text(TRAIN.format(workers=4))
    there = torchlint.check_paths([str(project)], executor=executor)
    assert there == torchlint.check_paths([str(project)])
    assert not any(one.code == "TL101" for result in there for one in result.diagnostics)
