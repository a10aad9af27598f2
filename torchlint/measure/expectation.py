"""What each pair is expected to show on one NVIDIA H200, written before it is measured there.

The expectations are in the programs' docstrings, with the reasoning, and are compared with the measurement in
``docs/evidence.md``. They also say how long a pair takes, so that a campaign can tell what fits into its time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

DEVICE = "NVIDIA H200"  #: the device of the expectations

HEADING = "Expected on an NVIDIA H200:"
ENTRY = re.compile(
    r"- (?P<label>.+?): (?P<low>[\d.]+)x to (?P<high>[\d.]+)x; (?P<run>[\d.]+) (?P<unit>ms|s) a run, "
    r"(?P<start>[\d.]+) s to start\. (?P<reason>.+)"
)


@dataclass(frozen=True)
class Expectation:
    """The speed-up at one size, and the duration of the programs."""

    low: float  #: time before over time after
    high: float
    run_s: float  #: seconds of one run of the before-program
    start_s: float  #: seconds of preparation and first run of the slower side, including compilation
    reason: str

    def sampling_s(self, samples: int, shortest_s: float) -> float:
        """Seconds for so many samples of both sides, each of at least `shortest_s`."""
        after = self.run_s / math.sqrt(self.low * self.high)
        return samples * (max(self.run_s, shortest_s) + max(after, shortest_s))


def expectations(docstring: str, labels: Sequence[str]) -> dict[str, Expectation]:
    """The expectations in a program's docstring, by the label of the size.

    Raises ValueError if an entry cannot be read, or if they are not about just these sizes.
    """
    _, _, section = docstring.partition(HEADING)
    found = {}
    for entry in re.split(r"\n(?=- )", section.strip()) if section.strip() else ():
        text = " ".join(entry.split())
        match = ENTRY.fullmatch(text)
        if match is None:
            raise ValueError(f"an expectation must read `- SIZE: 1.1x to 1.4x; 90 ms a run, 5 s to start. WHY`: {text}")
        scale = {"s": 1.0, "ms": 1e-3}[match["unit"]]
        low, high, run, start = (float(match[name]) for name in ("low", "high", "run", "start"))
        if not 0 < low <= high:
            raise ValueError(f"an expectation must give the smaller speed-up first: {text}")
        found[match["label"]] = Expectation(low, high, scale * run, start, match["reason"])
    if section and set(found) != set(labels):
        raise ValueError(f"the expectations are for {sorted(found)}, but the CUDA sizes are {sorted(labels)}")
    return found
