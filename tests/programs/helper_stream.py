"""Part of another program."""

import torch
from torch.utils.data import IterableDataset


class NumberStream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield torch.full((3,), float(i))
