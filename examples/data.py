"""Photos in a folder, and the loader of their batches."""

from pathlib import Path

from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import CenterCrop, Compose, RandomResizedCrop, Resize, ToTensor


def build_loader(folder: Path, batch_size: int, train: bool) -> DataLoader:
    """Batches of photos with the label of their subfolder; those for training are cropped at random."""
    crop = RandomResizedCrop(224) if train else Compose([Resize(256), CenterCrop(224)])
    photos = ImageFolder(folder, Compose([crop, ToTensor()]))
    return DataLoader(photos, batch_size=batch_size, shuffle=train)
