"""Functions that run compiled, and what in them ends a graph or changes Python state.

What breaks a graph was tried with torch 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import PARAMETERLESS, Kind
from torchlint.model.semantics.objects import ObjectFlow
from torchlint.model.semantics.switches import Switches
from torchlint.model.syntax.tree import Binding

from ._compiled import Compile, Compiled


@dataclass(frozen=True, eq=False)
class Traced:
    """A function that runs compiled."""

    function: cst.FunctionDef
    site: Compile  #: where it is compiled, or what calls it is
    call: cst.Call | None = None  #: by which the compiled function runs it; None if it is compiled itself


@dataclass(frozen=True, eq=False)
class Break:
    """A place in a traced function where the compiler has to give up and start a new graph."""

    node: cst.CSTNode
    traced: Traced
    kind: str  #: "read", "branch", "shape", "output", "python", "layer" or "recurrent"


@dataclass(frozen=True, eq=False)
class Mutation:
    """A place in a traced function that changes Python state on which the compiled code depends."""

    node: cst.CSTNode  #: the statement
    traced: Traced
    name: str  #: what is changed, as written
    made: Binding  #: where it gets its first value
    kind: str  #: "number", "list" or "dict"


_LOG_LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "log"})
_OUTPUT = frozenset({"builtins.print", "warnings.warn", "sys.stdout.flush", "sys.stdout.write"})
_PYTHON = frozenset(
    {
        "builtins.open",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "gc.collect",
        "random.choice",
        "random.choices",
        "random.random",
        "random.sample",
        "random.shuffle",
        "time.monotonic",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.process_time",
        "time.sleep",
        "time.time",
        "time.time_ns",
        "torch.allclose",
        "torch.equal",
        "torch.load",
        "torch.manual_seed",
        "torch.save",
        "torch.Generator",
    }
)
#: Operators whose result has as many rows as the values say.
_DYNAMIC = frozenset(
    {"torch.nonzero", "torch.argwhere", "torch.masked_select", "torch.unique", "torch.unique_consecutive"}
    | {"torch.bincount"}
)
_DYNAMIC_METHODS = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount"})
#: Methods that make one number, or a truth value, of a tensor.
_REDUCTIONS = frozenset({"any", "all", "sum", "mean", "max", "min", "amax", "amin", "norm", "prod", "std", "var"})
_REDUCING = frozenset(f"torch.{name}" for name in (*_REDUCTIONS, "is_nonzero"))
_RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
#: Makers of modules without parameters of their own.
_HARMLESS = ("Sequential", "ModuleList", "ModuleDict", "Buffer", "Identity")
#: Conditions under which a place is as good as always reached.
_USUAL = re.compile(r"(not )?self\.training|[\w.]+ is not None|isinstance\([\w.]+, (torch\.)?Tensor\)|__name__.*")
#: How many calls deep compiled code is followed: a model, its blocks, their layers.
_DEPTH = 3
_GROWS = frozenset({"append", "extend", "insert", "appendleft"})


class TracedCode:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    # -- what runs compiled

    @cached_property
    def functions(self) -> dict[cst.FunctionDef, Traced]:
        """The functions of the file that run compiled, be it not always: what is compiled, and what that calls."""
        module = self._module
        found: dict[cst.FunctionDef, Traced] = {}
        for site in module.fact(Compiled).all_sites:
            if site.debugging is not None and site.debugging is site.option("disable"):
                continue
            for item in module.fact(Compiled).contents_of(site):
                if isinstance(item, cst.FunctionDef) and (
                    item is site.target or not module.fact(ObjectFlow).is_sealed(item)
                ):
                    found.setdefault(item, Traced(item, site))
        latest = list(found.values())
        for _ in range(_DEPTH):
            latest = [item for outer in latest for item in self._called_by(outer) if item.function not in found]
            found.update({item.function: item for item in reversed(latest)})
        return found

    def _called_by(self, outer: Traced) -> Iterator[Traced]:
        for call in self._calls(outer):
            for item in self._module.fact(Compiled).run_by(call):
                if isinstance(item, cst.FunctionDef) and not self._module.fact(ObjectFlow).is_sealed(item):
                    yield Traced(item, outer.site, call)

    def _calls(self, traced: Traced) -> Iterator[cst.Call]:
        """The calls that a traced function always makes."""
        for call in self._module.tree.calls_in(traced.function.body):
            if self._is_reached(call, traced.function):
                yield call

    def _is_reached(self, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether running ``function`` compiled reaches ``node``, as far as can be seen."""
        module = self._module
        if module.tree.function_of(node) is not function or module.fact(Compiled).asks_whether_compiling(node):
            return False
        child = node
        for above in module.tree.ancestors(node):
            if above is function:
                return True
            if isinstance(above, (cst.ExceptHandler, cst.MatchCase, cst.Raise, cst.Assert)):
                return False
            if isinstance(above, cst.BooleanOperation) and child is above.right and not self._goes_on(above):
                return False
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                if child is not above.body or not _USUAL.fullmatch(module.code(above.test)):
                    return False
            child = above
        return False

    def _goes_on(self, test: cst.BooleanOperation) -> bool:
        """Whether the right side is looked at as a rule: ``mask is None and x.any()``, not ``debug and x.any()``."""
        text = self._module.code(test.left)
        return _USUAL.fullmatch(text) is not None or text.endswith(" is None") or self._asks_a_tensor(test.left)

    # -- what ends a graph

    def breaks(self) -> Iterator[Break]:
        """Every place that ends a graph in code that runs compiled, in order."""
        found: list[Break] = []
        for traced in self.functions.values():
            whole = traced.site.option("fullgraph")
            if whole is not None and isinstance(whole.value, cst.Name) and whole.value.value == "True":
                continue  # it would raise, or it takes in what depends on values
            for call in self._calls(traced):
                kind = self._kind_of_call(call)
                if kind is not None:
                    found.append(Break(call, traced, kind))
            for node in self._module.tree.nodes_in(traced.function.body):
                if isinstance(node, (cst.If, cst.While, cst.IfExp)) and self._asks_a_tensor(node.test):
                    if self._is_reached(node.test, traced.function):
                        found.append(Break(node.test, traced, "branch"))
                elif isinstance(node, cst.Subscript) and self._selects_by_mask(node):
                    if self._is_reached(node, traced.function):
                        found.append(Break(node, traced, "shape"))
        yield from sorted(found, key=lambda item: self._module.tree.index(item.node))

    def _kind_of_call(self, call: cst.Call) -> str | None:
        name = self._module.name_of(call.func)
        if name in _OUTPUT or self._logs(call, name):
            return "output"
        if name in _PYTHON or (name or "").startswith("numpy.random."):
            return "python"
        if name == "copy.deepcopy" and call.args:
            copied = self._module.value(call.args[0].value)
            return "python" if copied.kind in (Kind.TENSOR, Kind.MODULE) and copied.sure else None
        if self._reads_value(call, name):
            return None if self._captures("capture_scalar_outputs") else "read"
        if self._has_dynamic_shape(call, name):
            return None if self._captures("capture_dynamic_output_shape_ops") else "shape"
        if name is not None and name.startswith("torch.nn.") and name.count(".") == 2:
            last = name.rpartition(".")[2]
            holds = (
                last[:1].isupper() and not last.endswith("Loss") and not last.startswith((*PARAMETERLESS, *_HARMLESS))
            )
            return "layer" if holds else None
        value = self._module.value(call.func) if name is None else None
        if value is None or not value.sure or value.name not in _RECURRENT or self._captures("allow_rnn"):
            return None
        return "recurrent"

    def _captures(self, flag: str) -> bool:
        return any(
            switch.value == "True" for switch in self._module.fact(Switches).flags(f"torch._dynamo.config.{flag}")
        )

    def _logs(self, call: cst.Call, name: str | None) -> bool:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _LOG_LEVELS:
            return False
        if name is not None:
            return name.startswith(("logging.", "loguru.logger."))
        if not isinstance(func.value, cst.Name):
            return False
        values = [binding.value for binding in self._module.names.bindings(func.value)]
        return bool(values) and all(
            isinstance(value, cst.Call) and self._module.name_of(value.func) == "logging.getLogger" for value in values
        )

    def _reads_value(self, call: cst.Call, name: str | None) -> bool:
        if name in ("builtins.float", "builtins.int", "builtins.bool"):
            return len(call.args) == 1 and self._is_tensor(call.args[0].value)
        if not isinstance(call.func, cst.Attribute) or call.args or name is not None:
            return False
        value = self._module.value(call.func.value)
        if call.func.attr.value == "item":
            return value.kind not in (Kind.ARRAY, Kind.NUMBER)
        return call.func.attr.value == "tolist" and value.kind is Kind.TENSOR and value.sure

    def _has_dynamic_shape(self, call: cst.Call, name: str | None) -> bool:
        keywords = {item.keyword.value for item in call.args if item.keyword is not None}
        if any(item.star for item in call.args):
            return False
        if name == "torch.where":
            return len(call.args) == 1
        if name == "torch.nn.functional.one_hot":
            return len(call.args) == 1
        if name in _DYNAMIC:
            return "size" not in keywords
        if name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value in _DYNAMIC_METHODS:
            owner = self._module.value(call.func.value)
            return owner.kind in (Kind.TENSOR, Kind.UNKNOWN) and self._module.name_of(call.func.value) is None
        return False

    def _selects_by_mask(self, node: cst.Subscript) -> bool:
        """``x[x > 0]``, read."""
        index = node.slice[0].slice if len(node.slice) == 1 else None
        if not isinstance(index, cst.Index) or not isinstance(index.value, cst.Comparison):
            return False
        if self._captures("capture_dynamic_output_shape_ops"):
            return False
        if any(target is node for target, _, _ in self._module.tree.stores):
            return False
        left = index.value.left
        return self._module.code(left) == self._module.code(node.value) or self._is_tensor(left)

    def _asks_a_tensor(self, test: cst.BaseExpression) -> bool:
        """Whether a condition is about the values of a tensor."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self._asks_a_tensor(test.expression)
        if isinstance(test, cst.BooleanOperation):
            return self._asks_a_tensor(test.left) or (self._goes_on(test) and self._asks_a_tensor(test.right))
        if isinstance(test, cst.Comparison):
            operators = (cst.Is, cst.IsNot, cst.In, cst.NotIn)
            sides = [test.left, *(item.comparator for item in test.comparisons)]
            if any(isinstance(item.operator, operators) for item in test.comparisons):
                return False
            if any(self._module.value(side).kind in (Kind.NONE, Kind.STRING, Kind.DTYPE) for side in sides):
                return False
            return any(self._is_tensor(side) for side in sides)
        return isinstance(test, cst.Call) and self._is_tensor(test)

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an expression surely is a tensor: one that an operator gave, or a reduction."""
        value = self._module.value(node)
        if isinstance(node, cst.Call):
            name = self._module.name_of(node.func)
            if name is not None:
                return name in _REDUCING
            func = node.func
            if not isinstance(func, cst.Attribute) or func.attr.value not in _REDUCTIONS:
                return False
            return self._module.value(func.value).kind in (Kind.TENSOR, Kind.UNKNOWN)
        return isinstance(node, (cst.Name, cst.Subscript)) and value.kind is Kind.TENSOR and value.sure

    # -- what changes Python state

    def mutations(self) -> Iterator[Mutation]:
        """Every place in code that runs compiled that changes a number, list or dict on which the compiler relies."""
        found: list[Mutation] = []
        for traced in self.functions.values():
            for node in self._module.tree.nodes_in(traced.function.body):
                if not isinstance(node, (cst.Assign, cst.AugAssign, cst.Expr)):
                    continue
                changed = self._changed(node)
                if changed is None or not self._is_reached(node, traced.function):
                    continue
                target, kinds = changed
                made = self._made(target, traced)
                kind = _kind_of_value(made.value) if made is not None else None
                if made is not None and kind in kinds and not self._starts_anew(target, made, traced):
                    found.append(Mutation(node, traced, self._module.code(target), made, str(kind)))
        yield from sorted(found, key=lambda item: self._module.tree.index(item.node))

    def _changed(
        self, node: cst.Assign | cst.AugAssign | cst.Expr
    ) -> tuple[cst.BaseExpression, tuple[str, ...]] | None:
        """What a statement counts up, or adds to; and of which kinds it must be."""
        if isinstance(node, cst.Assign):
            target, value = node.targets[0].target, node.value
            if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, (cst.Add, cst.Subtract)):
                return None
            same = self._module.code(value.left) == self._module.code(target)
            return (target, ("number",)) if same and self._module.value(value.right).kind is Kind.NUMBER else None
        if isinstance(node, cst.AugAssign):
            if not isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)):
                return None
            if isinstance(node.target, cst.Subscript):
                return node.target.value, ("dict",)
            amount = self._module.value(node.value)
            return (node.target, ("number",)) if amount.kind in (Kind.NUMBER, Kind.UNKNOWN, Kind.OTHER) else None
        call = node.value
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value in _GROWS:
            return call.func.value, ("list",)
        return None

    def _made(self, target: cst.BaseExpression, traced: Traced) -> Binding | None:
        """Where a global, or an attribute of a module, gets its first value; None if it is neither."""
        tree = self._module.tree
        if isinstance(target, cst.Name):
            scope = self._module.names.home_of(target)
            if scope is not tree.module_scope:
                return None
            bound = [item for item in scope.bindings[target.value] if item.kind == "assign"]
            outside = [item for item in bound if self._module.function_of(item.node) is None]
            return outside[0] if len(outside) == 1 else None
        if not isinstance(target, cst.Attribute) or not isinstance(target.value, cst.Name):
            return None
        owner = tree.class_of(traced.function)
        first = (*traced.function.params.posonly_params, *traced.function.params.params)[:1]
        if owner is None or not first or first[0].name.value != target.value.value:
            return None
        instance = self._module.values.instance(owner)
        if instance.kind is not Kind.MODULE:
            return None
        for definition in self._module.definitions.lineage(owner):
            for item in tree.scopes[definition].attributes.get(target.attr.value, []):
                where = self._module.function_of(item.node)
                if item.kind == "assign" and where is not None and where.name.value == "__init__":
                    return item
            for item in tree.scopes[definition].bindings.get(target.attr.value, []):
                if item.kind == "assign":
                    return item
        return None

    def _counts_on(self, statement: cst.CSTNode) -> bool:
        """``x += 1``, or ``x = x + 1``."""
        if isinstance(statement, cst.Assign) and isinstance(statement.value, cst.BinaryOperation):
            return self._module.code(statement.value.left) == self._module.code(statement.targets[0].target)
        return isinstance(statement, cst.AugAssign)

    def _starts_anew(self, target: cst.BaseExpression, made: Binding, traced: Traced) -> bool:
        """Whether the compiled code, or for a list anything, sets it back: it then takes few values."""
        tree, name = self._module.tree, made.name
        if isinstance(target, cst.Name):
            others = [item for item in tree.module_scope.bindings[name] if item.kind == "assign" and item is not made]
            return any(not self._counts_on(item.node) for item in others)
        stores = [
            statement
            for stored, _, statement in tree.stores
            if isinstance(stored, cst.Attribute) and stored.attr.value == name and statement is not made.node
        ]
        stores = [statement for statement in stores if not self._counts_on(statement)]
        if _kind_of_value(made.value) != "number":
            clears = [call for call in self._module.methods("clear", "pop") if _last(call.func) == name]
            return bool(stores or clears)
        return any(self._module.function_of(statement) in self.functions for statement in stores)


def _kind_of_value(value: cst.BaseExpression | None) -> str | None:
    if isinstance(value, cst.UnaryOperation):
        value = value.expression
    if isinstance(value, cst.Integer):
        return "number"
    if isinstance(value, cst.List):
        return "list"
    return "dict" if isinstance(value, cst.Dict) else None


def _last(func: cst.BaseExpression) -> str:
    """``losses`` of ``self.losses.clear``."""
    owner = func.value if isinstance(func, cst.Attribute) else None
    if isinstance(owner, cst.Attribute):
        return owner.attr.value
    return owner.value if isinstance(owner, cst.Name) else ""
