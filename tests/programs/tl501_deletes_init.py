"""The row of a nested `torch.compile` initializes weights too."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(2))
        for block in self.blocks:
            nn.init.ones_(block[0].weight); block.compile()

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


net = torch.compile(Net())
print([b[0].weight.sum().item() for b in net.blocks])
