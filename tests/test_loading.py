"""The model's answers about loaders: how they reach a loop, a network and a CUDA device."""

from __future__ import annotations

import pytest

from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.syntax.calls import Call
from torchlint_rules.data_loading._workers import can_have_workers

HEAD = """
import torch
from torch.utils.data import DataLoader
from tqdm import tqdm
from photos import Photos
from nets import Net

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
"""


def loader_of(body: str) -> tuple[Module, Call]:
    """The model of a file that ends in ``body``, and its first DataLoader."""
    module = Module.parse(HEAD + body)
    return module, next(module.calls("torch.utils.data.DataLoader"))


REACHING = {
    "directly": """
for x in DataLoader(Photos()):
    model(x.to(device))
""",
    "with enumerate and tqdm around it": """
loader = DataLoader(Photos())
for i, (x, y) in enumerate(tqdm(loader)):
    model(x.to(device))
""",
    "with tqdm around enumerate, held in a variable": """
bar = tqdm(enumerate(DataLoader(Photos())))
for i, (x, y) in bar:
    model(x.to(device))
""",
    "in a progress bar of a with statement": """
loader = DataLoader(Photos())
with tqdm(loader) as bar:
    for x in bar:
        model(x.to(device))
""",
    "by zip, with nested unpacking": """
for (x, y), z in zip(DataLoader(Photos()), range(9)):
    model(x.to(device))
""",
    "by next, in an endless loop": """
batches = iter(DataLoader(Photos()))
while True:
    x, y = next(batches)
    model(x.to(device))
""",
    "through a generator of the file": """
def cycle(loader):
    while True:
        for batch in loader:
            yield batch

batches = cycle(DataLoader(Photos()))
for step in range(1000):
    model(next(batches).to(device))
""",
    "through a factory that returns a tuple": """
def make():
    return DataLoader(Photos()), 10

loader, classes = make()
for x in loader:
    model(x.to(device))
""",
    "through parameters, two calls deep": """
def epoch(net, loader, device):
    for x in loader:
        net(x.to(device))

def train(net, loader, where):
    for _ in range(10):
        epoch(net, loader, where)

train(model, DataLoader(Photos()), device)
""",
    "as a global of the function that loops": """
loader = DataLoader(Photos())

def epoch():
    for x in loader:
        model(x.to(device))
""",
    "as an attribute of self": """
class Trainer:
    def __init__(self):
        self.device = device
        self.model = model
        self.loader = DataLoader(Photos())

    def epoch(self):
        for x in self.loader:
            self.model(x.to(self.device))
""",
    "in a dictionary of loaders": """
loaders = {phase: DataLoader(Photos(phase)) for phase in ("train", "test")}
for phase in loaders:
    for x in loaders[phase]:
        model(x.to(device))
""",
    "in a comprehension": """
found = [model(x.to(device)) for x in DataLoader(Photos())]
""",
}


@pytest.mark.parametrize("body", REACHING.values(), ids=REACHING)
def test_a_loader_reaches_the_network_and_the_gpu(body: str) -> None:
    module, loader = loader_of(body)
    assert module.fact(Loading).feeds_network(loader) is not None
    assert len(module.fact(Loading).transfers(loader)) == 1


MOVING = {
    "after other methods": "for x in loader: model(x.view(8, -1).float().to(device))",
    "in a Variable": "for x in loader: model(torch.autograd.Variable(x.cuda()))",
    "of a Variable": "for x in loader: model(torch.autograd.Variable(x).cuda())",
    "under a condition": "for x in loader:\n    if torch.cuda.is_available():\n        x = x.cuda()\n    model(x)",
    "part by part": "for batch in loader:\n    batch = tuple(part.to(device) for part in batch)\n    model(*batch)",
    "value by value": "for b in loader:\n    b = {k: v.to(device) for k, v in b.items()}\n    model(**b)",
    "by index": "for batch in loader: model(batch[0].to(device))",
    "by the number of a device": "for x in loader: model(x.to(0))",
    "to the current device": "for x in loader: model(x.to(torch.cuda.current_device()))",
    "by a type": "for x in loader: model(x.type(torch.cuda.FloatTensor))",
    "into a tensor on the GPU": "room = torch.zeros(8).cuda()\nfor x in loader: model(room.copy_(x))",
    "by a helper of another file": "for x in loader: model(to_device(x, device))",
    "to where the network is": "for x in loader: model(x.to(next(model.parameters()).device))",
}


@pytest.mark.parametrize("loop", MOVING.values(), ids=MOVING)
def test_a_copy_to_cuda_is_seen(loop: str) -> None:
    module, loader = loader_of(f"loader = DataLoader(Photos())\n{loop}\n")
    assert len(module.fact(Loading).transfers(loader)) == 1


STAYING = {
    "to a type": "for x in loader: model(x.to(torch.float16))",
    "to the host": 'for x in loader: model(x.to("cpu"))',
    "to an unknown device": "for x in loader: model(x.to(where))",
    "the network, not the batch": "for x in loader: model.to(device)(x)",
    "something made from the batch's size": "for x in loader: model(torch.zeros(len(x)).to(device))",
    "the output": "for x in loader: print(model(x).to(device))",
}


@pytest.mark.parametrize("loop", STAYING.values(), ids=STAYING)
def test_what_is_no_copy_of_a_batch_to_cuda(loop: str) -> None:
    module, loader = loader_of(f"loader = DataLoader(Photos())\n{loop}\n")
    assert module.fact(Loading).transfers(loader) == []


def test_one_batch_is_a_preview() -> None:
    module, loader = loader_of("x = next(iter(DataLoader(Photos())))\nmodel(x.to(device))\n")
    assert module.fact(Loading).consumers(loader) == []


@pytest.mark.parametrize(
    ("body", "imports_again"),
    [
        ("loader = DataLoader(Photos())\n", True),
        ("if __name__ == '__main__':\n    loader = DataLoader(Photos())\n", False),
        ("def main():\n    loader = DataLoader(Photos())\n", False),
        ("def main():\n    loader = DataLoader(Photos())\nmain()\n", True),
        ("def main():\n    loader = DataLoader(Photos())\nif __name__ == '__main__':\n    main()\n", False),
        ("def make():\n    return DataLoader(Photos())\ndef main():\n    make()\nmain()\n", True),
    ],
)
def test_a_spawned_worker_must_not_start_the_script_again(body: str, imports_again: bool) -> None:
    module, loader = loader_of(body)
    assert can_have_workers(module, loader) is not imports_again


@pytest.mark.parametrize(
    ("argument", "sendable"),
    [
        ("Photos()", True),
        ("Photos(transform=lambda x: x)", False),
        ("Photos(), collate_fn=stack", True),
        ("Photos(), collate_fn=nested", False),
        ("Opened('photos.h5')", False),
    ],
)
def test_what_cannot_be_sent_to_a_worker(argument: str, sendable: bool) -> None:
    module, loader = loader_of(f"""
import h5py

def stack(items):
    return items

class Opened(torch.utils.data.Dataset):
    def __init__(self, path):
        self.file = h5py.File(path)

def main():
    def nested(items):
        return items

    return DataLoader({argument})
""")
    assert can_have_workers(module, loader) is sendable
