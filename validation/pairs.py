"""What is measured here: the pairs in ``fixtures/`` and the whole programs in ``validation/programs/``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchlint.measure.pairs import Pair, pairs_in

ROOT = Path(__file__).resolve().parent.parent

#: Programs that are measured against themselves as well, to show what the method finds where nothing differs: one bound
#: by the host's launches, one by the device, one by loader workers.
CONTROLS = ("no-grad-inference", "missing-eval", "respawned-workers")


def find_pairs(root: Path = ROOT) -> list[Pair]:
    """All pairs below a checkout's root, rules first, each group by name.

    Raises ValueError, naming the file, for a program whose constants or expectations cannot be read.
    """
    return pairs_in(root / "fixtures", "rule") + pairs_in(root / "validation" / "programs", "program")


def controls(pairs: Sequence[Pair]) -> list[Pair]:
    """The before-programs of `CONTROLS` against themselves, at their main sizes."""
    found = []
    for pair in pairs:
        if pair.name in CONTROLS:
            sizes = {device: dict(list(sizes.items())[:1]) for device, sizes in pair.sizes.items()}
            name = f"{pair.name} against itself"
            found.append(Pair(name, "control", pair.folder, sizes=sizes, sides=("before", "before")))
    return found
