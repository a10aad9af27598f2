"""An item meets a tensor that the dataset keeps on the device."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

if torch.cuda.is_available():
    device = torch.device("cuda")
else:
    device = torch.device("meta")


class Images(Dataset):
    def __init__(self, images, device):
        self.images = images
        self.device = device
        self.mean = images.mean(0).to(device)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i].to(self.device)
        image = image - self.mean
        return image


def main():
    loader = DataLoader(Images(torch.ones(8, 3), device), batch_size=4)
    model = nn.Linear(3, 2).to(device)
    for images in loader:
        print(model(images).shape)


main()
