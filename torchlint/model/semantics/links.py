"""How the files of a project are linked: what an import of another file's name refers to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import libcst as cst

from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.context import PathsOf
from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.syntax.scopes import Binding, Scope
from torchlint.model.syntax.tree import Tree
from torchlint.source.module_patterns import ANY, MAX_LENGTH, MAX_UNKNOWN, ends_in, regex_of

#: The dotted name of a module, with leading dots if it is relative, and the file that imports it -> the file, or None.
Resolve = Callable[[str, str], str | None]

#: What a name of another file may be bound by, to be known here.
_KNOWN = (BindingKind.FUNCTION, BindingKind.CLASS, BindingKind.ASSIGN, BindingKind.ANNOTATION, BindingKind.IMPORT)
#: Statements that bind names of their own.
_NAMING = (cst.FunctionDef, cst.ClassDef, cst.Assign)
#: How many imports a name is followed through.
_DEPTH = 12


class Links:
    """Replaces the imports of a forest's own names by what they are bound to, and finds its modules."""

    def __init__(
        self, tree: Tree, paths: Mapping[cst.CSTNode, str], resolve: Resolve, paths_of: PathsOf = lambda name: ()
    ) -> None:
        """`paths` are those of the tree's roots."""
        self._tree = tree
        self._paths = paths
        self._resolve = resolve
        self.paths_of = paths_of  #: the paths of Python files that a variable or attribute of this name is set to
        self._modules: dict[tuple[str, cst.CSTNode], Scope | None] = {}
        self._like: dict[tuple[str, cst.CSTNode], list[Scope]] = {}
        self._roots = {path: root for root, path in paths.items()}
        #: by function, class or assignment: the names under which other files import it, where they differ from its own
        self.aliases: dict[cst.CSTNode, set[str]] = {}
        #: by file with star imports: the names that it gives to who imports it
        self._exports: dict[cst.CSTNode, dict[str, list[Binding]]] = {}
        #: by scope and name the bindings that were replaced; None where the name was not bound
        self._replaced: list[tuple[Scope, str, list[Binding] | None]] = []
        if self.has_context:
            self._connect()

    @property
    def has_context(self) -> bool:
        """Whether there is more than one file."""
        return len(self._paths) > 1

    def module(self, dotted: str, root: cst.CSTNode) -> Scope | None:
        """The scope of the module that a file, given by its root, imports by a dotted name."""
        if not self.has_context:
            return None
        key = (dotted, root)
        if key not in self._modules:
            path = self._resolve(dotted, self._paths[root])
            found = self._roots.get(path) if path is not None else None
            self._modules[key] = None if found is None else self._tree.scopes[found]
        return self._modules[key]

    def modules_like(self, pattern: str, root: cst.CSTNode) -> list[Scope]:
        """The scopes of the modules that a file, given by its root, may import by a name of a pattern."""
        name = pattern.lstrip(".")
        dots = pattern[: -len(name)]
        if not self.has_context or (not dots and ANY in name.partition(".")[0]) or name.count(ANY) > MAX_UNKNOWN:
            return []
        key = (pattern, root)
        if key not in self._like:
            tail = re.compile(r"(?:.*\.)?(" + regex_of(name, r"\w*") + r")(?:\.__init__)?")
            paths = (path for path in self._roots if len(path) <= MAX_LENGTH)
            found = (tail.fullmatch(path.removesuffix(".py").replace("/", ".")) for path in paths)
            names = dict.fromkeys(dots + match[1] for match in found if match is not None)
            scopes = [self.module(item, root) for item in names]
            self._like[key] = [scope for scope in scopes if scope is not None and scope.node is not root]
        return self._like[key]

    def modules_at(self, pattern: str) -> list[Scope]:
        """The scopes of the modules whose paths end in a pattern."""
        if pattern.count(ANY) > MAX_UNKNOWN:
            return []
        regex = ends_in(pattern.lstrip("./"))
        roots = (root for path, root in self._roots.items() if len(path) <= MAX_LENGTH and regex.fullmatch(path))
        return [self._tree.scopes[root] for root in roots]

    def related(self, root: cst.CSTNode) -> frozenset[cst.CSTNode]:
        """A file, given by its root, the files it imports, and the files that import it, directly or not.

        What a word in them says may be about the file; for statements that set something, see `program`.
        """
        return frozenset(_reached(root, self._uses) | _reached(root, self._users))

    def scripts(self, root: cst.CSTNode) -> frozenset[cst.CSTNode]:
        """The scripts of the programs that reach a file, given by its root: no other file imports them."""
        importers = _reached(root, self._users)
        found = frozenset(file for file in importers if not self._users[file])
        return found or frozenset(importers)  # files may import each other

    def program(self, script: cst.CSTNode) -> frozenset[cst.CSTNode]:
        """A script with all that it imports, directly or not."""
        return frozenset(_reached(script, self._uses))

    def is_imported(self, root: cst.CSTNode) -> bool:
        """Whether another file imports a file, given by its root."""
        return bool(self._users[root])

    @cached_property
    def _uses(self) -> Mapping[cst.CSTNode, set[cst.CSTNode]]:
        """By file those that it imports."""
        found: dict[cst.CSTNode, set[cst.CSTNode]] = {root: set() for root in self._tree.roots}
        for node in self._tree.imports:
            root = self._tree.root_of(node)
            for name in imported_modules(node):
                scope = self.module(name, root)
                if scope is not None and scope.node is not root:
                    found[root].add(scope.node)
        return found

    @cached_property
    def _users(self) -> Mapping[cst.CSTNode, set[cst.CSTNode]]:
        """By file those that import it."""
        found: dict[cst.CSTNode, set[cst.CSTNode]] = {root: set() for root in self._tree.roots}
        for root, used in self._uses.items():
            for other in used:
                found[other].add(root)
        return found

    def _connect(self) -> None:
        linked: list[tuple[Scope, str, list[Binding]]] = []
        for scope, name in self._tree.imported_names:
            linked.append((scope, name, self._followed(scope.bindings[name], 0)))
        for root, scope in [(root, self._tree.scopes[root]) for root in self._tree.roots]:
            for star in scope.star_imports:
                module = self.module(star, root)
                for name, bindings in (self._exported(module) if module is not None else {}).items():
                    if not name.startswith("_") and name not in scope.bindings:
                        linked.append((scope, name, self._followed(bindings, 0)))
        for scope, name, bindings in linked:
            self._replaced.append((scope, name, scope.bindings.get(name)))
            scope.bindings[name] = bindings
            for binding in bindings:
                if isinstance(binding.node, _NAMING) and name not in names_bound_by(binding.node):
                    self.aliases.setdefault(binding.node, set()).add(name)

    def disconnect(self) -> None:
        """Give all names the bindings back that they have in their own files."""
        for scope, name, bindings in reversed(self._replaced):
            if bindings is not None:
                scope.bindings[name] = bindings
            else:
                scope.bindings.pop(name, None)

    def _exported(self, scope: Scope) -> Mapping[str, list[Binding]]:
        """The names of a module with their bindings: its own, and those that its star imports take from others."""
        if not scope.star_imports:
            return scope.bindings
        found = self._exports.get(scope.node)
        if found is None:
            found = self._exports[scope.node] = dict(scope.bindings)  # files may import each other
            for star in reversed(scope.star_imports):
                module = self.module(star, self._tree.root_of(scope.node))
                for name, bindings in (self._exported(module) if module is not None else {}).items():
                    if not name.startswith("_") and not self._is_from(scope, bindings):
                        found.setdefault(name, bindings)
        return found

    def _is_from(self, scope: Scope, bindings: list[Binding]) -> bool:
        """Whether a name is imported from the module ``scope``, which has it from another file then."""
        if not all(
            binding.kind is BindingKind.IMPORT and isinstance(binding.node, cst.ImportFrom) for binding in bindings
        ):
            return False
        parts = ((binding.node, _parted(binding.imported)[0]) for binding in bindings)
        return any(self.module(dotted, self._tree.root_of(node)) is scope for node, dotted in parts)

    def _followed(self, bindings: list[Binding], depth: int) -> list[Binding]:
        """Bindings with each import of a name of the forest replaced by what binds that name."""
        found: list[Binding] = []
        for binding in bindings:
            targets = self._targets(binding, depth) if binding.kind is BindingKind.IMPORT and depth < _DEPTH else []
            if targets:
                found += [target.under(binding.name, binding.order) for target in targets]
            else:
                found.append(binding)
        return found

    def _targets(self, binding: Binding, depth: int) -> list[Binding]:
        if not isinstance(binding.node, cst.ImportFrom):
            return []
        module, last = _parted(binding.imported)
        scope = self.module(module, self._tree.root_of(binding.node))
        if scope is None:
            return []
        bound = scope.bindings.get(last)
        if bound is None:
            bound = self._exported(scope).get(last)
        if not bound or not all(item.kind in _KNOWN for item in bound):
            return []
        return self._followed(bound, depth + 1)


def _parted(imported: str) -> tuple[str, str]:
    """The module and the name of ``from module import name``, given as one dotted name."""
    last = last_part(imported)
    module = imported[: -len(last)] if last else ""
    return (module.removesuffix(".") if module.strip(".") else module), last


def names_bound_by(node: cst.CSTNode) -> list[str]:
    """The names that a definition, or an assignment, binds itself."""
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return [node.name.value]
    targets = [item.target for item in node.targets] if isinstance(node, cst.Assign) else []
    return [target.value for target in targets if isinstance(target, cst.Name)]


def imported_modules(node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    """The dotted names of the modules that an import may refer to: ``from a import b`` of ``a`` and ``a.b``."""
    if isinstance(node, cst.Import):
        yield from (name for alias in node.names if (name := dotted_name(alias.name)) is not None)
        return
    module = "." * len(node.relative) + (dotted_name(node.module) or "")
    yield module
    if not isinstance(node.names, cst.ImportStar):
        separator = "" if module.endswith(".") else "."
        yield from (f"{module}{separator}{dotted_name(alias.name)}" for alias in node.names)


def _reached(start: cst.CSTNode, steps: Mapping[cst.CSTNode, set[cst.CSTNode]]) -> set[cst.CSTNode]:
    found, waiting = {start}, [start]
    while waiting:
        for node in steps[waiting.pop()] - found:
            found.add(node)
            waiting.append(node)
    return found
