"""A forest seen from one of its files: what rules ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import libcst as cst

from torchlint.model.forest import Forest, ForestFact, ForestFile
from torchlint.model.semantics.knowledge import TORCH_LIBRARIES
from torchlint.model.syntax.calls import Call, method_calls
from torchlint.model.syntax.pieces import parse_pieces
from torchlint.model.syntax.scopes import Binding, Scope

if TYPE_CHECKING:
    from torchlint.model.option import Option

_Fact = TypeVar("_Fact")


class Module(Forest):
    """One file of a forest, and the questions that rules put to it.

    Names, values and calls are those of the whole forest; offsets count through its text.
    """

    def __init__(
        self,
        forest: Forest,
        place: str,
        options: Mapping[str, Mapping[str, Option]] | None = None,
        target_torch: tuple[int, int] | None = None,
    ) -> None:
        """``place`` is that of a file that is part of the forest as a whole."""
        vars(self).update(vars(forest))  # one forest, seen from many files
        self.forest = forest
        self.file = file = forest.whole(place)
        self.target_torch = target_torch
        self._options = options or {}
        self._own_facts: dict[object, Any] = {}
        #: whether another file of the project may take a name from the top level of the file
        self.is_taken: Callable[[str], bool] = lambda name: False
        #: whether something in the project may use a function or class of the top level of the file
        self.is_used: Callable[[str], bool] = lambda name: True
        #: whether something in the project may call the methods of this name of the classes of the file
        self.is_called: Callable[[str], bool] = lambda name: True
        #: ... and do so with gradients disabled, as far as other files show it
        self.is_called_without_gradients: Callable[[str], bool] = lambda name: False
        index = self.files.index(file)
        self.root = self.tree.roots[index]
        self._first, self._last = self.tree.index(self.root), self.tree.last(self.root)
        #: the offsets of the file's first character and of its end
        self.begin, self.end = self.bases[index], self.bases[index] + len(file.text)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        path: str = "",
        place: str | None = None,
        options: Mapping[str, Mapping[str, Option]] | None = None,
        target_torch: tuple[int, int] | None = None,
        in_package: bool = False,
    ) -> Module:
        """A file by itself, at a ``place`` in its project. Raises ParseError, and RecursionError for deep trees.

        A file ``in_package`` may be imported by code out of sight.
        """
        file = ForestFile(path, path if place is None else place, text, parse_pieces(text), in_package=in_package)
        return cls(Forest([file]), file.place, options, target_torch)

    def fact(self, kind: Callable[[Any], _Fact]) -> _Fact:
        """The fact of this class, about the forest or about the file; made when it is first asked for."""
        found: Any
        if isinstance(kind, type) and issubclass(kind, ForestFact):
            found = self.forest.fact(kind)
        elif kind in self._own_facts:
            found = self._own_facts[kind]
        else:
            make: Callable[[Any], Any] = kind
            found = self._own_facts[kind] = make(self)
        return found  # type: ignore[no-any-return]

    def release(self) -> None:
        """Give up what is known of the file; the forest stays."""
        for part in (*self._own_facts.values(), self):
            vars(part).clear()

    # -- the file

    @property
    def own_text(self) -> str:
        """The text of the file."""
        return self.file.text

    @property
    def path(self) -> str:
        """The path of the file, as the user gave it."""
        return self.file.path

    @property
    def scope(self) -> Scope:
        """What the top level of the file binds."""
        return self.tree.scopes[self.root]

    def is_own(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in the file."""
        return self._first <= self.tree.index(node) <= self._last

    @cached_property
    def related(self) -> frozenset[cst.CSTNode]:
        """The roots of the file, of the files it imports, and of the files that import it, directly or not.

        Words of the others say nothing about this file: two modules of a program that do not know each other. What
        statements set for the whole process counts in all of `Links.program`.
        """
        return self.links.related(self.root)

    @cached_property
    def imported_names(self) -> frozenset[str]:
        """Dotted names of everything that the file and its related files import, at any place."""
        return frozenset().union(*map(self.imported_by, self.related))

    def calls(self, *names: str) -> Iterator[Call]:
        """The calls of these canonical dotted names in the file and its related files, in order."""
        return (call for call in super().calls(*names) if self.tree.root_of(call.node) in self.related)

    def methods(self, *names: str) -> Iterator[Call]:
        """The calls ``<anything>.name(...)`` in the file and its related files, in order."""
        return (call for call in super().methods(*names) if self.tree.root_of(call.node) in self.related)

    def own_calls(self, *names: str) -> Iterator[Call]:
        """The calls of these canonical names in the file: the places where a rule may report something."""
        return self.calls_in(self.root, *names)

    def own_methods(self, *names: str) -> Iterator[Call]:
        """The calls ``<anything>.name(...)`` in the file: the places where a rule may report something."""
        return method_calls(self.tree.calls_named(*names, inside=self.root), self.keywords)

    def place(self, node: object) -> tuple[int, int, str]:
        """The `extent` of ``node`` in its own file, and the path of that file, empty for this one."""
        start, end = self.extent(node)
        index = self.file_index(start)
        base, file = self.bases[index], self.files[index]
        return start - base, end - base, "" if file is self.file else file.path

    @property
    def own_imported_names(self) -> frozenset[str]:
        """Dotted names of everything that the file itself imports, at any place."""
        return self.imported_by(self.root)

    @cached_property
    def uses_torch(self) -> bool:
        """Whether the file, one that it imports, or one that imports it imports torch or a library built on it."""
        return any(map(self._names_torch, self.related))

    def _names_torch(self, root: cst.CSTNode) -> bool:
        """Whether a file, given by its root, imports torch, also as a name of a star import."""
        for name in self.imported_by(root):
            parts = name.split(".")
            if "torch" in parts[0] or "torch" in parts or parts[0] in TORCH_LIBRARIES:
                return True
        return bool(self.tree.scopes[root].star_imports) and "torch" in self.words_of(root)

    def option(self, rule: str, name: str) -> Option | None:
        """The setting ``name`` of ``[tool.torchlint.rules.<rule>]``."""
        return self._options.get(rule, {}).get(name)

    def is_exported(self, binding: Binding) -> bool:
        """Whether other files are meant to use the name: listed in ``__all__``, or bound in an ``__init__.py``."""
        if self.path.replace("\\", "/").endswith("/__init__.py") or self.path == "__init__.py":
            return True
        return binding.name in self._listed_names

    @cached_property
    def _listed_names(self) -> frozenset[object]:
        """What is listed in ``__all__``."""
        return frozenset(
            node.evaluated_value
            for entry in self.scope.bindings.get("__all__", [])
            if entry.value is not None
            for node in self.tree.nodes_in(entry.value)
            if isinstance(node, cst.SimpleString)
        )

    @property
    def has_main_guard(self) -> bool:
        """Whether the file has an ``if __name__ == "__main__":``."""
        return self.is_guarded(self.root)
