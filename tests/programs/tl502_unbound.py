"""A function is compiled at one call and again at another."""

import torch
from torch import nn


def act(x):
    return x * torch.sigmoid(x)


class Net(nn.Module):
    def forward(self, x):
        x = torch.compile(act)(x)
        for _ in range(3):
            x = torch.compile(act)(x)
        return x


print(Net()(torch.ones(1)))
