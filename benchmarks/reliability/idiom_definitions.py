"""A part of the grammar of `idioms`: what programs import and define. Datasets, networks, functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: How a program names what it imports.
IMPORTS: Sequence[Mapping[str, str]] = (
    {
        "imports": "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
        "from torch.utils.data import DataLoader, Dataset",
        "torch": "torch",
        "nn": "nn",
        "functional": "F",
        "data_loader": "DataLoader",
        "dataset": "Dataset",
    },
    {
        "imports": "import torch as th\nfrom torch import nn\nfrom torch.nn import functional\n"
        "from torch.utils import data",
        "torch": "th",
        "nn": "nn",
        "functional": "functional",
        "data_loader": "data.DataLoader",
        "dataset": "data.Dataset",
    },
    {
        "imports": "import torch, time, os\nfrom torch.utils.data import *\nfrom torch import nn as layers",
        "torch": "torch",
        "nn": "layers",
        "functional": "layers.functional",
        "data_loader": "DataLoader",
        "dataset": "Dataset",
    },
    {
        "imports": "import torch\nimport torch.utils.data",
        "torch": "torch",
        "nn": "torch.nn",
        "functional": "torch.nn.functional",
        "data_loader": "torch.utils.data.DataLoader",
        "dataset": "torch.utils.data.Dataset",
    },
    {
        "imports": "from __future__ import annotations\nimport torch; import torch.nn as nn\n"
        "from torch.utils.data import (\n    DataLoader as Loader,\n    Dataset as Base,\n)\n"
        "try:\n    import torch.nn.functional as F\nexcept ImportError:\n    F = None",
        "torch": "torch",
        "nn": "nn",
        "functional": "F",
        "data_loader": "Loader",
        "dataset": "Base",
    },
)

DEFINITIONS: Mapping[str, Sequence[str]] = {
    # -- data
    "data_set": (
        """
        <decorator>
        class Data(<dataset>):
            def __init__(self, root=None, *args, **kwargs):
                self.items = torch.rand(100, 3, 32, 32)
            def __len__(self): return len(self.items)
            def __getitem__(self, index):
                item = <item>
                return item, index % 10
        """,
        """
        class Data(<dataset>):
            def __len__(self) -> int:
                return 100
            def __getitem__(self, i: int):
                image = <item>
                <getitem_statement>
                return image, <item>
        """,
        "Data = lambda root=None: <torch>.utils.data.TensorDataset(<torch>.rand(64, 3, 8, 8), <torch>.arange(64))",
    ),
    "item": (
        *("self.items[index]", "<torch>.rand(3, 32, 32)", "<torch>.rand(3, 32, 32).cuda()"),
        *("<torch>.tensor([1.0, 2.0]).to(<device>)", "<torch>.zeros(3, device='cuda')"),
        "(<torch>.ones(3, 32)\n    .float()\n    .to('cuda'))",
    ),
    "getitem_statement": ("image = image.cuda()", "self.count = i", "", "image = image.to(<device>); i += 1"),
    "loader_call": (
        *("<data_loader>(Data(), batch_size=32, shuffle=True)", "<data_loader>(Data(root='.'), 32, True)"),
        *("<data_loader>(Data(), <loader_options>)", "<data_loader>(\n    Data(),\n    <loader_options>,\n)"),
        *("<data_loader>(dataset=Data(), num_workers=<n>, pin_memory=True)", "<data_loader>(Data(), **options)"),
        "<data_loader>(*[Data()], <loader_options>)",
        "<data_loader>(Data(), batch_size=8, num_workers=<n>, pin_memory=True, <loader_options_end>)",
        "<data_loader>(\n    Data(), batch_size=64,\n    num_workers=<n>, pin_memory=<bool>\n    )",
        "<data_loader>(Data(), batch_size=64, collate_fn=lambda rows: <torch>.stack([row.cuda() for row, _ in rows]))",
    ),
    "loader_options": (
        *("batch_size=16", "num_workers=<n>", "num_workers=<n>, pin_memory=<bool>", "batch_size=4, pin_memory=True"),
        *("num_workers=<n>, persistent_workers=<bool>", "num_workers=0, prefetch_factor=1", "shuffle=not False"),
        "num_workers=4, prefetch_factor=1, drop_last=True",
    ),
    "loader_options_end": ("drop_last=True", "persistent_workers=False", "shuffle=(lambda: True)()", "timeout=0"),
    "bool": ("True", "False", "<torch>.cuda.is_available()"),
    # -- networks
    "network": (
        """
        class Net(<nn>.Module):
            def __init__(self, width=<width>):
                super().__init__()
                self.conv = <nn>.Conv2d(3, width, 3); self.norm = <nn>.BatchNorm2d(width)
                self.drop = <nn>.Dropout(0.5)
                self.head = <layer>
                self.step = 0
            <decorator>
            def forward(self, x):
                <forward_statement>
                <forward_statement>
                return self.head(<torch>.relu(self.norm(self.conv(x))).mean((2, 3)))
        """,
        """
        class Net(<nn>.Module):
            def __init__(self): super().__init__(); self.layers = <nn>.Sequential(<layer>, <nn>.ReLU(), <layer>)
            def forward(self, x): return self.layers(x)
        """,
        """
        @<torch>.compile
        class Net(<nn>.Module):
            def __init__(self, *sizes, **options):
                super(Net, self).__init__()
                self.blocks = <nn>.ModuleList([<layer> for _ in range(12)])
                self.history = []
            def forward(self, x):
                for block in self.blocks:
                    x = <checkpoint>
                <forward_statement>
                return x
        """,
        "def Net():\n    return <nn>.Sequential(<nn>.Conv2d(3, 64, 3), <nn>.BatchNorm2d(64), <nn>.Flatten(), <layer>)",
    ),
    "checkpoint": (
        *("<torch>.utils.checkpoint.checkpoint(block, x)", "block(x)"),
        *("<torch>.utils.checkpoint.checkpoint(block, x, use_reentrant=True)", "block(x) + x"),
        "<torch>.utils.checkpoint.checkpoint(\n    block,\n    x,\n)",
        "<torch>.utils.checkpoint.checkpoint_sequential(self.blocks, 2, x)",
    ),
    "width": ("64", "1024", "2048"),
    "layer": ("<nn>.Linear(<width>, <width>)", "<nn>.Linear(2048, 2048)", "<nn>.Conv2d(64, 64, 3, padding=1)"),
    "decorator": ("", "", "@<torch>.compile", "@keep", "@functools.lru_cache(maxsize=None)", "@<torch>.no_grad()"),
    "forward_statement": (
        *("self.step += 1", "noise = <created>.to(x.device)", "noise = <created>.cuda()", "print(x)"),
        *("if x.sum() > 0: x = x * 2", "scale = x.max().item()", "mask = x[x > 0]", "self.history.append(x)"),
        *("with <torch>.cuda.amp.autocast(): x = x * 2", "x = x.to(self.conv.weight.device)", "pass", "pass"),
        *("state = <created>\nstate = state.to(x.device)", "x = <created>.type_as(x) + x", "global COUNT; COUNT = 1"),
        "index = <torch>.arange(x.size(0), dtype=<torch>.long).to(x.device)",
    ),
    "created": (
        *("<torch>.zeros(4, 4)", "<torch>.randn(x.shape[0], 8)", "<torch>.full((2, 2), 1.0)", "<torch>.ones(3)"),
        *("<torch>.arange(10)", "<torch>.FloatTensor(3, 4).normal_()", "<torch>.zeros(\n    2,\n    3,\n)"),
        *("<torch>.eye(*shape)", "<torch>.rand(size=(2, 3)).float()", "<torch>.empty([1, 2], dtype=<torch>.float16)"),
        *("(<torch>.zeros(1) + 1)", "<torch>.tensor([1, 2])", "<torch>.zeros(2, device=None)"),
    ),
    # -- functions
    "function": (
        "<decorator>\ndef evaluate(<model>, <loader>, device='cuda', /, *, n=1):\n    <inference>\n    return None",
        "<grad_decorator>\ndef predict(<model>, <loader>):\n    <model>.eval()\n    <inference>",
        "async def serve(<model>, x):\n    async with lock:\n        <inference_statement>\n    return <model>(x)",
        "def zero(<model>):\n    for p in <model>.parameters():\n        if p.grad is not None:\n"
        "            p.grad.detach_()\n            p.grad.zero_()",
        "def collate(rows):\n    texts = [row[0] for row in rows]\n"
        "    return tokenizer(texts, padding='max_length', max_length=512, return_tensors='pt').to('cuda')",
        "keep = lambda f, *a, **k: f",
        "@<torch>.cuda.amp.custom_fwd\ndef forward(ctx, x):\n    return x",
        "class Trainer:\n    <decorator>\n    def fit(self, <model>, <loader>):\n        <work>\n        return self\n"
        "    @staticmethod\n    def check(<model>, <loader>, **options):\n        <inference>",
    ),
    "grad_decorator": (
        "@<torch>.no_grad()",
        "@<torch>.inference_mode()",
        "@<torch>.no_grad",
        "@keep\n@<torch>.no_grad()",
    ),
}
