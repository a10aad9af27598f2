"""A network has a method `compile` of its own."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


class Keras(nn.Module):
    def compile(self, optimizer="sgd"):
        raise ValueError("called")


class Net(Keras):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 1024), nn.GELU(), nn.Linear(1024, 64))

    def forward(self, x):
        return self.body(x)


def main():
    x = torch.ones(4, 64, device=device)
    net = Net().to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(120):
        loss = (net(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.shape)


main()
