"""Loops that may have many iterations, such as over rows, and that run more than once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.buffers import Buffers
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.training.function_words import words_of
from torchlint.model.training.loops import Loops
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlaces

from ._row_values import unreversed
from ._row_words import FEW, ONCE

_MANY = 16  #: iterations below which a loop costs little
_MEMORY = re.compile(r"#.*\b(?:mem|memory|OOM)\b", re.IGNORECASE)


class RowIterations:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def is_long(self, target: cst.BaseExpression, over: cst.BaseExpression) -> bool:
        """Whether there may be many iterations: rows and elements, not layers or channels."""
        over = unreversed(self._module, over)
        bound = self._tree.names_in(target)
        given = [item.value for item in over.args] if isinstance(over, cst.Call) else []
        if any(isinstance(item, (cst.List, cst.Tuple)) for item in (over, *given)):
            return False
        if any(FEW.search(name) for name in bound):
            return False
        if any(map(FEW.search, self._names_in(over))):
            return False
        if isinstance(over, cst.Call) and self._module.name_of(over.func) == "builtins.range":
            if len(over.args) > 1 and not self._starts_at_zero(over):
                return False
            last = over.args[min(1, len(over.args) - 1)].value if over.args else None
            if self._is_length_of_own(last):
                return False
            constant = self._module.value(last).constant
            return not (isinstance(constant, int) and constant < _MANY)
        return True

    def _is_length_of_own(self, node: cst.BaseExpression | None) -> bool:
        """``len(self.sources)``: an object has a few of what it lists, unless it is a tensor."""
        if not isinstance(node, cst.Call) or len(node.args) != 1 or self._module.name_of(node.func) != "builtins.len":
            return False
        owned = node.args[0].value
        is_own = isinstance(owned, cst.Attribute) and (dotted_name(owned) or "").startswith("self.")
        is_tensor = self._module.value(owned).kind is Kind.TENSOR or self._module.fact(Buffers).calls_for(owned)
        return is_own and not is_tensor

    def _names_in(self, node: cst.CSTNode) -> Iterator[str]:
        """The variables and attributes in an expression, without the functions and methods that it calls."""
        for part in self._tree.nodes_in(node):
            above = self._tree.parent(part)
            if isinstance(part, cst.Name) and not (isinstance(above, cst.Call) and above.func is part):
                method = isinstance(above, cst.Attribute) and above.attr is part
                call = self._tree.parent(above) if above is not None and method else None
                if not (isinstance(call, cst.Call) and call.func is above):
                    yield part.value

    def _starts_at_zero(self, call: cst.Call) -> bool:
        return len(call.args) == 2 and self._module.value(call.args[0].value).constant == 0

    def saves_memory(self, node: cst.CSTNode) -> bool:
        """Whether a comment at a loop, or at what joins its rows, says that it runs row by row to use less memory."""
        if not self._module.forest.file_of_root[self._module.tree.root_of(node)].contains(_MEMORY):
            return False
        row = self._module.row(node)
        above = self._module.line(row - 1) if row > 1 else ""
        return any(_MEMORY.search(line) for line in (above, self._module.line(row)))

    def is_once(self, node: cst.CSTNode) -> bool:
        """Whether only constructors, the top level of a file or a function that sets up something run a loop.

        Not a function that a step or a loss calls, whatever its name is.
        """
        function = self._module.function_of(node)
        if function is None:
            return not self._module.fact(Loops).around(node)
        if self._module.fact(Purposes).is_for_constructors(function):
            return True
        sets_up = ONCE.search(function.name.value) is not None
        return sets_up and not self._is_for_losses(function) and self._module.fact(StepPlaces).per_batch(node) is None

    def _is_for_losses(self, function: cst.FunctionDef) -> bool:
        """Whether a function that computes a loss, by its name, calls ``function``."""
        homes = map(self._module.function_of, self._module.callers(function).calls)
        names = [home.name.value for home in homes if home is not None]
        return any("loss" in words_of(name) and not ONCE.search(name) for name in names)
