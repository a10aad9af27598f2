"""A loss has the shape (1,)."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


def main():
    model = nn.Linear(3, 1).to(device)
    losses = []
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.ones(2, 3, device=device)).pow(2).mean(dim=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(sum(losses) >= 0)


main()
