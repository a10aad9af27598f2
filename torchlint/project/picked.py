"""Names that a file takes from modules as strings: ``models.__dict__[name]``, ``getattr(models, name)``."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from torchlint.project.files import Files
from torchlint.project.imports import DefinitionKind, Facts, Import
from torchlint.source.lexemes import behind, places

#: Of a module with more functions and classes, none are looked up.
_MAX_NAMES = 64
#: What the parts of a file contain that take names from a module.
PICKING = frozenset({"__dict__", "getattr", "eval", "vars"})
#: ... how they do, up to the dotted name of the module or after it.
_BEFORE = ("getattr(", "vars(", "eval(")
_BEHIND = ".__dict__["
_GIVEN = re.compile(r"""[ \t\r\n]*(?:f?["'])?([^\W\d][\w.]*)""")
_DOTTED = re.compile(r"[\w.]*\Z")
#: Longer names of modules are not read.
_MAX_LENGTH = 80


def picked_from(text: str) -> frozenset[str]:
    """The dotted names of what a text may take names from as strings."""
    found = {match[1] for word in _BEFORE for _, match in behind(text, word, _GIVEN)}
    for at in places(text, _BEHIND):
        before = _DOTTED.search(text[max(0, at - _MAX_LENGTH) : at])
        found.add(before[0] if before is not None else "")
    return frozenset(stripped for name in found if (stripped := name.rstrip(".")) and len(name) < _MAX_LENGTH)


class Picked:
    """Answers for one choice of pieces."""

    def __init__(
        self, files: Files, facts: Callable[[str], Facts], find_module: Callable[[str, str], str | None]
    ) -> None:
        self._files = files
        self._facts = facts
        self._find_module = find_module
        self._modules: dict[str, frozenset[str]] = {}

    def modules(self, file: str) -> frozenset[str]:
        """The files of the modules of the project from which a file takes names as strings."""
        known = self._modules.get(file)
        if known is None:
            found = {self._module(file, name) for name in self._files.picked_from(file)}
            known = self._modules[file] = frozenset(item for item in found if item is not None and item != file)
        return known

    def taken(self, file: str, words: Collection[str], *, computed: bool) -> Iterator[tuple[str, frozenset[str]]]:
        """The modules from which a piece of a file, given by its words, takes names as strings, and which names.

        With `computed`, also the modules that it imports by computed names, with what it names of them.
        """
        if not PICKING.isdisjoint(words):
            yield from ((module, self.names(module)) for module in sorted(self.modules(file)))
        for module in sorted(self._files.computed_by(file)) if computed else ():
            bindings = self._facts(module).bindings
            named = bindings.keys() & words
            yield module, frozenset(name for name in named if any(item.kind in _CALLABLE for item in bindings[name]))

    def names(self, file: str) -> frozenset[str]:
        """The public functions and classes of a module, and what it imports."""
        found = frozenset(
            name
            for name, bindings in self._facts(file).bindings.items()
            if not name.startswith("_")
            and any(item.imported is not None or item.kind in _CALLABLE for item in bindings)
        )
        return found if len(found) <= _MAX_NAMES else frozenset()

    def _module(self, file: str, dotted: str) -> str | None:
        """The file of the module that a file calls ``dotted``; None if that is not a module of the project."""
        first, _, rest = dotted.partition(".")
        facts = self._facts(file)
        imported = [item.imported for item in facts.bindings.get(first, ()) if item.imported is not None]
        imported += [item for item in facts.imports if item.in_function and item.bound == first]
        for item in imported:
            found = self._find_module(_joined(item, first, rest), file)
            if found is not None:
                return found
        return None


_CALLABLE = (DefinitionKind.FUNCTION, DefinitionKind.CLASS)


def _joined(item: Import, first: str, rest: str) -> str:
    """The dotted name of the module ``first.rest``, of which an import binds the first part."""
    module = first if not item.name and item.module.partition(".")[0] == first else item.module
    if item.name:
        module += item.name if module.endswith(".") else f".{item.name}"
    return f"{module}.{rest}" if rest else module
