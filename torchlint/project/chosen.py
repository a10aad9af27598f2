"""A choice of pieces that was made, and whether the same pieces would be chosen after a change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from torchlint.project.base_classes import base_classes
from torchlint.project.bound_modules import DICT
from torchlint.project.choice import Choice
from torchlint.project.files import Files, repeated
from torchlint.project.imports import DefinitionKind, Import


class Chosen:
    """The pieces that some files are analysed with, and what the choice depends on."""

    def __init__(self, files: Files, mains: Sequence[str]) -> None:
        choice = Choice(files, mains)
        self.pieces = choice.run()  #: by other files the indices of those that were chosen
        self.looked_at = choice.looked_at
        self._files = files
        self._mains = frozenset(mains)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names that the words of a file may lead to: no other word chooses anything."""
        found: set[str] = set()
        for file in self.looked_at:
            facts = self._files.facts_of(file)
            found.update(facts.bindings, self._files.exported(file) or ())
            for item in facts.imports:
                found.update((item.bound, item.module.rpartition(".")[2]))
        return frozenset(found)

    @cached_property
    def _taken(self) -> dict[str, object]:
        return {main: _taken_from(self._files, main, self._names) for main in self._mains}

    def is_valid(self, files: Files, changed: Collection[str]) -> bool:
        """Whether it is the same with other texts of some files, which import each other as before."""
        concerned = self.looked_at.intersection(changed)
        return concerned <= self._mains and all(
            _taken_from(files, main, self._names) == self._taken[main] for main in concerned
        )


def _taken_from(files: Files, main: str, names: frozenset[str]) -> object:
    """What a choice takes from a file of which it chooses no piece, as all are analysed.

    It does not matter where its statements are, nor what is in its functions, except for imports and ``names``.
    """
    facts = files.facts_of(main)
    return (
        {name: [(item.kind, _parts(item.imported)) for item in bound] for name, bound in facts.bindings.items()},
        [*map(_parts, facts.imports)],
        [*map(_parts, facts.stars)],
        frozenset().union(*files.words_of(main)) & names,
        repeated(files.words_of(main)) & names,
        frozenset().union(*files.members_of(main)) & names,
        dict(_dicts(files, main)),
        facts.uses.keys(),
        facts.runs,
        files.exported(main),
        files.picked_from(main),
        files.methods_of(main),
        base_classes(files.text_of(main) or "") & names,
    )


def _parts(item: Import | None) -> object:
    """An import, wherever it is."""
    return item and (item.bound, item.module, item.name, item.conditional, item.type_checking, item.in_function)


def _dicts(files: Files, main: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The names that are assigned a dict, each with the names of the top level in that statement."""
    facts, text = files.facts_of(main), files.text_of(main) or ""
    for name, bound in facts.bindings.items():
        if len(bound) == 1 and bound[0].kind is DefinitionKind.ASSIGNMENT:
            index = facts.pieces.index_at(bound[0].row)
            if DICT.match(text, facts.pieces.starts[index]):
                yield name, files.words_of(main)[index] & facts.bindings.keys()
