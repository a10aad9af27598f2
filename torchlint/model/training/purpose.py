"""Purpose: what a file and the code in it is there for, as far as it decides whether its speed matters."""

from __future__ import annotations

import re
from enum import Enum
from functools import cached_property

import libcst as cst

from torchlint.files import is_vendored
from torchlint.model.module import Module
from torchlint.model.semantics import knowledge
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.tree import COMPREHENSIONS
from torchlint.model.training.loops import Loops

#: A folder of tests. Scripts are in `test/` too, and `test_*.py` is often a script that evaluates a network.
_TESTS = re.compile(r"(^|/)tests/|(^|/)conftest\.py$")
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


class Purposes:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._once: dict[cst.FunctionDef, bool] = {}

    @cached_property
    def of_file(self) -> Purpose:
        """What the whole file is there for: WORK, TEST or VENDORED.

        The folders count from the root of the project, see ``torchlint.files.in_project``.
        """
        place = self._module.project_path
        if is_vendored(place):
            return Purpose.VENDORED
        if _TESTS.search(place) or any(map(self._module.itself_imports, knowledge.TEST_LIBRARIES)):
            return Purpose.TEST
        return Purpose.WORK

    @property
    def is_test(self) -> bool:
        """Whether the file tests code: it imports a test library, or is in a folder `tests`."""
        return self.of_file is Purpose.TEST

    def of(self, node: cst.CSTNode) -> Purpose:
        """What the code at ``node`` is there for."""
        if self.of_file is not Purpose.WORK:
            return self.of_file
        if any(self._tree.within(node, function) for function in self._dead):
            return Purpose.DEAD
        return Purpose.ONCE if self.runs_once(node) else Purpose.WORK

    def is_dead_at(self, offset: int) -> bool:
        """Whether the character at ``offset`` is in a function that nothing runs."""
        return any(start <= offset < end for start, end in map(self._module.span, self._dead))

    def runs_once(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs when something is set up.

        That is in a constructor, or outside of loops at module level or in a function of a script that is called there.
        """
        function = self._module.function_of(node)
        if function is None:
            return not self._module.fact(Loops).around(node)
        if self._tree.class_of(function) is not None:
            return function.name.value in ("__init__", "__post_init__")
        return not self._is_repeated(node) and self._is_called_once(function)

    def _is_repeated(self, node: cst.CSTNode) -> bool:
        """Whether a loop or a comprehension of the function around ``node`` repeats it, or a lambda may."""
        if self._module.fact(Loops).around(node):
            return True
        around = nearest(self._tree, node, cst.FunctionDef, cst.Lambda, *COMPREHENSIONS)
        return around is not None and not isinstance(around, cst.FunctionDef)

    def _is_called_once(self, function: cst.FunctionDef) -> bool:
        """Whether each call of ``function`` runs once when its script runs."""
        known = self._once.get(function)
        if known is None:
            self._once[function] = False  # it may call itself
            callers = self._module.callers(function)
            known = self._once[function] = (
                self._is_script
                and self._tree.is_own(function)
                and callers.complete
                and bool(callers.calls)
                and self._tree.function_of(function) is None
                and all(not self._is_repeated(call) and self.runs_once(call) for call in callers.calls)
            )
        return known

    @cached_property
    def _is_script(self) -> bool:
        """Whether the file is there to be run: it has a main guard, and is no part of a package."""
        return self._module.has_main_guard and not self._module.in_package

    @cached_property
    def _dead(self) -> list[cst.FunctionDef]:
        """The functions of a script that nothing in it mentions, nor anything in its context calls.

        What only functions mention that are dead is dead as well.
        """
        module = self._module
        if not self._is_script or any(map(module.itself_imports, _COMMAND_LINES)):
            return []
        if any(module.name_of(call.func) in _DYNAMIC for call in self._tree.calls_in(module.root)):
            return []
        named = {node.attr.value for node in self._tree.attributes if self._is_mention(node)}
        named.update(str(node.evaluated_value) for node in self._tree.strings if self._tree.is_own(node))
        candidates = [
            function
            for function in self._tree.functions
            if self._tree.is_own(function)
            and not function.decorators
            and self._tree.function_of(function) is None
            and self._tree.class_of(function) is None
            and function.name.value not in named
            and function not in module.links.aliases
        ]
        dead: list[cst.FunctionDef] = []
        while True:
            found = [item for item in candidates if item not in dead and self._is_unmentioned(item, [item, *dead])]
            if not found:
                return dead
            dead += found

    def _is_mention(self, node: cst.Attribute) -> bool:
        """Whether an attribute may name a function of the file: any of the file, ``train.main`` in another one."""
        return self._tree.is_own(node) or self._module.names.members(node) is not None

    def _is_unmentioned(self, function: cst.FunctionDef, within: list[cst.FunctionDef]) -> bool:
        return not any(
            self._may_mean(use, function) and not any(self._tree.within(use, other) for other in within)
            for use in self._tree.names.get(function.name.value, ())
        )

    def _may_mean(self, use: cst.Name, function: cst.FunctionDef) -> bool:
        """Whether a name may stand for ``function``: any of the file does; in another one, what is imported."""
        if self._tree.is_own(use):
            return use is not function.name
        return any(binding.node is function or binding.kind == "import" for binding in self._module.names.bindings(use))
