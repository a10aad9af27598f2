"""Programs as people write them with PyTorch, from a grammar: the same seed gives the same program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from textwrap import dedent

from benchmarks.reliability.idiom_definitions import IMPORTS
from benchmarks.reliability.idiom_grammar import GRAMMAR

_SYMBOL = re.compile(r"<([a-z_]+)>")
#: Symbols that mean the same everywhere in a program.
_NAMES: Mapping[str, Sequence[str]] = {
    "device": ('"cuda"', "device", "device", 'torch.device("cuda")', "args.device", "0"),
    "model": ("model", "net", "self_model", "модель"),
    "optimizer": ("optimizer", "opt"),
    "loader": ("loader", "train_loader", "batches"),
    "images": ("images", "x", "batch"),
    "labels": ("labels", "y", "target"),
    "loss": ("loss", "l"),
    "total": ("total", "running_loss"),
}


def program(random: Random) -> str:
    """A valid program with four spaces of indentation and no unusual formatting."""
    style = random.choice(IMPORTS)
    symbols = {name: [random.choice(choices)] for name, choices in _NAMES.items()}
    symbols |= {name: [text] for name, text in style.items()}
    text = _expanded("<program>", symbols, random)
    return re.sub(r"\n{4,}", "\n\n\n", text).strip("\n") + "\n"


def _expanded(text: str, symbols: Mapping[str, list[str]], random: Random) -> str:
    """The text with every symbol replaced by one of its alternatives, whose rows are indented like the symbol's row."""
    while (match := _SYMBOL.search(text)) is not None:
        name = match[1]
        chosen = dedent(random.choice(symbols[name] if name in symbols else GRAMMAR[name])).strip("\n")
        row = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        indentation = row[: len(row) - len(row.lstrip(" "))]
        chosen = chosen.replace("\n", "\n" + indentation)
        start, end = match.span()
        if not chosen and not row.strip() and text[end : end + 1] == "\n":
            start, end = start - len(row), end + 1
        text = text[:start] + chosen + text[end:]
    return text
