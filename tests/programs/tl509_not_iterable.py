"""A compiled `nn.Sequential` is indexed and iterated over."""

import torch
from torch import nn

layers = nn.Sequential(*[torch.compile(nn.Linear(4, 4)) for _ in range(9)])
for layer in layers:
    nn.init.zeros_(layer.weight)
print(len(layers))
