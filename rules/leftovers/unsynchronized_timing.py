from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class UnsynchronizedTiming(Rule):
    """GPU work is timed by a clock that does not wait for it.

    ## What it does
    Flags differences of `time.time()`, `time.perf_counter()` and their like around a call of a network, in a file that
    uses CUDA, where nothing in between waits for the GPU: no `torch.cuda.synchronize()`, no `.item()`, `.cpu()` or
    print, and no function that might do it out of sight. A wait at every n-th step only (`if step % 20 == 0:`) does not
    count. The clock may be read by a timer of the project, such as `timer.tic()` and `timer.toc()`. A clock that is
    read at the end of each iteration and subtracted in the next one is flagged only where the host waits for the GPU in
    between, because that time is then missing from the figure.

    ## Why it is slow
    It is not: it misleads. A call of a network only queues its kernels and returns. The clock then shows how long
    queueing took, and the work itself is counted where the program waits next. Decisions based on such figures make
    programs slow.

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
    Run the network a few times before, and take the median of many runs; or let `torch.utils.benchmark.Timer` do both.
    In a loop that is meant to be quick, record two `torch.cuda.Event(enable_timing=True)` instead and read them later.

    ## Fix safety
    Advice: waiting has a price where the program is not a benchmark, and two calls are rarely all that is missing.

    ## When to ignore
    When the time to queue the work is what you want to know, or when the network runs on the CPU after all.

    ## References
    - [CUDA semantics: asynchronous execution](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
    - [torch.utils.benchmark](https://docs.pytorch.org/docs/stable/benchmark_utils.html)
    """

    code = "TL903"
    name = "unsynchronized-timing"
    default = Default.INFO
    words = ("torch", "cuda", ("time(", "perf_counter", "monotonic", "default_timer", "now()", "Timer("))

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.data.devices import Devices

        from ._timing import Timing

        if not module.fact(Devices).uses_cuda:
            return
        for stretch in module.fact(Timing).unfinished():
            yield self.diagnostic(
                module,
                stretch.end,
                "the clock is read before the GPU has finished",
                label="no synchronization before this",
                notes=(
                    Note.at(module, stretch.start, "the timing starts"),
                    Note.at(module, stretch.network, "the GPU work is queued asynchronously"),
                ),
            )
