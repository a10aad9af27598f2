"""The loop around `torch._dynamo.reset()` does other work on the same row."""

import torch
from torch import nn

net = torch.compile(nn.Linear(2, 2), backend="eager")
opt = torch.optim.SGD(net.parameters(), 0.1)


def train_one(x):
    loss = net(x).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


for epoch in range(3):
    print(train_one(torch.ones(1, 2)).shape); torch._dynamo.reset()
for epoch in range(2):
    loss, _ = train_one(torch.ones(1, 2)), torch._dynamo.reset()
print(loss.shape)
