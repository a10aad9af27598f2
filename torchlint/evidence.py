"""What the validation suite measured for a rule, if it did."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import cache

from torchlint.registry import BUILTIN_PACK


@dataclass(frozen=True)
class Evidence:
    """The speed-up of a rule's before/after pair, with its 95 % interval."""

    speedup: float
    ci_low: float
    ci_high: float
    device: str
    torch: str
    scope: str = ""  #: where it does not hold

    def __str__(self) -> str:
        scope = f"; {self.scope}" if self.scope else ""
        interval = f"[{_short(self.ci_low)}, {_short(self.ci_high)}]"
        return f"{_short(self.speedup)}x {interval}, {self.device}, torch {self.torch}{scope}"


def _short(ratio: float) -> str:
    """Two decimals where they tell a gain from none, fewer above."""
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"


def evidence_for(code: str) -> Evidence | None:
    """The evidence for a rule, None if it was not measured."""
    return _evidence().get(code)


@cache
def _evidence() -> dict[str, Evidence]:
    pack = sys.modules.get(BUILTIN_PACK)
    for folder in getattr(pack, "__path__", ()):
        path = os.path.join(folder, "evidence.json")
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return {code: Evidence(**entry) for code, entry in json.load(file).items()}
    return {}
