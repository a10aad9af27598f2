"""Shapes of one training loop with many statements, each of which a rule asks about."""

from __future__ import annotations

from .shape import IMPORTS, SETUP, STEP, rows, shape

_LOOP = "for epoch in range(10):\n    for images, labels in loader:\n"


def _in_step(parts: list[str]) -> str:
    """A program with these parts in the body of a training loop."""
    return rows([_LOOP, STEP, *parts], IMPORTS + SETUP)


@shape(400)
def step_moves(n: int) -> str:
    """One name for a tensor that is created and moved, again and again."""
    return _in_step([f"        mask = torch.zeros(4, {i})\n        mask = mask.to(device)\n" for i in range(n)])


@shape(200)
def step_backwards(n: int) -> str:
    """Steps of one optimizer in one loop, with one name for the losses."""
    return _in_step([STEP + f"        losses.append(loss.item() + {i})\n" for i in range(n)])


@shape(200)
def step_attentions(n: int) -> str:
    """Attentions, with one name for the scores."""
    part = (
        "        scores = torch.matmul(q, k.transpose(-2, -1)) / 8.0\n"
        "        scores = F.softmax(scores, dim=-1)\n"
        "        out = torch.matmul(scores, v)\n"
    )
    return _in_step([part] * n)


@shape(200)
def step_arrays(n: int) -> str:
    """Arrays of the items of a batch, with one name for them."""
    part = "        arrays = [np.array(item) for item in images]\n        tensor = torch.tensor(arrays)\n"
    return _in_step([part] * n)


@shape(200)
def step_conditions(n: int) -> str:
    """Conditions on the outputs."""
    return _in_step(
        [f"        out = model(images)\n        if out.max() > {i}:\n            continue\n" for i in range(n)]
    )


@shape(100)
def step_inferences(n: int) -> str:
    """Networks run without gradients, whose outputs are counted."""
    part = (
        "        with torch.no_grad():\n            out{i} = model(images)\n"
        "        log['accuracy{i}'] = (out{i}.argmax(1) == labels).float().mean().item()\n"
    )
    return _in_step([part.replace("{i}", str(i)) for i in range(n)])


@shape(200)
def step_losses(n: int) -> str:
    """Losses with names of their own, each added to a sum of its own."""
    part = "        loss{i} = criterion(model(images), labels)\n        total{i} += loss{i}.item()\n"
    sums = "".join(f"total{i} = 0.0\n" for i in range(n))
    return sums + _in_step([part.replace("{i}", str(i)) for i in range(n)])


@shape(400)
def step_flushes(n: int) -> str:
    """Calls that empty the cache of the GPU."""
    return _in_step(["        torch.cuda.empty_cache()\n"] * n)
