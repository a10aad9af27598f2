"""Numbers that are read from the GPU because they control the program, so that the read cannot be delayed."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.numerics.precision import Precision
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import called_name, last_name
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.training.iterations import Iterations

#: Calls that check a number in order to act on it.
_CHECKING = re.compile(r"(^|_)(isnan|isfinite|isinf|is_nan|early_?stop\w*|stopper|allclose)$|^(step|should_\w+)$")
#: Calls that take a size, which torch needs on the CPU.
_SIZED = frozenset(
    "topk kthvalue multinomial zeros ones empty arange linspace rand randn randint randperm eye new_zeros new_ones "
    "view reshape expand repeat tile split chunk narrow unfold pad interpolate".split()
)
#: What is between a number and the answer to a question about it.
_COMPARED = (cst.Comparison, cst.UnaryOperation)
#: The action of an agent, which the environment takes on the CPU.
_CHOICES = re.compile(r"action|^act$|^a$")
_CHOOSING = frozenset({"sample", "argmax", "multinomial", "max", "topk"})


class Decisions:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def at(self, call: cst.Call, tensor: cst.BaseExpression, step: cst.CSTNode) -> bool:
        """Whether the number that ``call`` reads from ``tensor`` controls it: a condition, index, size or action."""
        if self._is_asked(call) or (self._module.fact(Precision).plays_games and _is_choice(tensor)):
            return True
        statement = self._tree.statement_of(call)
        whole = self._tree.parent(call)
        while isinstance(whole, _COMPARED):  # `finished = flag.item() == 1`
            whole = self._tree.parent(whole)
        if whole is not statement:
            return False
        if isinstance(statement, cst.AugAssign):  # a sum that is checked now and then can be read there
            asked = self._asked(statement.target, statement, step)
            return any(self._module.fact(Iterations).at_every_iteration(use, step) for use in asked)
        targets = [item.target for item in statement.targets] if isinstance(statement, cst.Assign) else []
        return any(self._asked(target, statement, step) for target in targets)

    def _asked(self, target: cst.BaseExpression, statement: cst.CSTNode, step: cst.CSTNode) -> list[cst.Name]:
        """The uses in ``step`` of the name that ``statement`` binds, if they control the program."""
        return [
            use
            for use in (self._tree.names.get(target.value, ()) if isinstance(target, cst.Name) else ())
            if self._tree.within(use, step) and self._sees(use, statement) and self._is_asked(use)
        ]

    def _sees(self, use: cst.Name, statement: cst.CSTNode) -> bool:
        return any(binding.node is statement for binding in self._module.values.reaching.of(use))

    def _is_asked(self, node: cst.CSTNode) -> bool:
        for above, child in climb(self._tree, node):
            if isinstance(above, (cst.If, cst.While, cst.IfExp)):
                return above.test is child
            if isinstance(above, cst.Assert):
                return True
            if isinstance(above, (cst.Index, cst.Slice)):
                parent = self._tree.parent(above)
                return parent is not None
            if isinstance(above, cst.Call) and child is not above.func:
                asking = _CHECKING.search(called_name(above)) or called_name(above) in _SIZED
                if asking or self._module.name_of(above.func) == "builtins.range":
                    return True
            if isinstance(above, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Lambda, *COMPREHENSIONS)):
                return False
        return False


def _is_choice(tensor: cst.BaseExpression) -> bool:
    """Whether ``tensor`` is the action of an agent."""
    if isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute):
        if tensor.func.attr.value in _CHOOSING:
            return True
    return bool(_CHOICES.search(last_name(tensor)))
