"""Tensors created on the CPU, whose device or whose repetition only another file shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from whole_program import codes, write

COMMON = """import torch


def sample(mean, scale):
    noise = torch.randn(scale.size()).to(mean)
    return mean + scale * noise


class CausalMask:
    def __init__(self, length, device="cpu"):
        self.mask = torch.triu(torch.ones(length, length), diagonal=1).to(device)
"""

NETWORK = """import torch
from common import {name}


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Linear(2, 4)
        {kept}

    def forward(self, x):
        mean, scale = self.layers(x).chunk(2, dim=1)
        return {result}


def main():
    model = Encoder(){device}
    print(model(torch.ones(2, 2){device}))


if __name__ == "__main__":
    main()
"""

PASS = "pass"


@pytest.mark.parametrize(
    ("name", "kept", "result", "device", "expected"),
    [
        ("sample", PASS, "sample(mean, scale)", ".cuda()", ["TL206"]),
        ("sample", PASS, "sample(mean, scale)", "", []),
        ("sample", PASS, "mean + scale", ".cuda()", []),
        ("CausalMask", PASS, "mean * CausalMask(2, x.device).mask", ".cuda()", ["TL206"]),
        ("CausalMask", "self.causal = CausalMask(2, 'cuda')", "mean * self.causal.mask", ".cuda()", []),
    ],
    ids=["a helper of a network", "on the CPU", "not called", "at each forward pass", "kept by the network"],
)
def test_another_file_shows_where_or_how_often_a_tensor_is_created(
    name: str, kept: str, result: str, device: str, expected: list[str], tmp_path: Path
) -> None:
    network = NETWORK.format(name=name, kept=kept, result=result, device=device)
    folder = write(tmp_path, common=COMMON, network=network)
    assert codes(folder / "common.py") == expected
