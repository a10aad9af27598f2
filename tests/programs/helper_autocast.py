"""Part of another program."""

from torch.cuda.amp import autocast


def run(model, x):
    with autocast(enabled=False):
        return model(x)
