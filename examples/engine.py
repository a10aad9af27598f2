"""One epoch of training, and the accuracy on a validation set."""

import torch
from torch import nn
from torch.utils.data import DataLoader


def train_epoch(model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer, device: torch.device) -> float:
    """Train on all batches; the mean loss."""
    criterion = nn.CrossEntropyLoss()
    model.train()
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def accuracy(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """The share of photos that the model labels correctly."""
    model.eval()
    correct = count = 0
    for images, labels in loader:
        predicted = model(images.to(device)).argmax(dim=1).cpu()
        correct += int((predicted == labels).sum())
        count += len(labels)
    return correct / count
