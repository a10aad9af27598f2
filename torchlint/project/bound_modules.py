"""Which modules of the project the names of a file refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from torchlint.project.files import Files
from torchlint.project.imports import DefinitionKind, Facts, Import

#: An assignment of a dict.
DICT = re.compile(r"\s*\w+\s*(?::[^=]*)?=\s*\{")


class BoundModules:
    """Answers for one choice of pieces."""

    def __init__(
        self, files: Files, facts: Callable[[str], Facts], find_module: Callable[[str, str], str | None]
    ) -> None:
        self._files = files
        self._facts = facts
        self._find_module = find_module
        self._dicts: dict[tuple[str, str], tuple[Import, ...]] = {}  #: by file and name the modules in a dict
        self._imports: dict[tuple[str, str], tuple[Import, ...]] = {}  #: by file and name

    def imports(self, file: str, name: str) -> tuple[Import, ...]:
        """The imports of modules of the project that bind a name."""
        key = (file, name)
        if key not in self._imports:
            self._imports[key] = ()  # files may import each other
            imported = [item.imported for item in self._facts(file).bindings[name] if item.imported is not None]
            self._imports[key] = tuple(item for item in imported if self._module_of(file, item) is not None)
        return self._imports[key]

    def in_dict(self, file: str, name: str) -> tuple[Import, ...]:
        """The imports of the modules in a dict that is assigned to a name: ``MODELS = {"vae": vae, "gan": gan}``."""
        key = (file, name)
        if key not in self._dicts:
            self._dicts[key] = ()
            facts = self._facts(file)
            bindings = facts.bindings[name]
            if len(bindings) == 1 and bindings[0].kind is DefinitionKind.ASSIGNMENT:
                index = facts.pieces.index_at(bindings[0].row)
                if DICT.match(self._files.text_of(file) or "", facts.pieces.starts[index]):
                    inside = self._files.words_of(file)[index] & facts.bindings.keys()
                    self._dicts[key] = tuple(item for other in sorted(inside) for item in self.imports(file, other))
        return self._dicts[key]

    def bound(self, importer: str, file: str, names: Collection[str]) -> tuple[set[str], set[str]]:
        """Under which names a file knows names of another one, and the module itself."""
        bound: set[str] = set(names) if file in self._files.computed_by(importer) else set()
        modules: set[str] = set()
        for item in self._facts(importer).imports:
            target = self._find_module(item.module, importer)
            if not item.name:
                if target == file or (target is not None and contains(target, file)):
                    modules.add(item.bound)
            elif target == file or (target is not None and target.endswith("__init__.py")):
                if item.name == "*":
                    bound |= set(names)
                elif item.name in names:
                    bound.add(item.bound)
            if item.name and item.name != "*":
                found = self._find_module(submodule(item), importer)
                if found == file or (found is not None and contains(found, file)):
                    modules.add(item.bound)
        if modules:
            kept = [
                name
                for name in self._facts(importer).bindings
                if any(item.bound in modules for item in self.in_dict(importer, name))
            ]
            modules.update(kept)
        return bound, modules

    def _module_of(self, file: str, item: Import) -> str | None:
        """The file of the module that an import binds to a name; None if it binds something else."""
        target = self._find_module(item.module, file)
        if not item.name:
            return target
        if target is not None and target != file and item.name in self._facts(target).bindings:
            inner = next(iter(self.imports(target, item.name)), None)
            return self._module_of(target, inner) if inner is not None else None
        return self._find_module(submodule(item), file)


def submodule(item: Import) -> str:
    """The module that ``from package import module`` takes."""
    return f"{item.module}{'' if item.module.endswith('.') else '.'}{item.name}"


def contains(package: str, file: str) -> bool:
    """Whether a file is a package's __init__.py, and another one is in that package."""
    folder, _, name = package.rpartition("/")
    return name == "__init__.py" and file.startswith(f"{folder}/" if folder else "")
