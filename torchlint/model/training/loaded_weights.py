"""Where a program loads the weights of a network."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.dotted import called_name

#: Functions and methods that load weights.
_LOADING = frozenset({"load_from_checkpoint", "load_state_dict", "load_state_dict_from_url"})
#: ... that load weights or anything else: ``torch.load(path)``, ``clip.load(name)``.
_PERHAPS = frozenset({"load"})
#: Arguments that ask a constructor for trained weights: ``resnet50(weights="DEFAULT")``.
_ASKING = frozenset({"pretrained", "weights"})
#: ... and their values if they do not.
_REFUSING = frozenset({"False", "None"})


class LoadedWeights(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._loading: dict[tuple[cst.CSTNode, bool], bool] = {}
        self._making: dict[cst.CSTNode, bool] = {}

    def within(self, node: cst.FunctionDef | cst.Module, *, surely: bool = False) -> bool:
        """Whether code in a function or file loads weights; if not ``surely``, maybe something else."""
        if node not in self._making:
            self._making[node] = any(map(makes_trained, self._tree.calls_in(node)))
        return self._making[node] or self.after_creation(node, surely=surely)

    def after_creation(self, node: cst.FunctionDef | cst.Module, *, surely: bool = False) -> bool:
        """The same for weights that are not loaded by the call that makes the network."""
        key = (node, surely)
        if key not in self._loading:
            names = _LOADING if surely else _LOADING | _PERHAPS
            self._loading[key] = any(called_name(call) in names for call in self._tree.calls_in(node))
        return self._loading[key]


def makes_trained(call: cst.Call) -> bool:
    """Whether ``call`` makes a network with trained weights, as far as its name and arguments say."""
    return called_name(call) == "from_pretrained" or any(
        item.keyword is not None
        and item.keyword.value in _ASKING
        and not (isinstance(item.value, cst.Name) and item.value.value in _REFUSING)
        for item in call.args
    )
