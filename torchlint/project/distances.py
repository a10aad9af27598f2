"""How far a piece is from the files that are analysed with it: the nearest ones are chosen first."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from torchlint.project.files import Files

#: A piece that is longer, such as the class of a project's options, is as far as one of so many characters.
FAR = 4_000
#: ... and one of these as one of so many: a function that uses a file, in a script or with a backward pass, which tells
#: the device, the loaders and the training step; what calls methods of the files, as a base class or a trainer does.
FAR_CALLING = 1_000


class Distances:
    """Answers for one choice of pieces, for the files ``mains``."""

    def __init__(self, files: Files, mains: Collection[str]) -> None:
        self._files = files
        self._mains = mains

    def of(self, file: str, index: int, text: str, *, is_caller: bool, alike: int) -> int:
        """How much farther a piece with this text is than what leads to it.

        ``alike`` is how many pieces use the same file in the same lines.
        """
        far = min(len(text), FAR)
        if far > FAR_CALLING:
            tells = is_caller and (self._files.is_script(file) or ".backward(" in text)
            if tells or not self._methods.isdisjoint(self._files.members_of(file)[index]):
                far = FAR_CALLING
        return far + alike * FAR

    @cached_property
    def _methods(self) -> frozenset[str]:
        """The methods of the files, by names that methods of libraries do not have."""
        return frozenset().union(*map(self._files.methods_of, self._mains))
