"""The spread of repeated forwards with dropout is the result."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.Linear(8, 2))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def predict(model, x, samples=5):
    draws = torch.stack([model(x) for _ in range(samples)])
    return draws.mean(0), draws.std(0)


mean, std = predict(Net(), torch.ones(1, 3))
print(bool((std > 0).any()))
