"""Code that runs after the training or next to it, by the names around it or in evaluation mode."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.training.evaluation import is_of_evaluation
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.mode_switches import ModeSwitches

#: Names of functions and classes that run after the training, or next to it.
_INFERRING = re.compile(
    r"infer|(^|_)test(_|$)|^(validation|predict)_step$|(^|_)generat(e|ion)$|beam|greedy|decoding|post_?proc",
    re.IGNORECASE,
)
#: ... unless they begin by saying that they train, too: `trainval_inference`, `train_greedy`.
_TRAINING = re.compile(r"_*train(?!ed)", re.IGNORECASE)


def is_beside_training(forest: Forest, node: cst.CSTNode) -> bool:
    """Whether ``node`` is not a part of the training, although something that trains may call its function."""
    return _infers(forest, node) or _evaluates(forest, node) or is_of_evaluation(forest, node)


def _infers(forest: Forest, node: cst.CSTNode) -> bool:
    """Whether the name of the function around ``node``, or of its class, says that it does not train."""
    function = forest.function_of(node)
    owner = forest.tree.class_of(function) if function is not None else None
    names = [item.name.value for item in (function, owner) if item is not None]
    return any(_INFERRING.search(name) and not _TRAINING.match(name) for name in names)


def _evaluates(forest: Forest, node: cst.CSTNode) -> bool:
    """Whether the function around ``node`` has switched a network to evaluation mode, and records no gradients."""
    last = forest.fact(ModeSwitches).last_before(node)
    return last is not None and last.evaluation is True and forest.fact(GradModes).of(node).is_off
