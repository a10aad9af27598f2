"""A network that serves under `inference_mode` is trained afterwards."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class LM(nn.Module):
    def __init__(self, n=1024):
        super().__init__()
        self.emb = nn.Embedding(50, n)
        self.fc = nn.Linear(n, n)
        self.head = nn.Linear(n, 50)

    def forward(self, t):
        return self.head(self.fc(self.emb(t)))


@torch.inference_mode()
def generate(model, t, n):
    with torch.autocast(device.type, dtype=torch.bfloat16):
        for _ in range(n):
            t = torch.cat([t, model(t)[:, -1].argmax(-1, keepdim=True)], 1)
    return t


def score(model, t):
    with torch.autocast(device.type, dtype=torch.bfloat16):
        return model(t).max()


def main():
    model = LM().to(device)
    model.eval()
    out = generate(model, torch.zeros(1, 1, dtype=torch.long, device=device), 4)
    print(out.shape, score(model, out.clone()).shape)


main()
