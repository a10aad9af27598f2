"""Modules as registries: the functions and classes that a program takes from a module by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.semantics.arguments import Arguments
from torchlint.model.semantics.classes import Classes, defined
from torchlint.model.semantics.name_patterns import matches, pattern_of
from torchlint.model.semantics.names import Names, Variable
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.parameters import is_static, owner_of, parameters_of, positional_parameters
from torchlint.model.syntax.scopes import Scope
from torchlint.model.syntax.tree import Tree
from torchlint.source.module_patterns import ANY

#: A call that may run more functions than this runs an unknown one.
_MAX_PICKED = 40
#: A module with more names is not searched.
_MAX_NAMES = 300
_SOURCES = (cst.Subscript, cst.Call, cst.Name)
_Definition = cst.FunctionDef | cst.ClassDef


class Registries:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, classes: Classes, arguments: Arguments) -> None:
        self._tree = tree
        self._names = names
        self._classes = classes
        self._arguments = arguments
        self._picked: dict[cst.CSTNode, list[_Definition]] = {}
        self._taken_by_name: dict[Variable, dict[_Definition, None]] = {}

    def picked(self, func: cst.BaseExpression) -> list[_Definition]:
        """What ``models.__dict__[name]``, ``getattr(models, name)`` or ``eval(name)`` may be, where it is called.

        Those of the module's functions and classes that the arguments of the call fit.
        """
        if type(func) not in _SOURCES:
            return []
        known = self._picked.get(func)
        if known is None:
            known = self._picked[func] = self._find(func)
        return known

    def calls_of(self, definition: _Definition) -> list[cst.Call]:
        """The calls that may run a function or class which they take from its module by name."""
        return self._calls.get(definition, [])

    def made_by(self, call: cst.Call, function: cst.FunctionDef) -> list[cst.ClassDef]:
        """The classes of which ``call`` of a factory makes an object: ``config.init_obj("arch", models)``.

        A factory is a function that returns an object of a class that it takes by name from a module which it is
        given: ``return getattr(module, name)(**options)``. Empty for other functions, and for modules of libraries.
        """
        factory = self._factories.get(function)
        if factory is None:
            return []
        param, taken = factory
        passed = self._arguments.of(call, function, param)
        return [item for item in self._classes_in(passed) if item in self.picked(taken)] if passed is not None else []

    def is_factory(self, function: cst.FunctionDef) -> bool:
        """Whether a function returns an object of a class that it takes by name from a module which it is given."""
        return function in self._factories

    def calls_in_factories(self, definition: cst.ClassDef) -> list[cst.Call]:
        """The calls in factories that may make an object of a class: ``getattr(module, name)(**options)``."""
        made = [self._tree.parent(taken) for _, taken in self._factories.values() if definition in self.picked(taken)]
        return [call for call in made if isinstance(call, cst.Call)]

    @cached_property
    def factory_calls(self) -> dict[cst.Call, list[cst.ClassDef]]:
        """The calls that may be of factories, with the classes of which they make an object."""
        found: dict[cst.Call, list[cst.ClassDef]] = {}
        for function in self._factories:
            for call in self._tree.calls_named(function.name.value):
                if classes := self.made_by(call, function):
                    found[call] = classes
        return found

    @cached_property
    def _factories(self) -> dict[cst.FunctionDef, tuple[cst.Param, cst.Call]]:
        """By factory the parameter for the module, and the call that takes the class."""
        found: dict[cst.FunctionDef, tuple[cst.Param, cst.Call]] = {}
        for taken in self._tree.calls_named("getattr"):
            made = self._tree.parent(taken)
            if not isinstance(made, cst.Call) or made.func is not taken:
                continue
            function = self._tree.function_of(made)
            param = self._names.parameter(taken.args[0].value) if taken.args and not taken.args[0].star else None
            if param is None or not isinstance(self._tree.parent(made), cst.Return) or not self.picked(taken):
                continue
            if function is not None and owner_of(self._tree, param) is function:
                found[function] = (param, taken)
        return found

    def _given(self, param: cst.Param) -> Iterator[cst.ClassDef]:
        """The classes of the modules that the calls of a function pass for a parameter."""
        function = owner_of(self._tree, param)
        if function is None:
            return
        for call in self._tree.calls_named(function.name.value):
            passed = self._arguments.of(call, function, param)
            if passed is not None:
                yield from self._classes_in(passed)

    def _classes_in(self, module: cst.BaseExpression) -> list[cst.ClassDef]:
        """The public classes that a module of the project defines or imports, without the bases of others."""
        found = [item for item in _members(self._names.modules(module), ANY) if isinstance(item, cst.ClassDef)]
        bases = {base for item in found for base in self._classes.lineage(item)[1:]}
        return [item for item in found if item not in bases]

    @cached_property
    def _calls(self) -> dict[_Definition, list[cst.Call]]:
        found: dict[_Definition, list[cst.Call]] = {}
        in_factories = {taken for _, taken in self._factories.values()}  # they pass what is not seen
        for call in self._tree.calls:
            for definition in self.picked(call.func) if call.func not in in_factories else ():
                found.setdefault(definition, []).append(call)
        return found

    def _find(self, func: cst.BaseExpression) -> list[_Definition]:
        call = self._tree.parent(func)
        if not isinstance(call, cst.Call) or call.func is not func:
            return []
        taken = self._taken_by(func)
        if not taken:
            return []
        around = {*self._tree.ancestors(call)}
        found = [item for item in taken if item not in around and self._fits(call, item)]
        return found if len(found) <= _MAX_PICKED else []

    def _taken_by(self, func: cst.BaseExpression) -> dict[_Definition, None]:
        """What ``getattr(models, name)`` takes, and what ``net`` of ``net = getattr(models, name)`` is given."""
        variable = self._names.variable(func) if isinstance(func, cst.Name) else None
        if variable is None:
            return dict.fromkeys(self._taken(func))
        if variable not in self._taken_by_name:
            scope, name = variable
            given = [item for item in scope.bindings[name] if item.kind is BindingKind.ASSIGN and not item.path]
            values = [item.value for item in given if item.value is not None]
            self._taken_by_name[variable] = dict.fromkeys(item for value in values for item in self._taken(value))
        return self._taken_by_name[variable]

    def _taken(self, node: cst.BaseExpression) -> Iterator[_Definition]:
        """The functions and classes that ``node`` takes from modules by name."""
        if isinstance(node, cst.Subscript) and len(node.slice) == 1:
            index = node.slice[0].slice
            if isinstance(index, cst.Index):
                yield from _members(self._dictionary(node.value), pattern_of(index.value))
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and not any(arg.star for arg in node.args):
            name = self._names.resolve(node.func) if node.func.value in ("getattr", "eval") else None
            param = self._names.parameter(node.args[0].value) if node.args else None
            if name == "builtins.getattr" and len(node.args) > 1 and param is not None:
                yield from self._given(param)
            elif name == "builtins.getattr" and len(node.args) > 1:
                yield from _members(self._names.modules(node.args[0].value), pattern_of(node.args[1].value))
            elif name == "builtins.eval" and len(node.args) == 1:
                *parts, last = pattern_of(node.args[0].value).split(".")
                own = self._module_of(node)
                yield from _members(self._names.modules_named(own, parts) if parts else [own], last)

    def _dictionary(self, node: cst.BaseExpression) -> list[Scope]:
        """The modules whose names are the keys of ``models.__dict__``, ``vars(models)`` or ``globals()``."""
        if isinstance(node, cst.Attribute):
            return self._names.modules(node.value) if node.attr.value == "__dict__" else []
        name = self._names.resolve(node.func) if isinstance(node, cst.Call) else None
        if name == "builtins.globals":
            return [self._module_of(node)]
        if name == "builtins.vars" and isinstance(node, cst.Call) and len(node.args) == 1:
            return self._names.modules(node.args[0].value)
        return []

    def _module_of(self, node: cst.CSTNode) -> Scope:
        return self._tree.scopes[self._tree.root_of(node)]

    def _fits(self, call: cst.Call, definition: _Definition) -> bool:
        """Whether a function, or the constructor of a class, takes the arguments of a call."""
        function = definition
        if isinstance(definition, cst.ClassDef):
            init = self._classes.method(definition, "__init__")
            if init is None:
                return True
            function = init
        assert isinstance(function, cst.FunctionDef)
        is_method = self._tree.class_of(function) is not None and not is_static(function)
        positional = positional_parameters(function)[int(is_method) :]
        given = [argument for argument in call.args if not argument.star and argument.keyword is None]
        by_keyword = keywords_of(call).keys()
        hides = any(argument.star for argument in call.args)
        named = {param.name.value for param in parameters_of(function)}
        if len(given) > len(positional) and not isinstance(function.params.star_arg, cst.Param):
            return False
        if function.params.star_kwarg is None and not by_keyword <= named:
            return False
        rest = (*positional[len(given) :], *function.params.kwonly_params)
        return hides or all(param.default is not None or param.name.value in by_keyword for param in rest)


def _members(modules: Iterable[Scope], pattern: str) -> Iterator[_Definition]:
    """The public functions and classes of modules whose names have a pattern."""
    for module in modules:
        names: Iterable[str] = [pattern]
        if ANY in pattern:
            names = module.bindings if len(module.bindings) <= _MAX_NAMES else ()
        for name in names:
            if not name.startswith("_") and matches(pattern, name):
                yield from defined(module.bindings.get(name, []))
