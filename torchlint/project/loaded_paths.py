"""Modules that a program loads by their paths: by ``spec_from_file_location``, and by functions around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torchlint.source.lexemes import arguments, is_in_name, places
from torchlint.source.module_patterns import ANY, MAX_LENGTH, MAX_UNKNOWN, PATH_LOADERS, ends_in

#: What the names of functions around it contain.
_HELPERS = ("import_", "load_module", "load_file", "load_py", "module_from_", *PATH_LOADERS)
_ENDS = ('.py"', ".py'")
#: A path that fits more files may be any file.
_MAX_FILES = 24
#: Longer arguments are not read.
_MAX_LENGTH = 400
_DEFINITION = re.compile(r"def[ \t]+(\w+)[ \t]*\(")
_CALLED = re.compile(r"(\w*)([ \t]*\()?")
_ASSIGNED = re.compile(r"[ \t]*(?:\w+\.)*(\w+)[ \t]*(?::[^=]*)?=[ \t]*(?=[^=])")
_PATH = re.compile(r"""["']([^"'\r\n]*\.py)["']""")
_UNKNOWN = re.compile(r"(?:%s|\{[^{}]*\})+")
_LAST = re.compile(r"\w+\Z")


@dataclass(frozen=True)
class PathLoads:
    """What the text of a file says about modules that are loaded by their paths."""

    loaders: frozenset[str] = frozenset()  #: its functions that load one
    #: the calls of what may load one: its name, and the paths and the last parts of the names that it is given
    calls: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    paths: tuple[tuple[str, str], ...] = ()  #: variables and attributes with the paths that they are set to

    def __bool__(self) -> bool:
        return bool(self.loaders or self.calls or self.paths)


NO_LOADS = PathLoads()


def path_loads(text: str) -> PathLoads:
    """The loads of modules by their paths in a text. Of paths, what is computed is a ``*``."""
    calls = tuple(dict.fromkeys(_calls(text)))
    loads = any(name in PATH_LOADERS for name, _, _ in calls)
    return PathLoads(frozenset(_loaders(text) if loads else ()), calls, tuple(dict.fromkeys(_paths(text))))


def _loaders(text: str) -> Iterator[str]:
    """The functions in a text that load a module by its path."""
    for at in places(text, *PATH_LOADERS):
        found = _DEFINITION.match(text, max(0, text.rfind("def ", 0, at)))
        if found is not None:
            yield found[1]


def _calls(text: str) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    for word in _HELPERS:
        end = 0
        for at in places(text, word):
            if at < end:
                continue  # in the same name
            start = at
            while is_in_name(text, start):
                start -= 1
            called = _CALLED.match(text, start)
            assert called is not None
            end = called.end(1)
            if called[2] is None or text[max(0, start - 4) : start] == "def ":
                continue
            given = arguments(text, called.end(), _MAX_LENGTH) or ()
            names = tuple(found[0] for item in given if (found := _LAST.search(item)) is not None)
            paths = tuple(path for item in given for path in _patterns(item))
            if names or paths:
                yield called[1], paths, names


def _paths(text: str) -> Iterator[tuple[str, str]]:
    for ending in _ENDS:
        end = 0
        for at in places(text, ending):
            if at < end:
                continue  # in the same line
            begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at) % (len(text) + 1)
            line = text[begin:end]
            assigned = _ASSIGNED.match(line)
            if assigned is not None:
                yield from ((assigned[1], path) for path in _patterns(line[assigned.end() :]))


def _patterns(text: str) -> Iterator[str]:
    """The paths in a text, as ``models/*.py`` for ``"models/{}.py"``."""
    for found in _PATH.finditer(text):
        path = _UNKNOWN.sub(ANY, found[1]).removeprefix("./").lstrip("/")
        if path.strip("*/") != ".py" and path.count(ANY) <= MAX_UNKNOWN:
            yield path


class LoadedPaths:
    """Which files of a project its files load by their paths."""

    def __init__(self, loads: Callable[[str], PathLoads], files: Iterable[str]) -> None:
        self._loads = loads
        self._files = sorted(files)
        self._found: dict[str, tuple[str, ...]] = {}

    def paths_of(self, name: str) -> Sequence[str]:
        """The paths that a variable or attribute of this name is set to, if the project loads modules by paths."""
        return self._set.get(name, ()) if self._loaders else ()

    def files(self, file: str) -> tuple[str, ...]:
        """The files that one of them may load, sorted."""
        calls = self._loads(file).calls if self._loaders else ()
        paths: dict[str, None] = {}
        for name, given, variables in calls:
            if name in self._loaders:
                paths.update(dict.fromkeys(given))
                paths.update(dict.fromkeys(path for item in variables for path in self.paths_of(item)))
        return tuple(sorted({found for path in paths for found in self._fitting(path)} - {file}))

    @cached_property
    def _loaders(self) -> frozenset[str]:
        """The functions that load a module by its path; empty if the project has none."""
        found = frozenset[str]().union(*(self._loads(file).loaders for file in self._files if _may_run(file)))
        return found and found.union(PATH_LOADERS)

    @cached_property
    def _set(self) -> dict[str, list[str]]:
        """By name of a variable or attribute the paths that it is set to."""
        found: dict[str, list[str]] = {}
        for file in self._files:
            for name, path in self._loads(file).paths:
                found.setdefault(name, []).append(path)
        return found

    def _fitting(self, path: str) -> tuple[str, ...]:
        """The files with a path; none if they are many."""
        if path not in self._found:
            regex = ends_in(path)
            found = tuple(file for file in self._files if len(file) <= MAX_LENGTH and regex.fullmatch(file))
            self._found[path] = found if len(found) <= _MAX_FILES else ()
        return self._found[path]


def _may_run(file: str) -> bool:
    """Whether a file may be a part of a program: not one that installs it, or makes its documentation."""
    return file.rpartition("/")[2] not in ("setup.py", "conf.py")
