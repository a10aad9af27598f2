"""The host writes to a batch right after its copy."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(3, 2).to(device)
for x, y in DataLoader(TensorDataset(torch.ones(8, 3), torch.ones(8)), batch_size=4, pin_memory=True):
    clean = x.to(device)
    x += torch.randn(x.shape)
    print(model(clean).shape)
