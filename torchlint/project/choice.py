"""Which pieces of other files some files are analysed with: what they use, and what uses them.

From the pieces (top-level statements) that import names of the files, and from the files themselves, names are followed
to their definitions until a budget is used up. Those come first that few characters lead to, so that the constants of a
configuration do not wait for the networks.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

from torchlint.project.base_classes import base_classes
from torchlint.project.bound_modules import BoundModules, contains, submodule
from torchlint.project.distances import Distances
from torchlint.project.files import Files, repeated
from torchlint.project.imports import DefinitionKind, Facts, Import
from torchlint.project.picked import PICKING, Picked
from torchlint.project.star_imports import StarImports
from torchlint.source.testing import is_test

#: Characters of other files that a file is analysed with.
BUDGET = 150_000
#: So many of them at most are base classes of the file's classes, and theirs: they come first.
BASE_BUDGET = 75_000
#: A piece that is longer, such as a network's code that was generated, is left out.
MAX_PIECE = 40_000
#: ... and so is one that uses the files: the function of a script that does everything can be long.
MAX_CALLER = 80_000
#: A module that more files import, other than scripts, is a public one: who calls it is unknown.
MAX_IMPORTERS = 16
#: The same for scripts, such as those of many experiments.
MAX_SCRIPTS = 64
#: A list or dictionary, which a module may take functions and classes from: ``NETWORKS = {"small": Small}``.
_REGISTRY = re.compile(r"^\w[^=\n]*=\s*[\[({]", re.MULTILINE)
_WORD = re.compile(r"\w+")
#: What sets something for the whole process: ``torch.set_default_dtype(...)``, ``cudnn.benchmark = True``.
_SETTING = re.compile(r"^[ \t]*\w+(?:\.\w+)*\.(?:(?:set|use)_\w+\(|\w*seed\w*\(|\w+[ \t]*=(?!=))", re.MULTILINE)
#: A piece that only imports: it is chosen with what uses its names.
_IMPORT = re.compile(r"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*(?:from|import)\b[^;]*\Z")


class _KnownFacts(dict[str, Facts]):
    """The facts of files, looked up when they are first asked for."""

    def __init__(self, files: Files) -> None:
        super().__init__()
        self._files = files

    def __missing__(self, file: str) -> Facts:
        found = self[file] = self._files.facts_of(file)
        return found


class Choice:
    """One choice of pieces. A piece is a file and its index among the file's pieces."""

    def __init__(self, files: Files, mains: Sequence[str]) -> None:
        self._files = files
        self._mains = frozenset(mains)
        self._distances = Distances(files, self._mains)
        self._known_facts = _KnownFacts(files)
        self._glanced_at: set[str] = set()  #: files that were only searched for names
        self._find_module = cache(files.find_module)
        self._modules = BoundModules(files, self._known_facts.__getitem__, self._find_module)
        self._stars = StarImports(files, self._known_facts.__getitem__, self._find_module)
        self._picked = Picked(files, self._known_facts.__getitem__, self._find_module)
        self._chosen: dict[str, set[int]] = {}
        self._added: set[tuple[str, int]] = set()  #: those that are chosen, or wait for it
        self._size = 0
        #: a heap of pieces: the characters up to their ends, in which order they were found, file, index, is a caller
        self._waiting: list[tuple[int, int, str, int, bool]] = []
        self._distance = 0  #: the characters that lead to the piece whose needs are being chosen, and its own
        self._containing: dict[str, dict[str, list[int]]] = {}  #: by file the pieces that contain each word
        self._imported: dict[str, dict[str, list[int]]] = {}  #: by file the pieces that import each name
        self._assigned: dict[str, dict[int, list[str]]] = {}  #: by file what the statement in each row assigns
        self._inner: dict[str, list[Import]] = {}  #: by file the imports in its functions
        self._seen: set[tuple[str, str]] = set()  #: names of files that were looked up
        #: by file and the lines that use its names, how many pieces with these lines there were
        self._using: Counter[tuple[str, frozenset[str]]] = Counter()
        self._asked: dict[tuple[str, Import], set[str]] = {}  #: by file and import the names that were looked up

    def run(self) -> dict[str, set[int]]:
        """By file the chosen pieces."""
        bases = self._choose_bases()
        for main in sorted(self._mains):
            self._callers(main, self._defined(main))
        for main in sorted(self._mains):
            members = frozenset().union(*self._files.members_of(main))
            self._needs(main, frozenset().union(*self._files.words_of(main)), members)
        for file, index in bases:
            self._needs(file, self._words(file, index), self._files.members_of(file)[index])
        for file, index, is_caller in self._nearest(BUDGET):
            if is_caller:
                self._callers(file, self._defined(file, index))
                self._users(file, index)
            self._needs(file, self._words(file, index), self._files.members_of(file)[index])
        return self._chosen

    def _choose_bases(self) -> list[tuple[str, int]]:
        """Choose the base classes of the files' classes, and theirs: these run each other's methods."""
        found: list[tuple[str, int]] = []
        for main in sorted(self._mains):
            self._needs(main, base_classes(self._files.text_of(main) or ""), ())
        for file, index, _ in self._nearest(BASE_BUDGET):
            found.append((file, index))
            self._needs(file, base_classes(self._text(file, index)), ())
        return found

    def _nearest(self, budget: int) -> Iterator[tuple[str, int, bool]]:
        """Choose the waiting pieces, the nearest first, until a budget is used up; each, and whether it is a caller."""
        too_long: list[tuple[int, int, str, int, bool]] = []
        while self._waiting and self._size < budget:
            piece = heapq.heappop(self._waiting)
            self._distance, _, file, index, is_caller = piece
            length = len(self._text(file, index))
            if self._size + length > budget:
                too_long.append(piece)  # a larger budget may have room for it
                continue
            self._add_imports(file, self._words(file, index))
            self._chosen[file].add(index)
            self._size += length
            yield file, index, is_caller
        self._distance = 0
        for piece in too_long:
            heapq.heappush(self._waiting, piece)

    @property
    def looked_at(self) -> frozenset[str]:
        """The files whose texts the choice depends on."""
        return self._mains | self._glanced_at | self._stars.glanced_at | self._known_facts.keys()

    def _facts(self, file: str) -> Facts:
        return self._known_facts[file]

    def _add(self, file: str, index: int, *, is_caller: bool = False, alike: int = 0) -> None:
        """Choose a piece, and the imports that it uses, when its turn comes: after `alike` ones that others need."""
        if file in self._mains or (file, index) in self._added:
            return
        text = self._text(file, index)
        if len(text) > (MAX_CALLER if is_caller else MAX_PIECE) or _IMPORT.match(text):
            return
        self._added.add((file, index))
        distance = self._distance + self._distances.of(file, index, text, is_caller=is_caller, alike=alike)
        heapq.heappush(self._waiting, (distance, len(self._added), file, index, is_caller))

    def _text(self, file: str, index: int) -> str:
        starts = self._facts(file).pieces.starts
        text = self._files.text_of(file) or ""
        return text[starts[index] : starts[index + 1] if index + 1 < len(starts) else len(text)]

    def _add_imports(self, file: str, words: Collection[str]) -> None:
        """Choose the imports of a file that bind one of some words, or unknown names."""
        if file in self._mains:
            return
        imports = self._imports(file)
        if file not in self._chosen:
            self._chosen[file] = set(imports[""])
            self._add_settings(file)
        self._chosen[file].update(index for name in imports.keys() & words for index in imports[name])

    def _imports(self, file: str) -> Mapping[str, Collection[int]]:
        """By name the pieces of a file that import it; under "" those with star imports."""
        known = self._imported.get(file)
        if known is None:
            facts = self._facts(file)
            known = self._imported[file] = {"": [facts.pieces.index_at(item.row) for item in facts.stars]}
            for name, bindings in facts.bindings.items():
                rows = [item.row for item in bindings if item.imported is not None]
                if rows:
                    known[name] = [facts.pieces.index_at(row) for row in rows]
        return known

    def _needs(self, file: str, words: Collection[str], members: Collection[str]) -> None:
        """Choose the definitions of the names in `words`, as the top level of a file sees them.

        Of modules that are among them, those of `members`.
        """
        self._follow_picked(file, words)
        facts = self._facts(file)
        for name in sorted(facts.bindings.keys() & words):
            for item in (*self._modules.in_dict(file, name), *self._modules.imports(file, name)):
                self._follow_module(file, item, members)
            if (file, name) in self._seen:
                continue
            self._seen.add((file, name))
            for binding in facts.bindings[name]:
                if binding.imported is not None:
                    self._add_imports(file, {name})
                    self._follow(file, binding.imported, members)
                else:
                    self._add(file, facts.pieces.index_at(binding.row))
                    if binding.kind is DefinitionKind.ASSIGNMENT:
                        self._add_changes(file, name)
            self._add_uses(file, name)
        for item in self._inner_imports(file):
            if item.bound in words and (file, f"{item.row}:{item.bound}") not in self._seen:
                self._seen.add((file, f"{item.row}:{item.bound}"))
                self._follow(file, item, members)
        if facts.stars:
            self._follow_stars(file, set(words).difference(facts.bindings), members)

    def _follow_picked(self, file: str, words: Collection[str]) -> None:
        """Choose the functions and classes that a file takes by name, or from modules that it imports so."""
        for module, names in self._picked.taken(file, words, computed=file in self._mains):
            new = {name for name in names if (module, f"*{name}") not in self._seen}
            self._seen.update((module, f"*{name}") for name in new)
            if new:
                self._needs(module, new, new)

    def _follow_stars(self, file: str, unbound: set[str], members: Collection[str]) -> None:
        """Choose the definitions of names that a file may have by its star imports."""
        stars = self._stars.of(file)
        listed = {index for name in stars.listing.keys() & unbound for index in stars.listing[name]}
        for index in sorted(listed | stars.unlisted):
            star, target = self._facts(file).stars[index], stars.targets[index]
            exported = self._files.exported(target)
            known = self._asked.setdefault((file, star), set())
            asked = (unbound if exported is None else unbound & exported) - known
            if asked:
                known |= asked
                self._add_imports(file, ())
                self._needs(target, asked, members)

    def _inner_imports(self, file: str) -> Sequence[Import]:
        """The imports in the functions of a file."""
        known = self._inner.get(file)
        if known is None:
            known = self._inner[file] = [item for item in self._facts(file).imports if item.in_function]
        return known

    def _follow_module(self, file: str, item: Import, members: Collection[str]) -> None:
        """Choose `members` of the module that an import binds, if some of them are new."""
        asked = self._asked.setdefault((file, item), set())
        before = len(asked)
        asked.update(members)
        if len(asked) > before:
            self._follow(file, item, members)

    def _add_uses(self, file: str, name: str) -> None:
        """Choose what the top level of a file does with an object of the project: ``config.WORKERS = 4``."""
        facts = self._facts(file)
        for row in facts.uses.get(name, ()):
            if all(item.imported is None or self._is_object(file, item.imported) for item in facts.bindings[name]):
                self._add(file, facts.pieces.index_at(row))

    def _add_settings(self, file: str) -> None:
        """Choose what the top level of a file sets for the whole process by a name that it imports from torch."""
        facts = self._facts(file)
        rows = {binding.row for bindings in facts.bindings.values() for binding in bindings}
        for name in sorted(facts.uses.keys() & facts.bindings.keys()):
            imported = [item.imported for item in facts.bindings[name] if item.imported is not None]
            if any(item.module.partition(".")[0] == "torch" for item in imported):
                for index in map(facts.pieces.index_at, sorted(set(facts.uses[name]) - rows)):
                    if _SETTING.search(self._text(file, index)):
                        self._add(file, index)

    def _add_changes(self, file: str, name: str) -> None:
        """Choose what the top levels of other files do with an object of a file: ``cfg.workers = 4``."""
        importers = self._files.importers_of_name(file, name)
        if len(importers) > MAX_IMPORTERS:
            return
        for importer in importers:
            if f"\n{name}." not in (self._files.text_of(importer) or ""):
                self._glanced_at.add(importer)
            elif any(item.bound == name for item in self._facts(importer).imports if item.name == name):
                self._add_imports(importer, {name})
                self._add_uses(importer, name)

    def _is_object(self, file: str, item: Import) -> bool:
        """Whether an import is that of a name, not of a module, of the project."""
        target = self._find_module(item.module, file) if item.name else None
        if target is None:
            return False
        bound = self._facts(target).bindings.get(item.name, ())
        return any(binding.kind is DefinitionKind.ASSIGNMENT or binding.imported is not None for binding in bound)

    def _follow(self, file: str, item: Import, members: Collection[str]) -> None:
        """Choose what an import refers to; of a module `members`."""
        target = self._find_module(item.module, file)
        if not item.name:
            if target is not None:
                self._needs(target, members, members)
                self._follow_submodules(target, members)
            return
        if target is not None and target != file and item.name in self._facts(target).bindings:
            self._needs(target, {item.name}, members)
            return
        module = self._find_module(submodule(item), file)
        if module is not None:
            self._needs(module, members, members)
        elif target is not None:
            self._needs(target, {item.name}, members)  # through a star import

    def _follow_submodules(self, package: str, members: Collection[str]) -> None:
        """Choose `members` of the modules that the __init__.py of a package imports: ``import net.train``."""
        for item in self._facts(package).imports if package.endswith("__init__.py") else ():
            if not item.name and item.module.rpartition(".")[2] in members:
                module = self._find_module(item.module, package)
                if module is not None and module != package and contains(package, module):
                    self._needs(module, members, members)
                    self._follow_submodules(module, members)

    def _callers(self, file: str, names: set[str]) -> None:
        """Choose the pieces that use functions or classes of a file, in it and in the files that import it."""
        if not names:
            return
        if file not in self._mains:
            self._add_with(file, names)
        importers = [item for item in self._files.importers_of(file) if item != file]
        scripts = sum(map(self._files.is_script, importers)) if len(importers) > MAX_IMPORTERS else 0
        if len(importers) - scripts > MAX_IMPORTERS or scripts > MAX_SCRIPTS:
            return
        tests = {
            item for item in importers if item not in self._mains and is_test(item, self._files.text_of(item) or "")
        }
        rest = names - self._used_without(tests, file, importers) if tests else names
        for importer in importers:
            if importer in self._mains:
                continue  # all of its pieces are analysed anyway
            asked = rest if importer in tests else names  # what a test passes is not what the program does
            picks = any(item == file or contains(item, file) for item in self._picked.modules(importer))
            if self._files.vocabulary(importer).isdisjoint(asked) and not picks:
                self._glanced_at.add(importer)
                continue
            bound, modules = self._modules.bound(importer, file, asked)
            for index, members in enumerate(self._files.members_of(importer)):
                words = self._words(importer, index)
                takes = not members.isdisjoint(asked) or (picks and not words.isdisjoint(PICKING))
                if not words.isdisjoint(bound) or (takes and not words.isdisjoint(modules)):
                    self._add(
                        importer, index, is_caller=True, alike=self._alike(importer, index, file, bound | modules)
                    )

    def _alike(self, importer: str, index: int, file: str, names: set[str]) -> int:
        """How many pieces use `names`, which are of a file, in the same lines as a piece that is to be chosen.

        Of scripts that differ in other lines only, one or two tell how they call the file.
        """
        text = self._text(importer, index)
        lines, used = text.splitlines(), [name for name in names if name in text]
        likely = {line for name in used for line in lines if name in line}
        using = frozenset(line.strip() for line in likely if not names.isdisjoint(_WORD.findall(line)))
        self._using[file, using] += 1
        return self._using[file, using] - 1

    def _used_without(self, tests: Collection[str], file: str, importers: Sequence[str]) -> set[str]:
        """What a file contains several times, and the words of the files that import it, without tests."""
        others = [item for item in importers if item not in tests]
        self._glanced_at.update(others)
        return repeated(self._files.words_of(file)).union(*map(self._files.vocabulary, others))

    def _users(self, file: str, index: int) -> None:
        """Choose the statements of a script that use what a piece assigns: ``loader = build_loader()``.

        Of any other file those that use a list or dictionary: ``NETWORKS = {"small": Small}``.
        """
        facts = self._facts(file)
        if not facts.runs and _REGISTRY.search(self._text(file, index)) is None:
            return
        known = self._assigned.get(file)
        if known is None:
            known = self._assigned[file] = {}
            for name, bindings in facts.bindings.items():
                for binding in bindings:
                    if binding.kind is DefinitionKind.ASSIGNMENT:
                        known.setdefault(binding.row, []).append(name)
        names = known.get(facts.pieces.rows[index], ())
        self._add_with(file, names)

    def _add_with(self, file: str, names: Collection[str]) -> None:
        """Choose the pieces of a file that contain one of some names."""
        known = self._containing.get(file)
        if known is None:
            known = self._containing[file] = {}
            for index in range(len(self._facts(file).pieces.starts)):
                for word in self._words(file, index):
                    known.setdefault(word, []).append(index)
        for index in sorted({index for name in names for index in known.get(name, ())}):
            self._add(file, index, is_caller=True)

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
