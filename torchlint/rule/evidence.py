"""The measurements of each rule: the user's own, and those in ``evidence.json`` of the rule pack.

``torchlint measure`` writes the first, ``python -m validation.report`` the second.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.measure.figures import interval, metric_change, ratio, release
from torchlint.rule.registry import builtin_folder

if TYPE_CHECKING:
    from torchlint.measure.pairs import Pair
    from torchlint.measure.results import Results

#: Accepted in place of the name of a device.
KINDS = ("GPU", "CPU")


@dataclass(frozen=True)
class Evidence:
    """A rule's before/after pair, measured at one size on one device."""

    device: str
    gpu: bool
    torch: str
    date: str  #: ISO 8601
    size: str  #: of the programs, in words
    verdict: str  #: confirmed, no effect, slower, differs or not measured
    reason: str = ""  #: why there is no figure
    speedup: float | None = None  #: time before over time after
    ci_low: float | None = None  #: its 95 % interval
    ci_high: float | None = None
    change: str = ""  #: "deprecation warnings 9 → 0": the metric of the rule, if it is not time
    stale: bool = False  #: whether the programs have changed since
    own: bool = False  #: whether the user has measured it

    @property
    def where(self) -> str:
        """The device, and whose it is."""
        return f"your {self.device}" if self.own else self.device

    @property
    def figure(self) -> str:
        """``3.4x [3.3, 3.5]``, after the metric of the rule if that is not time, or the metric alone; empty without a
        figure."""
        if self.speedup is None or self.ci_low is None or self.ci_high is None:
            return self.change
        time = f"{ratio(self.speedup)} {interval(self.ci_low, self.ci_high)}"
        return f"{self.change}, time {time}" if self.change else time


def evidence_of(
    name: str, measured: Sequence[Results], pairs: Mapping[str, Pair], *, own: bool = False
) -> Iterator[Evidence]:
    """The measurements of a rule in files of results: in the order of the files, the size of the verdict first."""
    for results in measured:
        result = results.results.get(name)
        if result is None:
            continue
        for one in result.measurements:
            timed = result.times(one)
            yield Evidence(
                device=results.device,
                gpu=results.environment["type"] == "cuda",
                torch=release(result.torch),
                date=result.date,
                size=one.label,
                verdict=one.verdict,
                reason=one.reason,
                speedup=one.speedup if timed else None,
                ci_low=one.ci_low if timed else None,
                ci_high=one.ci_high if timed else None,
                change=metric_change(result.metric, one),
                stale=result.stale(pairs.get(name)),
                own=own,
            )


def measurements(name: str) -> tuple[Evidence, ...]:
    """All that was measured for a rule: the user's own before ours, GPUs first, the size of the verdict first."""
    return (*_own(name), *_shipped().get(name, ()))


def evidence_for(name: str) -> Evidence | None:
    """The main measurement of a rule; None if there is none with a verdict."""
    return conclusive(measurements(name))


def conclusive(measured: Sequence[Evidence]) -> Evidence | None:
    """The first measurement that has a verdict and is of the main size of its device, on a GPU if there is one."""
    known = [one for one in _of_main_size(measured) if one.figure and one.verdict != "not measured"]
    return min(known, key=lambda one: not one.gpu, default=None)


def _of_main_size(measured: Iterable[Evidence]) -> list[Evidence]:
    """The first measurement of each device, those of the user apart from ours."""
    main: dict[tuple[str, bool], Evidence] = {}
    for one in measured:
        main.setdefault((one.device, one.own), one)
    return list(main.values())


def gain(name: str, device: str) -> Evidence | None:
    """The measurement of a rule's gain on ``device``: "GPU", "CPU", or a part of a device's name.

    It is confirmed, not stale, and of the main size. The user's own devices come before ours; of several it is the one
    with the largest gain. None if there is no such measurement.
    """
    main = _of_main_size(one for one in measurements(name) if _is_of(one, device))
    own = [one for one in main if one.own]
    counted = [one for one in own or main if one.verdict == "confirmed" and one.figure and not one.stale]
    return max(counted, key=lambda one: one.ci_low or 0, default=None)


def reaches(name: str, factor: float, device: str) -> bool:
    """Whether a rule was measured to bring at least ``factor`` on ``device``, by the lower end of the interval."""
    measured = gain(name, device)
    return measured is not None and (measured.ci_low or 0) >= factor


def devices() -> tuple[str, ...]:
    """The devices on which something was measured, GPUs first."""
    found = {one.device: one.gpu for one in _everything()}
    return tuple(sorted(found, key=lambda device: (not found[device], device)))


def nothing_on(device: str) -> str:
    """The error message for a ``device`` without figures, with the devices that have some; empty if it has figures."""
    if any(_is_of(one, device) for one in _everything()):
        return ""
    missing = f"a {device.upper()} yet" if device.upper() in KINDS else f"{device!r}"
    there = [kind for kind in KINDS if any(_is_of(one, kind) for one in _everything())]
    *most, last = [*there, *map(repr, devices())] or [""]
    choice = f"`device` may be {', '.join(most)} or {last}" if last else "there are no results at all"
    return f"nothing was measured on {missing}; {choice}"


def _is_of(measured: Evidence, device: str) -> bool:
    if device.upper() in KINDS:
        return measured.gpu is (device.upper() == "GPU")
    return bool(device) and device.lower() in measured.device.lower()


def benchmark(name: str) -> str:
    """A rule's evidence in one line, for display next to a finding: ``3.4x in the example program (NVIDIA H200, ...)``.

    It comes from a GPU. Without one it is empty: a figure from a CPU does not apply to code that runs on a GPU.
    """
    first = evidence_for(name)
    if first is None or not first.gpu:
        return ""
    same = [one for one in measurements(name) if (one.device, one.own) == (first.device, first.own)]
    others = [other for other in same[1:] if other.speedup is not None]
    head, facts = first.change or ratio(first.speedup), [first.where, f"torch {first.torch}"]
    if first.verdict != "confirmed":
        head, facts = first.verdict, [head, *facts]
    parts = [f"{head} in the example program ({', '.join(facts)})"]
    parts += [f"{ratio(other.speedup)} for {other.size}" for other in others]
    if first.stale:
        parts.append("stale: the example program has changed since")
    return "; ".join(parts)


@cache
def _shipped() -> dict[str, tuple[Evidence, ...]]:
    """What the rule pack contains, by name of a rule."""
    path = os.path.join(builtin_folder() or "", "evidence.json")
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {name: tuple(Evidence(**one) for one in entries) for name, entries in json.load(file).items()}


@cache
def _own(name: str) -> tuple[Evidence, ...]:
    """What the user has measured for a rule: what is stale is left out."""
    measured = [results for results in _own_results() if name in results.results]
    if not measured:
        return ()
    from torchlint.measure.pairs import Pair, rule_folder

    folder = rule_folder() / name
    pairs = {name: Pair(name, "rule", folder)} if folder.is_dir() else {}
    return tuple(one for one in evidence_of(name, measured, pairs, own=True) if not one.stale)


@cache
def _own_results() -> tuple[Results, ...]:
    """The user's files of results, GPUs first; those that cannot be read are among the problems."""
    measured = []
    for path in _own_files():
        from torchlint.measure.results import load

        try:
            measured.append(load(path))
        except (ValueError, OSError) as error:
            _problems.append(f"{error}; it is ignored")
    return tuple(sorted(measured, key=lambda results: (results.environment.get("type") != "cuda", results.device)))


def _everything() -> Iterator[Evidence]:
    for name in {**_shipped(), **{name: () for results in _own_results() for name in results.results}}:
        yield from measurements(name)


def own_stamp() -> tuple[tuple[str, int], ...]:
    """What changes when the user has measured again."""
    return tuple((str(path), path.stat().st_mtime_ns) for path in _own_files())


def own_folder() -> Path:
    """The folder of the files with what the user has measured."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "torchlint", "results")


def _own_files() -> list[Path]:
    return [path for path in sorted(own_folder().glob("*.json")) if path.is_file()]


_problems: list[str] = []


def problems() -> tuple[str, ...]:
    """What was met so far in the user's files of results that cannot be read, one line each."""
    return tuple(_problems)
