"""The whole trial: the script as it is against the script with fixes, and which fix brings what."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from torchlint.trial.comparison import Comparison
from torchlint.trial.copies import Copy, Program, make_copy
from torchlint.trial.fixes import FixedFile, Fixes, by_rule, contents
from torchlint.trial.side import ScriptError, Side, StepDefinition
from torchlint.trial.turns import Turns, take_turns

#: Called with what is being done, and how many of how many blocks are done.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Share:
    """What the fixes of one rule bring: all fixes but these against all fixes."""

    code: str
    name: str
    count: int
    comparison: Comparison | None = None  #: None if there was no time for it
    error: str = ""  #: why the script cannot run without these fixes

    @property
    def pays(self) -> bool:
        """Whether the script is slower without them."""
        return self.comparison is not None and self.comparison.outcome == "faster"


class Trial:
    """One program with one choice of fixes, measured in copies that are removed at the end."""

    def __init__(self, program: Program, *, steps: int, warmup: int, budget: float, progress: Progress) -> None:
        self.program = program
        self._steps = steps
        self._warmup = warmup
        self._deadline = monotonic() + budget
        self._progress = progress
        self._found = StepDefinition("")
        self._copies: list[Copy] = []

    @contextmanager
    def running(self) -> Iterator[Trial]:
        """The folder of the copies, while they are needed."""
        with tempfile.TemporaryDirectory(prefix="torchlint-", ignore_cleanup_errors=True) as folder:
            self._scratch = Path(folder)
            yield self

    def files(self) -> list[str]:
        """The files of the project that the script has loaded at its first step. Raises ScriptError."""
        with self._side("the script", {}) as side:
            self._progress("starting the script", 0, 1)
            self._found = side.start(self._found, self._deadline)
            loaded = (side.copy.original_of(file) for file in self._found.files)
            return sorted({file for file in loaded if file is not None})

    @property
    def found(self) -> StepDefinition:
        """What a step is."""
        return self._found

    def against(self, before: Mapping[str, bytes], after: Mapping[str, bytes], title: str) -> Comparison:
        """Compare the program with two sets of changed files; a difference, twice. Raises ScriptError."""
        found = Comparison((self._turns(before, after, title),))
        if found.needs_another_run and monotonic() < self._deadline:
            with suppress(ScriptError):  # no time was left for it
                return Comparison((*found.runs, self._turns(before, after, f"{title}, again")))
        return found

    def _turns(self, before: Mapping[str, bytes], after: Mapping[str, bytes], title: str) -> Turns:
        names = ("the script" if not before else "the script with the other fixes", "the script with the fixes")
        with self._side(names[0], before) as ours, self._side(names[1], after) as theirs:
            for side in (ours, theirs):
                self._progress(title, 0, 1)
                side.start(self._found, self._deadline)
            return take_turns(
                ours,
                theirs,
                self._steps,
                self._warmup,
                self._deadline,
                lambda done, planned: self._progress(title, done, planned),
            )

    def shares(self, fixes: Fixes, files: list[FixedFile]) -> Iterator[Share]:
        """What the fixes of each rule bring, as long as there is time."""
        counts = by_rule(files)
        codes = frozenset(code for code, _ in counts)
        with_all = contents(files)
        start, took = monotonic(), 0.0
        for (code, name), count in sorted(counts.items()):
            if monotonic() + took > self._deadline:
                yield Share(code, name, count)
                continue
            without = contents(fixes.made(codes - {code}))
            try:
                yield Share(code, name, count, self.against(without, with_all, f"without {code}"))
            except ScriptError as error:
                yield Share(code, name, count, None, str(error))
            took, start = monotonic() - start, monotonic()

    def changed_files(self) -> list[str]:
        """The user's files that the script has changed although it ran in copies."""
        return sorted({path for copy in self._copies for path in copy.changed_links()})

    @contextmanager
    def _side(self, name: str, fixed: Mapping[str, bytes]) -> Iterator[Side]:
        with tempfile.TemporaryDirectory(dir=self._scratch, ignore_cleanup_errors=True) as folder:
            copy = make_copy(self.program, Path(folder) / Path(self.program.root).name, fixed)
            self._copies.append(copy)
            with Side(name, copy, self._scratch) as side:
                yield side
