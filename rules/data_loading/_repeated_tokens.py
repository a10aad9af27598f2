"""Texts that the training process tokenizes again at every epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.data.loaders import Loaders
from torchlint.model.module import Module
from torchlint.model.program.configuration import Configuration
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import called_name
from torchlint.model.tensors.devices import Devices
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import LoopKind, Loops

from ._kinds import TokenizedIn
from ._tokenizing import Tokenizing

#: Words of a place whose texts differ from epoch to epoch, or are made by a network.
_CHANGES = re.compile(
    r"random|choice|shuffl|augment|perturb|dropout|generate\(|decode\(|sample\(|noise|(image|video)s?\b|pixel"
)
_ENCODES = frozenset({"encode", "encode_plus", "batch_encode_plus", "tokenize", "__call__"})


@dataclass(frozen=True, eq=False)
class RepeatedTokens:
    """A call that tokenizes texts of the training data."""

    call: cst.Call
    place: TokenizedIn


def repeated_tokens(module: Module) -> Iterator[RepeatedTokens]:
    """The calls of the file that tokenize in the training process, at every epoch; in order."""
    tokenizing = module.fact(Tokenizing)
    seen: set[cst.CSTNode | None] = set()
    for call in module.tree.calls_in(module.root):
        if not _encodes(call) or not tokenizing.is_tokenizer(call):
            continue
        if not _repeats_epochs(module):
            return
        if module.definitions.called(call, module.values):
            continue  # a function of the program, in which a tokenizer is called
        place, home = tokenizing.place(call), module.function_of(call)
        if place not in (TokenizedIn.STEP, TokenizedIn.COLLATE, TokenizedIn.ITEM) or home in seen:
            continue
        if not _takes_texts(module, call) or _changes(module, call, place):
            continue
        if place is not TokenizedIn.STEP and not _in_training_process(module):
            continue
        seen.add(home)
        yield RepeatedTokens(call, place)


def _repeats_epochs(module: Module) -> bool:
    """Whether a program trains for several epochs, as far as a loop shows."""
    if not (module.fact(Devices).uses_cuda or module.fact(Devices).uses_trainer):
        return False
    return any(
        loop.kind is LoopKind.EPOCH and module.fact(Gradients).trains(loop.node) for loop in module.fact(Loops).all()
    )


def _encodes(call: cst.Call) -> bool:
    """``tokenizer(texts)``, ``tokenizer.encode(text)``; not ``tokenizer.pad(...)``."""
    if isinstance(call.func, cst.Attribute) and "tokeni" not in call.func.attr.value.lower():
        return called_name(call) in _ENCODES
    return "from_pretrained" not in called_name(call)


def _takes_texts(module: Module, call: cst.Call) -> bool:
    """Whether the first argument is computed from local values, and is not a prompt or a separator."""
    given = next((item.value for item in call.args if not item.star), None)
    if given is None or isinstance(given, (cst.SimpleString, cst.FormattedString)):
        return False
    if keyword(call, "images", "image", "audio") is not None:
        return False
    names = module.tree.names_in(given)
    if any(isinstance(node, cst.Subscript) for node in module.tree.nodes_in(given)):
        return True
    return bool(names - {"self"}) and not isinstance(given, cst.Attribute)


def _changes(module: Module, call: cst.Call, place: TokenizedIn) -> bool:
    """Whether the texts may be other ones at the next epoch."""
    loop = module.fact(Loops).hot(call) if place is TokenizedIn.STEP else None
    scope = loop.node if loop is not None else module.function_of(call)
    return scope is None or _CHANGES.search(module.code(scope)) is not None


def _in_training_process(module: Module) -> bool:
    """Whether no loader of the program has worker processes."""
    loaders = module.fact(Loaders).calls
    return bool(loaders) and all(
        (workers := call.argument("num_workers")).absent
        or module.fact(Configuration).written_as(workers.value, "0") is not None
        for call in loaders
    )
