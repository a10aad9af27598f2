"""A forward that cannot be compiled."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 64))

    def forward(self, x):
        mu = self.body(x)
        return mu + Tensor(np.random.normal(0, 1, (mu.size(0), 64)))


def main():
    loader = DataLoader(TensorDataset(torch.ones(8, 64)), batch_size=4)
    net = Encoder()
    if cuda:
        net.cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for (x,) in loader:
        loss = net(x.type(Tensor)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.shape)


main()
