"""A package in the place of torch for scripts that are measured: it is imported in no time."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "torch/__init__.py": """\
import time
from torch import cuda, nn, optim, utils
class Tensor:
    def __init__(self, value=1.0):
        self.value = value
    def backward(self):
        pass
    def numel(self):
        return 1
    def detach(self):
        return self
    def clone(self):
        return self
    def __float__(self):
        return float(self.value)
def manual_seed(seed):
    pass
def save(content, file):
    open(file, "w").write(str(content))
def no_grad():
    return lambda function: function
""",
    "torch/cuda.py": "def is_initialized():\n    return False\n",
    "torch/nn.py": """\
class Module:
    def __call__(self, *inputs):
        return self.forward(*inputs)
    def eval(self):
        pass
    def train(self):
        pass
    def parameters(self):
        return []
class Linear(Module):
    def __init__(self, inputs, outputs):
        pass
""",
    "torch/optim/__init__.py": "from torch.optim.optimizer import SGD\n",
    "torch/optim/optimizer.py": """\
import time
HOOKS = []
def register_optimizer_step_post_hook(hook):
    HOOKS.append(hook)
class Optimizer:
    def __init__(self, parameters, defaults):
        pass
class SGD(Optimizer):
    def __init__(self, parameters=(), lr=0.1):
        super().__init__(parameters, {"lr": lr})
    def zero_grad(self, set_to_none=True):
        time.sleep(0.0 if set_to_none else 0.02)
    def step(self):
        for hook in HOOKS:
            hook(self, (), {})
""",
    "torch/utils/__init__.py": "from torch.utils import data\n",
    "torch/utils/data/__init__.py": "from torch.utils.data.dataloader import DataLoader\n",
    "torch/utils/data/dataloader.py": """\
class _BaseDataLoaderIter:
    def __init__(self, data):
        self.rest = iter(data)
    def __iter__(self):
        return self
    def __next__(self):
        return next(self.rest)
class DataLoader:
    def __init__(self, data):
        self.data = data
    def __iter__(self):
        return _BaseDataLoaderIter(self.data)
""",
}


def make_project(folder: Path, **files: str) -> Path:
    """A project with the package; `train="..."` is the content of ``train.py``."""
    for name, text in {**FILES, **{f"{name}.py": text for name, text in files.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "pyproject.toml").touch()
    return folder
