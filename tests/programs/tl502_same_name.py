"""Two functions compile functions of the same name."""

import torch
from torch import nn


class ops1:
    def act(x):
        return x * x


class ops2:
    def act(x):
        return -x


class A(nn.Module):
    def forward(self, x):
        return torch.compile(ops1.act, dynamic=False)(x)


class B(nn.Module):
    def forward(self, x):
        return torch.compile(ops2.act, dynamic=False)(x)


print(A()(torch.full((1,), 3.0)), B()(torch.full((1,), 3.0)))
