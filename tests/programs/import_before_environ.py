"""An environment variable is set before torch is imported."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
from torch import cuda, get_num_threads, nn, ones
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if cuda.is_available() else "cpu"
model = nn.Linear(3, 2).to(device)
for (x,) in DataLoader(TensorDataset(ones(8, 3)), batch_size=4):
    model(x.to(device))
print(get_num_threads())
