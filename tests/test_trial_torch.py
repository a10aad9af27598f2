"""A script that uses torch itself, measured in copies."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torchlint.trial.copies import LARGEST_COPY, program_of
from torchlint.trial.trial import Trial

TRAIN = """\
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(4) * index / 1000, index % 2

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for x, y in DataLoader(Slow(), batch_size=8, num_workers=WORKERS, shuffle=True):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.save(model.state_dict(), "model.pt")
"""


def test_a_script_with_a_slow_loader_is_faster_with_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(TRAIN.replace("WORKERS", "0"))
    checkpoint = tmp_path / "model.pt"
    checkpoint.write_bytes(bytes(LARGEST_COPY + 1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    program = program_of((sys.executable, "train.py"))
    trial = Trial(program, steps=20, warmup=2, budget=120.0, progress=lambda *state: None)
    with trial.running():
        turns = trial._turns({}, {str(tmp_path / "train.py"): TRAIN.replace("WORKERS", "4").encode()}, "")
        assert trial.changed_files() == []
    before, after = (sum(block.seconds for block in side) for side in (turns.before, turns.after))
    assert after < before
    assert sum(block.waited for block in turns.before) > 0.5 * before
    losses = [[loss for block in side for loss in block.losses] for side in (turns.before, turns.after)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert 0.3 < min(losses[0]) < max(losses[0]) < 2, "the loss without the factor of the scaler"
    assert all(block.peak_memory > 1 << 20 for block in turns.before) or sys.platform != "linux"
    assert checkpoint.read_bytes() == bytes(LARGEST_COPY + 1)
