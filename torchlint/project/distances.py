"""How far a piece is from the files that are analysed with it: the nearest ones are chosen first."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from torchlint.project.files import Files

#: A piece that is longer, such as the class of a project's options, is as far as one of so many characters.
FAR = 4_000
#: ... and a function of a script that uses a file, as one of so many: it tells the device and the loaders.
FAR_SCRIPT = 1_000
#: ... and what calls methods of the files: the base class, or the trainer, that runs them at every step.
FAR_CALLING = 1_000


class Distances:
    """Answers for one choice of pieces, for the files ``mains``."""

    def __init__(self, files: Files, mains: Collection[str]) -> None:
        self._files = files
        self._mains = mains

    def of(self, file: str, index: int, length: int, *, is_caller: bool, alike: int) -> int:
        """How much farther a piece of so many characters is than what leads to it.

        ``alike`` is how many pieces use the same file in the same lines.
        """
        far = min(length, FAR_SCRIPT if is_caller and self._files.is_script(file) else FAR)
        if far > FAR_CALLING and not self._methods.isdisjoint(self._files.members_of(file)[index]):
            far = FAR_CALLING
        return far + alike * FAR

    @cached_property
    def _methods(self) -> frozenset[str]:
        """The methods of the files, by names that methods of libraries do not have."""
        return frozenset().union(*map(self._files.methods_of, self._mains))
