from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

_CLOCKS = ("time(", "perf_counter", "monotonic", "default_timer", "now()")
#: Words of CUDA, of which cuDNN is a part.
_CUDA = ("cuda", "cudnn")


class UnsynchronizedTiming(Rule):
    """GPU work is timed without waiting for the GPU.

    ## What it does
    Flags differences of `time.time()`, `time.perf_counter()` and similar clocks around a call of a network or a
    backward pass, in a file that uses CUDA, or that moves tensors to a device in a program that uses CUDA. Nothing
    between that call and the second reading may wait for the GPU: no
    `torch.cuda.synchronize()`, no `.item()`, `.cpu()` or `print`, no condition that tests a tensor, and no function
    that may do so out of sight. The clock may also be read by a timer of the project, such as `timer.tic()` and
    `timer.toc()`, or a method that calls these. A wait at every n-th step only (`if step % 20 == 0:`) does not count.

    Not flagged is the self-test of a network below `if __name__ == "__main__":` that moves nothing to a GPU.

    A clock may be read at the end of each iteration and subtracted in the next one. This is flagged only if the CPU
    waits for the GPU in between, because that time is then missing from the result.

    ## Why it is slow
    The code is not slow, but the result is wrong. A call of a network only queues its kernels and returns. The clock
    then measures how long queueing took, and the GPU work is counted where the program waits next. Decisions based on
    such results make programs slow.

    ## Example
    ```python
    start = time.perf_counter()
    outputs = model(images)
    elapsed = time.perf_counter() - start
    ```

    ## Use instead
    ```python
    torch.cuda.synchronize()
    start = time.perf_counter()
    outputs = model(images)
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    ```
    Run the network a few times before, and take the median of many runs; `torch.utils.benchmark.Timer` does both. In a
    loop that must be fast, record two `torch.cuda.Event(enable_timing=True)` instead and read them later.

    ## Fix safety
    Advice only: synchronization costs time in a program that is not a benchmark, and correct timing usually needs more
    than two calls.

    ## When to ignore
    Ignore it if you want to measure the time to queue the work, or if the network runs on the CPU after all.

    ## References
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    - [torch.utils.benchmark](https://docs.pytorch.org/docs/stable/benchmark_utils.html)
    """

    code = "TL903"
    name = "unsynchronized-timing"
    default = Default.INFO
    words = ((*_CUDA, "device"), (*_CLOCKS, "Timer(", ".tic(", ".toc("))
    project_words = ("torch", "cuda", _CLOCKS)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.tensors.devices import Devices

        from ._timing import TimedStretches

        if not module.fact(Devices).uses_cuda or not self._may_use_cuda(module):
            return
        for stretch in module.fact(TimedStretches).unfinished():
            yield self.diagnostic(
                module,
                stretch.end,
                "timing without `torch.cuda.synchronize()` does not measure the GPU work",
                label="read before the GPU has finished",
                notes=(
                    Note.at(module, stretch.start, "the timing starts"),
                    Note.at(module, stretch.network, "the GPU work is queued asynchronously"),
                ),
            )

    def _may_use_cuda(self, module: Module) -> bool:
        """Whether the file itself names CUDA, or moves something to a device that is not the CPU."""
        from torchlint.model.semantics.value import Device
        from torchlint.model.tensors.placement import Placement

        moves = module.fact(Placement).moves
        text = module.text[module.begin : module.end]
        return any(word in text for word in _CUDA) or any(
            module.is_own(move.call) and move.device is not Device.CPU for move in moves
        )
