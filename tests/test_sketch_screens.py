"""What rules ask of the sketch of a file: texts that their words let pass, with and without what a finding needs."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from torchlint.rule.registry import load_rules
from torchlint.rule.sketch import Sketch

RULES = {rule.code: rule for rule in load_rules()}


def _may_find(code: str, text: str, *, alone: bool = True) -> bool:
    text = dedent(text)
    return RULES[code].may_find(Sketch(text, ast.parse(text), alone=alone))


@pytest.mark.parametrize(
    ("code", "text", "changes"),
    [
        (
            "TL603",
            """
            def f(out, rows):
                for i in range(n):
                    out[i] = torch.exp(rows[i])
            """,
            [
                ("out[i] =", "out[0] ="),
                ("rows[i]", "out[i - 1]"),
                ("out[i] =", "out ="),
                ("i in", "layer in"),
                ("torch.exp(", "g("),
                ("range(n)", "names"),
            ],
        ),
        (
            "TL602",
            """
            for x in data:
                y = f(x)
                all = torch.cat([all, y])
            """,
            [("[all, y]", "[y, all]"), ("for x in data", "if data"), ("in data", "in range(num_layers)")],
        ),
        (
            "TL718",
            """
            while True:
                token = model(ids).argmax(-1)
                ids = torch.cat([ids, token], dim=-1)
            """,
            [("model(ids)", "model(token)"), ("dim=-1", "dim=2"), ("model(ids)", "torch.f(ids)")],
        ),
        (
            "TL402",
            """
            import torch

            class Server:
                def predict(self, network, x):
                    return network(x)
            """,
            [
                ("network(x)", "len(x)"),
                ("network(x)", "torch.relu(x)"),
                ("network(x)", "self.log(x)"),
                ("def predict", "def latency"),
            ],
        ),
        (
            "TL402",
            """
            import torch

            class Server:
                def answer(self, text):
                    extracted = text.strip()
                    return self.encode(text)
            """,
            [
                ("self.encode(text)", "self.extract(text)"),
                ("self.encode(text)", "super().answer(text)"),
                ("self.encode(text)", "text.extracted(1)"),
            ],
        ),
        (
            "TL601",
            """
            def train(loader):
                for x in loader:
                    step(x)
                    torch.cuda.empty_cache()
            """,
            [("def train", "def offload"), (".empty_cache()", ".synchronize()")],
        ),
        (
            "TL702",
            """
            def forward(self, q, k, v, bias):
                scores = q @ k
                scores = scores * scale
                weights = scores.softmax(-1)
                weights = self.dropout(weights)
                return weights @ v
            """,
            [
                ("scores = q @ k", "scores = f(q, k)"),
                ("scores * scale", "scores + bias"),
                ("weights @ v", "weights @ v, weights"),
                ("weights @ v", "f(weights)"),
            ],
        ),
        (
            "TL703",
            "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask())",
            [("mask()", "None"), ("mask()", "mask(), is_causal=True"), ("mask()", "torch.cat([a, b])")],
        ),
        (
            "TL307",
            """
            for x in data:
                with torch.autocast("cuda"):
                    y = model(x)
            """,
            [("for x in data", "if data"), ('"cuda"', '"cuda", enabled=False'), ("torch.autocast", "torch.device")],
        ),
        (
            "TL308",
            """
            layer = nn.Linear(3, 3)
            with torch.autocast("cuda"):
                y = layer(x)
            """,
            [('"cuda"', '"cuda", enabled=False'), ("nn.Linear", "nn.Conv2d")],
        ),
        ("TL302", "net = nn.Linear(3, 3)", [("nn.Linear", "LinearModel")]),
        (
            "TL803",
            """
            def update_ema(model, average):
                for p, a in zip(model.parameters(), average.parameters()):
                    a.mul_(0.9).add_(p, alpha=1 - 0.9)
            """,
            [("parameters()", "items()"), ("update_ema", "update"), ("a.mul_(0.9).add_", "f")],
        ),
    ],
)
def test_a_sketch_shows_what_a_finding_needs(code: str, text: str, changes: list[tuple[str, str]]) -> None:
    assert _may_find(code, text)
    for old, new in changes:
        assert old in text
        assert not _may_find(code, text.replace(old, new)), (old, new)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("TL302", "run(model)"),
        ("TL308", "with context:\n    model(x)"),
        ("TL601", "def f(loader):\n    for x in loader:\n        free_memory()"),
        ("TL803", "def update(a, b):\n    for p, q in zip(a.parameters(), b.parameters()):\n        p.lerp_(q, 1 - d)"),
    ],
)
def test_what_other_files_may_contain_is_only_asked_of_a_file_without_them(code: str, text: str) -> None:
    assert not _may_find(code, text)
    assert _may_find(code, text, alone=False)


def test_a_softmax_may_be_used_behind_a_condition() -> None:
    text = """
    def forward(self, q, k, v, drop):
        weights = (q @ k).softmax(-1)
        if drop:
            weights = self.dropout(weights)
        return weights @ v
    """
    assert _may_find("TL702", text)
    assert not _may_find("TL702", text.replace("weights @ v", "weights @ v, weights"))
