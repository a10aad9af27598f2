"""Train a classifier of photos: ``python train.py TRAINING_FOLDER VALIDATION_FOLDER``."""

import sys
from pathlib import Path

import torch
from data import build_loader
from engine import accuracy, train_epoch
from torchvision.models import resnet50


def main() -> None:
    """Train for ten epochs."""
    device = torch.device("cuda")
    train_loader = build_loader(Path(sys.argv[1]), batch_size=64, train=True)
    validation_loader = build_loader(Path(sys.argv[2]), batch_size=64, train=False)
    model = resnet50().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(10):
        loss = train_epoch(model, train_loader, optimizer, device)
        print(epoch, loss, accuracy(model, validation_loader, device))


if __name__ == "__main__":
    main()
