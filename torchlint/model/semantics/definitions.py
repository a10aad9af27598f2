"""Functions and calls: which call reaches which function or class, who calls whom, what is returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import libcst as cst

from torchlint.model.semantics.arguments import Arguments
from torchlint.model.semantics.classes import Classes
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.families import Families
from torchlint.model.semantics.items import Items
from torchlint.model.semantics.knowledge import COPIES, Kind
from torchlint.model.semantics.links import Links
from torchlint.model.semantics.members import member_names
from torchlint.model.semantics.names import Names, Variable
from torchlint.model.semantics.partials import Partials
from torchlint.model.semantics.passed_functions import PassedFunctions
from torchlint.model.semantics.registries import Registries
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import is_of_super, is_super_call
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self
from torchlint.model.syntax.parameters import class_parameter, first_parameter, is_property
from torchlint.model.syntax.scopes import Scope
from torchlint.model.syntax.tree import Tree

#: The calls of each method, of one name.
_MethodCalls: TypeAlias = dict[cst.CSTNode, list[cst.Call]]
#: A variable that may refer to more functions than this refers to an unknown one.
_MAX_HANDED = 16
#: Kinds of objects that are made by the calls they come from.
_MADE_BY_CLASSES = (Kind.OTHER, Kind.MODULE, Kind.DATASET, Kind.LOSS)


@dataclass(frozen=True)
class Callers:
    """Where a function of the file is called from."""

    calls: tuple[cst.Call, ...]
    complete: bool  #: False: it is also passed on as a value, or may be called from elsewhere under the same name


class Definitions(Classes):
    """The classes of a forest, and its functions: which call reaches which."""

    def __init__(self, tree: Tree, names: Names, links: Links) -> None:
        super().__init__(tree, names)
        self._links = links
        self.arguments = Arguments(tree, names)
        self.items = Items(tree, names)
        self._passed_functions = PassedFunctions(tree, names, self.items, self.arguments, self)
        self.partials = Partials(names, self)
        self._families = Families(tree, names, self)
        self.registries = Registries(tree, names, self, self.arguments)
        self._callers: dict[cst.CSTNode, Callers] = {}
        self._reachable: dict[cst.CSTNode, list[cst.FunctionDef | cst.ClassDef]] = {}
        #: By function the scopes that bind it, and the names they bind it to.
        self._homes: dict[cst.CSTNode, dict[tuple[Scope, str], None]] | None = None
        self._is_given: dict[Variable, bool] = {}  #: whether only assignments and parameters bind a name
        self._named_callers: dict[tuple[Scope, str], Callers] = {}
        self._methods: dict[str, tuple[_MethodCalls, bool]] = {}

    # -- calls

    def called(self, call: cst.Call, values: Evaluator) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes of the file that ``call`` may run."""
        return self.referenced(call.func, values)

    def referenced(self, func: cst.CSTNode, values: Evaluator) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes of the file that the expression ``func`` refers to.

        Of a method that derived classes override, the one of the class itself, unless it does nothing.
        """
        found = self.reachable(func, values)
        if len(found) < 2 or not isinstance(func, cst.Attribute) or self._names.members(func):
            return found
        owner = values.of(func.value).definition
        own = self.method(owner, func.attr.value) if owner is not None else None
        return [own] if own is not None and own in found else found

    def reachable(self, func: cst.CSTNode, values: Evaluator) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes of the file that ``func`` may refer to, overrides included."""
        known = self._reachable.get(func)
        if known is not None:
            return known
        if self._names.resolve(func) is not None:
            return []  # of a library
        if type(func) is cst.Attribute and func.attr.value not in self._member_names and not self._names.members(func):
            return []
        found, is_final = values.attempt(lambda: self._find_reachable(func, values))
        if is_final:
            self._reachable[func] = found
        return found

    @cached_property
    def _member_names(self) -> frozenset[str]:
        return member_names(self._tree)

    def _find_reachable(self, func: cst.CSTNode, values: Evaluator) -> list[cst.FunctionDef | cst.ClassDef]:
        if isinstance(func, cst.Name):
            known = self.named(func) or self.registries.picked(func) or self._handed(func, values)
            return known or [*self.partials.classes(func, values)]
        if isinstance(func, (cst.Call, cst.Subscript)):  # `getattr(models, name)()`, `get_trainer(name)(model)`
            return self.registries.picked(func) or self._kept(values.of(func), (cst.FunctionDef, cst.ClassDef))
        if isinstance(func, cst.Attribute):
            if self._names.members(func):
                return self.named(func)
            above = self._above(func)
            if above is not None:
                return [above]
            owner = values.of(func.value)
            if owner.definition is not None and owner.kind is not Kind.FUNCTION:
                if isinstance(owner.definition, cst.ClassDef) and not owner.is_of_one_class:
                    found = self.methods(owner.definition, func.attr.value)  # it may be of a derived class
                else:
                    found = [*filter(None, [self.method(owner.definition, func.attr.value)])]
                found = [item for item in found if not is_property(item)]  # `self.model(x)` runs what that returns
                # `self.step = self._train_step`, `net_class = Net`, a class in the class
                return [*found] or self._kept(values.of(func), (cst.FunctionDef, cst.ClassDef))
            return self._of_any(owner, func.attr.value, values) or [*self._families.methods(func, owner)]
        return []

    def _above(self, func: cst.Attribute) -> cst.FunctionDef | None:
        """The method of a base class that ``super().validate`` refers to."""
        name = func.attr.value
        function = self._tree.function_of(func)
        owner = self._tree.class_of(function) if function is not None else None
        if owner is None or name.startswith("__") or not is_of_super(func):
            return None
        bases = (self._tree.scopes[item].bindings.get(name, ()) for item in self.lineage(owner)[1:])
        found = next((binding.node for bindings in bases for binding in bindings), None)
        return found if isinstance(found, cst.FunctionDef) else None

    def _of_any(self, owner: Value, name: str, values: Evaluator) -> list[cst.FunctionDef | cst.ClassDef]:
        """The methods called ``name`` of one of several classes, or of an object: ``TRAINERS[kind](model).train()``."""
        classes = [item for item in self._kept(owner, (cst.ClassDef,)) if isinstance(item, cst.ClassDef)]
        methods = [self.method(item, name) for item in classes or self.classes_of(owner, values)]
        found = {method for method in methods if method is not None}
        return [*sorted(found, key=self._tree.index)]

    def classes_of(self, owner: Value, values: Evaluator, node: cst.BaseExpression | None = None) -> list[cst.ClassDef]:
        """The classes that an object, which ``node`` gives, may be of, if all calls that may make it are known."""
        calls = {node} if owner.kind is Kind.UNKNOWN and isinstance(node, cst.Call) else owner.origins
        if owner.kind not in (*_MADE_BY_CLASSES, Kind.UNKNOWN) or not 0 < len(calls) <= _MAX_HANDED:
            return []
        made = [self._made_by(call, values) if isinstance(call, cst.Call) else [] for call in calls]
        return [item for items in made for item in items if isinstance(item, cst.ClassDef)] if all(made) else []

    def _made_by(self, call: cst.Call, values: Evaluator) -> Sequence[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes that a call of a constructor runs; for a copy the class of the original."""
        if call in self.registries.factory_calls:
            return self.registries.factory_calls[call]
        if call.args and self._names.resolve(call.func) in COPIES:
            copied = values.of(call.args[0].value).definition
            return [] if copied is None else [copied]
        is_unknown = isinstance(call.func, cst.Attribute) and not self._names.members(call.func)
        return [] if is_unknown else self.called(call, values)

    def _handed(self, func: cst.Name, values: Evaluator) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes a variable or a parameter may refer to: ``step`` of ``step = make_step(model)``."""
        variable = self._names.variable(func)
        if variable is None:
            return []
        if variable not in self._is_given:
            kinds = {binding.kind for binding in self._names.bindings(func)}
            self._is_given[variable] = bool(kinds) and kinds <= {BindingKind.ASSIGN, BindingKind.PARAM}
        if not self._is_given[variable]:
            return []
        return self._kept(values.of(func), (cst.FunctionDef, cst.ClassDef))

    def _kept(self, value: Value, kinds: tuple[type[cst.CSTNode], ...]) -> list[cst.FunctionDef | cst.ClassDef]:
        """The functions or classes that a value may be, if all are known and they are few."""
        if value.kind not in (Kind.FUNCTION, Kind.CLASS) or not value.sure or len(value.origins) > _MAX_HANDED:
            return []
        found = [
            origin
            for origin in value.origins
            if isinstance(origin, (cst.FunctionDef, cst.ClassDef)) and isinstance(origin, kinds)
        ]
        return [*sorted(found, key=self._tree.index)]

    def callers(self, function: cst.FunctionDef, values: Evaluator) -> Callers:
        """The calls of ``function`` within the file."""
        known = self._callers.get(function)
        if known is not None:
            return known
        key = (Definitions.callers, function)
        found, is_final = values.guard(key, lambda: self._find_callers(function, values), Callers((), False))
        if is_final:
            self._callers[function] = found
        return found

    def _find_callers(self, function: cst.FunctionDef, values: Evaluator) -> Callers:
        name = function.name.value
        owner = self._tree.class_of(function)
        calls: list[cst.Call] = []
        complete = True
        if owner is not None and name == "__init__":
            made, overriding = self.made_with.get(function, ([], []))
            calls = [call for item in made for call in self.calls_of_class(item)]
            calls += [call for item in made for call in self._passed_functions.calls_of(self._homes_of(item), values)]
            calls += [
                call
                for init in overriding
                for call in self._tree.calls_in(init.body)
                if is_super_call(call, "__init__")
            ]
        elif owner is not None:
            by_method, complete = self._method_calls(function, values)
            calls = by_method.get(function, [])
            if name == "__next__":
                calls = [*calls, *self._passed_functions.next_calls(function, values)]
            if name in ("forward", "__call__"):
                complete = False
        else:
            found = self._function_callers(function)
            picking = self.registries.calls_of(function)
            handed = self._passed_functions.calls_of(self._homes_of(function), values)
            calls = [*dict.fromkeys((*found.calls, *picking, *handed))]
            complete = found.complete and not picking
        return Callers(tuple(calls), complete)

    def calls_naming(self, function: cst.FunctionDef, values: Evaluator) -> tuple[cst.Call, ...]:
        """The calls of a function by its own name; of a method all that are known."""
        if self._tree.class_of(function) is None:
            return self._function_callers(function).calls
        return self.callers(function, values).calls

    def calls_of_class(self, owner: cst.ClassDef) -> list[cst.Call]:
        """The calls of a class by its name, also as a string, and those of ``cls`` in class methods."""
        known = (owner.name.value, *sorted(self._links.aliases.get(owner, ())))
        named = (call for name in known for call in self._tree.calls_named(name))
        calls = [call for call in named if owner in self.named(call.func)]
        others = (*self._calls_by_own_class.get(owner, ()), *self.registries.calls_of(owner))
        return [*dict.fromkeys((*calls, *others))]

    @cached_property
    def _calls_by_own_class(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """By class the calls ``cls(...)`` in its class methods and in those that it inherits."""
        found: dict[cst.CSTNode, list[cst.Call]] = {}
        first = (first_parameter(function) for function in self._tree.functions)
        given = {item.name.value for item in first if item is not None and class_parameter(self._tree, item)}
        for call in (call for name in sorted(given) for call in self._tree.calls_named(name)):
            for definition in self.named(call.func):
                found.setdefault(definition, []).append(call)
        return found

    def _method_calls(self, function: cst.FunctionDef, values: Evaluator) -> tuple[_MethodCalls, bool]:
        """The calls of methods called like ``function``, and whether it is known of all of them which one they run."""
        name = function.name.value
        if name in self._methods:
            return self._methods[name]

        def find() -> tuple[_MethodCalls, bool]:
            found: _MethodCalls = {}
            complete = True
            named = (self._tree.calls_named(each) for each in (name, *self._method_attributes.get(name, ())))
            runs = ((call.func, call) for call in chain.from_iterable(named))
            for func, call in chain(runs, self.arguments.launches.mapped(name)):
                if not isinstance(func, cst.Attribute):
                    continue
                reached = self.reachable(func, values)
                for definition in (*reached, *self.overriding(func, reached)):
                    found.setdefault(definition, []).append(call)
                if not reached and values.of(func.value).definition is None:
                    complete = complete and bool(self._names.resolve(func))
            return found, complete

        found, is_final = values.attempt(find)
        if is_final:
            self._methods[name] = found
        return found

    @cached_property
    def _method_attributes(self) -> dict[str, dict[str, None]]:
        """By name of a method the attributes that refer to it: ``step`` of ``self.step = self.train_step``."""
        found: dict[str, dict[str, None]] = {}
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Attribute) and value is not None and is_attribute_of_self(value):
                if target.attr.value != value.attr.value:
                    found.setdefault(value.attr.value, {})[target.attr.value] = None
        return found

    def _function_callers(self, function: cst.FunctionDef) -> Callers:
        """The calls of a function that is not a method; of those of one name in one scope they are the same."""
        homes = self._homes_of(function)
        if not self._links.has_context:
            return self._callers_in(*homes[0])
        found = [self._callers_in(home, name) for home, name in homes]
        calls = [call for callers in found for call in callers.calls]
        complete = all(callers.complete for callers in found)
        calls += [
            call
            for call in self._tree.calls_named(function.name.value)
            if self._names.members(call.func) and function in self.named(call.func)
        ]
        return Callers(tuple(calls), complete)

    def _homes_of(self, definition: cst.FunctionDef | cst.ClassDef) -> list[tuple[Scope, str]]:
        """Where a function or class is defined, and where it is imported, with the names it has there."""
        if self._homes is None:
            self._homes = {}
            for scope in self._tree.scopes.values():
                for bindings in scope.bindings.values():
                    for binding in bindings:
                        if binding.kind in (BindingKind.FUNCTION, BindingKind.CLASS):
                            self._homes.setdefault(binding.node, {})[scope, binding.name] = None
        return list(self._homes[definition])

    def _callers_in(self, home: Scope, name: str) -> Callers:
        """The calls of what a scope calls ``name``, and those that start processes which run it."""
        if (home, name) not in self._named_callers:
            calls: list[cst.Call] = []
            complete = True
            for use in self._names.uses_in(home, name):
                parent = self._tree.parent(use)
                launch = self.arguments.launches.of(use)
                if isinstance(parent, cst.Call) and parent.func is use:
                    calls.append(parent)
                elif launch is not None:
                    calls.append(launch)
                elif not self._is_listed(parent):
                    complete = False
            self._named_callers[home, name] = Callers(tuple(calls), complete)
        return self._named_callers[home, name]

    def _is_listed(self, element: cst.CSTNode | None) -> bool:
        """Whether a function is an element of ``__all__``, which should contain names: that hands it to nobody."""
        row = self._tree.parent(element) if isinstance(element, cst.Element) else None
        made = self._tree.parent(row) if row is not None else None
        return isinstance(made, cst.Assign) and dotted_name(made.targets[0].target) == "__all__"

    def arguments_for(self, function: cst.FunctionDef, param: cst.Param, values: Evaluator) -> list[cst.BaseExpression]:
        """What the calls that name ``function`` pass for ``param``; `Dispatch` also knows of calls that do not."""
        calls = (*self.callers(function, values).calls, *self.partials.of(function, values))
        return self.arguments.of_all(calls, function, param)

    def extra_arguments(self, function: cst.FunctionDef, values: Evaluator) -> list[cst.BaseExpression]:
        """What the calls in the file pass for ``*args``; unpacked arguments are left out."""
        calls = self.callers(function, values).calls
        return [given for call in calls for given in self.arguments.extra(call, function)]

    def argument_of(self, call: cst.Call, function: cst.FunctionDef, param: cst.Param) -> cst.BaseExpression | None:
        """What ``call``, a call of ``function``, passes for ``param``; None if nothing, or if it is unpacked."""
        return self.arguments.of(call, function, param)

    def place_of(self, function: cst.FunctionDef, param: cst.Param) -> int | None:
        """The place among the positional arguments of a call that a parameter takes; None if it has none."""
        return self.arguments.places(function).get(param)

    def is_spawned(self, function: cst.FunctionDef) -> bool:
        """Whether `mp.spawn` starts processes that run ``function``, with their rank as its first argument."""
        return function in self._spawned

    @cached_property
    def _spawned(self) -> set[cst.FunctionDef | cst.ClassDef]:
        return {definition for function in self.arguments.launches.spawned for definition in self.named(function)}

    # -- what a function gives

    def returns(self, function: cst.FunctionDef) -> list[cst.BaseExpression | None]:
        """The returned expressions; None for a bare ``return``."""
        return self._exits.get(function, ([], []))[0]

    def yields(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        """The yielded expressions."""
        return self._exits.get(function, ([], []))[1]

    def delegated(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        """The iterables that ``function`` yields from."""
        return self._delegated.get(function, [])

    @cached_property
    def _delegated(self) -> dict[cst.CSTNode, list[cst.BaseExpression]]:
        found: dict[cst.CSTNode, list[cst.BaseExpression]] = {}
        for node in self._tree.of_kind(cst.Yield):
            function = self._tree.function_of(node) if isinstance(node.value, cst.From) else None
            if function is not None and isinstance(node.value, cst.From):
                found.setdefault(function, []).append(node.value.item)
        return found

    @cached_property
    def _exits(self) -> dict[cst.CSTNode, tuple[list[cst.BaseExpression | None], list[cst.BaseExpression]]]:
        """By function the returned and the yielded expressions."""
        found: dict[cst.CSTNode, tuple[list[cst.BaseExpression | None], list[cst.BaseExpression]]] = {}
        for end in self._tree.of_kind(cst.Return):
            function = self._tree.function_of(end)
            if function is not None:
                found.setdefault(function, ([], []))[0].append(end.value)
        for node in self._tree.of_kind(cst.Yield):
            function = self._tree.function_of(node)
            if function is not None and isinstance(node.value, cst.BaseExpression):
                found.setdefault(function, ([], []))[1].append(node.value)
        return found
