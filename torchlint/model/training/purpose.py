"""Purpose: what a file and the code in it is there for, as far as it decides whether its speed matters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.literals import value_of
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.training.failures import Failures
from torchlint.model.training.loops import Loops, is_backward, is_step
from torchlint.model.training.unreached import Unreached
from torchlint.source.paths import is_vendored
from torchlint.source.reading import is_notebook
from torchlint.source.testing import is_test

#: The name of a function that tests what its file defines.
_OWN_TEST = re.compile(r"_*(test|check)(_|$)")
#: What reaches functions without naming them.
_DYNAMIC = frozenset(f"builtins.{name}" for name in ("eval", "exec", "globals", "locals", "vars"))
_COMMAND_LINES = ("fire", "invoke", "jsonargparse", "defopt", "clize", "plac")


class Purpose(Enum):
    """What code is there for."""

    WORK = "work"  #: it may run any number of times
    ONCE = "once"  #: it runs once when the program runs: it sets things up
    DEAD = "dead"  #: nothing in its script runs it
    TEST = "test"
    VENDORED = "vendored"  #: a copy of another project's code


class Purposes(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._once: CyclicMemo[cst.FunctionDef, bool] = CyclicMemo(False)
        self._scripts: dict[cst.CSTNode, bool] = {}
        self._dead: dict[cst.CSTNode, list[cst.FunctionDef]] = {}
        self._dead_spans: dict[cst.CSTNode, list[tuple[int, int]]] = {}
        self._files: dict[cst.CSTNode, Purpose] = {}
        self._for_tests: CyclicMemo[cst.FunctionDef, bool] = CyclicMemo(False)
        self._own_tests: CyclicMemo[cst.FunctionDef, bool] = CyclicMemo(False)
        self._trying: dict[cst.CSTNode, bool] = {}  #: by root of a file whether its main guard tries out networks

    def of_file(self, root: cst.CSTNode) -> Purpose:
        """What a whole file, given by its root, is there for: WORK, TEST or VENDORED.

        The folders count from the root of the project.
        """
        known = self._files.get(root)
        if known is None:
            known = self._files[root] = self._of_file(root)
        return known

    def _of_file(self, root: cst.CSTNode) -> Purpose:
        file = self._forest.file_of_root[root]
        if is_vendored(file.place):
            return Purpose.VENDORED
        return Purpose.TEST if is_test(file.place, file.text) else Purpose.WORK

    def _imports(self, root: cst.CSTNode, libraries: Iterable[str]) -> bool:
        """Whether a file imports one of these libraries, or something of them."""
        imported = {name.partition(".")[0] for name in self._forest.imported_by(root)}
        return not imported.isdisjoint(libraries)

    def is_test(self, node: cst.CSTNode) -> bool:
        """Whether the file of ``node`` tests code: it imports a test library, or is in a folder `tests`."""
        return self.of_file(self._tree.root_of(node)) is Purpose.TEST

    def of(self, node: cst.CSTNode) -> Purpose:
        """What the code at ``node`` is there for."""
        of_file = self.of_file(self._tree.root_of(node))
        if of_file is not Purpose.WORK:
            return of_file
        if any(self._tree.within(node, function) for function in self.dead_functions(self._tree.root_of(node))):
            return Purpose.DEAD
        return Purpose.ONCE if self.runs_once(node) else Purpose.WORK

    def is_dead_at(self, offset: int) -> bool:
        """Whether the character at ``offset`` is in code that nothing runs, or that ends in an error."""
        root = self._tree.roots[self._forest.file_index(offset)]
        known = self._dead_spans.get(root)
        if known is None:
            unreached = self._forest.fact(Unreached)
            unused = (
                *self.dead_functions(root),
                *unreached.replaced(root),
                *unreached.overridden(root),
                *unreached.branches(root, self._is_seen_whole),
            )
            bodies = (item.body if isinstance(item, cst.Else) else item for item in unused)
            known = self._dead_spans[root] = list(map(self._forest.span, bodies))
        return any(start <= offset < end for start, end in known) or self._forest.fact(Failures).has(offset)

    def runs_once(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs when something is set up.

        That is in a constructor, or outside of loops and lambdas at module level or in a function or method that a
        script calls there.
        """
        function = self._forest.function_of(node)
        if function is None:
            return nearest(self._tree, node, cst.Lambda) is None and not self._forest.fact(Loops).around(node)
        if self.is_constructor(function):
            return True
        return not self._is_repeated(node) and self._once.get(function, self._is_called_once)

    def is_constructor(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` sets up an object."""
        return self._tree.class_of(function) is not None and function.name.value in ("__init__", "__post_init__")

    def is_for_constructors(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` sets up an object, or only such functions call it."""
        if self.is_constructor(function):
            return True
        homes = [self._forest.function_of(call) for call in self._forest.callers(function).calls]
        return bool(homes) and all(home is not None and self.is_constructor(home) for home in homes)

    def is_in_constructor(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in a function that sets up an object, or that only such functions call."""
        function = self._forest.function_of(node)
        return function is not None and self.is_for_constructors(function)

    def calls_elsewhere(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The calls of ``function``, but for those in the main guard of its file, which may only try it out."""
        root_of, is_in_guard = self._tree.root_of, self._forest.is_in_guard
        calls = self._forest.callers(function).calls
        return [call for call in calls if root_of(call) is not root_of(function) or not is_in_guard(call)]

    def is_self_test(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` tries out a network below its definition, under ``if __name__ == "__main__":``.

        Also in a function that is defined there, or in a function or method, a test or a check by its name, that is
        only called there. A file is a script if
        it steps an optimizer, parses arguments or loads weights.
        """
        function = self._tree.function_of(node)
        is_in_guard = self._forest.is_in_guard(node)
        if function is not None and not (is_in_guard and self._forest.is_in_guard(function)):
            return isinstance(function, cst.FunctionDef) and self._is_own_test(function)
        if not is_in_guard:
            return False
        root = self._tree.root_of(node)
        if root not in self._trying:
            self._trying[root] = self._tries_out(root)
        return self._trying[root]

    def is_for_tests(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is in a test next to the code that it tests, or in a function that only such tests call."""
        functions = list(self._forest.functions_around(node))
        return bool(functions) and self._for_tests.get(functions[-1], self._is_only_for_tests)

    def _is_only_for_tests(self, function: cst.FunctionDef) -> bool:
        others = [call for call in self._forest.callers(function).calls if not self.is_test(call)]
        if all(self._tree.function_of(call) is None and self._forest.is_in_guard(call) for call in others):
            is_named = function.name.value.startswith("test_") and not any(parameters_of(function))
            return is_named and not self._is_script_file(self._tree.root_of(function))
        return all(map(self.is_for_tests, others))

    def _is_script_file(self, root: cst.CSTNode) -> bool:
        """Whether a file does what only a script does: a function ``test_model()`` of one evaluates a network."""
        return any(map(self._is_of_script, self._tree.calls_in(root)))

    def _tries_out(self, root: cst.CSTNode) -> bool:
        """Whether a file defines networks, and does nothing else that a script does."""
        defines = any(
            "forward" in self._tree.scopes[item].bindings or self._forest.values.instance(item).kind is Kind.MODULE
            for item in self._tree.classes
            if self._tree.within(item, root)
        )
        return defines and not self._is_script_file(root)

    def _is_own_test(self, function: cst.FunctionDef) -> bool:
        name = function.name.value
        if not _OWN_TEST.match(name) or (name == "test" and any(parameters_of(function))):
            return False
        return self._own_tests.get(function, self._is_called_by_tests)

    def _is_called_by_tests(self, function: cst.FunctionDef) -> bool:
        calls = self._forest.callers(function).calls
        return bool(calls) and all(map(self.is_self_test, calls))

    def _is_of_script(self, call: cst.Call) -> bool:
        return is_step(call) or _parses_arguments(call) or self._forest.name_of(call.func) == "torch.load"

    def _is_repeated(self, node: cst.CSTNode) -> bool:
        """Whether a loop or a comprehension of the function around ``node`` repeats it, or a lambda may."""
        if self._forest.fact(Loops).around(node):
            return True
        around = nearest(self._tree, node, cst.FunctionDef, cst.Lambda, *COMPREHENSIONS)
        return around is not None and not isinstance(around, cst.FunctionDef)

    def _is_called_once(self, function: cst.FunctionDef) -> bool:
        """Whether each call of ``function`` runs once when its script runs."""
        callers = self._forest.callers(function)
        return (
            (self._is_seen_whole(function) or self._is_of_program(function))
            and callers.complete
            and bool(callers.calls)
            and self._tree.function_of(function) is None
            and all(not self._is_repeated(call) and self.runs_once(call) for call in callers.calls)
        )

    def _is_of_program(self, function: cst.FunctionDef) -> bool:
        """Whether scripts are seen to import the file of a function, which is in no package, or to be that file."""
        root = self._tree.root_of(function)
        if self._tree.class_of(function) is not None or self._forest.file_of_root[root].in_package:
            return False
        return self._forest.links.is_imported(root) or self._forest.is_guarded(root)

    def _is_seen_whole(self, function: cst.FunctionDef) -> bool:
        """Whether all calls of ``function`` are known: of one of a script, or of a method.

        In a package, other files may call the methods whose names do not begin with an underscore.
        """
        root = self._tree.root_of(function)
        if self._tree.class_of(function) is None:
            return self._is_script(root)
        file = self._forest.file_of_root[root]
        return file.whole and not function.decorators and (not file.in_package or function.name.value.startswith("_"))

    def _is_script(self, root: cst.CSTNode) -> bool:
        """Whether a file is there to be run, and is known as a whole: it has a main guard, and is in no package.

        So is a file without a guard that trains or parses its arguments at module level, which no other file imports.
        """
        known = self._scripts.get(root)
        if known is None:
            file = self._forest.file_of_root[root]
            known = self._scripts[root] = (
                file.whole
                and not file.in_package
                and (
                    self._forest.is_guarded(root)
                    or (
                        not is_notebook(file.path)
                        and self._works_at_module_level(root)
                        and not self._forest.links.is_imported(root)
                    )
                )
            )
        return known

    def _works_at_module_level(self, root: cst.CSTNode) -> bool:
        """Whether an import of a file would train, itself or by a function of the file, or parse arguments."""
        outside = [
            call
            for call in self._tree.calls_in(root)
            if self._tree.function_of(call) is None and self._tree.class_of(call) is None
        ]
        if any(_trains(call) or _parses_arguments(call) for call in outside):
            return True
        own = {
            definition
            for call in outside
            for definition in self._forest.definitions.called(call, self._forest.values)
            if isinstance(definition, cst.FunctionDef) and self._tree.root_of(definition) is root
        }
        return any(_trains(call) for function in own for call in self._tree.calls_in(function.body))

    def dead_functions(self, root: cst.CSTNode) -> list[cst.FunctionDef]:
        """The functions of a script that nothing in it mentions, nor anything else in the forest calls.

        What only functions mention that are dead is dead as well.
        """
        known = self._dead.get(root)
        if known is None:
            known = self._dead[root] = self._find_dead(root)
        return known

    def _find_dead(self, root: cst.CSTNode) -> list[cst.FunctionDef]:
        if not self._is_script(root) or self._imports(root, _COMMAND_LINES):
            return []
        if any(map(self._reaches_names, self._tree.calls_in(root))):
            return []
        functions = {
            function: function.name.value
            for function in self._tree.inside(root, cst.FunctionDef)
            if not function.decorators
            and self._tree.function_of(function) is None
            and self._tree.class_of(function) is None
            and function not in self._forest.links.aliases
        }
        names = frozenset(functions.values())
        attributes = self._tree.attributes_named(*names)
        named = {node.attr.value for node in attributes if self._is_mention(node, root)}
        named.update(str(value_of(node)) for node in self._tree.inside(root, cst.SimpleString) if names)
        candidates = [function for function, name in functions.items() if name not in named]
        dead: list[cst.FunctionDef] = []
        while True:
            found = [item for item in candidates if item not in dead and self._is_unmentioned(item, [item, *dead])]
            if not found:
                return dead
            dead += found

    def _reaches_names(self, call: cst.Call) -> bool:
        """Whether a call may reach any function of its file: ``globals()``, but not ``vars(options)`` of a variable."""
        name = self._forest.name_of(call.func)
        if name == "builtins.vars" and len(call.args) == 1 and isinstance(call.args[0].value, cst.Name):
            bindings = self._forest.names.bindings(call.args[0].value)
            return not bindings or any(binding.kind is BindingKind.IMPORT for binding in bindings)
        return name in _DYNAMIC

    def _is_mention(self, node: cst.Attribute, root: cst.CSTNode) -> bool:
        """Whether an attribute may name a function of the file: any of the file, ``train.main`` in another one."""
        return self._tree.within(node, root) or self._forest.names.members(node) is not None

    def _is_unmentioned(self, function: cst.FunctionDef, within: list[cst.FunctionDef]) -> bool:
        return not any(
            self._may_mean(use, function) and not any(self._tree.within(use, other) for other in within)
            for use in self._tree.names.get(function.name.value, ())
        )

    def _may_mean(self, use: cst.Name, function: cst.FunctionDef) -> bool:
        """Whether a name may refer to ``function``: any name in its file; in another file, an imported one."""
        if self._tree.root_of(use) is self._tree.root_of(function):
            return use is not function.name
        return any(
            binding.node is function or binding.kind is BindingKind.IMPORT
            for binding in self._forest.names.bindings(use)
        )


def _trains(call: cst.Call) -> bool:
    return is_backward(call) or is_step(call)


def _parses_arguments(call: cst.Call) -> bool:
    """Whether it is ``parser.parse_args()``."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("parse_args", "parse_known_args")
