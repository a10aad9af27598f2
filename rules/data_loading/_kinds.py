"""Where texts become tokens; no heavy imports, as messages are looked up by it."""

from __future__ import annotations

from enum import Enum


class TokenizedIn(Enum):
    """What pads a text."""

    STEP = "step"  #: the training step
    COLLATE = "collate"  #: a collate function
    ITEM = "item"  #: the dataset, for each item
    MAP = "map"  #: a function that is mapped over a dataset
    DATASET = "dataset"  #: what makes the dataset, in advance
