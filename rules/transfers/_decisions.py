"""Numbers that are read from the GPU because they control the program, so that the read cannot be delayed."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.tensor_forms import TensorForms
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.dotted import called_name, last_name
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.training.environments import Environments
from torchlint.model.training.iterations import Iterations

from ._step_tensors import StepTensors

#: Calls that check a number in order to act on it.
_CHECKING = re.compile(
    r"(^|_)(isnan|isfinite|isinf|is_nan|overflow|early_?stop\w*|stopper|allclose)$|^(step|should_\w+)$"
)
#: Calls that take a size, which torch needs on the CPU.
_SIZED = frozenset(
    "topk kthvalue multinomial zeros ones empty arange linspace rand randn randint randperm eye new_zeros new_ones "
    "view reshape expand repeat tile split chunk narrow unfold pad interpolate".split()
)
#: What is between a number and one that is computed from it, the answer to a question, or a list of such numbers.
_COMPARED = (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation, cst.Arg, cst.ListComp, cst.Element, cst.Tuple)
#: Functions that give one of the numbers that they are given.
_CHOSEN = tuple(f"builtins.{name}" for name in ("int", "max", "min", "list", "sorted", "tuple"))
#: How many names lie between a number and what it controls.
_DEPTH = 2
#: What the value of an expression does not leave.
_ENDS = (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Lambda, *COMPREHENSIONS)
#: The action of an agent, which the environment takes on the CPU.
_CHOICES = re.compile(r"action|^act$|^a$")
_CHOOSING = frozenset({"sample", "argmax", "multinomial", "max", "topk"})


class Decisions:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._forms = module.fact(TensorForms)

    def at(self, call: cst.BaseExpression, tensor: cst.BaseExpression, step: cst.CSTNode) -> bool:
        """Whether the number that ``call`` reads from ``tensor`` controls it: a condition, index, size or action."""
        if self._is_asked(call) or (self._module.fact(Environments).are_played and _is_choice(tensor)):
            return True
        statement = self._tree.statement_of(call)
        if self._carrier(call) is not statement:
            return False
        if isinstance(statement, cst.Return):
            return self._is_asked_by_callers(statement)
        if isinstance(statement, cst.AugAssign):  # a sum that is checked now and then can be read there
            asked = self._asked(statement.target, statement, step)
            return any(self._module.fact(Iterations).at_every_iteration(use, step) for use in asked)
        bound = self._bound(call, statement) if isinstance(statement, cst.Assign) else []
        names = [
            node
            for target in bound
            for node in self._tree.inside(target.value if isinstance(target, cst.Subscript) else target, cst.Name)
        ]
        asked = [use for name in names for use in self._asked(name, statement, step)]
        return bool(asked) and not (self._is_of_row(tensor, step) and all(map(self._selects_row, asked)))

    def _is_of_row(self, tensor: cst.BaseExpression, step: cst.CSTNode) -> bool:
        """Whether a loop in the step, or in a function of it, reads a number of each row: ``multinomial(w[i], 1)``."""
        loop, function = nearest(self._tree, tensor, cst.For, cst.While), self._module.function_of(tensor)
        if not isinstance(loop, cst.For) or loop is step or self._module.function_of(loop) is not function:
            return False
        targets = {node.value for node in self._tree.inside(loop.target, cst.Name)}
        indices = (item.slice for part in self._tree.inside(tensor, cst.Subscript) for item in part.slice[:1])
        return any(
            isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value in targets
            for index in indices
        )

    def _selects_row(self, use: cst.Name) -> bool:
        """Whether a number only indexes a tensor of the step: ``features[i]``, for all rows ``features[indices]``."""
        index = self._tree.parent(use)
        selected = nearest(self._tree, use, cst.Subscript)
        if not isinstance(index, cst.Index) or selected is None or self._is_asked(selected):
            return False
        source = selected.value
        is_tensor = self._module.value(source).kind is Kind.TENSOR or self._forms.is_used_as_tensor(source)
        return is_tensor and self._module.fact(StepTensors).is_tensor_of_step(source)

    def _is_asked_by_callers(self, returned: cst.Return) -> bool:
        """Whether a loop that calls the function of ``returned`` is controlled by what it gets, as to stop early."""
        function = self._tree.function_of(returned)
        calls = self._module.fact(Dispatch).callers(function) if isinstance(function, cst.FunctionDef) else ()
        return any(
            self._asked(item.target, statement, loop)
            for call in calls
            if (loop := nearest(self._tree, call, cst.For, cst.While)) is not None
            and isinstance(statement := self._tree.parent(call), cst.Assign)
            for item in statement.targets
        )

    def _bound(self, call: cst.BaseExpression, statement: cst.Assign) -> list[cst.BaseExpression]:
        """The targets that get the number: of ``a, b = x.item(), y.item()`` the one at the place of ``call``."""
        found: list[cst.BaseExpression] = []
        for target in (item.target for item in statement.targets):
            parts = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
            given = statement.value.elements if isinstance(statement.value, (cst.Tuple, cst.List)) else ()
            pairs = zip(parts, given, strict=True) if len(parts) == len(given) else ()
            own = [part.value for part, item in pairs if self._tree.within(call, item)]
            found += own or [target]
        return found

    def _carrier(self, number: cst.CSTNode) -> cst.CSTNode | None:
        """What contains a number as it is, or the answer to a question about it: ``finished = flag.item() == 1``."""
        whole = self._tree.parent(number)
        while isinstance(whole, _COMPARED) or (isinstance(whole, cst.Call) and self._is_chosen(whole)):
            whole = self._tree.parent(whole)
        return whole

    def _is_chosen(self, call: cst.Call) -> bool:
        return self._module.name_of(call.func) in _CHOSEN

    def _asked(
        self, target: cst.BaseExpression, statement: cst.CSTNode, step: cst.CSTNode, depth: int = _DEPTH
    ) -> list[cst.Name]:
        """The uses in ``step`` of the name that ``statement`` binds or puts an item in, if they control the program."""
        home = self._module.names.home_of(target) if isinstance(target, cst.Name) else None
        if home is None or not isinstance(target, cst.Name):
            return []
        bound = [item for item in home.bindings[target.value] if item.node is statement]
        if isinstance(self._tree.parent(target), cst.Subscript):  # `sizes[dim] = x.max().item() + 1`
            bound = self._module.values.reaching.of(target)
        uses = (use for item in bound for use in self._module.values.reaching.uses_of(item, home))
        return [use for use in uses if self._decides(use, statement, step, depth)]

    def _decides(self, use: cst.Name, statement: cst.CSTNode, step: cst.CSTNode, depth: int) -> bool:
        """Whether a use controls the step; in a function that the step calls, only as a size or an index."""
        if self._tree.within(statement, step):
            asked = self._tree.within(use, step) and self._is_asked(use)
        else:
            asked = self._module.function_of(use) is self._module.function_of(statement) and self._is_size(use)
        return asked or (depth > 0 and self._is_passed_on(use, step, depth))

    def _is_passed_on(self, use: cst.Name, step: cst.CSTNode, depth: int) -> bool:
        """Whether another name gets the number, and controls the program: ``longest = max(lengths)``."""
        statement = self._tree.statement_of(use)
        if not isinstance(statement, cst.Assign) or self._carrier(use) is not statement:
            return False
        return any(self._asked(item.target, statement, step, depth - 1) for item in statement.targets)

    def _is_asked(self, node: cst.CSTNode) -> bool:
        for above, child in climb(self._tree, node):
            if isinstance(above, (cst.If, cst.While, cst.IfExp)):
                return above.test is child
            if isinstance(above, cst.Assert) or self._sizes(above, child):
                return True
            if isinstance(above, cst.Call) and child is not above.func and _CHECKING.search(called_name(above)):
                return True
            if isinstance(above, _ENDS):
                return False
        return False

    def _is_size(self, node: cst.CSTNode) -> bool:
        for above, child in climb(self._tree, node):
            if self._sizes(above, child):
                return True
            if isinstance(above, _ENDS):
                return False
        return False

    def _sizes(self, above: cst.CSTNode, child: cst.CSTNode) -> bool:
        """Whether ``above`` takes ``child`` as a size or an index, which torch and Python need on the CPU."""
        if isinstance(above, (cst.Index, cst.Slice)):
            return True
        if not isinstance(above, cst.Call) or child is above.func:
            return False
        name = called_name(above)
        return name in _SIZED or name.endswith("Tensor") or self._module.name_of(above.func) == "builtins.range"


def _is_choice(tensor: cst.BaseExpression) -> bool:
    """Whether ``tensor`` is the action of an agent."""
    if isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute):
        if tensor.func.attr.value in _CHOOSING:
            return True
    return bool(_CHOICES.search(last_name(tensor)))
