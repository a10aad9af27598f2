"""A scalar is set before `super().__init__()`."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        self.calls = 0
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        self.calls += 1
        return self.fc(x)


net = torch.compile(Net())
print(int(net.calls))
