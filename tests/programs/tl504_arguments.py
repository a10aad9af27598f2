"""The arguments of a print bind a name and change a list."""

import torch

stack = [torch.ones(3), torch.zeros(3)]


@torch.compile(backend="eager")
def step(x):
    print("popped", stack.pop())
    return x + stack[-1]


@torch.compile(backend="eager")
def centre(x):
    print(f"mean {(m := x.mean())}")
    return x - m


print(step(torch.zeros(3)))
print(centre(torch.ones(3)))
