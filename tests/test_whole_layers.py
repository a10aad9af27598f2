"""Findings about models and layers that depend on another file of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import rows, write

LOADING = """\
from transformers import AutoModelForCausalLM


def load(name):
    return AutoModelForCausalLM.from_pretrained(name, attn_implementation="eager")
"""
GENERATING = """\
from loading import load


def main():
    model = load("gpt2")
    print(model.generate({arguments}))


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("arguments", "eager", "uncached"),
    [
        ("max_new_tokens=8", [5], []),
        ("max_new_tokens=8, use_cache=False", [5], [6]),
        ("max_new_tokens=8, use_cache=False, output_attentions=True", [], []),
    ],
)
def test_a_model_that_another_file_loads(tmp_path: Path, arguments: str, eager: list[int], uncached: list[int]) -> None:
    write(tmp_path, loading=LOADING, main=GENERATING.replace("{arguments}", arguments))
    assert rows(tmp_path, "loading", "TL711") == eager
    assert rows(tmp_path, "main", "TL712") == uncached


BASE = """\
from torch import nn


class Network(nn.Module):
    device = "cuda"
"""
DERIVED = """\
import numpy as np
import torch
from base import Network
from torch import nn


class Ranking{base}:
    def forward(self, scores):
        order = np.argsort(scores.detach().cpu().numpy())
        mixed = nn.Linear(8, 8)(scores)
        return mixed, torch.from_numpy(order).to(scores.device)
"""


@pytest.mark.parametrize(("base", "numpy", "created"), [("(Network)", [9], [10]), ("", [], [])])
def test_a_network_whose_base_is_in_another_file(
    tmp_path: Path, base: str, numpy: list[int], created: list[int]
) -> None:
    write(tmp_path, base=BASE, main=DERIVED.replace("{base}", base))
    assert rows(tmp_path, "main", "TL715") == numpy
    assert rows(tmp_path, "main", "TL714") == created


POINTS = """\
import numpy as np
import torch


def distances_between(first, second):
    return {value}
"""
NEAREST = """\
import torch
from points import distances_between


def nearest(points, k):
    order = distances_between(points, points).argsort()
    return torch.as_tensor(order[:, :k])


print(nearest(torch.load("points.pt"), 8))
"""


@pytest.mark.parametrize(
    ("value", "sorted_for_few"),
    [
        ("torch.cdist(first, second)", [6]),
        ("np.abs(first[:, None] - second)", []),
        ("np.linalg.norm(first.numpy()[:, None] - second.numpy(), axis=-1)", []),
    ],
)
def test_distances_that_another_file_computes(tmp_path: Path, value: str, sorted_for_few: list[int]) -> None:
    write(tmp_path, points=POINTS.replace("{value}", value), main=NEAREST)
    assert rows(tmp_path, "main", "TL709") == sorted_for_few


ATTENDING = """\
import torch.nn.functional as F


def attend(q, k, v):
    return F.softmax(q @ k.transpose(-2, -1) * 0.125, dim=-1) @ v
"""
TRAINING = """\
import torch

from attending import attend

{setting}
for q, k, v in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = attend(q.cuda(), k.cuda(), v.cuda()).sum()
    loss.backward()
"""


@pytest.mark.parametrize(
    ("setting", "autocast", "found"),
    [
        ("", True, [5]),
        ('torch.set_float32_matmul_precision("high")', True, [5]),
        ('torch.set_float32_matmul_precision("high")', False, []),
        ("torch.backends.cuda.matmul.allow_tf32 = True", False, []),
        ('torch.backends.cuda.matmul.fp32_precision = "tf32"', False, []),
        ('torch.set_float32_matmul_precision("highest")', False, [5]),
        ("torch.backends.cuda.matmul.allow_tf32 = False", False, [5]),
    ],
)
def test_one_kernel_for_attention_is_not_faster_with_tf32(
    tmp_path: Path, setting: str, autocast: bool, found: list[int]
) -> None:
    training = TRAINING.replace("{setting}", setting)
    if not autocast:
        block = '    with torch.autocast("cuda", dtype=torch.bfloat16):\n    '
        training = training.replace(block, "")
    write(tmp_path, attending=ATTENDING, training=training)
    assert rows(tmp_path, "attending", "TL702") == found
