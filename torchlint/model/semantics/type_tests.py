"""Tests of types: what a value may be, and what it is not, under or after ``if isinstance(batch, list):``."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.tree import Tree

_CONTAINERS = (Kind.BATCH, Kind.SEQUENCE)
#: What a value may be of which ``isinstance`` says that it is of a class.
_KINDS = {
    "builtins.dict": _CONTAINERS,
    "builtins.list": _CONTAINERS,
    "builtins.tuple": _CONTAINERS,
    "collections.OrderedDict": _CONTAINERS,
    "collections.abc.Mapping": _CONTAINERS,
    "collections.abc.Sequence": _CONTAINERS,
    "torch.Tensor": (Kind.TENSOR, Kind.BATCH),
    "torch.autograd.Variable": (Kind.TENSOR, Kind.BATCH),
    "torch.nn.Module": (Kind.MODULE, Kind.LOSS),
    "torch.device": (Kind.DEVICE,),
}


class TypeTests:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names

    @cached_property
    def _calls(self) -> dict[str, dict[cst.CSTNode | None, list[cst.Call]]]:
        """By name of a variable and the function around them the calls that ask for its type."""
        found: dict[str, dict[cst.CSTNode | None, list[cst.Call]]] = {}
        for call in self._tree.calls_named("isinstance", "is_tensor", "type"):
            if call.args and isinstance(call.args[0].value, cst.Name):
                by_function = found.setdefault(call.args[0].value.value, {})
                by_function.setdefault(self._tree.function_of(call), []).append(call)
        return found

    def kinds_at(self, name: cst.Name, since: int = 0) -> tuple[Kind, ...] | None:
        """What ``name`` may be, as the nearest test of its type around it says; None without one.

        Or one before it: ``if not isinstance(device, torch.device): return``. Tests count that are evaluated behind
        index ``since``, where the name is bound.
        """
        if name.value not in self._calls:
            return None
        for above, child in climb(self._tree, name):
            if type(above) is cst.FunctionDef or type(above) is cst.Lambda:
                break
            if type(above) is cst.If and child is above.body and self._tree.index(above.test) > since:
                kinds = self._tested(above.test, name.value)
                if kinds is not None:
                    return kinds
        return self._kinds_before(name, since)

    def _kinds_before(self, name: cst.Name, since: int) -> tuple[Kind, ...] | None:
        """What ``name`` may be, as code before it ends the function or the iteration if it is anything else."""
        tree = self._tree
        for call in self._calls[name.value].get(tree.function_of(name), ()):
            test = tree.parent(call)
            branch = tree.parent(test) if test is not None else None
            if not isinstance(test, cst.UnaryOperation) or not isinstance(test.operator, cst.Not):
                continue
            if not isinstance(branch, cst.If) or branch.test is not test or not since < tree.index(call):
                continue
            is_left = ends_with(branch.body, cst.Return, cst.Raise, cst.Continue) and not tree.within(name, branch)
            if is_left and not isinstance(tree.parent(branch), cst.If) and tree.dominates(test, name):
                return self._tested(call, name.value)
        return None

    def excluded_at(self, name: cst.Name) -> frozenset[Kind]:
        """What ``name`` is not, as tests of its type have failed: ``if isinstance(items, list): return ...``.

        A batch may be a list or a dict, so that no test of one of them excludes it.
        """
        found: set[Kind] = set()
        by_function = self._calls.get(name.value)
        for call in by_function.get(self._tree.function_of(name), ()) if by_function is not None else ():
            above = self._tree.parent(call)
            test: cst.CSTNode = above if isinstance(above, cst.Comparison) else call
            branch = self._tree.parent(test)
            is_negated = isinstance(branch, cst.UnaryOperation) and isinstance(branch.operator, cst.Not)
            asked, branch = (branch, self._tree.parent(branch)) if is_negated and branch else (test, branch)
            if not isinstance(branch, (cst.If, cst.IfExp)) or branch.test is not asked:
                continue
            if self._tree.within(name, branch.body) if is_negated else self._has_failed(branch, name):
                found.update(self._tested(test, name.value) or ())
        return frozenset(found - {Kind.BATCH})

    def _has_failed(self, branch: cst.If | cst.IfExp, name: cst.Name) -> bool:
        """Whether the test of ``branch`` was false where ``name`` is evaluated, in the same function."""
        tree = self._tree
        if branch.orelse is not None and tree.within(name, branch.orelse):
            return True
        if isinstance(branch, cst.IfExp):
            return False
        first = branch
        while ends_with(first.body, cst.Return, cst.Raise, cst.Continue):
            above = tree.parent(first)
            if not isinstance(above, cst.If) or above.orelse is not first:  # no `elif`
                return not tree.within(name, first) and tree.dominates(first.test, name)
            first = above
        return False

    def replaced_tensor(self, name: cst.Name) -> cst.BaseExpression | None:
        """What a tensor ``name`` is by now: ``x.detach()`` after ``if torch.is_tensor(x): x = x.detach()``."""
        tree, by_function = self._tree, self._calls.get(name.value, {})
        for call in by_function.get(tree.function_of(name), ()):
            branch = tree.parent(call)
            if not isinstance(branch, cst.If) or branch.test is not call or tree.within(name, branch):
                continue
            if Kind.TENSOR not in (self._tested(call, name.value) or ()) or not tree.dominates(branch.test, name):
                continue
            lines = branch.body.body if isinstance(branch.body, cst.IndentedBlock) else ()
            for line in lines:
                for item in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                    target = item.targets[0].target if isinstance(item, cst.Assign) and len(item.targets) == 1 else None
                    if isinstance(item, cst.Assign) and isinstance(target, cst.Name) and target.value == name.value:
                        return item.value
        return None

    def _tested(self, test: cst.CSTNode, name: str) -> tuple[Kind, ...] | None:
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            return self._tested(test.left, name) or self._tested(test.right, name)
        if isinstance(test, cst.Comparison):
            return self._compared(test, name)
        if not isinstance(test, cst.Call) or not _asks_for(test, name):
            return None
        called = self._names.resolve(test.func)
        if called == "torch.is_tensor":
            return _KINDS["torch.Tensor"]
        if called != "builtins.isinstance" or len(test.args) != 2:
            return None
        return self._kinds(test.args[1].value)

    def _compared(self, test: cst.Comparison, name: str) -> tuple[Kind, ...] | None:
        """What a value may be if ``type(value) == list`` or ``type(value) in (list, tuple)`` is true."""
        asked = isinstance(test.left, cst.Call) and self._names.resolve(test.left.func) == "builtins.type"
        if not asked or not isinstance(test.left, cst.Call) or not _asks_for(test.left, name):
            return None
        is_same = len(test.comparisons) == 1 and isinstance(test.comparisons[0].operator, (cst.Equal, cst.Is, cst.In))
        return self._kinds(test.comparisons[0].comparator) if is_same else None

    def _kinds(self, classes: cst.BaseExpression) -> tuple[Kind, ...] | None:
        kinds: list[Kind] = []
        for node in _alternatives(classes):
            known = _KINDS.get(self._names.resolve(node) or "")
            if known is None:
                return None
            kinds += known
        return tuple(kinds)


def _asks_for(call: cst.Call, name: str) -> bool:
    """Whether the first argument of ``call`` is the variable ``name``."""
    first = call.args[0].value if call.args else None
    return isinstance(first, cst.Name) and first.value == name


def _alternatives(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The classes that ``isinstance`` is given."""
    return [element.value for element in node.elements] if isinstance(node, (cst.Tuple, cst.List)) else [node]
