"""Photos in a folder, and the loader of their batches."""

from pathlib import Path

from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose, RandomResizedCrop, ToTensor


def build_loader(folder: Path, batch_size: int) -> DataLoader:
    """Batches of augmented photos with the label of their subfolder."""
    photos = ImageFolder(folder, Compose([RandomResizedCrop(224), ToTensor()]))
    return DataLoader(photos, batch_size=batch_size, shuffle=True)
