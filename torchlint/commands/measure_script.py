"""``torchlint measure -- COMMAND``: the user's own script, as it is and with fixes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint.commands import CLEAN, FAULT, UsageError, report_error, report_warning, settings_for

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from torchlint.settings.resolver import Resolver
    from torchlint.trial.comparison import Comparison
    from torchlint.trial.fixes import FixedFile, Fixes
    from torchlint.trial.trial import Share, Trial

BUDGET_S = 600.0


class _Terminal:
    """Prints the report and, between its parts, shows on a terminal what is being done."""

    def __init__(self) -> None:
        from torchlint.output.colour import console

        self._out: Console = console(sys.stdout)
        if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
            self._out.width = 120
        self._status = console(sys.stderr).status("") if sys.stderr.isatty() else None

    def show(self, title: str, done: int, planned: int) -> None:
        """Show what is being done, and how many of how many blocks are done."""
        if self._status is not None:
            self._status.update(f"{title}: {done} of {planned} blocks" if done else f"{title}: starting, warming up")
            self._status.start()

    def print(self, part: RenderableType) -> None:
        """Print a part of the report."""
        if self._status is not None:
            self._status.stop()
        self._out.print(part)


def measure_script(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Measure the script; the exit status is 2 if that is not possible."""
    from torchlint.trial.copies import ProjectError, program_of
    from torchlint.trial.side import ScriptError
    from torchlint.trial.trial import Trial

    signal.signal(signal.SIGTERM, lambda *received: sys.exit(128 + signal.SIGTERM))  # removes the copies first
    terminal = _Terminal()
    budget = BUDGET_S if options.budget is None else options.budget
    try:
        trial = Trial(
            program_of(command), steps=options.steps, warmup=options.warmup, budget=budget, progress=terminal.show
        )
        with trial.running():
            fixes, codes = _measure(trial, _resolver(options), terminal)
    except (ProjectError, ScriptError) as error:
        report_error(str(error))
        return FAULT
    if codes and _is_wanted(codes, options, terminal):
        _apply(fixes, codes, terminal)
    return CLEAN


def _measure(trial: Trial, resolver: Resolver, terminal: _Terminal) -> tuple[Fixes, frozenset[str]]:
    """Report what the trial finds; the fixes, and the rules whose fixes pay."""
    from torchlint.trial import report
    from torchlint.trial.fixes import Fixes, by_rule, contents
    from torchlint.trial.side import ScriptError

    files = trial.files()
    fixes = Fixes(files, lambda path: settings_for(resolver, os.path.dirname(path)))
    fixed = fixes.made()
    for error in fixes.errors:
        report_warning(error)
    if left := report.left_line(fixes.left):
        terminal.print(left)
    if not fixed:
        terminal.print(f"No fix applies to the files of the project that the script uses ({len(files)}).")
        return fixes, frozenset()
    terminal.print(report.fixes_line(fixed))
    try:
        found = trial.against({}, contents(fixed), "as it is, with the fixes")
    except ScriptError as error:
        raise ScriptError(f"{error} (--ignore leaves out the fixes of rules)") from None
    terminal.print(report.comparison_table(found, trial.found))
    terminal.print(report.outcome_line(found))
    shares = list(trial.shares(fixes, fixed)) if len(by_rule(fixed)) > 1 else []
    if shares:
        terminal.print(report.shares_table(shares))
    for path in trial.changed_files():
        report_warning(f"{path} has changed, although the script ran in a copy: a link leads to it")
    if found.losses is not None and found.losses.verdict == "differ":
        terminal.print("The losses differ, so that no fix is offered; --ignore leaves out the fixes of rules.")
        return fixes, frozenset()
    codes = _worthwhile(found, shares, fixed)
    if not codes:
        terminal.print("No fix pays; nothing is changed.")
    return fixes, codes


def _worthwhile(found: Comparison, shares: Sequence[Share], fixed: Sequence[FixedFile]) -> frozenset[str]:
    """The rules whose fixes pay."""
    from torchlint.trial.fixes import by_rule

    paying = frozenset(share.code for share in shares if share.pays)
    if paying or found.outcome != "faster":
        return paying
    return frozenset(code for code, _ in by_rule(fixed))  # one rule, or none without which the script is slower


def _is_wanted(codes: frozenset[str], options: argparse.Namespace, terminal: _Terminal) -> bool:
    """Whether the fixes that pay are to be applied."""
    names = ", ".join(sorted(codes))
    if options.apply:
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        terminal.print(f"Nothing is changed. --apply applies the fixes that pay: {names}.")
        return False
    return input(f"Apply the fixes of {names} to your files? [y/N] ").strip().lower() in ("y", "yes")


def _apply(fixes: Fixes, codes: frozenset[str], terminal: _Terminal) -> None:
    """Write the fixes of some rules. Raises UsageError."""
    from torchlint.engine.fixer import WriteError

    try:
        changed = fixes.apply(codes)
    except WriteError as error:
        raise UsageError(str(error)) from error
    terminal.print(f"Applied {', '.join(sorted(codes))} in {', '.join(map(os.path.relpath, changed))}.")


def _resolver(options: argparse.Namespace) -> Resolver:
    """The settings of the project, with the options on top. Raises UsageError."""
    from torchlint.commands.arguments import make_resolver, parser

    names = ("select", "extend-select", "ignore")
    given = [f"--{name}={value}" for name in names for value in getattr(options, name.replace("-", "_")) or ()]
    given += [f"--config={value}" for value in options.config or ()]
    given += ["--unsafe-fixes"] if options.unsafe_fixes else []
    given += ["--isolated"] if options.isolated else []
    return make_resolver(parser().parse_args(["--no-cache", *given]))
