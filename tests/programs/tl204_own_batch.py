"""A batch of a class of the program has a `to` of its own."""

from typing import NamedTuple
import torch
from torch.utils.data import DataLoader, Dataset

device = "cuda" if torch.cuda.is_available() else "cpu"


class Batch(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor

    def to(self, device):
        return Batch(self.x.to(device), self.y.to(device))


class Data(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return Batch(torch.ones(3), torch.tensor(i))


for batch in DataLoader(Data(), 2, pin_memory=torch.cuda.is_available()):
    batch = batch.to(device)
    print(batch.y)
