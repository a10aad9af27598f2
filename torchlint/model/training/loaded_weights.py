"""Where a program loads the weights of a network."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.dotted import called_name

#: Functions and methods that load weights.
_LOADING = frozenset({"from_pretrained", "load_from_checkpoint", "load_state_dict", "load_state_dict_from_url"})
#: One that loads weights or anything else: ``torch.load(path)``, ``clip.load(name)``.
_PERHAPS = "load"
#: Arguments that ask a constructor for trained weights: ``resnet50(weights="DEFAULT")``.
_ASKING = frozenset({"pretrained", "weights"})
#: ... and their values if they do not.
_REFUSING = frozenset({"False", "None"})


class LoadedWeights(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._known: dict[tuple[cst.CSTNode, bool], bool] = {}

    def within(self, node: cst.FunctionDef | cst.Module, *, surely: bool = False) -> bool:
        """Whether code in a function or file loads weights; if not ``surely``, maybe something else."""
        key = (node, surely)
        if key not in self._known:
            calls = self._tree.calls_in(node)
            self._known[key] = any(_loads(call) or (not surely and called_name(call) == _PERHAPS) for call in calls)
        return self._known[key]


def _loads(call: cst.Call) -> bool:
    return called_name(call) in _LOADING or any(
        item.keyword is not None
        and item.keyword.value in _ASKING
        and not (isinstance(item.value, cst.Name) and item.value.value in _REFUSING)
        for item in call.args
    )
