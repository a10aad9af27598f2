"""The progress bar: on a terminal, for runs that take a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Seconds before the bar shows, and between two pictures of it.
_PATIENCE = 1.0
_INTERVAL = 0.1


class ProgressBar:
    """Called with the number of files done; shows itself on standard error once the run has lasted a second."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._shown_at = time.monotonic() + _PATIENCE if sys.stderr.isatty() else float("inf")
        self._bar: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now < self._shown_at:
            return
        self._shown_at = now + _INTERVAL
        if self._bar is None:
            from rich.progress import Progress

            from torchlint.output.colour import console

            # No thread that refreshes by itself: processes may be forked while the bar is up.
            progress = Progress(console=console(sys.stderr), transient=True, auto_refresh=False)
            progress.start()
            self._bar = progress, progress.add_task("checking", total=self._total)
        progress, task = self._bar
        progress.update(task, completed=done)
        progress.refresh()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar[0].stop()
