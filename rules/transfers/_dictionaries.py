"""Dictionaries that the program writes as such, such as those of losses and of what is logged: what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import index_of
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import unpacked

from ._exits import leaves_device


class Dictionaries:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._entries: dict[
            tuple[cst.BaseExpression, tuple[int, ...], int], tuple[tuple[str | None, cst.BaseExpression], ...]
        ] = {}

    def entries(
        self, node: cst.BaseExpression | None, path: tuple[int, ...], depth: int
    ) -> tuple[tuple[str | None, cst.BaseExpression], ...]:
        """The keys and values of a dictionary that the program writes as such, unless it reads some of them later.

        ``path`` says which element of ``node`` is the dictionary, ``depth`` how far it is followed.
        """
        if node is None or depth <= 0:
            return ()
        known = self._entries.get((node, path, depth))
        if known is None:
            known = self._entries[node, path, depth] = tuple(dict.fromkeys(self._find_entries(node, path, depth)))
        return known

    def _find_entries(
        self, node: cst.BaseExpression, path: tuple[int, ...], depth: int
    ) -> Iterator[tuple[str | None, cst.BaseExpression]]:
        found = unpacked(node, path)
        if isinstance(found, cst.Dict):
            yield from (
                (self._key(item.key), item.value) for item in found.elements if isinstance(item, cst.DictElement)
            )
        elif isinstance(found, cst.Call) and self._module.name_of(found.func) == "builtins.dict":
            yield from ((item.keyword.value, item.value) for item in found.args if item.keyword is not None)
        elif isinstance(node, cst.Call):
            for item in self.returned(node):
                yield from self.entries(item, path, depth - 1)
        elif isinstance(found, cst.Name):
            stored = self._stored_in(found)
            if any(value is None or leaves_device(self._module, value) for _, value in stored):
                return
            yield from ((key, value) for key, value in stored if value is not None)
            for binding in self._module.values.reaching.of(found):
                if binding.kind is BindingKind.ASSIGN:
                    yield from self.entries(binding.value, binding.path, depth - 1)
                elif isinstance(binding.node, cst.Param):
                    for given in self._given(binding.node):
                        yield from self.entries(given, (), depth - 1)

    def key_in(self, node: cst.Subscript) -> str | None:
        """The text of the key of an item, if that is a literal."""
        return self._key(index_of(node))

    def returned(self, call: cst.Call) -> list[cst.BaseExpression | None]:
        """What the functions of the program that ``call`` runs return; None for a bare ``return``."""
        functions = self._module.fact(Dispatch).run(call)
        return [item for function in functions for item in self._module.definitions.returns(function)]

    def _given(self, param: cst.Param) -> list[cst.BaseExpression]:
        """What the callers of a function pass for a parameter."""
        function = owner_of(self._tree, param)
        return self._module.fact(Dispatch).arguments_for(function, param) if function is not None else []

    def _stored_in(self, name: cst.Name) -> list[tuple[str | None, cst.BaseExpression | None]]:
        """What the function around a use of a dictionary stores in it before: ``losses["box"] = box_loss``."""
        return [
            (self.key_in(target), value)
            for target, value, statement in self._stores.get((name.value, self._module.function_of(name)), ())
            if value is None or leaves_device(self._module, value) or self._tree.dominates(statement, name)
        ]

    @cached_property
    def _stores(
        self,
    ) -> dict[tuple[str, cst.FunctionDef | None], list[tuple[cst.Subscript, cst.BaseExpression | None, cst.CSTNode]]]:
        """The items that a function stores in a variable."""
        found: dict[
            tuple[str, cst.FunctionDef | None], list[tuple[cst.Subscript, cst.BaseExpression | None, cst.CSTNode]]
        ] = {}
        for target, value, statement in self._tree.stores:
            if isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
                place = (target.value.value, self._module.function_of(statement))
                found.setdefault(place, []).append((target, value, statement))
        return found

    def _key(self, node: cst.BaseExpression | None) -> str | None:
        """The text of a key that is a literal."""
        return node.raw_value if isinstance(node, cst.SimpleString) else None
