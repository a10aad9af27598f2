"""The input of a network meets a norm first."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Tab(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(1024)
        self.fc = nn.Linear(1024, 1024)
        self.out = nn.Linear(1024, 2)

    def forward(self, x):
        return self.out(self.fc(self.norm(x)).relu())


model = Tab().to(device).eval()


@torch.inference_mode()
def predict(row):
    with torch.autocast(device.type, dtype=torch.bfloat16):
        return model(row.to(device)).argmax(-1)


def serve(rows):
    for row in rows:
        print(predict(row).shape)


if __name__ == "__main__":
    serve([torch.ones(1, 1024)] * 3)
