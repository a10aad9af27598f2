"""A value whose name speaks of a device is a tensor or a dtype."""

import sys
import torch


def like(n, x_cuda):
    return torch.zeros(n).to(x_cuda)


def cast(n, gpu_dtype):
    return torch.ones(n).to(gpu_dtype)


m = sys.modules[__name__]
print(getattr(m, "like")(2, torch.ones(1).double()).dtype, getattr(m, "cast")(2, torch.int32).dtype)
