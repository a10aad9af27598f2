"""Runs a function in a process of its own that has imported torch already: for what is tried, not measured.

The processes are forked from a server which does nothing but import. To fork this process instead would be quicker
still, but may hang: torch's threads are not there in a fork, and the locks that they held are.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from torchlint.measure.process import Failure

#: What the server imports: each of the first two takes seconds, and optimizers import the second.
IMPORTED = ("torch", "torch._dynamo", f"{__package__}.heap")


def call(function: Callable[..., Any], folder: str, *arguments: Any, limit: float) -> Any:
    """The result of a function of a module in a child process that can import modules of `folder`.

    Raises Failure if it raises, ends the process or takes longer than `limit` seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, function, folder, arguments))
    process.start()
    theirs.close()
    try:
        if not ours.poll(limit):
            raise Failure(f"timed out after {limit:.0f} s")
        failed, answer = ours.recv()
    except EOFError:
        process.join()
        raise Failure(f"ended with status {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if failed:
        raise Failure(answer)
    return answer


def _run(answers: Connection, function: Callable[..., Any], folder: str, arguments: tuple[Any, ...]) -> None:
    """In the child."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # compiled code has no fake device and needs a C++ toolchain
    # Children of a server process would use a server for their own children, and each loader worker would import torch.
    multiprocessing.set_start_method("fork", force=True)
    sys.path.insert(0, folder)
    try:
        answers.send((False, function(*arguments)))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)
        own = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in place if folder in frame.filename]
        first = (str(error).strip().splitlines() or [""])[0]
        answers.send((True, f"{type(error).__name__}: {first[:200]} ({own[-1] if own else '?'})"))
