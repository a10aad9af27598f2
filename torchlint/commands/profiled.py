"""``torchlint check --profile TRACE``: what each finding takes of the steps that a trace has."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TextIO

from torchlint.commands import UsageError
from torchlint.engine.results import Result
from torchlint.output.text import display_path, duration, percent, plural, printable
from torchlint.profile.reading import read_trace
from torchlint.profile.shares import Profile
from torchlint.profile.trace import TraceError
from torchlint.settings.settings import Settings, all_rules

#: Options that change files, or that show no findings.
_OTHERS = ("fix_only", "diff", "add_noqa", "update_baseline", "watch", "statistics")
_WIDTH = 60


def read(options: argparse.Namespace, settings: Settings) -> None:
    """Read the trace into ``options.trace``. Raises UsageError, also for options that contradict it."""
    for name in _OTHERS:
        if getattr(options, name) not in (None, False):
            raise UsageError(f"--profile and --{name.replace('_', '-')} exclude each other")
    if settings.fix:
        raise UsageError("--profile and --fix exclude each other: the lines of a trace are those of the unfixed files")
    if "-" in options.paths:
        raise UsageError("--profile needs files: a trace has no lines of standard input")
    try:
        options.trace = read_trace(options.profile)
    except TraceError as error:
        raise UsageError(f"{display_path(options.profile)} {error}") from error


def profile_of(options: argparse.Namespace, settings: Settings, results: Sequence[Result]) -> Profile:
    """What the trace says about the findings."""
    events = {rule.code: rule.events for rule in all_rules(settings.plugins) if rule.events}
    return Profile(options.trace, results, events)


def write_hot_places(profile: Profile, out: TextIO) -> None:
    """Print how long the steps are, and which lines without a finding take most of them."""
    steps = f"{plural(profile.steps, 'step')} of {duration(profile.microseconds)}"
    print(f"\nProfile: {steps}. A share is time of the main thread; shares of nested code overlap.", file=out)
    places = profile.hot_places()
    if places:
        print("Hot places without a finding:", file=out)
    for place in places:
        name = display_path(place.path) + (f":{place.row}" if place.row else "")
        text = printable(place.text if len(place.text) <= _WIDTH else place.text[: _WIDTH - 1] + "…")
        where = f"{name} in {printable(place.function)}"
        print(f"  {percent(place.fraction):>7}  {duration(place.microseconds):>8}  {where}  {text}".rstrip(), file=out)
