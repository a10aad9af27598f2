"""Where a name is defined, through every file that passes it on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from torchlint.project.imports import Binding, DefinitionKind, Facts, Import

#: Names that one question may look up.
MAX_LOOKUPS = 2_000
#: Files that may pass a name on to each other.
MAX_DEPTH = 50


class Names(Protocol):
    """What looking up a name needs to know of a project."""

    def facts_of(self, file: str) -> Facts:
        """The facts of a file."""

    def find_module(self, module: str, importer: str) -> str | None:
        """The file of a module, which may be relative."""


@dataclass(frozen=True)
class Found:
    """A definition, in a file of the tree."""

    file: str
    row: int
    kind: DefinitionKind


class Lookup:
    """One question; it remembers what it has found."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[tuple[str, str], tuple[Found, ...]] = {}  #: empty while it is being looked up
        self._depth = 0

    def definitions(self, file: str, name: str) -> tuple[Found, ...]:
        """The definitions of a dotted name as the top level of a file sees it, in order, each once."""
        first, _, rest = name.partition(".")
        module = self._imported_module(file, name) if rest else None
        if module is not None:
            found: tuple[Found, ...] = (Found(module[0], 1, DefinitionKind.MODULE),)
            rest = module[1]
        else:
            found = self._of_name(file, first)
        for attribute in rest.split(".") if rest else ():
            modules = [item.file for item in found if item.kind is DefinitionKind.MODULE]
            if len(modules) < len(found):
                return ()
            found = tuple(dict.fromkeys(inner for module in modules for inner in self._of_name(module, attribute)))
        return found

    def _imported_module(self, file: str, name: str) -> tuple[str, str] | None:
        """The file of the longest module that ``name`` begins with and ``import a.b`` names, and what follows."""
        bindings = self._names.facts_of(file).bindings.get(name.partition(".")[0], ())
        imported = {
            binding.imported.module
            for binding in bindings
            if binding.imported is not None and not binding.imported.name
        }
        parts = name.split(".")
        for length in range(len(parts), 1, -1):
            module = ".".join(parts[:length])
            if module in imported:
                target = self._names.find_module(module, file)
                if target is not None:
                    return target, ".".join(parts[length:])
        return None

    def _of_name(self, file: str, name: str) -> tuple[Found, ...]:
        key = (file, name)
        if key not in self._known:
            if len(self._known) >= MAX_LOOKUPS or self._depth >= MAX_DEPTH:
                return ()
            self._known[key] = ()
            self._depth += 1
            self._known[key] = self._look_up(file, name)
            self._depth -= 1
        return self._known[key]

    def _look_up(self, file: str, name: str) -> tuple[Found, ...]:
        facts = self._names.facts_of(file)
        bindings = _reaching(facts.bindings.get(name, ()))
        if bindings:
            found = [item for binding in bindings for item in self._of_binding(file, binding)]
            if all(item.kind is DefinitionKind.IMPORT for item in found):
                return ()
            return tuple(dict.fromkeys(found))
        for star in reversed(facts.stars):
            target = self._names.find_module(star.module, file)
            if target is not None and _exports(self._names.facts_of(target), name):
                passed = self._of_name(target, name)
                if passed:
                    return passed
        return self._submodule(file, name)

    def _submodule(self, file: str, name: str) -> tuple[Found, ...]:
        """A module of the package whose __init__.py is ``file``."""
        if not file.endswith("__init__.py"):
            return ()
        target = self._names.find_module("." + name, file)
        return (Found(target, 1, DefinitionKind.MODULE),) if target is not None else ()

    def _of_binding(self, file: str, binding: Binding) -> Iterator[Found]:
        if binding.imported is not None:
            found = self._of_import(file, binding.imported)
            yield from found or (Found(file, binding.row, DefinitionKind.IMPORT),)
        elif binding.alias:
            yield from self.definitions(file, binding.alias) or (Found(file, binding.row, binding.kind),)
        else:
            yield Found(file, binding.row, binding.kind)

    def _of_import(self, file: str, item: Import) -> tuple[Found, ...]:
        if not item.name:  # ``import a.b`` binds ``a``
            module = item.module if item.bound != item.module.partition(".")[0] else item.bound
            target = self._names.find_module(module, file)
            return (Found(target, 1, DefinitionKind.MODULE),) if target is not None else ()
        target = self._names.find_module(item.module, file)
        if target is not None:
            found = self._of_name(target, item.name)
            if found:
                return found
        separator = "" if item.module.endswith(".") else "."
        submodule = self._names.find_module(item.module + separator + item.name, file)
        return (Found(submodule, 1, DefinitionKind.MODULE),) if submodule is not None else ()


def _reaching(bindings: tuple[Binding, ...]) -> list[Binding]:
    """The bindings that the end of a file can see: the last certain one, and what may replace it."""
    running = [binding for binding in bindings if not binding.type_checking] or list(bindings)
    found: list[Binding] = []
    for binding in running:
        if not binding.conditional:
            found = []
        found.append(binding)
    return found


def _exports(facts: Facts, name: str) -> bool:
    """Whether a star import of a file takes a name."""
    return name in facts.exports if facts.exports is not None else not name.startswith("_")
