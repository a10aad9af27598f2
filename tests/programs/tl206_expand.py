"""An expanded tensor is contiguous once it is copied, and overlaps itself if it is made on the device."""

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "meta")


def positions(batch, length):
    p = torch.arange(length).unsqueeze(0).expand(batch, length).to(device)
    return p.view(-1)


def mask(batch, length):
    m = torch.ones(1, length).expand(batch, length).to(device)
    m[:, 2:] = 0
    return m


print(mask(2, 4).shape, positions(2, 4).shape)
