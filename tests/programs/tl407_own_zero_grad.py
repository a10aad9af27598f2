"""`zero_grad` of a class of the program needs its argument."""

import torch
from torch import nn


class Optimizers:
    def __init__(self, *opts):
        self.opts = opts

    def zero_grad(self, set_to_none):
        for o in self.opts:
            o.zero_grad(set_to_none)


Optimizers(torch.optim.SGD(nn.Linear(2, 1).parameters(), 0.1)).zero_grad(set_to_none=False)
print("ok")
