"""Which batches a loader does not pin, as they are objects of a class of the program."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.model.data.datasets import Datasets
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import dotted_name, index_of

#: The ends of names of base classes whose objects a loader pins part by part.
_PINNED = ("Mapping", "dict", "Dict", "Sequence", "list", "List", "tuple", "Tuple", "BatchEncoding", "BatchFeature")
#: Functions that make a sequence of what they are given.
_SEQUENCES = frozenset({"builtins.tuple", "builtins.list"})


class Pinning(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def is_unpinnable(self, loader: Call) -> bool:
        """Whether the batches are objects of a class of the program that a loader does not pin."""
        return any(
            self._forest.definitions.method(item, "pin_memory") is None
            and not any(name.endswith(_PINNED) for name in self._forest.definitions.base_names(item))
            for item in self._batch_classes(loader)
        )

    def _batch_classes(self, loader: Call) -> Iterator[cst.ClassDef]:
        """The classes of the program whose objects the collate function returns, also by ``Batch.of(items)``."""
        for collate in self._forest.fact(Datasets).collates(loader.argument("collate_fn").value):
            if isinstance(collate, cst.Lambda):
                returned: list[cst.BaseExpression | None] = [collate.body]
            else:
                returned = self._forest.definitions.returns(collate)
            for batch in (part for item in returned if item is not None for part in self._with_first(item, collate)):
                value = self._forest.value(batch)
                if isinstance(value.definition, cst.ClassDef) and value.kind is not Kind.CLASS:
                    yield value.definition
                elif not value:
                    yield from self._making_classes(self._forest.values.reaching.assigned(batch) or batch)

    def _with_first(
        self, batch: cst.BaseExpression, collate: cst.FunctionDef | cst.Lambda
    ) -> Iterator[cst.BaseExpression]:
        """A batch, and the first of its parts: images of ``(images, targets)``, or of ``batch[0] = pad(batch[0])``."""
        yield batch
        if isinstance(batch, cst.Call) and self._forest.name_of(batch.func) in _SEQUENCES and len(batch.args) == 1:
            batch = batch.args[0].value
        if isinstance(batch, (cst.Tuple, cst.List)):
            yield from (element.value for element in batch.elements[:1])
        name = dotted_name(batch)
        for statement in self._tree.inside(collate, cst.Assign) if name is not None else ():
            target = statement.targets[0].target
            index = (
                index_of(target) if isinstance(target, cst.Subscript) and dotted_name(target.value) == name else None
            )
            if isinstance(index, cst.Integer) and index.value == "0":
                yield statement.value

    def _making_classes(self, call: cst.BaseExpression) -> Iterator[cst.ClassDef]:
        """The class in which ``call`` runs a method that makes an object of it, or whose objects a function returns."""
        definitions = self._forest.definitions
        for method in definitions.called(call, self._forest.values) if isinstance(call, cst.Call) else ():
            owner = self._tree.class_of(method) if isinstance(method, cst.FunctionDef) else None
            made = definitions.calls_of_class(owner) if owner is not None else ()
            if owner is not None and any(self._tree.within(item, method) for item in made):
                yield owner
            elif owner is None and isinstance(method, cst.FunctionDef):
                yield from self._returned_classes(method)

    def _returned_classes(self, function: cst.FunctionDef) -> Iterator[cst.ClassDef]:
        """The classes of what a function returns, if it is an object each time, or an argument: one that it was."""
        returned = [item for item in self._forest.definitions.returns(function) if not self._is_argument(item)]
        values = [self._forest.value(item) for item in returned]
        classes = [value.definition for value in values if value.kind is not Kind.CLASS]
        found = [item for item in classes if isinstance(item, cst.ClassDef)]
        yield from found if len(found) == len(values) else ()

    def _is_argument(self, node: cst.BaseExpression | None) -> bool:
        reached = self._forest.values.reaching.of(node) if isinstance(node, cst.Name) else ()
        return any(binding.kind is BindingKind.PARAM for binding in reached)
