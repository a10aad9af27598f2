"""A result of the block is changed in place behind it."""

import torch
from torch import nn


def evaluate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += nn.functional.mse_loss(model(x), y)
    total /= len(loader)
    print(f"val loss {total.item() >= 0}")


evaluate(nn.Linear(3, 2), [(torch.ones(2, 3), torch.zeros(2, 2))] * 2)
