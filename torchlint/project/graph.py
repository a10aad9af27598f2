"""Which file imports which, and from which programs a file can be imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torchlint.project.known import INSTALLED, STANDARD
from torchlint.project.layout import folder_of, joined
from torchlint.project.outlines import Imported, Outline
from torchlint.project.resolver import ModuleResolver

#: Steps from file to file, over all entries; what is beyond is unknown.
MAX_STEPS = 1_000_000
#: Scripts that no program consists of.
_NO_PROGRAMS = ("setup.py", "conftest.py", "__init__.py")


@dataclass
class _Reach:
    """What the walks from all entries found."""

    masks: dict[str, int]  #: file -> the entries that reach it, a bit each
    paths: tuple[tuple[str, ...], ...]  #: entry -> the beginning of its ``sys.path``
    complete: bool = True


class Graph:
    """The imports between the files of a tree; nothing is read before it is asked."""

    def __init__(
        self,
        resolver: ModuleResolver,
        outlines: Mapping[str, Outline],
        added: Callable[[str], tuple[str, ...]],
        runs: Callable[[str], bool],
        configured: Callable[[str, Sequence[str]], tuple[Imported, ...]],
        loaded: Callable[[str], tuple[str, ...]],
    ) -> None:
        self._resolver = resolver
        self._layout = resolver.layout
        self._outlines = outlines
        self._added = added
        self._runs = runs
        self._configured = configured
        self._loaded = loaded  #: the files that a file loads by their paths
        self._paths_of: dict[int, tuple[tuple[str, ...], ...]] = {}
        self._steps: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self._resolved: dict[tuple[str, str], str | None] = {}
        self._computed: dict[str, frozenset[str]] = {}
        self._libraries: dict[int, frozenset[str]] = {}

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """The scripts: files with a main guard, and files that do something and that no file imports."""
        imported = {
            place
            for file, outline in self._outlines.items()
            for item in outline.imports
            for place in self._places(file, item)
        }
        imported.update(loaded.removesuffix(".py") for file in self._outlines for loaded in self._loaded(file))

        def is_entry(file: str) -> bool:
            name = file.rpartition("/")[2]
            if name in _NO_PROGRAMS:
                return False
            if name == "__main__.py" or self._outlines[file].has_guard:
                return True
            return imported.isdisjoint(_ends(file.removesuffix(".py"))) and self._runs(file)

        return tuple(file for file in sorted(self._outlines) if is_entry(file))

    def _places(self, importer: str, item: Imported) -> Iterator[str]:
        """What the paths of the files that an import may run end in, without ``.py``, whatever ``sys.path`` is."""
        module = item.module.replace(".", "/")
        if item.level:
            module = "/" + joined(self._layout.package(importer, item.level) or "", module)
        elif item.top not in self._layout.places:
            if item.top in STANDARD or item.top in INSTALLED:
                return
            module = module.rpartition("/")[2]  # maybe the name that a larger repository has for it
        yield module
        yield from (f"{module.rstrip('/')}/{name}" for name in item.names)
        for folder, names in self._below(importer, item):
            yield from (joined(folder, name.replace(".", "/")) for name in names)

    @cached_property
    def _reach(self) -> _Reach:
        masks: dict[str, int] = {}
        paths: list[tuple[str, ...]] = []
        steps = 0
        complete = True
        for index, entry in enumerate(self.entries):
            complete = complete and steps < MAX_STEPS
            if not complete:
                paths.append((folder_of(entry),))
                masks[entry] = masks.get(entry, 0) | 1 << index
                continue
            path, files = self._walk(entry)
            steps += len(files)
            paths.append(path)
            for file in files:
                masks[file] = masks.get(file, 0) | 1 << index
        return _Reach(masks, tuple(paths), complete)

    @property
    def complete(self) -> bool:
        """Whether all entries were followed to all that they import."""
        return self._reach.complete

    def is_certain(self, module: str) -> bool:
        """Whether a module is the same for all files, whatever they import."""
        return self._resolver.is_certain(module)

    def reachable(self, entry: str) -> frozenset[str]:
        """The files that a script imports, directly or not, and itself."""
        return frozenset(self._walk(entry)[1]) if entry in self._outlines else frozenset()

    def programs(self, file: str) -> tuple[str, ...]:
        """The entries that reach a file, sorted; itself, if it is one."""
        mask = self._reach.masks.get(file, 0)
        return tuple(entry for index, entry in enumerate(self.entries) if mask >> index & 1)

    def libraries(self, file: str) -> frozenset[str]:
        """The first parts of the modules that the programs of a file import, in any of their files."""
        mask = self._programs_of(file)
        known = self._libraries.get(mask)
        if known is None:
            reached = (item for item, entries in self._reach.masks.items() if entries & mask)
            known = self._libraries[mask] = frozenset().union(*map(self._tops, reached))
        return known

    def companions(self, file: str) -> tuple[str, ...]:
        """The files that just the same entries reach, and itself, sorted."""
        return self._companions.get(self._programs_of(file), (file,))

    @cached_property
    def _companions(self) -> dict[int, tuple[str, ...]]:
        found: dict[int, list[str]] = {}
        for file in sorted(self._reach.masks):
            found.setdefault(self._programs_of(file), []).append(file)
        return {mask: tuple(files) for mask, files in found.items()}

    def _programs_of(self, file: str) -> int:
        """The entries that reach a file; without those that another entry imports, if there are others."""
        mask = self._reach.masks.get(file, 0)
        return mask & ~self._imported_entries or mask

    @cached_property
    def _imported_entries(self) -> int:
        masks = self._reach.masks
        return sum(1 << index for index, entry in enumerate(self.entries) if masks[entry] != 1 << index)

    @cached_property
    def outermost(self) -> tuple[str, ...]:
        """The entries that no other entry imports: the main guard of a module that a script imports is a self-test."""
        return tuple(entry for index, entry in enumerate(self.entries) if not self._imported_entries >> index & 1)

    def resolve(self, module: str, importer: str) -> str | None:
        """The file of an absolute module; None if there is none, or programs that import ``importer`` differ."""
        key = (module, importer)
        if key not in self._resolved:
            self._resolved[key] = self._find(module, importer)
        return self._resolved[key]

    def _find(self, module: str, importer: str) -> str | None:
        if self._resolver.is_certain(module):
            return self._resolver.find(module, importer, ())
        found = {self._resolver.find(module, importer, path) for path in self._paths(importer)} - {None}
        return found.pop() if len(found) == 1 else None

    def importers(self, file: str) -> tuple[str, ...]:
        """The files that import a file, directly or by a name that a package's __init__.py takes from it; sorted."""
        found: set[str] = set()
        waiting: list[tuple[str, frozenset[str] | None]] = [(file, None)]  # a file, and the names of it that count
        seen = set(waiting)
        while waiting:
            target, names = waiting.pop()
            for importer, taken in self._importers.get(target, {}).items():
                if names is not None and taken.isdisjoint(names) and "" not in taken and "*" not in taken:
                    continue
                found.add(importer)
                if importer.endswith("__init__.py"):
                    passed = taken if names is None else taken & names
                    following = (importer, None if "*" in taken or "" in taken else frozenset(passed))
                    if following not in seen:
                        seen.add(following)
                        waiting.append(following)
        return tuple(sorted(found - {file}))

    def taken(self, file: str) -> Mapping[str, frozenset[str]]:
        """By file that imports ``file`` the names that it takes; ``""`` means the module itself."""
        return self._importers.get(file, {})

    @cached_property
    def _importers(self) -> dict[str, dict[str, frozenset[str]]]:
        """File -> the files that import it -> the names they take from it; ``""`` means the module itself."""
        found: dict[str, dict[str, set[str]]] = {}
        for importer in self._outlines:
            for target in self._loaded(importer):
                found.setdefault(target, {}).setdefault(importer, set()).add("")
            for path in self._relevant_paths(importer):
                for item in self._imports(importer):
                    module = self._found(importer, item, path)
                    for target in self._named(importer, item, path):
                        taken = found.setdefault(target, {}).setdefault(importer, set())
                        taken.update(item.names if target == module and item.names else ("",))
        return {
            file: {importer: frozenset(taken) for importer, taken in importers.items()}
            for file, importers in found.items()
        }

    def computed(self, importer: str) -> frozenset[str]:
        """The files of the modules that a file imports by computed names, or loads by their paths."""
        if importer not in self._computed:
            items = [item for item in self._outlines[importer].imports if item.below]
            paths = self._relevant_paths(importer) if items else ()
            files = (file for path in paths for item in items for file in self._computed_by(importer, item, path))
            self._computed[importer] = frozenset((*files, *self._loaded(importer))) - {importer}
        return self._computed[importer]

    def _relevant_paths(self, importer: str) -> frozenset[tuple[str, ...]]:
        """The beginnings of ``sys.path`` that make a difference to a file's imports."""
        return frozenset(self._relevant(importer, path) for path in self._paths(importer))

    def _relevant(self, file: str, path: tuple[str, ...]) -> tuple[str, ...]:
        """``path``, or nothing if it has no module of the names that a file imports."""
        tops = self._tops(file)
        names = self._layout.names
        return () if all(tops.isdisjoint(names.get(folder, ())) for folder in path) else path

    def _paths(self, importer: str) -> Sequence[tuple[str, ...]]:
        """The beginnings of ``sys.path`` in the programs that import a file: first of scripts that no file imports."""
        reach = self._reach
        mask = reach.masks.get(importer, 0)
        if not mask:
            return (self._added(importer) if importer in self._outlines else (),)
        if mask not in self._paths_of:
            indices = [index for index in range(len(self.entries)) if mask >> index & 1]
            first = [index for index in indices if reach.masks[self.entries[index]] == 1 << index]
            self._paths_of[mask] = tuple(sorted({reach.paths[index] for index in first or indices}))
        return self._paths_of[mask]

    def _walk(self, entry: str) -> tuple[tuple[str, ...], set[str]]:
        """The beginning of a script's ``sys.path``, and all files that it reaches."""
        path = tuple(dict.fromkeys((folder_of(entry), *self._added(entry))))
        while True:
            added: list[str] = []
            names = frozenset[str]().union(*(self._layout.names.get(folder, ()) for folder in path))
            seen = {entry}
            waiting = [entry]
            while waiting:
                file = waiting.pop()
                outline = self._outlines[file]
                if outline.changes_path:
                    added += self._added(file)
                for target in self._step(file, () if self._tops(file).isdisjoint(names) else path):
                    if target not in seen:
                        seen.add(target)
                        waiting.append(target)
            longer = (*path, *sorted(set(added) - set(path)))
            if longer == path:
                return path, seen
            path = longer

    def _step(self, file: str, path: tuple[str, ...]) -> tuple[str, ...]:
        """The files that importing one file runs."""
        key = (file, path)
        if key not in self._steps:
            targets = dict.fromkeys(
                target
                for item in self._imports(file)
                if item.runs
                for target in self._run(self._named(file, item, path))
            )
            self._steps[key] = tuple(dict.fromkeys((*targets, *self._run(self._loaded(file)))))
        return self._steps[key]

    def _imports(self, file: str) -> tuple[Imported, ...]:
        """What a file imports, also by the names of classes in configuration files."""
        outline = self._outlines[file]
        return outline.imports + self._configured(file, self.entries) if outline.instantiates else outline.imports

    def _tops(self, file: str) -> frozenset[str]:
        """The first parts of the absolute modules that a file imports."""
        outline = self._outlines[file]
        return (
            outline.tops.union(item.top for item in self._configured(file, self.entries))
            if outline.instantiates
            else outline.tops
        )

    def _run(self, files: Iterable[str]) -> Iterable[str]:
        """Files, and the __init__.py of the packages that contain them."""
        for file in files:
            yield file
            folder = folder_of(file)
            while folder and joined(folder, "__init__.py") in self._layout.files:
                yield joined(folder, "__init__.py")
                folder = folder_of(folder)

    def _found(self, importer: str, item: Imported, path: tuple[str, ...]) -> str | None:
        """The file of an imported module itself."""
        if item.level:
            return self._layout.relative(importer, item.level, item.module)
        return self._resolver.find(item.module, importer, path)

    def _named(self, importer: str, item: Imported, path: tuple[str, ...]) -> tuple[str, ...]:
        """The files that an import names: the module, and submodules that are taken from it."""
        file = self._found(importer, item, path)
        if file is not None and not file.endswith("__init__.py"):
            return (file,)
        found = {file} if file is not None else set()
        found.update(self._computed_by(importer, item, path))
        for name in item.names:
            inner = Imported(f"{item.module}.{name}" if item.module else name, item.level)
            submodule = self._found(importer, inner, path)
            if submodule is not None:
                found.add(submodule)
        return tuple(sorted(found))

    def _computed_by(self, importer: str, item: Imported, path: tuple[str, ...]) -> Iterator[str]:
        """The files of the modules that an import with a computed name may mean."""
        names = dict.fromkeys(name for _, names in self._below(importer, item) for name in names)
        for name in names:
            inner = Imported(f"{item.module}.{name}" if item.module else name, item.level)
            found = self._found(importer, inner, path)
            if found is not None:
                yield found

    def _below(self, importer: str, item: Imported) -> Iterator[tuple[str, list[str]]]:
        """The folders that the package of an import may be, with the modules in each that its computed name fits."""
        if item.below:
            folders = self._layout.folders_named(item.module)
            if item.level:
                package = self._layout.package(importer, item.level)
                folders = [joined(package, item.module.replace(".", "/"))] if package is not None else []
            yield from ((folder, self._layout.modules_like(folder, item.below)) for folder in folders)


def _ends(path: str) -> Iterator[str]:
    """``c``, ``b/c``, ``a/b/c`` and ``/a/b/c`` for ``a/b/c``."""
    at = len(path)
    while at > 0:
        at = path.rfind("/", 0, at)
        yield path[at + 1 :]
    yield "/" + path
