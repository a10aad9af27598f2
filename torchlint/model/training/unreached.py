"""Code that a program defines and never runs: replaced and overridden functions, branches that no call takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.parameters import parameters_of
from torchlint.source.reading import is_notebook


class Unreached(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def replaced(self, root: cst.CSTNode) -> Iterator[cst.FunctionDef]:
        """The functions and methods of a file that a second definition of the same name replaces before they run."""
        if is_notebook(self._forest.file_of_root[root].path):
            return  # the cells in between may have run them
        pairs = list(self._defined_again(root))
        running = self._running(root) if pairs else []
        yield from (function for function, last in pairs if not self._may_run(function, last, running))

    def _defined_again(self, root: cst.CSTNode) -> Iterator[tuple[cst.FunctionDef, cst.FunctionDef]]:
        """The functions and methods of a file that are defined again, each with the last definition."""
        for owner in (root, *self._tree.inside(root, cst.ClassDef)):
            for bindings in self._tree.scopes[owner].bindings.values():
                functions = [item.node for item in bindings if isinstance(item.node, cst.FunctionDef)]
                last = functions[-1] if len(functions) > 1 and self._is_in_block_of(functions[-1], owner) else None
                for function in functions[:-1]:
                    if last is not None and not function.decorators and self._is_in_block_of(function, owner):
                        yield function, last

    def _is_in_block_of(self, function: cst.FunctionDef, owner: cst.CSTNode) -> bool:
        """Whether a definition is under no condition."""
        block = self._tree.parent(function)
        return block is owner or (isinstance(owner, cst.ClassDef) and block is owner.body)

    def _may_run(self, function: cst.FunctionDef, last: cst.FunctionDef, running: Sequence[int]) -> bool:
        """Whether something between two definitions, outside of functions, may name or run the first one.

        ``running`` are the indices of the calls of the file that run its functions as soon as it is loaded.
        """
        index = self._tree.index
        begin, end = self._tree.last(function) + 1, index(last.body)
        uses = self._tree.names.get(function.name.value, [])
        between = uses[bisect_left(uses, begin, key=index) : bisect_left(uses, end, key=index)]
        if any(self._tree.function_of(use) is None for use in between):
            return True
        return bisect_left(running, begin) < bisect_left(running, end)

    def _running(self, root: cst.CSTNode) -> list[int]:
        """The indices of the calls outside of functions that run functions of the program, in order."""
        called, values = self._forest.definitions.called, self._forest.values
        calls = (call for call in self._tree.calls_in(root) if self._tree.function_of(call) is None)
        return sorted(self._tree.index(call) for call in calls if called(call, values))

    def overridden(self, root: cst.CSTNode) -> Iterator[cst.FunctionDef]:
        """The methods of base classes of a file that no object of the program has.

        The program only makes objects of classes that derive from them, all of which override these methods.
        """
        definitions = self._forest.definitions
        for owner in self._tree.inside(root, cst.ClassDef):
            derived = definitions.derived(owner)
            if not any(map(definitions.calls_of_class, derived)) or not self._is_only_base(owner):
                continue
            for name, bindings in self._tree.scopes[owner].bindings.items():
                found = (definitions.method(item, name) for item in derived)
                if all(item is not None and self._tree.class_of(item) is not owner for item in found) and not any(
                    isinstance(use.value, cst.Call) and self._forest.name_of(use.value.func) == "builtins.super"
                    for use in self._tree.attributes_named(name)
                ):
                    yield from (item.node for item in bindings if isinstance(item.node, cst.FunctionDef))

    def _is_only_base(self, definition: cst.ClassDef) -> bool:
        """Whether nothing in the program uses a class but classes that derive from it, annotations and type tests."""
        name = definition.name.value
        if definition.decorators or definition in self._forest.links.aliases:
            return False
        if self._forest.definitions.calls_of_class(definition):
            return False
        uses = (*self._tree.names.get(name, ()), *self._tree.attributes_named(name))
        return all(use is definition.name or self._is_use_of_type(use) for use in uses)

    def _is_use_of_type(self, use: cst.CSTNode) -> bool:
        parent = self._tree.parent(use)
        if isinstance(parent, (cst.ImportAlias, cst.Annotation)):
            return True
        above = self._tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(above, cst.Call):
            return self._forest.name_of(above.func) in ("builtins.isinstance", "builtins.issubclass")
        return isinstance(above, cst.ClassDef) and parent in above.bases

    def branches(self, root: cst.CSTNode, is_seen_whole: Callable[[cst.FunctionDef], bool]) -> Iterator[cst.CSTNode]:
        """The branches of functions that no call takes, as each passes a constant for a parameter in the condition.

        ``is_seen_whole`` says of which functions all calls are known.
        """
        for choice in self._tree.inside(root, cst.If):
            function = self._tree.function_of(choice)
            if not isinstance(function, cst.FunctionDef) or not self._asks_for_parameter(choice, function):
                continue
            calls = self._calls(function) if is_seen_whole(function) else ()
            excludes = self._forest.values.branches.excludes
            for branch in (choice.body, choice.orelse):
                if calls and branch is not None and all(excludes(call, function, branch) for call in calls):
                    yield branch

    def _calls(self, function: cst.FunctionDef) -> Sequence[cst.Call]:
        """All calls of a function; nothing if others are possible. Of a method also the calls of unknown objects."""
        callers = self._forest.callers(function)
        if callers.complete or self._tree.class_of(function) is None:
            return callers.calls if callers.complete else ()
        uses = self._tree.attributes_named(function.name.value)
        calls = [self._tree.parent(use) for use in uses if self._tree.is_called(use)]
        known = [call for call in calls if isinstance(call, cst.Call)] if callers.calls else []
        return known if len(known) == len(uses) else ()

    def _asks_for_parameter(self, choice: cst.If, function: cst.FunctionDef) -> bool:
        names = {param.name.value for param in parameters_of(function)}
        return not self._tree.names_in(choice.test).isdisjoint(names)
