"""Which pieces of other files a file is analysed with: what it uses, and what uses it.

From the pieces (top-level statements) that import names of the file, and from the file itself, names are followed to
their definitions, nearest first, until a budget is used up. The choice depends on the project alone, so that a file has
the same findings however it is checked.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from torchlint.model.syntax.context import Context, ContextFile
from torchlint.model.syntax.pieces import Piece, parse_pieces, parse_spans
from torchlint.project.imports import DefinitionKind, Facts, Import
from torchlint.project.project import Project
from torchlint.project.roots import find_root
from torchlint.project.store import Entry
from torchlint.source.parsing import ParseError

#: Characters of other files that a file is analysed with.
BUDGET = 150_000
#: Characters of files that are analysed together as a whole.
GROUP = 200_000
#: A piece that is longer, such as a network's code that was generated, is left out.
MAX_PIECE = 30_000
#: A module that more files import is a public one: who calls it is unknown.
MAX_IMPORTERS = 16

#: Whether anything may be reported in a text.
Screen = Callable[[str], bool]


class Files(Protocol):
    """What the choice needs to know of a project. Files are paths relative to its root."""

    def text_of(self, file: str) -> str | None:
        """The text of a file, None if it cannot be read."""

    def facts_of(self, file: str) -> Facts:
        """What a file binds and imports."""

    def words_of(self, file: str) -> tuple[frozenset[str], ...]:
        """The words in each piece of a file."""

    def find_module(self, module: str, importer: str) -> str | None:
        """The file of a module, with leading dots if it is relative."""

    def importers_of(self, file: str) -> tuple[str, ...]:
        """The files that import a file."""


def context_around(
    path: str, text: str, sources: Sequence[str] = (), concerns: Screen = lambda text: True
) -> tuple[Context, str] | None:
    """What the file at `path`, with this text, is analysed with, and its path in that; None outside of a program.

    `sources` are further folders of ``sys.path``, absolute. `concerns` tells whether anything may be reported in a
    text; the same function is asked once for each text. What was read of a project is kept until `forget`. Of other
    files the texts of `use_texts` count, where there are any.
    """
    if not os.path.isfile(path):
        return None  # no file imports what is not saved yet
    try:
        absolute = os.path.abspath(path)
        folder = os.path.dirname(absolute)
        root, deep = find_root(folder)
        key = (root, tuple(sources), deep or folder)
        known = _projects.get(key)
        if known is None:
            project = Project.around(Path(path), Path(root) if deep else None, sources)
            known = _projects[key] = _Known(project, root if os.path.isabs(path) else os.path.relpath(root))
        known = known.with_texts({**_texts, absolute: text})
        file = known.project.file_of(Path(path))
    except OSError:
        return None
    if file is None or not known.project.is_in_program(file):
        return None  # of a library, nobody knows who calls it
    return known.context(file, concerns), file


def use_texts(texts: Mapping[str, str]) -> None:
    """Take these texts, by absolute path, for those of the files: an editor has not saved them yet."""
    global _texts
    _texts = dict(texts)


def forget() -> None:
    """Read projects again: their files may have changed."""
    _projects.clear()


def read_again(path: str) -> None:
    """Read a file again that may have changed; if it is new or was removed, read its projects again."""
    for key, known in list(_projects.items()):
        file = known.project.file_of(Path(path))
        if file is not None and os.path.isfile(path):
            _projects[key] = known.read_again(file, path)
        elif file is not None or os.path.abspath(path).startswith(os.path.join(key[0], "")):
            del _projects[key]


@dataclass
class _Known:
    """A project, and the contexts that were asked for."""

    project: Project
    root: str
    texts: Mapping[str, str] = field(default_factory=dict)  #: of files that differ from those on disk
    contexts: dict[tuple[str, ...], _Chosen] = field(default_factory=dict)
    groups: dict[tuple[str, Screen], tuple[str, ...]] = field(default_factory=dict)
    concerned: dict[tuple[str, Screen], bool] = field(default_factory=dict)  #: answers of screens
    parts: dict[_Part, ContextFile] = field(default_factory=dict)  #: of earlier contexts, with the same texts
    edited: _Known | None = None  #: the same project with other texts, the last that were asked for

    def with_texts(self, texts: Mapping[str, str]) -> _Known:
        """The same project with these texts, by absolute path, for those of its files."""
        differing = {
            file: text
            for path, text in texts.items()
            if (file := self.project.file_of(Path(path))) is not None and self.project.text_of(file) != text
        }
        if not differing:
            self.edited = None
            return self
        before = self.edited or self
        wanted = {file: self.project.text_of(file) or "" for file in before.texts} | differing
        changed = {file: text for file, text in wanted.items() if text != before.project.text_of(file)}
        if changed:
            self.edited = before.changed(changed, differing)
        return self.edited or self

    def read_again(self, file: str, path: str) -> _Known:
        """The same project with the newest text of a file."""
        text = Entry(path, self.root).text
        if text is None or text == self.project.text_of(file):
            return self
        return self.changed({file: text}, {})

    def changed(self, changed: Mapping[str, str], texts: Mapping[str, str]) -> _Known:
        """The same project after some files have changed, with all that this does not concern."""
        project = self.project.with_text({self.project.root / file: text for file, text in changed.items()})
        found = _Known(project, self.root, texts)
        found.concerned = {key: answer for key, answer in self.concerned.items() if key[0] not in changed}
        files = [item for chosen in self.contexts.values() for item in chosen.context.files]
        found.parts = {_part(item): item for item in files if item.path not in changed}
        if project.same_imports(self.project):
            found.contexts = {
                group: chosen for group, chosen in self.contexts.items() if chosen.looked_at.isdisjoint(changed)
            }
        return found

    def context(self, file: str, concerns: Screen) -> Context:
        """What a file is analysed with."""
        if (file, concerns) not in self.groups:
            for group in self._groups(file, concerns):
                self.groups |= dict.fromkeys([(member, concerns) for member in group], group)
        group = self.groups[file, concerns]
        if group not in self.contexts:
            self.contexts[group] = _choose(self.project, group, self.root, self.parts)
        return self.contexts[group].context

    def _groups(self, main: str, concerns: Screen) -> Iterator[tuple[str, ...]]:
        """The files of the same programs as `main`, in groups of up to `GROUP` characters."""
        group: list[str] = []
        size = 0
        for file in self.project.companions(main):
            text = self.project.text_of(file)
            if text is None or (file != main and not self._is_concerned(file, text, concerns)):
                continue
            if size + len(text) > GROUP and group:
                yield tuple(group)
                group, size = [], 0
            group.append(file)
            size += len(text)
        yield tuple(group)

    def _is_concerned(self, file: str, text: str, concerns: Screen) -> bool:
        known = self.concerned.get((file, concerns))
        if known is None:
            known = self.concerned[file, concerns] = concerns(text)
        return known


_projects: dict[tuple[str, tuple[str, ...], bool | str], _Known] = {}
_texts: dict[str, str] = {}


@dataclass(frozen=True)
class _Chosen:
    """A context, and the files that the choice depends on."""

    context: Context
    looked_at: frozenset[str]


def context_of(files: Files, mains: Sequence[str], root: str = "") -> Context:
    """The files `mains`, and the pieces of other files that they are analysed with."""
    return _choose(files, mains, root, {}).context


def _choose(files: Files, mains: Sequence[str], root: str, known: Mapping[_Part, ContextFile]) -> _Chosen:
    choice = _Choice(files, mains)
    chosen = choice.run()
    found = []
    for file in sorted({*chosen, *mains}):
        text = files.text_of(file)
        if text is not None and (file in mains or (text and chosen[file])):
            starts = files.facts_of(file).pieces.starts
            ends = [*starts[1:], len(text)]
            indices = range(len(starts)) if file in mains else sorted(chosen[file])
            spans = tuple((starts[index], ends[index]) for index in indices)
            part = ContextFile(file, text, spans, file in mains, partial(_parsed, root))
            found.append(known.get(_part(part), part))
    return _Chosen(Context(root, tuple(found), files.find_module), choice.looked_at)


class _Choice:
    """One choice of pieces. A piece is a file and its index among the file's pieces."""

    def __init__(self, files: Files, mains: Sequence[str]) -> None:
        self._files = files
        self._mains = frozenset(mains)
        self._known_facts: dict[str, Facts] = {}
        self._find_module = cache(files.find_module)
        self._chosen: dict[str, set[int]] = {}
        self._size = 0
        self._waiting: deque[tuple[str, int, bool]] = deque()
        self._seen: set[tuple[str, str]] = set()  #: names of files that were looked up

    def run(self) -> dict[str, set[int]]:
        """By file the chosen pieces."""
        for main in sorted(self._mains):
            self._callers(main, self._defined(main))
        for main in sorted(self._mains):
            self._needs(main, frozenset().union(*self._files.words_of(main)))
        while self._waiting and self._size < BUDGET:
            file, index, is_caller = self._waiting.popleft()
            words = self._words(file, index)
            if is_caller:
                self._callers(file, self._defined(file, index))
            self._needs(file, words)
        return self._chosen

    @property
    def looked_at(self) -> frozenset[str]:
        """The files whose texts the choice depends on."""
        return self._mains | self._known_facts.keys()

    def _facts(self, file: str) -> Facts:
        known = self._known_facts.get(file)
        if known is None:
            known = self._known_facts[file] = self._files.facts_of(file)
        return known

    def _add(self, file: str, index: int, *, is_caller: bool = False) -> None:
        """Choose a piece, and the imports of its file."""
        if file in self._mains or index in self._chosen.get(file, ()):
            return
        facts = self._facts(file)
        starts = facts.pieces.starts
        text = self._files.text_of(file) or ""
        length = (starts[index + 1] if index + 1 < len(starts) else len(text)) - starts[index]
        if length > MAX_PIECE or self._size + length > BUDGET:
            return
        self._add_imports(file)
        self._chosen[file].add(index)
        self._size += length
        self._waiting.append((file, index, is_caller))

    def _add_imports(self, file: str) -> None:
        if file in self._mains or file in self._chosen:
            return
        facts = self._facts(file)
        rows = {item.row for bound in facts.bindings.values() for item in bound if item.imported is not None}
        rows |= {item.row for item in facts.stars}
        self._chosen[file] = {facts.pieces.index_at(row) for row in rows}

    def _needs(self, file: str, words: Collection[str]) -> None:
        """Choose the definitions of the names in `words`, as the top level of a file sees them."""
        facts = self._facts(file)
        for name in sorted(facts.bindings.keys() & words):
            if (file, name) in self._seen:
                continue
            self._seen.add((file, name))
            for binding in facts.bindings[name]:
                if binding.imported is not None:
                    self._add_imports(file)
                    self._follow(file, binding.imported, words)
                else:
                    self._add(file, facts.pieces.index_at(binding.row))
        for item in facts.imports:
            if item.in_function and item.bound in words and (file, f"{item.row}:{item.bound}") not in self._seen:
                self._seen.add((file, f"{item.row}:{item.bound}"))
                self._follow(file, item, words)
        for star in facts.stars:
            target = self._find_module(star.module, file)
            if target is None or target == file:
                continue
            asked = {name for name in words if (target, f"*{file}:{name}") not in self._seen}
            if asked:
                self._seen.update((target, f"*{file}:{name}") for name in asked)
                self._add_imports(file)
                self._needs(target, asked)

    def _follow(self, file: str, item: Import, words: Collection[str]) -> None:
        """Choose what an import refers to."""
        target = self._find_module(item.module, file)
        if not item.name:
            if target is not None:
                self._needs(target, words)
            return
        if target is not None and item.name in self._facts(target).bindings:
            self._needs(target, {item.name})
            return
        separator = "" if item.module.endswith(".") else "."
        module = self._find_module(f"{item.module}{separator}{item.name}", file)
        if module is not None:
            self._needs(module, words)
        elif target is not None:
            self._needs(target, {item.name})  # through a star import

    def _callers(self, file: str, names: Collection[str]) -> None:
        """Choose the pieces that use functions or classes of a file, in it and in the files that import it."""
        if not names:
            return
        if file not in self._mains:
            names = {*names}
            for index in range(len(self._facts(file).pieces.starts)):
                if not self._words(file, index).isdisjoint(names):
                    self._add(file, index, is_caller=True)
        importers = self._files.importers_of(file)
        if len(importers) > MAX_IMPORTERS:
            return
        for importer in importers:
            if importer == file:
                continue
            bound, modules = self._bound(importer, file, names)
            for index in range(len(self._facts(importer).pieces.starts)):
                words = self._words(importer, index)
                if not words.isdisjoint(bound) or (not words.isdisjoint(modules) and not words.isdisjoint(names)):
                    if not self._is_import(importer, index):
                        self._add(importer, index, is_caller=True)

    def _bound(self, importer: str, file: str, names: Collection[str]) -> tuple[set[str], set[str]]:
        """Under which names a file knows names of another one, and the module itself."""
        bound: set[str] = set()
        modules: set[str] = set()
        for item in self._facts(importer).imports:
            target = self._find_module(item.module, importer)
            if not item.name:
                if target == file:
                    modules.add(item.bound)
            elif target == file or (target is not None and target.endswith("__init__.py")):
                if item.name == "*":
                    bound |= set(names)
                elif item.name in names:
                    bound.add(item.bound)
            if item.name and item.name != "*":
                separator = "" if item.module.endswith(".") else "."
                if self._find_module(f"{item.module}{separator}{item.name}", importer) == file:
                    modules.add(item.bound)
        return bound, modules

    def _is_import(self, file: str, index: int) -> bool:
        self._add_imports(file)
        return index in self._chosen.get(file, ())

    def _defined(self, file: str, index: int | None = None) -> set[str]:
        """The functions and classes that a file, or one of its pieces, defines."""
        facts = self._facts(file)
        return {
            name
            for name, bindings in facts.bindings.items()
            for binding in bindings
            if binding.kind in (DefinitionKind.FUNCTION, DefinitionKind.CLASS)
            and (index is None or facts.pieces.index_at(binding.row) == index)
        }

    def _words(self, file: str, index: int) -> frozenset[str]:
        return self._files.words_of(file)[index]


#: A part of a file: its path, the spans of its pieces, and whether these are all.
_Part = tuple[str, tuple[tuple[int, int], ...], bool]


def _part(file: ContextFile) -> _Part:
    return file.path, file.spans, file.whole


def _parsed(root: str, file: ContextFile) -> Sequence[Piece]:
    """The pieces of a file with their trees; none if one of them cannot be parsed."""
    name = f"{root}/{file.path}"
    try:
        return parse_pieces(file.text, name) if file.whole else parse_spans(file.text, file.spans, name)
    except ParseError:
        return ()
