"""Several findings at one call of `DataLoader`: their fixes compose into one valid call, in whatever order."""

from __future__ import annotations

import ast
from itertools import permutations

import pytest

import torchlint
from torchlint.engine.fixer import fix
from torchlint.source.source import Source

RULES = ("TL101", "TL102", "TL103", "TL104", "TL109", "TL204")
PROGRAM = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def main(model, optimizer):
    data = ImageFolder("photos")
    model.cuda()
    for epoch in range(10):
        loader = DataLoader({arguments})
        for images, labels in loader:
            loss = model(images.cuda(), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
WORKERS = "min(8, os.cpu_count() or 1)"
BEST = {
    "batch_size": "4",
    "num_workers": WORKERS,
    "persistent_workers": "True",
    "pin_memory": "torch.cuda.is_available()",
    "shuffle": "True",
}


def fixed(text: str, rules: tuple[str, ...]) -> str:
    """``text`` after all fixes of these rules."""
    settings = torchlint.load_settings(None, {"select": list(rules), "unsafe-fixes": True})
    outcome = fix(Source.from_text(text, "train.py"), settings)
    assert outcome.errors == ()
    return outcome.source.text


def found(text: str) -> set[str]:
    """The codes of the findings in ``text``."""
    settings = torchlint.load_settings(None, {"select": list(RULES)})
    return {one.code for one in torchlint.check_text(text, "train.py", settings)}


def options(text: str) -> dict[str, str]:
    """The keywords of the only call of `DataLoader`, each once, with the text of their values."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (loader,) = [call for call in calls if ast.unparse(call.func) == "DataLoader"]
    return {item.arg or "": ast.unparse(item.value) for item in loader.keywords}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("data, batch_size=4, shuffle=True", BEST),
        ("data, batch_size=4, shuffle=True, num_workers=0, pin_memory=False, persistent_workers=False", BEST),
        ("data, batch_size=4, shuffle=True, num_workers=2", {**BEST, "num_workers": "2"}),
        ("data, batch_size=4, shuffle=True, prefetch_factor=4", {**BEST, "prefetch_factor": "4"}),
        ("\n            data,\n            batch_size=4,\n            shuffle=True,\n        ", BEST),
        ("dataset=data, **{'batch_size': 4, 'shuffle': True}", None),
    ],
)
def test_all_fixes_of_a_call_give_one_valid_call(arguments: str, expected: dict[str, str] | None) -> None:
    text = PROGRAM.format(arguments=arguments)
    assert len(found(text)) >= 2
    after = fixed(text, RULES)
    assert found(after) == set()
    if expected is not None:
        assert options(after) == expected
        assert after.index("loader = DataLoader(") < after.index("for epoch")
        assert after.count("non_blocking=True") == 2
    else:
        assert {"num_workers", "pin_memory"} <= options(after).keys()


@pytest.mark.parametrize("order", list(permutations(("TL101", "TL102", "TL104", "TL204"))))
def test_the_order_of_the_fixes_does_not_matter(order: tuple[str, ...]) -> None:
    text = PROGRAM.format(arguments="data, batch_size=4, shuffle=True")
    for code in order:
        text = fixed(text, (code,))
    assert options(fixed(text, RULES)) == BEST
