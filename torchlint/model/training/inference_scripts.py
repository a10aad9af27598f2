"""Scripts that only infer, by their names or because they load weights and train nothing."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.dotted import called_name
from torchlint.model.training.function_words import EVALUATING, USING, says_training, words_of
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loaded_weights import LoadedWeights

#: Names of what trains a network: an optimizer, a trainer, a backward pass; and functions that do.
_TRAINER = re.compile("optim|backward|trainer|training", re.IGNORECASE)
_TRAINING = re.compile("_?(train|fit|run_train|do_train)", re.IGNORECASE)


class InferenceScripts(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._called: dict[tuple[cst.CSTNode, frozenset[str]], bool] = {}

    def only_infers(self, root: cst.CSTNode) -> bool:
        """Whether a file is a script for inference by its name, and trains nothing."""
        return self._is_called(root, EVALUATING | USING)

    def only_evaluates(self, root: cst.CSTNode) -> bool:
        """The same by a name such as ``predict.py``; ``search.py`` may train out of sight."""
        return self._is_called(root, EVALUATING)

    def only_runs(self, root: cst.CSTNode) -> bool:
        """Whether a script of any name puts a network into evaluation mode, and names nothing that trains one."""
        words = self._forest.words_of(root)
        if "eval" not in words or any(map(_TRAINER.search, words)) or self._forest.links.is_imported(root):
            return False
        calls = self._forest.tree.calls_in(root)
        return not any(_TRAINING.match(called_name(call)) for call in calls)

    def only_loads(self, root: cst.CSTNode) -> bool:
        """Whether a file loads the weights of a network, and trains nothing."""
        assert isinstance(root, cst.Module)
        loads = self._forest.fact(LoadedWeights).within(root, surely=True)
        return loads and not self._forest.fact(Gradients).trains(root)

    def calls_no_training(self, root: cst.CSTNode) -> bool:
        """Whether a script infers by its name or loads weights, and calls nothing that trains, also by its name.

        Of a class with such a name, ``TrainOptions()``, only an object is made.
        """
        if self._forest.links.is_imported(root) or not (self.only_infers(root) or self.only_loads(root)):
            return False
        names = map(called_name, self._forest.tree.calls_in(root))
        return not any(says_training(words_of(name)) for name in names if not name[:1].isupper())

    def _is_called(self, root: cst.CSTNode, words: frozenset[str]) -> bool:
        if (root, words) not in self._called:
            forest, file = self._forest, self._forest.file_of_root[root]
            speaks = words_of(PurePosixPath(file.place).stem) & words
            is_script = bool(speaks) and not forest.links.is_imported(root)
            self._called[root, words] = is_script and not forest.fact(Gradients).trains(root)
        return self._called[root, words]
