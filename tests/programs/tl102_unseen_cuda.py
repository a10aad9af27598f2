"""A batch may be on the GPU already, where it cannot be pinned."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

from helper_pairs import load_pairs, to_gpu

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def collate(batch):
    return to_gpu(default_collate(batch))


def main():
    model = nn.Linear(3, 2).to(device)
    xs, ys = load_pairs(8, device)  # CUDA tensors
    for x, y in DataLoader(TensorDataset(xs, ys), batch_size=4):
        model(x.to(device))
    for x, y in DataLoader(TensorDataset(torch.ones(8, 3), torch.ones(8)), batch_size=4, collate_fn=collate):
        model(x.to(device))


if __name__ == "__main__":
    main()
