"""What the shapes are made of: their registry, and the pieces of code that many of them have."""

from __future__ import annotations

from collections.abc import Callable, Iterable

IMPORTS = """\
import argparse
import time
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, models
"""
SETUP = """\
device = torch.device("cuda")
model = models.resnet18().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_set = datasets.CIFAR10("data")
loader = DataLoader(train_set, batch_size=64)
"""
STEP = """\
        images = images.to(device)
        labels = labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
"""

#: Each shape's name, the n of its smallest size, and the text for an n.
SHAPES: dict[str, tuple[int, Callable[[int], str]]] = {}


def shape(smallest: int) -> Callable[[Callable[[int], str]], Callable[[int], str]]:
    """Register a generator of code; its name is that of the function."""

    def register(make: Callable[[int], str]) -> Callable[[int], str]:
        SHAPES[make.__name__.replace("_", "-")] = smallest, make
        return make

    return register


def rows(parts: Iterable[str], head: str = IMPORTS) -> str:
    """A program of one part after another."""
    return head + "".join(parts)
