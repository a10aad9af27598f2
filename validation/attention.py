"""``python -m validation.attention``: attention in separate kernels and in one, by number format, length and mask.

It needs a GPU, and prints one row for each combination: the median milliseconds of 16384 positions in all, with the
gradients of queries, keys and values where it trains. An earlier form of it, with the same operations and other numbers
of repetitions, gave these ratios on an NVIDIA H200 (torch 2.11, 2026-11-26):

| number format | training, 64 to 4096 positions | inference, 64 to 4096 positions |
|---|---|---|
| float32 with TF32 | 0.64x to 0.81x | 0.83x to 0.99x |
| float32 | 0.89x to 1.24x | 1.17x to 1.52x |
| autocast to bfloat16 | 1.56x to 9.75x | 1.85x to 13.8x |
| bfloat16 | 1.71x to 5.30x | 1.58x to 9.24x |
| float16 | 2.11x to 5.32x | 1.55x to 9.06x |

With a boolean mask of the keys, 512 positions: 1.00x and 1.36x with TF32, 1.39x and 1.84x in float32, 4.4x and 6.9x
under autocast. With 8 heads of width 128 in place of 16 of width 64: 0.48x and 0.69x with TF32, 3.0x and 4.5x under
autocast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention

FORMATS = {
    "float32 with TF32": torch.float32,
    "float32": torch.float32,
    "autocast": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
LENGTHS = (64, 197, 512, 1024, 2048, 4096)
#: Positions of all sequences of a batch together.
POSITIONS = 16384
#: Of each format at length 512: a mask, dropout, other heads.
VARIANTS = ({"mask": True}, {"dropout": 0.1}, {"heads": 8, "width": 128}, {"heads": 32, "width": 32})


def milliseconds(run: Callable[[], None], repeats: int = 20) -> float:
    """The median time of a run on the GPU, after two runs that do not count."""
    times = []
    for index in range(repeats + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        if index >= 2:
            times.append(float(start.elapsed_time(end)))
    return median(times)


def compare(
    label: str, length: int, trains: bool, heads: int = 16, width: int = 64, mask: bool = False, dropout: float = 0.0
) -> tuple[float, float]:
    """Milliseconds in separate kernels and in one. `label` is one of `FORMATS`."""
    torch.set_float32_matmul_precision("highest" if label == "float32" else "high")
    shape = (POSITIONS // length, heads, length, width)
    q, k, v = (torch.randn(shape, device="cuda", dtype=FORMATS[label], requires_grad=trains) for _ in range(3))
    allowed = torch.rand(shape[0], 1, 1, length, device="cuda") > 0.2 if mask else None
    scale = width**-0.5

    def separate() -> Tensor:
        scores = (q @ k.transpose(-2, -1)) * scale
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        weights = scores.softmax(-1)
        return (drop(weights, dropout) if dropout else weights) @ v

    def one() -> Tensor:
        return scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout)

    def step(attention: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            with (
                torch.set_grad_enabled(trains),
                torch.autocast("cuda", dtype=torch.bfloat16, enabled=label == "autocast"),
            ):
                result = attention()
            if trains:
                result.backward(torch.ones_like(result))  # type: ignore[no-untyped-call]
                q.grad = k.grad = v.grad = None

        return run

    return milliseconds(step(separate)), milliseconds(step(one))


def main() -> int:
    """Print the table; the exit status."""
    if not torch.cuda.is_available():
        print("validation.attention: this needs a GPU", file=sys.stderr)
        return 2
    columns = ("number format", "run", "positions", "variant", "separate kernels", "one kernel", "ratio")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for label in FORMATS:
        for trains in (True, False):
            for length, variant in [*((length, {}) for length in LENGTHS), *((512, variant) for variant in VARIANTS)]:
                before, after = compare(label, length, trains, **variant)
                said = ", ".join(f"{name} {value}" for name, value in variant.items())
                run = "training" if trains else "inference"
                figures = f"{before:.3f} ms | {after:.3f} ms | {before / after:.2f}x"
                print(f"| {label} | {run} | {length} | {said} | {figures} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
