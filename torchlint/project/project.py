"""A project: what a run may look into, and how its files import each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from torchlint.model.syntax.context import ConfigValue
from torchlint.project.configs import Configs, is_own, read_by
from torchlint.project.folder_scan import scan_folder
from torchlint.project.graph import Graph
from torchlint.project.imports import Facts, Import, Pieces
from torchlint.project.layout import Layout, folder_of, joined
from torchlint.project.loaded_paths import LoadedPaths, PathLoads
from torchlint.project.notebooks import importing
from torchlint.project.outlines import Imported
from torchlint.project.resolver import ModuleResolver
from torchlint.project.roots import find_root
from torchlint.project.store import Outlines, StoreEntry
from torchlint.source.reading import is_notebook


class Project:
    """The files under a root, their texts and imports.

    All paths are absolute. Notebooks belong to it that may import its modules; of them, the raw text is read at once.
    Nothing else is read before an answer needs it; everything read is kept.
    """

    def __init__(
        self,
        root: str,
        entries: Mapping[str, StoreEntry],
        sources: Sequence[str],
        distributions: Sequence[str],
        whole: bool,
        configs: Configs,
    ) -> None:
        self.root = Path(root)
        self._root = root
        self._real_root = os.path.realpath(root)
        self._entries = dict(entries)
        self._known_paths: dict[str, Path] = {}
        self._sources = tuple(sources)
        self._distributions = tuple(distributions)
        self._whole = whole
        self.configs = configs

    @classmethod
    def around(cls, path: Path, root: Path | None = None, sources: Sequence[str] = ()) -> Project:
        """The project of a file or folder.

        Its root is ``root``, else the nearest folder upwards with settings, else the repository's, else the folder
        above the outermost package. ``sources`` are further folders of ``sys.path``, absolute or relative to the root.
        """
        top, deep = (os.path.abspath(root), True) if root is not None else find_root(os.fspath(path))
        tree = scan_folder(top, deep=deep)
        notebooks = importing(top, tree.files)
        entries = {
            file: StoreEntry(_place(top, file), top)
            for file in tree.files
            if file in notebooks or not is_notebook(file)
        }
        folders = (_relative(os.path.abspath(os.path.join(top, source)), top) for source in sources)
        base = dict.fromkeys(["", "src", "lib", *(folder for folder in folders if folder is not None)])
        found = cls(top, entries, tuple(base), tree.distributions, tree.complete, Configs(top, tree.configs))
        return found.including(path)

    def including(self, path: Path) -> Project:
        """The same project with a file under its root that it does not have by itself, such as an ignored file."""
        named = _relative(os.path.abspath(path), self._root)
        if not named or named in self._entries or not os.path.isfile(path):
            return self
        entries = {**self._entries, named: StoreEntry(_place(self._root, named), self._root)}
        return Project(self._root, entries, self._sources, self._distributions, self._whole, self.configs)

    def with_text(self, texts: Mapping[Path, str]) -> Project:
        """The same project with other texts for some of its files. What has not changed is shared."""
        entries = dict(self._entries)
        for path, text in texts.items():
            file = self._file(path, known=False)
            if file:
                entries[file] = StoreEntry(_place(self._root, file), self._root, text)
        changed = Project(self._root, entries, self._sources, self._distributions, self._whole, self.configs)
        if entries.keys() == self._entries.keys():
            changed.__dict__["_resolver"] = self._resolver
            if all(
                entry is self._entries[file] or entry.same_imports(self._entries[file])
                for file, entry in entries.items()
            ):
                changed.__dict__["_graph"] = self._graph
        return changed

    def same_imports(self, other: Project) -> bool:
        """Whether the files import each other just as those of ``other`` do, as far as `with_text` has found out."""
        return self._graph is other._graph

    # -- files

    @property
    def _layout(self) -> Layout:
        return self._resolver.layout

    @cached_property
    def _resolver(self) -> ModuleResolver:
        layout = Layout(file for file in self._entries if not is_notebook(file))
        return ModuleResolver(layout, self._sources, self._distributions)

    @cached_property
    def _loaded_paths(self) -> LoadedPaths:
        return LoadedPaths(partial(_loads, self._entries), self._layout.files)

    @cached_property
    def _graph(self) -> Graph:
        return Graph(
            self._resolver,
            Outlines(self._entries),
            partial(_added, self._entries, self._root, self._layout),  # nothing that refers to the graph
            partial(_runs, self._entries),
            partial(_classes, self.configs),
            self._loaded_paths.files,
        )

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The Python files, sorted."""
        return tuple(map(self._path, self.places))

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The Python files, relative to the root, sorted."""
        return tuple(sorted(self._entries))

    @property
    def complete(self) -> bool:
        """Whether no bound cut off files."""
        return self._whole

    def text(self, path: Path) -> str | None:
        """The code of a file, decoded; None if it is not in the project, unreadable, or larger than 2 MB."""
        entry = self._entry(path)
        return entry.text if entry is not None else None

    def pieces(self, path: Path) -> Pieces:
        """The top-level statements of a file: where `torchlint.model.syntax.pieces.parse_pieces` splits it."""
        entry = self._entry(path)
        return entry.pieces if entry is not None else Pieces()

    # -- imports

    def resolve(self, module: str, importer: Path) -> Path | None:
        """The file of a dotted module, or of a relative one with its dots, as ``importer`` sees it.

        None if it is not in the project, or if the programs that import ``importer`` see different files.
        """
        file = self._file(importer)
        found = self._find(module, file) if file is not None else None
        return self._path(found) if found is not None else None

    def _find(self, module: str, file: str) -> str | None:
        found = None
        if "/" not in module:
            if module.startswith("."):
                name = module.lstrip(".")
                found = self._layout.relative(file, len(module) - len(name), name)
            elif module:
                found = self._graph.resolve(module, file)
        return found

    def imports(self, path: Path) -> tuple[Import, ...]:
        """All imports of a file, in order of their rows; none if it is not valid Python."""
        file = self._file(path)
        if file is None:
            return ()
        return tuple(replace(item, module=self._absolute(item.module, file)) for item in self._facts(file).imports)

    def _absolute(self, module: str, file: str) -> str:
        """A module's absolute name; of a relative import that leaves the root, as it is written."""
        if not module.startswith("."):
            return module
        name = module.lstrip(".")
        package = self._layout.package(file, len(module) - len(name))
        if package is None:
            return module
        folders = [self._layout.home(file), *sorted(self._sources, key=len, reverse=True)]
        base = next((folder for folder in folders if not folder or package.startswith(folder + "/")), "")
        place = joined(package, name.replace(".", "/"))
        return place[len(base) + 1 if base else 0 :].replace("/", ".") or module

    def importers(self, path: Path) -> tuple[Path, ...]:
        """The files that import a file, directly or by a name that a package's __init__.py passes on."""
        file = self._file(path)
        return self._paths(self._graph.importers(file)) if file is not None else ()

    # -- programs

    def entries(self) -> tuple[Path, ...]:
        """The scripts: files with a main guard, and files that do something and that no file imports."""
        return self._paths(self._graph.entries)

    def programs(self, path: Path) -> tuple[Path, ...]:
        """The scripts that import a file, directly or not; itself, if it is one."""
        file = self._file(path)
        return self._paths(self._graph.programs(file)) if file is not None else ()

    def reachable(self, entry: Path) -> frozenset[Path]:
        """The files that a script imports, directly or not, and itself."""
        file = self._file(entry)
        return frozenset(self._paths(self._graph.reachable(file))) if file is not None else frozenset()

    # -- names

    def facts_of(self, file: str) -> Facts:
        """The facts of a file, given relative to the root."""
        return self._facts(file)

    def imported_by(self, file: str) -> tuple[Imported, ...]:
        """What a file, given relative to the root, imports, without parsing it."""
        return self._entries[file].outline.imports

    def text_of(self, file: str) -> str | None:
        """The text of a file, given relative to the root."""
        return self._entries[file].text

    def words_of(self, file: str) -> tuple[frozenset[str], ...]:
        """The words in each top-level statement of a file, given relative to the root."""
        return self._entries[file].words

    def members_of(self, file: str) -> tuple[frozenset[str], ...]:
        """The words in each piece of a file that name members: ``b`` of ``a.b``."""
        return self._entries[file].members

    def methods_of(self, file: str) -> frozenset[str]:
        """The names of the methods in a file, without those that methods of libraries may have."""
        return self._entries[file].methods

    def vocabulary(self, file: str) -> frozenset[str]:
        """The words in a file, given relative to the root."""
        return self._entries[file].vocabulary

    def exported(self, file: str) -> frozenset[str] | None:
        """The names that a file, given relative to the root, lists in ``__all__``; None if it does not list them."""
        return self._entries[file].exported

    def picked_from(self, file: str) -> frozenset[str]:
        """The dotted names of what a file, given relative to the root, may take names from as strings."""
        return self._entries[file].picked_from

    def is_in_program(self, file: str) -> bool:
        """Whether a script imports a file, directly or not, or the file is one; it is given relative to the root.

        A file that is too large to be followed belongs to no program.
        """
        return self.text_of(file) is not None and bool(self._graph.programs(file))

    def companions(self, file: str) -> tuple[str, ...]:
        """The files of just the same programs as a file, and itself, sorted; all relative to the root."""
        return self._graph.companions(file)

    def importers_of(self, file: str) -> tuple[str, ...]:
        """The files that import a file, all relative to the root."""
        return self._graph.importers(file)

    def importers_of_name(self, file: str, name: str) -> tuple[str, ...]:
        """The files that import a name from a file, all relative to the root."""
        return tuple(sorted(importer for importer, taken in self._graph.taken(file).items() if name in taken))

    def computed_by(self, file: str) -> frozenset[str]:
        """The files of the modules that a file imports by computed names, or loads by their paths."""
        return self._graph.computed(file)

    def paths_of(self, name: str) -> Sequence[str]:
        """The paths of Python files that a variable or attribute of this name is set to, for what loads them."""
        return self._loaded_paths.paths_of(name)

    def is_script(self, file: str) -> bool:
        """Whether a program starts with a file, relative to the root."""
        return file in self._graph.entries

    def is_taken(self, file: str, name: str) -> bool:
        """Whether another file may take a name from the top level of a file, given relative to the root."""
        return any(
            name in taken or (("*" in taken or "" in taken) and name in self.vocabulary(importer))
            for importer, taken in self._taking(file)
        )

    def taken(self, file: str) -> Mapping[str, frozenset[str]]:
        """By file that imports a file the names that it takes; ``""`` means the module. All relative to the root."""
        return self._graph.taken(file)

    def takers(self, file: str) -> frozenset[str]:
        """The files whose texts `is_taken` looks at for a file; all relative to the root."""
        return frozenset(importer for importer, _ in self._taking(file))

    def _taking(self, file: str) -> Iterator[tuple[str, frozenset[str]]]:
        """The files that take names from a file, and which, also through files that pass all of them on."""
        seen, waiting = {file}, [file]
        while waiting:
            for importer, taken in self._graph.taken(waiting.pop()).items():
                yield importer, taken
                if "*" in taken and importer not in seen:
                    seen.add(importer)
                    waiting.append(importer)

    def shape_of(self, file: str) -> str:
        """A short name of what the import graph takes from a file, relative to the root."""
        return self._entries[file].shape

    def file_of(self, path: Path) -> str | None:
        """A path relative to the root, with slashes; None if it is not of the project."""
        return self._file(path)

    def configured(
        self, key: str, reader: str, named: Callable[[], Mapping[str, Collection[str]]] = dict
    ) -> tuple[ConfigValue, ...]:
        """What the configuration files of the program of `reader`, relative to the root, set a key to.

        `named` gives by path of a configuration file the folders of the files that name it.
        """
        endings = read_by(self._graph.libraries(reader))
        found = [value for value in self.configs.values(key) if value.file.endswith(endings)] if endings else ()
        if not found:
            return ()
        namers = named()
        folders = {folder_of(entry) for entry in self._graph.outermost}
        files = {value.file for value in found}
        own = {file for file in files if is_own(file, reader, folders, namers.get(file, ()))}
        return tuple(value for value in found if value.file in own)

    def find_module(self, module: str, importer: str) -> str | None:
        """The file of a module, both relative to the root."""
        return self._find(module, importer)

    def _facts(self, file: str) -> Facts:
        return self._entries[file].facts

    # -- paths

    def _entry(self, path: Path) -> StoreEntry | None:
        file = self._file(path)
        if file is None:
            return None
        return self._entries[file]

    def _file(self, path: Path, *, known: bool = True) -> str | None:
        """A path relative to the root; None if it is not of the project."""
        try:
            absolute = os.path.abspath(path)
            file = _relative(absolute, self._root)
            if file is None or (known and file not in self._entries):
                file = _relative(os.path.realpath(absolute), self._real_root)
        except (OSError, ValueError):
            return None
        return file if not known or file in self._entries else None

    def _path(self, file: str) -> Path:
        known = self._known_paths.get(file)
        if known is None:
            known = self._known_paths[file] = Path(_place(self._root, file))
        return known

    def _paths(self, files: Sequence[str] | frozenset[str]) -> tuple[Path, ...]:
        return tuple(self._path(file) for file in files)


def _added(entries: Mapping[str, StoreEntry], root: str, layout: Layout, file: str) -> tuple[str, ...]:
    """The folders of a project that a file adds to ``sys.path``."""
    found = (_relative(folder, root) for folder in entries[file].added)
    return tuple(folder for folder in found if folder is not None and folder in layout.folders)


def _runs(entries: Mapping[str, StoreEntry], file: str) -> bool:
    return entries[file].runs


def _loads(entries: Mapping[str, StoreEntry], file: str) -> PathLoads:
    return entries[file].outline.loads


def _classes(configs: Configs, reader: str, scripts: Sequence[str]) -> tuple[Imported, ...]:
    """The classes that the configuration files of the program of ``reader`` name, as imports of them."""
    found = configs.classes
    folders = {folder_of(script) for script in scripts} if found else set()
    return tuple(dict.fromkeys(item for file, item in found if is_own(file, reader, folders)))


def _place(root: str, file: str) -> str:
    return os.path.join(root, *file.split("/"))


def _relative(path: str, root: str) -> str | None:
    """A path below ``root`` relative to it, with slashes; ``""`` for the root itself."""
    if path == root:
        return ""
    start = root.rstrip(os.sep) + os.sep
    return path[len(start) :].replace(os.sep, "/") if path.startswith(start) else None
