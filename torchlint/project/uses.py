"""Which functions and classes at the top level of a file something in the project uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise

from torchlint.project.imports import Import
from torchlint.project.project import Project
from torchlint.source.lexemes import behind, code_of
from torchlint.source.paths import is_installed
from torchlint.source.reading import is_notebook
from torchlint.source.testing import is_test

_WORD = re.compile(r"[^\W\d]\w*")
#: A dotted name: it begins where a word does, so that a long one is read once.
_CHAIN = re.compile(r"\b\w+(?:\s*\.\s*\w+)+")
_DOT = re.compile(r"\s*\.\s*")
#: A piece of a file that only imports, and does not rename.
_IMPORT = re.compile(r"\s*(?:from|import)\b(?!.*\bas\b)[^;]*\Z", re.DOTALL)
_DEFINITION = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)
_DECORATOR = re.compile(r"^@(?:\w+\.)*(\w+)", re.MULTILINE)
#: Decorators that do not register what they decorate.
_PLAIN_DECORATORS = frozenset(
    "no_grad inference_mode enable_grad autocast compile script unused ignore jit dataclass contextmanager cache "
    "lru_cache wraps total_ordering add_start_docstrings add_code_sample_docstrings replace_return_docstrings".split()
)
#: Libraries that make commands of functions and of the methods of classes.
_COMMANDS = re.compile(r"^[ \t]*(?:from|import)[ \t]+(?:fire|invoke|jsonargparse|defopt|clize|plac)\b", re.MULTILINE)
#: What reaches all names of the file that it is in.
_OWN_NAMES = re.compile(
    r"\b(?:globals|locals)\(|(?<![\w.])(?:vars\(\s*\)|(?:eval|exec)\()|\bsys\.modules\b|\bgetmembers\("
    rf"|{_COMMANDS.pattern}",
    re.MULTILINE,
)
#: What finds classes, wherever they are, by their base class or by their names on the command line.
_REGISTRIES = re.compile(r"\b(?:__subclasses__|__init_subclass__|LightningCLI|jsonargparse)\b")
#: What loads modules by name, and what takes names from an object by name.
_LOADERS = re.compile(r"\b(?:import_module|__import__|load_source|module_from_spec|load_module|run_path|run_module)\b")
_PICKS = re.compile(r"\b(?:getattr|vars|getmembers)\(|(?<!self)\.__dict__\b")
#: What follows ``getattr(`` where the name of an attribute is not a literal; what takes all attributes of an object.
_COMPUTED = re.compile(r"\s*([^\W\d][\w.]*)[^,\n]*,(?!\s*[\"']\w*[\"']\s*[,)])")
_ALL_ATTRIBUTES = re.compile(r"\b(?:methodcaller|attrgetter|getmembers|dir)\(|(?<!self)\.__dict__\b")
#: Before a name, that it is none of these modules, in which many functions are called as methods are.
_OTHERS = "".join(rf"(?<!\b{module}\.)" for module in ("torch", "F", "np", "numpy", "math"))
_ENTRIES = ("hubconf.py", "conftest.py", "setup.py")


class Uses:
    """Answers for one version of a project. Each question is asked of as few files as possible."""

    def __init__(self, project: Project) -> None:
        self._project = project
        #: by question the files by which something may use it; None if nothing does
        self._witnesses: dict[tuple[str, str], frozenset[str] | None] = {}
        #: by file one that uses its module as a value; None if there is none
        self._keepers: dict[str, str | None] = {}

    def has(self, file: str, name: str) -> bool:
        """Whether something may use the function or class called ``name`` of a file, relative to the root.

        It is not used if the file is of a program whose modules nothing installs, and if all other code contains the
        name only in imports and in functions and classes that are not used: other than its own definition, and comments
        and docstrings. Names that are looked up as strings, in registries or from the command line count as used.
        """
        key = (file, name)
        if key not in self._witnesses:
            self._witnesses[key] = self._users(file, name)
        return self._witnesses[key] is not None

    def has_method(self, file: str, name: str) -> bool:
        """Whether something may call the methods called ``name`` of classes of a file, relative to the root.

        They are not called if the file is of a program, as in `has`, if all code contains the name only where functions
        are defined, and if nothing takes attributes of objects by names that it computes.
        """
        key = (file, f".{name}")
        if key not in self._witnesses:
            self._witnesses[key] = self._callers(file, name) if self._is_of_program(file) else frozenset({file})
        return self._witnesses[key] is not None

    def consulted(self, file: str) -> frozenset[str]:
        """The files on which the answers about a file depended so far."""
        found = [witnesses for (asked, _), witnesses in self._witnesses.items() if asked == file]
        return self._files if None in found else frozenset().union(*filter(None, found)) - {file}

    @cached_property
    def _files(self) -> frozenset[str]:
        """The files of the project, relative to the root."""
        return frozenset(self._project.places)

    def _is_of_program(self, file: str) -> bool:
        """Whether all code that may use a file is seen: scripts, or modules that these may load by their paths."""
        project = self._project
        return (
            project.complete
            and (project.is_in_program(file) or (bool(project.entries()) and bool(project.taken(file))))
            and not is_notebook(file)
            and not file.endswith(_ENTRIES)
            and not is_installed(str(project.root / file))
        )

    def _users(self, file: str, name: str) -> frozenset[str] | None:
        """The files by which something may use a name of a file, from it to code that runs; None if nothing does."""
        reached: dict[tuple[str, str], frozenset[str]] = {(file, name): frozenset({file})}
        waiting = [(file, name)]
        while waiting:
            home, wanted = waiting.pop()
            path = reached[home, wanted]
            if wanted.startswith("__") or self._project.configs.contain(wanted) or not self._is_of_program(home):
                return path
            takers = self._project.takers(home)
            for other in (home, *sorted(takers - {home}), *sorted(self._files - takers - {home})):
                for definition in self._mentioning(other, home, wanted):
                    longer = path | {other} | self._sources(other, wanted)
                    longer |= frozenset(filter(None, [self._keepers.get(home)]))
                    if not definition:
                        return longer
                    if (other, definition) not in reached:
                        reached[other, definition] = longer
                        waiting.append((other, definition))
        unseen = self._unseen or self._finder
        if unseen is not None:
            return frozenset({file, unseen})
        pickers = ((path, self._picker(*item)) for item, path in reached.items())
        return next((path | {picker} for path, picker in pickers if picker is not None), None)

    def _callers(self, file: str, name: str) -> frozenset[str] | None:
        """A file that may call methods of this name; None if there is none."""
        if name.startswith("__") or self._project.configs.contain(name):
            return frozenset({file})
        called = re.compile(rf"(?<!\bdef ){_OTHERS}\b{re.escape(name)}\b")
        for other in (file, *sorted(self._files - {file})):
            if name in self._project.vocabulary(other) and called.search(code_of(self._project.text_of(other) or "")):
                return frozenset({other})
        found = self._unseen or self._asking
        return frozenset({found}) if found is not None else None

    @cached_property
    def _asking(self) -> str | None:
        """A file that may take a method from an object by a name that it computes."""
        return next((file for file in sorted(self._files) if self._asks(file)), None)

    def _asks(self, file: str) -> bool:
        text = self._project.text_of(file) or ""
        if _COMMANDS.search(text) is not None or _ALL_ATTRIBUTES.search(text) is not None:
            return True
        bound = self._project.facts_of(file).bindings
        return any(
            all(item.imported is None for item in bound.get(match[1].partition(".")[0], ()))
            for _, match in behind(text, "getattr(", _COMPUTED)
        )

    def _mentions(self, file: str, name: str) -> bool:
        """Whether a file contains a name other than in imports and in definitions of this name."""
        return any(True for _ in self._naming(file, name))

    def _naming(self, file: str, name: str) -> Iterator[str]:
        """The code of the top-level statements of a file that name something, other than to import or define it."""
        if name in (self._project.text_of(file) or "") and name in self._project.vocabulary(file):
            yield from self._pieces(file, lambda words: name in words, name)

    def _mentioning(self, file: str, home: str, name: str) -> Iterator[str]:
        """What the statements of a file define that may mean the ``name`` of ``home``; empty for code that runs."""
        found = [code for code in self._naming(file, name) if file == home or self._may_mean(file, home, name, code)]
        tests = bool(found) and is_test(file, self._project.text_of(file) or "")
        yield from ("" if tests else _defined(code) for code in found)

    def _may_mean(self, file: str, home: str, name: str, code: str) -> bool:
        """Whether code of a file that contains a name may mean that of ``home``, and not one of its own or a method."""
        taken = self._project.taken(home).get(file, frozenset())
        if not taken.isdisjoint((name, "", "*")) or _LOADERS.search(code) is not None:
            return True
        facts = self._project.facts_of(file)
        is_own = name in facts.bindings and not any(
            self._may_take(file, item, home, name) for item in facts.imports if item.bound == name
        )
        if not is_own and re.search(rf"(?<![\w.]){re.escape(name)}\b", code) is not None:
            return True
        chains = (_DOT.split(chain) for chain in _CHAIN.findall(code))
        roots = (first for first, *others in chains if name in others)
        if not {item.bound for item in facts.imports}.isdisjoint(roots):
            return True
        return re.search(rf"\.\s*{re.escape(name)}\b", code) is not None and self._keeper(home) is not None

    def _keeper(self, home: str) -> str | None:
        """A file that uses the module of ``home`` as a value, as in a table: ``models = {"small": small}``."""
        if home not in self._keepers:
            takers = sorted(other for other, taken in self._project.taken(home).items() if "" in taken)
            self._keepers[home] = next((other for other in takers if self._keeps(other, home)), None)
        return self._keepers[home]

    def _keeps(self, file: str, home: str) -> bool:
        """Whether a file that imports the module of ``home`` names it other than to take something from it."""
        imports = self._project.facts_of(file).imports
        return any(
            re.search(rf"(?<![\w.]){re.escape(name)}\b(?!\s*[.=])", code) is not None
            for name in {item.bound for item in imports if self._is_module(file, item, home)}
            for code in self._naming(file, name)
        )

    def _is_module(self, file: str, item: Import, home: str) -> bool:
        """Whether an import of a file binds the module of ``home``."""
        below = item.name and (item.module if item.module.endswith(".") else f"{item.module}.")
        return self._project.find_module(f"{below}{item.name}" if below else item.module, file) == home

    def _sources(self, file: str, name: str) -> frozenset[str]:
        """The files that a file imports a name from."""
        imports = (item for item in self._project.facts_of(file).imports if item.bound == name)
        return frozenset(filter(None, (self._project.find_module(item.module, file) for item in imports)))

    def _may_take(self, file: str, item: Import, home: str, name: str) -> bool:
        """Whether an import of a file may take the ``name`` of ``home``, also from a file that passes it on."""
        target = self._project.find_module(item.module, file)
        if target is None:
            return True
        if target == home:
            return item.name == name
        found = self._project.facts_of(target).bindings.get(item.name, ())
        return not found or any(binding.imported is not None for binding in found)

    def _pieces(self, file: str, concerns: Callable[[frozenset[str]], bool], name: str | None = None) -> Iterator[str]:
        """The code of the top-level statements of a file whose words concern the question.

        Without imports, and without the definitions of ``name``.
        """
        starts, text = self._project.facts_of(file).pieces.starts, self._project.text_of(file) or ""
        for words, (start, end) in zip(self._project.words_of(file), pairwise((*starts, len(text))), strict=True):
            if not concerns(words):
                continue
            code = code_of(text[start:end])
            if _defined(code) != name and _IMPORT.match(code) is None and concerns(frozenset(_WORD.findall(code))):
                yield code

    @cached_property
    def _unseen(self) -> str | None:
        """A file that imports one which is on disk and not of the project, such as an ignored one."""
        return next((file for file in sorted(self._files) if any(self._unseen_imports(file))), None)

    def _unseen_imports(self, file: str) -> Iterator[bool]:
        """By import of a file, whether it is of a file that is on disk and not of the project."""
        for item in self._project.imported_by(file):
            folder = self._project.root / file
            for _ in range(item.level or 1):
                folder = folder.parent
            for base in (folder,) if item.level else dict.fromkeys((folder, self._project.root)):
                module = base.joinpath(*item.module.split("."))
                names = [module.with_name(f"{module.name}.py")] if item.module else []
                names += [module / f"{name}.py" for name in ("__init__", *item.names) if name != "*"]
                yield any(path.is_file() and self._project.file_of(path) is None for path in names)

    @cached_property
    def _finder(self) -> str | None:
        """A file that may find any function or class of the project without naming it."""
        for file in sorted(self._files):
            text = self._project.text_of(file) or ""
            if _REGISTRIES.search(text) is not None:
                return file
            if _LOADERS.search(text) is not None and _PICKS.search(text) is not None:
                live = "\n".join(self._live(file))
                if _LOADERS.search(live) is not None and _PICKS.search(live) is not None:
                    return file
        return None

    def _live(self, file: str) -> Iterator[str]:
        """The code of a file without the functions that no other code of it names."""
        for code in self._pieces(file, lambda words: True):
            name = _defined(code)
            if not name or self._project.is_taken(file, name) or self._mentions(file, name):
                yield code

    def _picker(self, file: str, name: str) -> str | None:
        """A file that may take a name as a string from a file, or from another one that imports it from there."""
        holders, waiting, modules = {file}, [file], False
        while waiting:
            holder = waiting.pop()
            if _OWN_NAMES.search(self._project.text_of(holder) or "") is not None:
                return holder
            for importer, taken in self._project.taken(holder).items():
                modules = modules or "" in taken
                if importer not in holders and ("*" in taken or name in taken):
                    holders.add(importer)
                    waiting.append(importer)
        if not modules:  # only the names that they list are imported
            return None
        return next((other for other in sorted(self._files) if self._picks(other)), None)

    def _picks(self, file: str) -> bool:
        """Whether a file takes names as strings from something that may be a module."""
        return any(picked.partition(".")[0] not in ("self", "cls") for picked in self._project.picked_from(file))


def _defined(code: str) -> str:
    """The function or class that a top-level statement defines, and that no decorator may register; or empty."""
    found = _DEFINITION.search(code)
    before = code[: found.start()].strip() if found is not None else ""
    if found is None or (before and not before.startswith("@")):
        return ""
    return found[1] if _PLAIN_DECORATORS.issuperset(_DECORATOR.findall(before)) else ""
