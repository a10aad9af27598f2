"""Scripts that only infer, by their names."""

from __future__ import annotations

from pathlib import PurePosixPath

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.training.function_words import EVALUATING, USING, words_of
from torchlint.model.training.gradients import Gradients


class InferenceScripts(ForestFact):
    """Answers for one forest."""

    def __init__(self, module: Forest) -> None:
        self._module = module

    def has(self, root: cst.CSTNode) -> bool:
        """Whether a file is a script for inference by its name, and trains nothing."""
        module, file = self._module, self._module.file_of_root[root]
        speaks = words_of(PurePosixPath(file.place).stem) & (EVALUATING | USING)
        return bool(speaks) and not module.links.is_imported(root) and not module.fact(Gradients).trains(root)
