"""Words of code that runs once per batch, for the screens of rules; no heavy imports."""

from __future__ import annotations

import re

from torchlint.rule.words import contains

#: One of these is in every program that has a training step, a loop over a loader, or the `forward` of a network.
PER_BATCH: tuple[str | re.Pattern[str], ...] = (
    "def forward(",
    "def training_step(",
    "def train_step(",
    "def validation_step(",
    "def test_step(",
    "def predict_step(",
    "def compute_loss(",
    "backward(",
    "Engine(",
    "step_and_update_lr(",
    "_dl",
    "_iter",
    re.compile(r"[lL]oader(?!Mixin|s import)"),
    re.compile(r"(?<!scheduler)(?<!sched)\.step\("),
)


def has_steps(code: str) -> bool:
    """Whether a text may contain code that runs once per batch."""
    return contains(code, (PER_BATCH,))
