"""The state of a `GradScaler` is read."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(3, 1).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)
with torch.autocast(device, torch.bfloat16):
    loss = model(torch.ones(2, 3, device=device)).pow(2).mean()
scaler.scale(loss).backward()
scaler.step(opt)
scaler.update()
print(scaler.get_growth_factor())
