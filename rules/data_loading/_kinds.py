"""Where texts are tokenized; without heavy imports, because messages are looked up by it."""

from __future__ import annotations

from enum import Enum


class TokenizedIn(Enum):
    """The place that pads a text."""

    STEP = "step"  #: the training step
    COLLATE = "collate"  #: a collate function
    ITEM = "item"  #: the dataset, per item
    MAP = "map"  #: a function that is mapped over a dataset
    DATASET = "dataset"  #: the code that creates the dataset, in advance
