"""An iterable dataset of another file would be read by each worker."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from helper_stream import NumberStream

device = "cuda" if torch.cuda.is_available() else "cpu"


def main():
    model = nn.Linear(3, 2).to(device)
    n = 0
    for x in DataLoader(NumberStream(8), batch_size=4):
        model(x.to(device))
        n += len(x)
    print("items seen", n)


if __name__ == "__main__":
    main()
