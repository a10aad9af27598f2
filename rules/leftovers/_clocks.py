"""Clock readings on the CPU: where a timing starts, and where the elapsed time is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import parameters_of

CLOCKS = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.monotonic",
        "timeit.default_timer",
        "datetime.datetime.now",
    }
)


@dataclass(frozen=True, eq=False)
class Start:
    """A reading that is stored."""

    node: cst.CSTNode  #: the statement or call that reads the clock
    key: str  #: where it is stored: the code of a name or attribute, of a timer with the attribute in it


@dataclass(frozen=True, eq=False)
class End:
    """A reading from which an earlier one is subtracted."""

    node: cst.CSTNode  #: the call that reads the clock
    keys: frozenset[str]  #: the expressions that may contain the earlier one


class Clocks:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def starts(self) -> dict[str, list[Start]]:
        """The readings that are stored, by where they are stored, in order."""
        found = [Start(statement, self._name(statement)) for statement in map(self._kept, self.readings) if statement]
        found += [Start(call, key) for call, key in self._timer_calls(self._starting)]
        by_key: dict[str, list[Start]] = {}
        for start in sorted(found, key=lambda item: self._module.tree.index(item.node)):
            by_key.setdefault(start.key, []).append(start)
        return by_key

    @cached_property
    def ends(self) -> list[End]:
        """The readings of the file from which something is subtracted."""
        found = [End(reading, frozenset(self._taken_from(reading))) for reading in self.readings]
        found += [End(call, frozenset({key})) for call, key in self._timer_calls(self._ending)]
        return [end for end in found if end.keys and self._module.is_own(end.node)]

    @cached_property
    def readings(self) -> list[cst.Call]:
        """The calls that read the clock, in order."""
        return [call.node for call in self._module.calls(*CLOCKS)]

    def _kept(self, reading: cst.Call) -> cst.Assign | None:
        """``start = time.time()``."""
        statement = self._module.tree.parent(reading)
        return statement if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None

    def _name(self, statement: cst.Assign) -> str:
        return self._module.code(statement.targets[0].target)

    def _taken_from(self, end: cst.Call) -> set[str]:
        """The subtracted expressions: ``time.time() - start``, or of ``end`` later."""
        tree = self._module.tree
        parent = tree.parent(end)
        if isinstance(parent, cst.BinaryOperation):
            return {self._module.code(parent.right)} if isinstance(parent.operator, cst.Subtract) else set()
        kept = self._kept(end)
        if kept is None:
            return set()
        target = kept.targets[0].target
        if not isinstance(target, cst.Name):
            return set()
        subtracted = self._subtracted_from.get((self._module.function_of(end), target.value), ())
        return {self._module.code(node) for node in subtracted} - {self._name(kept)}

    @cached_property
    def _subtracted_from(self) -> dict[tuple[cst.FunctionDef | None, str], list[cst.BaseExpression]]:
        """By function and name, what is subtracted from the name there."""
        found: dict[tuple[cst.FunctionDef | None, str], list[cst.BaseExpression]] = {}
        for part in self._module.tree.of_kind(cst.BinaryOperation):
            if isinstance(part.operator, cst.Subtract) and isinstance(part.left, cst.Name):
                key = (self._module.function_of(part.left), part.left.value)
                found.setdefault(key, []).append(part.right)
        return found

    # -- objects that read the clock: ``timer.tic()`` and ``timer.toc()``

    @cached_property
    def _starting(self) -> dict[cst.FunctionDef, str]:
        """The methods of timers that store a reading in an attribute of ``self``, and that attribute."""
        found: dict[cst.FunctionDef, str] = {}
        for reading in self.readings:
            statement, function = self._kept(reading), self._method_of(reading)
            if statement is not None and function is not None and _is_of_self(statement.targets[0].target):
                found[function] = self._name(statement)
        return found

    @cached_property
    def _ending(self) -> dict[cst.FunctionDef, str]:
        """The methods of timers that compute the time since such a reading, and the attribute that contains it."""
        found: dict[cst.FunctionDef, str] = {}
        for reading in self.readings:
            function = self._method_of(reading)
            kept = [key for key in self._taken_from(reading) if key.startswith("self.")]
            if function is not None and kept and not self._may_wait_before(reading, function):
                found[function] = kept[0]
        for method, attribute in list(found.items()):  # ``self.total += self.toc()``
            for call in self._module.callers(method).calls:
                outer = self._method_of(call)
                is_own = isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) == "self"
                if outer is not None and outer not in found and is_own and not self._may_wait_before(call, outer):
                    found[outer] = attribute
        return found

    def _may_wait_before(self, reading: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the method calls anything before it reads the clock: ``torch.cuda.synchronize()``; no exception."""
        tree = self._module.tree
        before = tree.calls_between(tree.index(function.body), tree.index(reading))
        return not all(isinstance(tree.parent(call), cst.Raise) for call in before)

    def _method_of(self, reading: cst.Call) -> cst.FunctionDef | None:
        """The method that reads the clock."""
        function = self._module.function_of(reading)
        return function if function is not None and self._module.tree.class_of(function) is not None else None

    def _timer_calls(self, methods: dict[cst.FunctionDef, str]) -> Iterator[tuple[cst.Call, str]]:
        """The calls of ``methods`` on objects that their code identifies, and where the reading is stored."""
        module = self._module
        for method, attribute in methods.items():
            for call in module.methods(method.name.value):
                if method in module.definitions.called(call.node, module.values):
                    owner = module.code(call.receiver)
                    yield call.node, owner + self._filled(attribute, call.node, method).removeprefix("self")

    def _filled(self, attribute: str, call: cst.Call, method: cst.FunctionDef) -> str:
        """``self.clocks["net"]`` for ``self.clocks[key]``, where ``call`` passes ``"net"`` as the ``key``."""
        name, index, key = attribute.removesuffix("]").partition("[")
        param = next((item for item in parameters_of(method) if index and item.name.value == key), None)
        if param is None:
            return attribute
        given = self._module.definitions.argument_of(call, method, param) or param.default
        return attribute if given is None else f"{name}[{self._module.code(given)}]"


def _is_of_self(node: cst.CSTNode) -> bool:
    """``self.start``, ``self.starts[key]``."""
    owner = node.value if isinstance(node, cst.Subscript) else node
    return (dotted_name(owner) or "").startswith("self.")
