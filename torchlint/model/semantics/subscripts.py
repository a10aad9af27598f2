"""What an index takes: of batches, tensors, sequences, networks and dicts."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from torchlint.model.semantics.compounds import integer
from torchlint.model.semantics.contents import Contents
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.guesses import Guesses
from torchlint.model.semantics.items import Items
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import LOADER_OR_DATASET, UNKNOWN, Role, Value, join
from torchlint.model.syntax.dotted import dotted_name, index_of, is_read_of_loss

#: What is known of an item of a dict that is filled one by one.
_KEPT_IN_DICTS = (Kind.MODULE, Kind.LOSS, Kind.OPTIMIZER, Kind.LOADER, Kind.FUNCTION, Kind.CLASS)
#: Keys of loaders in a dict that also contains datasets.
_OF_LOADERS = re.compile(r"loader|(^|_)dl(_|$)", re.IGNORECASE)


class Subscripts:
    """Answers for one forest."""

    def __init__(self, values: Evaluator, items: Items, contents: Contents, guesses: Guesses) -> None:
        self._values = values
        self._items = items
        self._contents = contents
        self._guesses = guesses

    def of(self, node: cst.Subscript) -> Value:
        """The value of ``node``."""
        base = self._values.of(node.value)
        if base.kind is Kind.BATCH or (base.kind is Kind.TENSOR and base.role is Role.BATCH):
            return Value(Kind.TENSOR, base.origins, role=Role.BATCH, sure=base.sure)
        if is_read_of_loss(node):
            return Value(Kind.NUMBER)
        if base.kind is Kind.TENSOR:
            return base
        shapes = base.shapes or ((base.elements,) if base.elements else ())
        if shapes and len(node.slice) == 1:
            index = node.slice[0].slice
            position = integer(index.value) if isinstance(index, cst.Index) else None
            if position is not None:
                found = [each[position] for each in shapes if -len(each) <= position < len(each)]
                if found:
                    return join(found)
        if base.kind is Kind.SEQUENCE and base.each is not None:
            index = node.slice[0].slice
            if not isinstance(index, cst.Index):
                return _sliced(base, index)
            if base.each.kind in (Kind.FUNCTION, Kind.CLASS) and self._items.knows(node):
                return self._stored_as(node)
            if base.each.kind is Kind.LOADER:
                if base.each.name == LOADER_OR_DATASET and not self._names_loader(index.value):
                    return self._stored_as(node)
                return self._contents.under(base, node.value, index.value).each or self._stored_as(node)
            # of a dict of different things, such as ``state["loader"]``, nothing is known of each
            return base.each or self._stored_as(node) or self._guesses.of_item(node.value)
        if base.kind is Kind.MODULE:
            return Value(Kind.MODULE, sure=False)
        is_named = isinstance(index_of(node), cst.SimpleString)
        if base.kind is Kind.LOADER and not base.sure and not is_named:  # a list of loaders: a loader has no items
            return base
        if base.kind is Kind.ARRAY:
            return base
        stored = self._stored_as(node)
        if stored.kind in _KEPT_IN_DICTS:
            return stored
        text = dotted_name(node.value)
        if text is not None and any(word in text.lower() for word in ("loader", "dataloader")):
            return Value(Kind.LOADER, sure=False)
        return UNKNOWN

    def _names_loader(self, index: cst.BaseExpression) -> bool:
        key = self._values.of(index).constant
        return isinstance(key, str) and _OF_LOADERS.search(key) is not None

    def _stored_as(self, node: cst.Subscript) -> Value:
        """What a program puts into a dict as the item ``node``."""
        return join([self._values.of(value) for value in self._items.of(node)])


def _sliced(base: Value, node: cst.BaseSlice) -> Value:
    """What ``args[1:]`` has of the elements of a sequence; none of those with bounds that are not literals."""
    given = (node.lower, node.upper, node.step) if isinstance(node, cst.Slice) else (None,) * 3
    bounds = [integer(bound) if bound is not None else None for bound in given]
    if any((bound is None) != (value is None) for bound, value in zip(given, bounds, strict=True)) or 0 in bounds[2:]:
        return replace(base, elements=(), shapes=())
    taken = slice(*bounds)
    return replace(base, elements=base.elements[taken], shapes=tuple(row[taken] for row in base.shapes))
