"""Which functions a call may run that it does not name: closures, functions kept in variables and dicts, instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.program.stores import Stores
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.object_parts import Object

#: A call that may run more functions than this runs an unknown one.
_MAX_FUNCTIONS = 32
#: An attribute that is assigned at more places than this contains something unknown.
_MAX_STORES = 16
#: Kinds of values that run no function of the program when they are called.
_NO_FUNCTIONS = (Kind.TENSOR, Kind.BATCH, Kind.NUMBER, Kind.STRING, Kind.ARRAY, Kind.OPTIMIZER, Kind.CLASS)


class Dispatch(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._links = forest.links
        self._definitions = forest.definitions
        self._values = forest.values
        self._flow = forest.fact(ObjectFlow)
        self._stores = forest.fact(Stores)
        self._held: dict[cst.CSTNode, tuple[cst.FunctionDef, ...]] = {}
        self._forwards: dict[cst.Call, tuple[cst.FunctionDef, ...]] = {}

    # -- from a call to functions

    def run(self, call: cst.Call) -> tuple[cst.FunctionDef, ...]:
        """The functions that ``call`` may run, in whichever way; a constructor is none of them."""
        return self.functions(call) or self.forwards(call)

    def functions(self, call: cst.Call) -> tuple[cst.FunctionDef, ...]:
        """The functions that ``call`` names, or that the variable or the dict item it calls may refer to."""
        return self.held(call.func)

    def held(self, func: cst.BaseExpression) -> tuple[cst.FunctionDef, ...]:
        """The functions that ``func``, which is called or passed, may be."""
        known = self._held.get(func)
        if known is None:
            named = self._definitions.reachable(func, self._values)
            functions = tuple(item for item in named if isinstance(item, cst.FunctionDef))
            known = self._held[func] = functions if named else self._functions_kept_in(func)
        return known

    def forwards(self, call: cst.Call) -> tuple[cst.FunctionDef, ...]:
        """What calling an instance of a class of the program runs: ``forward`` of a network, or ``__call__``."""
        known = self._forwards.get(call)
        if known is None:
            known = self._forwards[call] = self._forwards_of(call.func)
        return known

    def _functions_kept_in(self, func: cst.BaseExpression) -> tuple[cst.FunctionDef, ...]:
        if not self._may_hold_function(func) or self._names.resolve(func) is not None:
            return ()
        value = self._values.of(func)
        if value.kind in _NO_FUNCTIONS:
            return ()
        if value.kind is Kind.FUNCTION and isinstance(value.definition, cst.FunctionDef):
            return (value.definition,)
        return self._few(item for item in self._flow.of(func) if isinstance(item, cst.FunctionDef))

    def _may_hold_function(self, func: cst.BaseExpression) -> bool:
        """Whether ``func`` is a place that a function may have been put in; ``x.mean`` is none."""
        if isinstance(func, cst.Attribute):
            return 0 < len(self._stores.attributes.get(func.attr.value, ())) <= _MAX_STORES
        return isinstance(func, (cst.Name, cst.Subscript, cst.Call))

    def _forwards_of(self, func: cst.BaseExpression) -> tuple[cst.FunctionDef, ...]:
        if self._names.resolve(func) is not None:
            return ()
        value = self._values.of(func)
        if value.kind in (Kind.FUNCTION, *_NO_FUNCTIONS):
            return ()
        if isinstance(value.definition, cst.ClassDef):
            return self._called_method(value.definition)
        classes = set(self._definitions.classes_of(value, self._values))  # ``NETWORKS[name]()``
        if not classes and not self._may_hold_function(func):
            return ()
        if not classes:
            classes = {found for item in self._objects(func) if (found := self._flow.class_of(item)) is not None}
        return self._few(method for found in classes for method in self._called_method(found))

    def _objects(self, func: cst.BaseExpression) -> Iterator[Object]:
        """The objects that ``func`` may be; of copies the originals: ``[copy.deepcopy(layer) for _ in range(6)]``."""
        for item in self._flow.of(func):
            is_copy = isinstance(item, cst.Call) and item.args and self._names.resolve(item.func) in knowledge.COPIES
            yield from self._flow.of(item.args[0].value) if isinstance(item, cst.Call) and is_copy else (item,)

    def _called_method(self, definition: cst.ClassDef) -> tuple[cst.FunctionDef, ...]:
        for name in ("__call__", "forward"):
            found = self._definitions.methods(definition, name)
            if found:
                return tuple(found)
        return ()

    def _few(self, functions: Iterable[cst.FunctionDef]) -> tuple[cst.FunctionDef, ...]:
        found = sorted(set(functions), key=self._tree.index)
        return tuple(found) if len(found) <= _MAX_FUNCTIONS else ()

    # -- from a function to calls

    def callers(self, function: cst.FunctionDef) -> tuple[cst.Call, ...]:
        """The calls that may run ``function``, in whichever way; others may be out of sight."""
        named = self._definitions.callers(function, self._values).calls
        if not self._may_be_held(function):
            return named
        return tuple(dict.fromkeys((*named, *self._indirect.get(function, ()))))

    def _may_be_held(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is run by calling an object, or the program names it where it does not call it."""
        names = {function.name.value, *self._links.aliases.get(function, ())}
        if not names.isdisjoint(("forward", "__call__")) or not self._read_names.isdisjoint(names):
            return True
        return not all(self._tree.is_called(use) for name in names for use in self._tree.names.get(name, ()))

    @cached_property
    def _read_names(self) -> frozenset[str]:
        """The names of attributes that are read, and not called at once, or that ``getattr`` is given."""
        given = {
            str(call.args[1].value.evaluated_value)
            for call in self._names.calls_of("builtins.getattr")
            if len(call.args) > 1 and isinstance(call.args[1].value, cst.SimpleString)
        }
        return self._stores.read_names | given

    @cached_property
    def _indirect(self) -> dict[cst.FunctionDef, list[cst.Call]]:
        """By function the calls that may run it without naming it."""
        found: dict[cst.FunctionDef, list[cst.Call]] = {}
        for call in self._tree.calls:
            if self._names.resolve(call.func) is not None:
                continue  # of a library
            if isinstance(call.func, cst.Attribute) and call.func.attr.value not in self._stores.object_names:
                continue  # `x.view(...)`
            named = self._definitions.called(call, self._values)
            for function in self.run(call):
                if not named or self._is_renamed(function, call.func):
                    found.setdefault(function, []).append(call)
        return found

    def _is_renamed(self, function: cst.FunctionDef, func: cst.BaseExpression) -> bool:
        """Whether ``func`` is an attribute with a function of the top level, or a variable with a method, as its value.

        It has another name than the function: ``run = self.run_fast if fast else self.run``. Or it is an item of a
        dictionary with methods: ``losses[name]`` of ``losses = {"boxes": self.loss_boxes}``.
        """
        if isinstance(func, (cst.Name, cst.Subscript)):
            return self._tree.class_of(function) is not None
        names = {function.name.value, *self._links.aliases.get(function, ())}
        return (
            isinstance(func, cst.Attribute) and self._tree.class_of(function) is None and func.attr.value not in names
        )

    def arguments_for(self, function: cst.FunctionDef, param: cst.Param) -> list[cst.BaseExpression]:
        """What these calls pass for ``param``; unpacked arguments are left out, but not those of ``**options``."""
        if param is function.params.star_kwarg:
            return self._other_keywords(function)
        calls = (*self.callers(function), *self._definitions.partials.of(function, self._values))
        return self._definitions.arguments.of_all(calls, function, param)

    def _other_keywords(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        """What the callers of a function with ``**options`` pass by keywords that are not parameters of their own."""
        named = {param.name.value for param in (*function.params.params, *function.params.kwonly_params)}
        return [
            item.value
            for call in self.callers(function)
            for item in call.args
            if item.star == "**" or (item.keyword is not None and item.keyword.value not in named)
        ]
