"""The first forward creates the parameters of lazy layers."""

import torch
from torch import nn


def main():
    net = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(2))
    with torch.no_grad():
        outputs = net(torch.zeros(1, 3)).shape[1]
    net(torch.ones(2, 3)).sum().backward()
    print(outputs)


main()
