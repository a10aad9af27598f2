"""Another file takes `autocast` from the file that imports it."""

import torch
from helper_autocast import *

with autocast(enabled=False):
    print(torch.ones(1))
