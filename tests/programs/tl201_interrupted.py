"""An interrupted training writes its losses as JSON."""

import json
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


def fit(model, batches, opt):
    losses = []
    try:
        for x in batches:
            loss = model(x.to(device)).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
            if len(x) == 3:
                raise KeyboardInterrupt  # Ctrl-C
    except KeyboardInterrupt:
        print("interrupted")
    return json.dumps(losses)


model = nn.Linear(3, 2).to(device)
fit(model, [torch.ones(2, 3), torch.ones(3, 3)], torch.optim.SGD(model.parameters(), lr=0.1))
