"""Runs in the processes of a profiled script, as ``sitecustomize``: records some of its steps.

It imports nothing of torchlint, which the script's interpreter need not have, and torch only after the script has.
Its parameters are in the environment variable ``TORCHLINT_PROFILE``.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

#: Next to the events: the line of each Python call, in the order of their ids (`torchlint.profile.reading`).
_CALLERS = "torchlintCallers"


class _Recorder:
    """Counts steps; records those that are asked for, and then ends the process."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._steps = 0
        self._owner: object = None  # the first optimizer that steps, so that a step of two optimizers counts once
        self._depth = 0
        self._profile: Any = None
        self._recorded = False

    def hook(self, optimizers: ModuleType) -> None:
        """Have torch call this object. torch may not be imported completely yet."""
        atexit.register(self._leave)
        if self._options["unit"] == "optimizer":
            optimizers.register_optimizer_step_post_hook(self._after_optimizer)
            return
        module = sys.modules["torch.nn.modules.module"]
        module.register_module_forward_pre_hook(self._before_forward)
        module.register_module_forward_hook(self._after_forward, always_call=True)

    def _after_optimizer(self, optimizer: object, *_: object) -> None:
        if self._owner is None:
            self._owner = optimizer
        if optimizer is self._owner:
            self._step()

    def _before_forward(self, *_: object) -> None:
        self._depth += 1

    def _after_forward(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._step()

    def _step(self) -> None:
        self._steps += 1
        if self._profile is not None:
            self._profile.step()
        elif self._steps == self._options["wait"] and os.environ.get("RANK", "0") == "0":
            self._start()
        if self._steps == self._options["wait"] + self._options["steps"] + 1:  # one more: the profiler warms up
            self._end()

    def _start(self) -> None:
        from torch.profiler import ProfilerActivity, profile, schedule, supported_activities

        activities = {ProfilerActivity.CPU, ProfilerActivity.CUDA} & set(supported_activities())  # type: ignore[no-untyped-call]
        steps = schedule(wait=0, warmup=1, active=self._options["steps"], repeat=1)
        self._profile = profile(activities=activities, with_stack=True, schedule=steps, on_trace_ready=self._write)
        self._profile.start()

    def _write(self, profile: Any) -> None:
        """Write the trace with the lines of all calls, which torch has but does not export."""
        folder = os.path.dirname(os.path.abspath(self._options["output"]))
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            plain = os.path.join(scratch, "trace.json")
            profile.export_chrome_trace(plain)
            _append(plain, _CALLERS, _callers(profile))
            finished = plain
            if self._options["output"].endswith(".gz"):
                finished = _compressed(plain)
            os.replace(finished, self._options["output"])
        self._recorded = True

    def _leave(self) -> None:
        """Record no more when the script ends too early: a profiler that runs would crash the process."""
        if self._profile is not None:
            self._profile.on_trace_ready = None
            self._profile.stop()
        self._report()

    def _report(self) -> None:
        """Tell the command how many steps there were, in the process that takes them; of several, in the first one."""
        if self._steps and os.environ.get("RANK", "0") == "0":
            with open(self._options["report"], "w") as file:
                json.dump({"steps": self._steps, "recorded": self._recorded}, file)

    def _end(self) -> None:
        """End the process without what the script does after its loop, such as replacing a checkpoint."""
        import multiprocessing

        self._report()
        for process in multiprocessing.active_children():
            process.terminate()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _callers(profile: Any) -> list[int]:
    """The line of each Python call, in the order of their ids; nothing where this torch does not say."""
    try:
        waiting = list(profile.profiler.kineto_results.experimental_event_tree())[::-1]
        found = []
        while waiting:
            event = waiting.pop()
            waiting.extend(event.children[::-1])
            caller = getattr(event.extra_fields, "caller", None)
            if caller is not None:
                found.append((event.start_time_ns, caller.line_number))
        found.sort(key=lambda one: one[0])
        return [line for _, line in found]
    except Exception:
        return []


def _append(path: str, key: str, value: object) -> None:
    """Add a key to the object that a JSON file contains."""
    with open(path, "rb+") as file:
        file.seek(0, os.SEEK_END)
        end = file.tell()
        file.seek(max(end - 100, 0))
        tail = file.read()
        brace = tail.rindex(b"}")
        file.seek(end - len(tail) + brace)
        file.write(f", {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}}}\n".encode())
        file.truncate()


def _compressed(path: str) -> str:
    import gzip
    import shutil

    with open(path, "rb") as source, gzip.open(path + ".gz", "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target)
    return path + ".gz"


def main() -> None:
    """Set up this process."""
    import torchlint_hooks as hooks

    recorder = _Recorder(json.loads(os.environ["TORCHLINT_PROFILE"]))
    hooks.call_after_import({"torch.optim.optimizer": recorder.hook})
    hooks.run_hidden_sitecustomize()


if __name__ == "sitecustomize":
    main()
