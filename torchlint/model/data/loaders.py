"""The calls that make loaders: of ``DataLoader``, of classes that derive from it, and of their base's constructor."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import DATA_LOADER
from torchlint.model.syntax.calls import Call, is_super_call, keywords_of
from torchlint.model.syntax.signatures import SIGNATURES

#: What a derived class may pass by itself: nothing that says how items are loaded.
_OWN = frozenset({"collate_fn", "worker_init_fn"})
#: What the branches of a constructor must have in common: otherwise the program chooses how to load.
_OF_LOADING = ("num_workers", "pin_memory", "persistent_workers")
T = TypeVar("T")


class Loaders(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._passes_on: dict[cst.CSTNode, bool] = {}
        self._base_calls: dict[cst.ClassDef, list[Call]] = {}

    @cached_property
    def calls(self) -> list[Call]:
        """The calls that make loaders, in order, with the parameters of ``DataLoader``."""
        found = [*self._forest.calls(DATA_LOADER)]
        for made in self._constructor_calls:
            derived = self.of(made)
            if derived is not None and derived.is_of_derived_class:
                found.append(derived)
        found += self.made_by
        chosen = (node for node in self._tree.calls if isinstance(node.func, cst.Name))
        found += filter(None, (self.of(node) for node in chosen if self._is_chosen(node)))
        return sorted(found, key=lambda call: self._tree.index(call.node))

    @cached_property
    def made_by(self) -> dict[Call, list[cst.Call]]:
        """By call of ``super().__init__`` in a class of loaders the calls that make its objects."""
        found: dict[Call, list[cst.Call]] = {}
        for made in self._constructor_calls:
            for loader in self.all_of(made):
                if loader.node is not made:
                    found.setdefault(loader, []).append(made)
        return found

    def with_base_calls(self, found: dict[cst.CSTNode, list[T]]) -> dict[cst.CSTNode, list[T]]:
        """``found`` with what is known of the objects of a class for the call of ``super().__init__`` in it as well."""
        for loader, made in self.made_by.items():
            found[loader.node] = list(dict.fromkeys(item for call in made for item in found.get(call, ())))
        return found

    @cached_property
    def _constructor_calls(self) -> list[cst.Call]:
        """The calls of classes of loaders, and those of factories of their objects."""
        if not self._derived:
            return []
        named = [call.node for call in self._forest.constructor_calls(DATA_LOADER)]
        return [*dict.fromkeys((*named, *self._forest.definitions.registries.factory_calls))]

    def creating_calls(self, loader: Call) -> list[Call]:
        """The calls that create the objects of ``loader``: itself, or those of the class whose constructor it is in."""
        made = self.made_by.get(loader)
        if made is None:
            return [loader]
        return [Call(node, DATA_LOADER, self._forest.keywords, is_of_derived_class=True) for node in made]

    def within(self, root: cst.CSTNode) -> list[Call]:
        """The calls that make loaders in one file, given by its root."""
        return [call for call in self.calls if self._tree.root_of(call.node) is root]

    def of(self, node: cst.Call) -> Call | None:
        """``node``, which makes a loader, as a call of ``DataLoader``; None if there is none, or several (`all_of`)."""
        found = self.all_of(node)
        return found[0] if len(found) == 1 else None

    def all_of(self, node: cst.Call) -> list[Call]:
        """The calls of ``DataLoader``, or of its constructor, by one of which ``node`` makes a loader.

        Where its class chooses the arguments, they are the calls of ``super().__init__`` that pass them: several if
        the class has branches, or ``node`` makes an object of one of several classes. None if a class does more.
        """
        if self._forest.name_of(node.func) == DATA_LOADER:
            return [self._forest.call(node, DATA_LOADER)]
        classes = self._classes_of(node)
        if not classes:
            return [self._forest.call(node, DATA_LOADER)] if self._is_chosen(node) else []
        if all(map(self._is_transparent, classes)):
            return [Call(node, DATA_LOADER, self._forest.keywords, is_of_derived_class=True)]
        above = [self._base_calls_of(item) for item in classes]
        return [*{call.node: call for calls in above for call in calls}.values()] if all(above) else []

    def restarts_workers(self, loader: Call) -> bool:
        """Whether the workers of a loader exit after each pass, as the class of the loader does not keep them."""
        return all(
            self._iterates_alike(item)
            for made in self._classes_of(loader.node)
            for item in self._forest.definitions.lineage(made)
        )

    def _is_chosen(self, node: cst.Call) -> bool:
        """Whether ``node`` calls a variable that is one of several classes of loaders."""
        return self._forest.name_of(node.func) is None and self._forest.definitions.makes_loader(node)

    def _classes_of(self, node: cst.Call) -> list[cst.ClassDef]:
        """The classes of the program that ``node`` makes an object of; empty if it may do anything else.

        Of a factory that takes them from a module by name, ``config.init_obj("loader", loaders)``, those of loaders.
        """
        definitions = self._forest.definitions
        if node in definitions.registries.factory_calls:
            return [item for item in definitions.registries.factory_calls[node] if item in self._derived]
        made = definitions.called(node, self._forest.values)
        if self._is_chosen(node):
            made = [found for item in definitions.choices(node.func) for found in definitions.named(item)]
        classes = [item for item in made if isinstance(item, cst.ClassDef)]
        return classes if len(classes) == len(made) else []

    def _base_calls_of(self, definition: cst.ClassDef) -> list[Call]:
        """The calls in a class, or in one that it derives from, by one of which ``DataLoader`` gets its arguments."""
        if definition not in self._base_calls:
            self._base_calls[definition] = []
            if definition in self._derived:
                self._base_calls[definition] = self._find_base_calls(definition)
        return self._base_calls[definition]

    def _find_base_calls(self, definition: cst.ClassDef) -> list[Call]:
        lineage = self._forest.definitions.lineage(definition)
        if not all(map(self._iterates_alike, lineage)):
            return []
        choosing = [item for item in lineage if not self._passes_arguments_on(item)]
        if not choosing or DATA_LOADER not in self._forest.definitions.base_names(choosing[-1]):
            return []
        last = choosing[-1]
        if last is not definition:
            return self._base_calls_of(last)
        constructor = self._tree.own_method(last, "__init__")
        above = [] if constructor is None else self._constructions(constructor)
        ways = {tuple(self._option(node, name) for name in _OF_LOADING) for node in above}
        return [Call(node, DATA_LOADER, self._forest.keywords) for node in above] if len(ways) == 1 else []

    def _option(self, node: cst.Call, name: str) -> str | None:
        given = keywords_of(node).get(name)
        return None if given is None else self._forest.code(given)

    def _constructions(self, constructor: cst.FunctionDef) -> list[cst.Call]:
        return [call for call in self._tree.calls_in(constructor.body) if is_super_call(call, "__init__")]

    @cached_property
    def _derived(self) -> list[cst.ClassDef]:
        return [item for item in self._tree.classes if DATA_LOADER in self._forest.definitions.base_names(item)]

    def _is_transparent(self, definition: cst.ClassDef) -> bool:
        """Whether objects of a class load as a ``DataLoader`` with the same arguments does."""
        known = self._passes_on.get(definition)
        if known is None:
            known = self._passes_on[definition] = definition in self._derived and all(
                self._passes_arguments_on(item) and (self._iterates_alike(item) or self._yields_batches(item))
                for item in self._forest.definitions.lineage(definition)
            )
        return known

    def _passes_arguments_on(self, definition: cst.ClassDef) -> bool:
        """Whether the constructor of a class, if it has one, gives its arguments to that of its base.

        Options of its own, ``*args, frames=1, **kwargs``, do not matter unless they are named as those of the base. The
        first parameters may be those of the base: ``dataset, *args, **kwargs``.
        """
        constructor = self._tree.own_method(definition, "__init__")
        if constructor is None:
            return "__init__" not in self._tree.scopes[definition].bindings
        params = constructor.params
        first = [item.name.value for item in params.params[1:] if item.default is None]
        stars = [item.name.value for item in (params.star_arg, params.star_kwarg) if isinstance(item, cst.Param)]
        if params.star_kwarg is None or params.posonly_params or len(params.params) != len(first) + 1:
            return False
        if tuple(first) != SIGNATURES[DATA_LOADER][: len(first)] or (not first and len(stars) != 2):
            return False
        if any(item.name.value in SIGNATURES[DATA_LOADER] for item in params.kwonly_params):
            return False
        above = self._constructions(constructor)
        changed = (
            isinstance(node, cst.Name) and node.value in stars and self._tree.last(node) < self._tree.index(above[0])
            for node in self._tree.nodes_in(constructor.body)
        )  # `kwargs.setdefault("pin_memory", True)` before the base gets them
        return len(above) == 1 and self._takes_all(above[0], first, stars) and not any(changed)

    def _takes_all(self, call: cst.Call, first: list[str], stars: list[str]) -> bool:
        """Whether ``call`` passes the parameters ``first``, then ``stars``, and nothing that says how to load."""
        others = keywords_of(call)
        passed = [item for item in call.args if item.keyword is None]
        names = [item.value.value if isinstance(item.value, cst.Name) else "" for item in passed]
        named = [name for name, value in others.items() if isinstance(value, cst.Name) and value.value == name]
        positional = [name for item, name in zip(passed, names, strict=True) if not item.star]
        return (
            all(name in stars for item, name in zip(passed, names, strict=True) if item.star)
            and positional == first[: len(positional)]
            and all(name in named for name in first[len(positional) :])
            and all(name in _OWN or name in first for name in others)
        )

    def _iterates_alike(self, definition: cst.ClassDef) -> bool:
        """Whether a class takes the batches as its base gives them: ``return Background(super().__iter__())``."""
        if "__iter__" not in self._tree.scopes[definition].bindings:
            return True
        method = self._tree.own_method(definition, "__iter__")
        if method is None or self._forest.definitions.yields(method):
            return False
        returned = self._forest.definitions.returns(method)
        return len(returned) == 1 and any(
            isinstance(returned[0], cst.Call) and is_super_call(call, "__iter__")
            for call in self._tree.calls_in(method.body)
            if self._tree.parent(self._tree.parent(call) or call) is returned[0]
        )

    def _yields_batches(self, definition: cst.ClassDef) -> bool:
        """Whether a class yields the batches of an iterator that it keeps: ``yield next(self.iterator)``."""
        method = self._tree.own_method(definition, "__iter__")
        yielded = self._forest.definitions.yields(method) if method is not None else []
        return bool(yielded) and all(
            isinstance(item, cst.Call) and self._forest.name_of(item.func) == "builtins.next" for item in yielded
        )
