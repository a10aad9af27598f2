"""What a file is analysed with: the files of the same programs, and pieces of other files; kept between questions.

The choice of pieces depends on the project alone, so that a file has the same findings however it is checked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.model.syntax.context import Context, ContextFile
from torchlint.model.syntax.pieces import Piece, parse_spans
from torchlint.project.chosen import Chosen
from torchlint.project.configs import ENDINGS as CONFIG_ENDINGS
from torchlint.project.configs import namers
from torchlint.project.project import Project
from torchlint.project.roots import find_root
from torchlint.project.state import Dependencies
from torchlint.project.store import StoreEntry
from torchlint.source.parsing import ParseError, is_too_deep

if TYPE_CHECKING:
    from torchlint.project.guarded import GuardedCalls
    from torchlint.project.uses import Uses

#: Characters of files that are analysed together as a whole.
GROUP = 200_000

#: Whether anything may be reported in the file at a path within its project, with a text.
Screen = Callable[[str, str], bool]


def project_file(
    path: str, text: str, sources: Sequence[str] = (), concerns: Screen = lambda place, text: True
) -> ProjectFile | None:
    """The file at `path`, with this text, in its project; None if it belongs to none.

    `sources` are further folders of ``sys.path``, absolute. `concerns` tells whether anything may be reported in a
    file; the same function is asked once for each. What was read of a project is kept until `forget`. Of other
    files the texts of `use_texts` count, where there are any.
    """
    if not os.path.isfile(path):
        return None  # no file imports what is not saved yet
    found = _known_of(path, text, sources)
    return ProjectFile(*found, concerns) if found is not None else None


def shape_of(path: str, text: str, sources: Sequence[str]) -> str:
    """A short name of what the import graph takes from a file: while it is the same, so is the graph."""
    absolute = os.path.abspath(path)
    root, deep = find_root(os.path.dirname(absolute))
    known = _projects.get((root, tuple(sources), deep or os.path.dirname(absolute)))
    file = known.project.file_of(Path(path)) if known is not None else None
    if known is not None and file is not None and known.project.text_of(file) == text:
        return known.project.shape_of(file)
    return StoreEntry(absolute, root, text).shape


def _known_of(path: str, text: str, sources: Sequence[str]) -> tuple[_Known, str] | None:
    """The project of the file at `path`, with this text, and its path in that; None if it belongs to none."""
    try:
        absolute = os.path.abspath(path)
        folder = os.path.dirname(absolute)
        root, deep = find_root(folder)
        key = (root, tuple(sources), deep or folder)
        known = _projects.get(key)
        if known is None:
            project = Project.around(Path(folder), Path(root) if deep else None, sources)
            known = _projects[key] = _Known(project, root if os.path.isabs(path) else os.path.relpath(root))
        known = known.including(absolute).with_texts({**_texts, absolute: text})
        file = known.project.file_of(Path(path))
    except OSError:
        return None
    return (known, file) if file is not None else None


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
        elif known.project.configs.depend_on(os.path.abspath(path)):
            del _projects[key]
        elif path.endswith(CONFIG_ENDINGS) and not path.endswith(".toml"):  # which may be the settings of a project
            pass  # a value that no answer depended on
        elif file is not None or os.path.abspath(path).startswith(os.path.join(key[0], "")):
            del _projects[key]


@dataclass
class _Known:
    """A project, and the contexts that were asked for."""

    project: Project
    root: str
    texts: Mapping[str, str] = field(default_factory=dict)  #: of files that differ from those on disk
    contexts: dict[tuple[str, ...], Context] = field(default_factory=dict)
    choices: dict[tuple[str, ...], Chosen] = field(default_factory=dict)  #: of these, and of earlier contexts
    groups: dict[tuple[str, Screen], tuple[str, ...]] = field(default_factory=dict)
    concerned: dict[tuple[str, Screen], bool] = field(default_factory=dict)  #: answers of screens
    parts: dict[_Part, ContextFile] = field(default_factory=dict)  #: of earlier contexts, with the same texts
    edited: _Known | None = None  #: the same project with other texts, the last that were asked for
    extended: tuple[str, _Known] | None = None  #: ... and with one more file, whose path this is

    @cached_property
    def uses(self) -> Uses:
        """What of its files is used."""
        from torchlint.project.uses import Uses  # not needed, so not imported, where results are kept

        return Uses(self.project)

    @cached_property
    def guarded(self) -> GuardedCalls:
        """Which methods its files may call without gradients."""
        from torchlint.project.guarded import GuardedCalls  # as above

        return GuardedCalls(self.project)

    def consulted(self, file: str) -> frozenset[str]:
        """The files that were looked at so far for what of a file is used, and how."""
        used = self.uses.consulted(file) if "uses" in vars(self) else frozenset()
        return used | (self.guarded.consulted(file) if "guarded" in vars(self) else frozenset())

    def including(self, path: str) -> _Known:
        """The same project with a file that belongs to it only while this is checked, such as an ignored file.

        So it does not matter for any other file whether this one was checked before.
        """
        if self.extended is None or self.extended[0] != path:
            project = self.project.including(Path(path)) if self.project.file_of(Path(path)) is None else self.project
            if project is self.project:
                return self
            self.extended = path, _Known(project, self.root)
        return self.extended[1]

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
        text = StoreEntry(path, self.root).text
        if text is None or text == self.project.text_of(file):
            return self
        return self.changed({file: text}, {})

    def changed(self, changed: Mapping[str, str], texts: Mapping[str, str]) -> _Known:
        """The same project after some files have changed, with all that this does not concern."""
        project = self.project.with_text({self.project.root / file: text for file, text in changed.items()})
        found = _Known(project, self.root, texts)
        found.concerned = {key: answer for key, answer in self.concerned.items() if key[0] not in changed}
        files = [item for context in self.contexts.values() for item in context.files]
        found.parts = {_part(item): item for item in files if item.path not in changed}
        if project.same_imports(self.project):
            found.contexts = {
                group: context
                for group, context in self.contexts.items()
                if self.choices[group].looked_at.isdisjoint(changed)
            }
            found.choices = {
                group: chosen for group, chosen in self.choices.items() if chosen.is_valid(project, changed)
            }
        return found

    def context(self, file: str, concerns: Screen) -> Context:
        """What a file is analysed with."""
        if (file, concerns) not in self.groups:
            is_concerned = self._is_concerned(file, self.project.text_of(file) or "", concerns)
            for group in self._groups(file, concerns):
                members = [member for member in group if is_concerned or member == file]
                self.groups |= dict.fromkeys([(member, concerns) for member in members], group)
        group = self.groups[file, concerns]
        if group not in self.contexts:
            if group not in self.choices:
                self.choices[group] = Chosen(self.project, group)
            self.contexts[group] = _context(self.project, group, self.choices[group], self.root, self.parts)
        return self.contexts[group]

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
            known = self.concerned[file, concerns] = concerns(file, text)
        return known


@dataclass(frozen=True)
class ProjectFile:
    """A file in its project."""

    _known: _Known
    path: str  #: relative to the root of the project
    _concerns: Screen

    @property
    def is_in_program(self) -> bool:
        """Whether it is analysed with other files: the callers of a library are unknown."""
        return self._known.project.is_in_program(self.path)

    @property
    def context(self) -> Context:
        """What it is analysed with, if it is in a program."""
        return self._known.context(self.path, self._concerns)

    def dependencies(self, *, with_context: bool, with_takers: bool) -> Dependencies:
        """What its analysis depends on: on what `is_used` found, and on its context and what `is_taken` depends on."""
        project = self._known.project
        takers = self._known.consulted(self.path)
        if with_takers:
            takers |= project.takers(self.path)
        if not with_context:
            return Dependencies(frozenset(), takers, "", project.configs.keys)
        digest = self.context.digest
        looked_at = self._known.choices[self._known.groups[self.path, self._concerns]].looked_at
        return Dependencies(frozenset(looked_at - {self.path}), takers, digest, project.configs.keys)

    def is_taken(self, name: str) -> bool:
        """Whether another file of the project may take a name from its top level."""
        return self._known.project.is_taken(self.path, name)

    def is_used(self, name: str) -> bool:
        """Whether something in the project may use a function or class of its top level."""
        return self._known.uses.has(self.path, name)

    def is_called(self, name: str) -> bool:
        """Whether something in the project may call the methods of this name of its classes."""
        return self._known.uses.has_method(self.path, name)

    def is_called_without_gradients(self, name: str) -> bool:
        """Whether something in the project may call the methods of this name of its classes with gradients disabled."""
        return self._known.guarded.has(self.path, name)


_projects: dict[tuple[str, tuple[str, ...], bool | str], _Known] = {}
_texts: dict[str, str] = {}


def _context(
    files: Project, mains: Sequence[str], chosen: Chosen, root: str, known: Mapping[_Part, ContextFile]
) -> Context:
    found = []
    for file in sorted({*chosen.pieces, *mains}):
        text = files.text_of(file)
        if text is not None and (file in mains or (text and chosen.pieces[file])):
            starts = files.facts_of(file).pieces.starts
            ends = [*starts[1:], len(text)]
            indices = range(len(starts)) if file in mains else sorted(chosen.pieces[file])
            spans = tuple((starts[index], ends[index]) for index in indices)
            part = ContextFile(file, text, spans, file in mains, partial(_parsed, root))
            found.append(known.get(_part(part), part))
    named = cache(lambda: namers((file.path, file.text) for file in found))
    configured = cache(partial(files.configured, named=named))
    return Context(root, tuple(found), files.find_module, configured, lambda: files.configs.read, files.paths_of)


#: A part of a file: its path, the spans of its pieces, and whether these are all.
_Part = tuple[str, tuple[tuple[int, int], ...], bool]


def _part(file: ContextFile) -> _Part:
    return file.path, file.spans, file.whole


def _parsed(root: str, file: ContextFile) -> Sequence[Piece]:
    """The pieces of a file with their trees; none if one of them cannot be parsed."""
    if file.whole and sys.version_info < (3, 11) and is_too_deep(file.text):
        return ()
    try:
        return parse_spans(file.text, file.spans, f"{root}/{file.path}")
    except ParseError:
        return ()
