"""Train and validate a residual network on photos that are decoded and augmented one by one.

Expected on an NVIDIA H200:

- ResNet-50, 512 photos of 224 px, batch 32: 3.0x to 4.6x; 4.0 s a run, 8 s to start. The training process takes about
  6 ms to load a photo, so 190 ms a batch, and 27 ms to train on it (convolutions run in TF32 by default). Eight workers
  load a batch every 25 ms and a bfloat16 step takes about 22 ms, most of it launches. Of the 1.1 s that remain, 0.3 s
  start and end the workers of two loaders, and 0.35 s go to the first batch of each.
"""

from __future__ import annotations

import logging
import os
import zlib

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

UNIT = "images"
SIZES = {
    "cuda": {"ResNet-50, 512 photos of 224 px, batch 32": 0.5},
    "cpu": {"4 bottleneck blocks, batch 16, 153 photos": 0.15},
}
# bfloat16 rounds the loss, and every step of momentum and batch norm carries it on; the loss at the first step and the
# mean over the epoch stay near, a single later loss need not.
TOLERANCE = 5e-2

logger = logging.getLogger(__name__)

CLASSES = 10
SIDE = 400
CROP = 224


def resized_crop(photo: np.ndarray, top: int, left: int, side: int) -> np.ndarray:
    """A square of a photo, scaled to the size that the network takes, with values from 0 to 1."""
    step = np.linspace(0, side - 1, CROP, dtype=np.float32)
    low = step.astype(np.int64)
    high = np.minimum(low + 1, side - 1)
    share = step - low.astype(np.float32)
    photo = photo[top : top + side, left : left + side].astype(np.float32) / 255
    rows = photo[low] * (1 - share)[:, None, None] + photo[high] * share[:, None, None]
    return rows[:, low] * (1 - share)[None, :, None] + rows[:, high] * share[None, :, None]


class Photos(Dataset):
    """Compressed photos with their labels, decoded, cropped, mirrored and recoloured when they are asked for."""

    def __init__(self, files: list[bytes], labels: list[int], length: int, training: bool) -> None:
        self.files = files
        self.labels = labels
        self.length = length
        self.training = training

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        file = index % len(self.files)
        photo = np.frombuffer(zlib.decompress(self.files[file]), dtype=np.uint8).reshape(SIDE, SIDE, 3)
        if self.training:
            rng = np.random.default_rng(index)
            side = int(rng.integers(CROP, SIDE))
            top, left = rng.integers(0, SIDE - side, size=2)
            image = resized_crop(photo, top, left, side)
            if rng.random() < 0.5:
                image = image[:, ::-1]
            image = np.clip(image * rng.uniform(0.8, 1.2, size=3).astype(np.float32), 0, 1)
        else:
            image = resized_crop(photo, 24, 24, SIDE - 48)
        image = (image - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))), self.labels[file]


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + shortcut)


class ResNet(nn.Module):
    """A residual network for photos."""

    def __init__(self, depths: list[int], width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks: list[nn.Module] = []
        channels = width
        for stage, depth in enumerate(depths):
            for block in range(depth):
                blocks.append(Bottleneck(channels, width * 2**stage, 2 if stage > 0 and block == 0 else 1))
                channels = 4 * width * 2**stage
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, CLASSES)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        return self.fc(self.pool(self.blocks(self.stem(images))).flatten(1))


def train_one_epoch(model, loader, criterion, optimizer, device):
    model.train()
    losses = []
    running_loss = 0.0
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            outputs = model(images)
            loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.detach()
        losses.append(loss.detach())
    running_loss = float(running_loss)
    return running_loss / len(loader), torch.stack(losses)


@torch.no_grad()
def validate(model, loader, criterion, device):
    model.eval()
    total_loss = 0.0
    correct = 0
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        outputs = model(images)
        total_loss += criterion(outputs, labels).item()
        correct += (outputs.argmax(dim=1) == labels).sum().item()
    return total_loss / len(loader), correct / len(loader.dataset)


def make_photos(count: int) -> tuple[list[bytes], list[int]]:
    """Compressed photos of noise, tinted by their class."""
    rng = np.random.default_rng(0)
    tints = rng.integers(0, 192, size=(CLASSES, 3), dtype=np.uint8)
    labels = [file % CLASSES for file in range(count)]
    files = []
    for label in labels:
        photo = rng.integers(0, 64, size=(SIDE, SIDE, 3), dtype=np.uint8) + tints[label]
        files.append(zlib.compress(photo.tobytes(), level=1))
    return files, labels


def prepare(device: str, size: float = 1.0) -> tuple:
    """The network and the photos; `size` scales their number, and below a half the network is a small one."""
    torch.manual_seed(0)
    full = size >= 0.5
    files, labels = make_photos(40)
    train_set = Photos(files, labels, max(64, int(1024 * size)), training=True)
    val_set = Photos(files, labels, max(32, int(128 * size)), training=False)
    model = ResNet([3, 4, 6, 3], 64) if full else ResNet([1, 1, 1, 1], 8)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)
    return model, optimizer, train_set, val_set, 32 if full else 16, device


def work(state: tuple) -> list[float]:
    """One epoch; the training loss at the first step and its mean over the epoch."""
    torch.manual_seed(0)
    model, optimizer, train_set, val_set, batch_size, device = state
    train_loader = DataLoader(
        train_set,
        batch_size=batch_size,
        shuffle=True,
        num_workers=min(8, os.cpu_count() or 1),
        pin_memory=torch.cuda.is_available(),
    )
    val_loader = DataLoader(
        val_set,
        batch_size=batch_size,
        shuffle=False,
        num_workers=min(8, os.cpu_count() or 1),
        pin_memory=torch.cuda.is_available(),
    )
    criterion = nn.CrossEntropyLoss()
    train_loss, losses = train_one_epoch(model, train_loader, criterion, optimizer, device)
    val_loss, accuracy = validate(model, val_loader, criterion, device)
    logger.info(f"validation loss {val_loss:.4f}, accuracy {accuracy:.3f}")
    return [float(losses[0]), train_loss]


def items(state: tuple) -> int:
    """How many images one `work` takes."""
    _, _, train_set, val_set, _, _ = state
    return len(train_set) + len(val_set)


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    state = prepare(device, 1.0 if device == "cuda" else 0.02)
    for epoch in range(2):
        first_loss, train_loss = work(state)
        print(f"epoch {epoch}: first loss {first_loss:.4f}, mean loss {train_loss:.4f}")


if __name__ == "__main__":
    main()
