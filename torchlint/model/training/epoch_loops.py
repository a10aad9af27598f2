"""Loops whose iterations are epochs, and those that take the next batch."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.forest import ForestFact
from torchlint.model.syntax.dotted import called_name, dotted_name
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.loops import Loops, is_batch

#: Names that count epochs.
_EPOCHS = re.compile(r"(?<!per_)(?<!per)epoch|^ep$", re.IGNORECASE)
#: ... over the same few samples again: each is a step.
_AGAIN = re.compile(r"(mini|ppo|update|optim\w*|inner|policy|(^|_)k)_?epoch", re.IGNORECASE)
#: Names that count the steps of an epoch: ``epoch_iters``, ``steps_per_epoch``, ``updates_on_epoch``, ``len_epoch``.
_STEPS_OF_EPOCH = re.compile(
    r"epoch_?(iter|step|batch|len|size)|"
    r"(iter|iteration|step|update|batch|batche|len|length|size)s?_?(in_|on_|each_|every_|of_|per_?)?epoch",
    re.IGNORECASE,
)
#: Methods that iterate over the parts of a network: ``next(model.parameters()).device``.
_PARTS_OF_NETWORKS = frozenset({"parameters", "buffers", "modules", "children"})


class EpochLoops(ForestFact):
    """Answers for one forest."""

    def is_epoch(self, loop: cst.For | cst.While) -> bool:
        """Whether one step is one epoch: reads once per epoch are ignored."""
        if not isinstance(loop, cst.For) or is_batch(self._forest.fact(Loops).of(loop).over):
            return False
        if not any(map(_names_epoch, self._forest.tree.names_in(loop.target))):
            if not isinstance(loop.iter, cst.Call) or not (dotted_name(loop.iter.func) or "").endswith("range"):
                return False
            names = [
                node.value if isinstance(node, cst.Name) else node.attr.value
                for item in loop.iter.args
                if item.keyword is None
                for node in self._forest.tree.nodes_in(item.value)
                if isinstance(node, (cst.Name, cst.Attribute))
            ]
            if not any(_names_epoch(name) for name in names) or any(map(_STEPS_OF_EPOCH.search, names)):
                return False
        return not self.takes_batch(loop)

    def takes_batch(self, loop: cst.For | cst.While) -> bool:
        """Whether every iteration of a loop takes the next item of an iterator."""
        return any(
            self._forest.name_of(call.func) == "builtins.next"
            and not _takes_part_of_network(call)
            and [item.node for item in self._forest.fact(Loops).around(call)[:1]] == [loop]
            and self._forest.fact(Iterations).at_every_iteration(call, loop)
            for call in self._forest.tree.calls_in(loop.body)
        )


def _takes_part_of_network(call: cst.Call) -> bool:
    """``next(model.parameters())``."""
    over = call.args[0].value if call.args else None
    return isinstance(over, cst.Call) and called_name(over) in _PARTS_OF_NETWORKS


def is_given_epochs(function: cst.FunctionDef) -> bool:
    """Whether a parameter of ``function`` counts epochs, of any kind, by its name."""
    return any(_EPOCHS.search(param.name.value) for param in function.params.params)


def _names_epoch(name: str) -> bool:
    """Whether ``name`` counts epochs, and not the steps of one."""
    return bool(_EPOCHS.search(name)) and not _AGAIN.search(name) and not _STEPS_OF_EPOCH.search(name)
