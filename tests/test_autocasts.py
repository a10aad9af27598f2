"""The model's answers about autocast: device, number format, switch, and what it surrounds."""

from __future__ import annotations

import pytest

from torchlint.model.module import Module
from torchlint.model.numerics.autocasts import Autocasts

CALLS = {
    'torch.autocast("cuda")': ("cuda", "torch.float16", True),
    'torch.autocast("cuda:1", torch.bfloat16)': ("cuda", "torch.bfloat16", True),
    'torch.amp.autocast(device_type="cpu")': ("cpu", "torch.bfloat16", True),
    "torch.cuda.amp.autocast(False)": ("cuda", "torch.float16", False),
    "torch.cuda.amp.autocast(dtype=torch.bfloat16, enabled=args.amp)": ("cuda", "torch.bfloat16", "args.amp"),
    "torch.cpu.amp.autocast(True, torch.float16)": ("cpu", "torch.float16", True),
    "torch.autocast(device, dtype=None)": ("cuda", "torch.float16", True),
    "torch.autocast(where, dtype=dtype)": ("", "", True),
    'torch.autocast("cuda", **options)': ("cuda", "", "**"),
    "torch.autocast(where, dtype=low)": ("", "torch.bfloat16", True),
}


@pytest.mark.parametrize("call", CALLS)
def test_device_format_and_switch_are_read_off_the_call(call: str) -> None:
    module = Module.parse(f"import torch\ndevice = 'cuda'\nlow = torch.bfloat16\n{call}\n")
    (found,) = module.fact(Autocasts).all
    assert (found.device.value if found.device else "", found.dtype, found.enabled) == CALLS[call]


def test_the_format_of_a_parameter_is_unknown_whatever_its_default() -> None:
    module = Module.parse(
        "import torch\ndef train(dtype=torch.bfloat16):\n    with torch.autocast('cuda', dtype=dtype):\n        pass\n"
    )
    assert [found.dtype for found in module.fact(Autocasts).all] == [""]


SURROUNDED = {
    "with torch.autocast('cuda'):\n    run(x)": 3,
    "with open(x) as file, torch.autocast('cuda'):\n    run(x)": 3,
    "context = torch.autocast('cuda')\nwith context:\n    run(x)": 3,
    "@torch.autocast('cuda')\ndef f():\n    run(x)": 3,
    "with torch.autocast('cuda'):\n    with torch.autocast('cuda', enabled=False):\n        run(x)": 4,
    "with torch.autocast('cuda'):\n    def f():\n        run(x)": None,
    "with torch.autocast('cuda'):\n    pass\nrun(x)": None,
}


@pytest.mark.parametrize("body", SURROUNDED)
def test_the_innermost_autocast_around_a_place_is_found(body: str) -> None:
    module = Module.parse(f"import torch\n\n{body}\n")
    (call,) = [node for node in module.tree.calls if module.code(node) == "run(x)"]
    found = module.fact(Autocasts).around(call)
    assert (module.row(found.call.node) if found is not None else None) == SURROUNDED[body]


OTHERS = {
    "with torch.autocast('cuda'): pass": False,
    "def context(): return torch.autocast('cuda')\nwith context(): pass": False,
    "with timer: pass": False,
    "with accelerator.autocast(): pass": True,
    "from tools import my_autocast\nwith my_autocast(): pass": True,
    "make = functools.partial(torch.autocast, 'cuda')": True,
    "def train(amp_context):\n    with amp_context: pass": True,
}


@pytest.mark.parametrize("body", OTHERS)
def test_an_autocast_out_of_sight_is_told_of(body: str) -> None:
    module = Module.parse(f"import functools\nimport torch\n{body}\n")
    assert module.fact(Autocasts).others is OTHERS[body]
