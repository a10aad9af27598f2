"""A name that stays imported is still there for an annotation."""

from functools import partial
import torch
from torch.cuda.amp import GradScaler, autocast

no_amp = partial(autocast, enabled=False)


def step(loss, scaler: GradScaler):
    scaler.scale(loss)


step(torch.ones(()), GradScaler(enabled=False))
print("ok")
