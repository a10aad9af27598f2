"""The loss is scaled in place after it was read."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


def main():
    torch.manual_seed(0)
    model = nn.Linear(3, 1).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(4):
        loss = (model(torch.ones(2, 3, device=device)) - step).pow(2).mean()
        losses.append(loss.item())
        loss /= 4  # accumulate over 4 steps
        loss.backward()
    opt.step()
    print([round(v, 3) for v in losses])


main()
