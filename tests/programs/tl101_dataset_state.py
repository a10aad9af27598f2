"""The dataset counts what it was asked for."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = "cuda" if torch.cuda.is_available() else "cpu"


class Mined(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.drawn = [0] * len(paths)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        self.drawn[i] += 1
        return torch.sin(torch.ones(3) * len(open(self.paths[i]).read()))


def main():
    model = nn.Linear(3, 2).to(device)
    data = Mined([__file__] * 8)
    for x in DataLoader(data, batch_size=4):
        model(x.to(device))
    print("drawn", sum(data.drawn))


if __name__ == "__main__":
    main()
