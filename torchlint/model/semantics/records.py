"""Objects whose attributes a program sets from outside of their class: ``config = CfgNode(); config.WORKERS = 4``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.evaluator import FlowEvaluator
from torchlint.model.semantics.members import given_to_records
from torchlint.model.semantics.names import Names
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import first_parameter, owner_of
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.syntax.tree import Tree

#: How many names, parameters and attributes an object is followed through.
_DEPTH = 12
#: How many names after the first make the path of a setting that is recognised by them.
_LEAST = 2
_COPYING = frozenset({"clone", "copy"})

#: The call that makes an object, and the attributes that lead from it to a part of it.
_Place = tuple[cst.CSTNode, tuple[str, ...]]
#: None: an object passes its own part on, to another one of its class; that adds no place to the others.
_Places = frozenset[_Place] | None
_UNKNOWN: frozenset[_Place] = frozenset()


class Records:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: FlowEvaluator) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values
        self._known: dict[tuple[cst.CSTNode, int], _Places] = {}
        #: answers that a cycle cut short, until the outermost question is answered: their number has no other bound
        self._provisional: dict[tuple[cst.CSTNode, int], _Places] = {}
        self._is_asked = False

    def stored_values(self, node: cst.Attribute) -> list[cst.BaseExpression | None]:
        """What the attribute ``node`` may be set to, under any name of its object; None where it is unpacked.

        Empty if the object is unknown, or nothing is seen to be stored there.
        """
        return self._stored_values(node, ())

    def stored_under(self, node: cst.BaseExpression, name: str) -> list[cst.BaseExpression | None]:
        """What the attribute ``name`` of the object ``node`` may be set to, as `stored_values`."""
        return self._stored_values(node, (name,))

    def _stored_values(self, node: cst.BaseExpression, names: tuple[str, ...]) -> list[cst.BaseExpression | None]:
        outer, self._is_asked = self._is_asked, True
        try:
            return self._stored_at(_extended(self._places(node, _DEPTH), *names) or _UNKNOWN, node)
        finally:
            self._is_asked = outer
            if not outer:
                self._provisional.clear()

    def _stored_at(self, places: frozenset[_Place], node: cst.BaseExpression) -> list[cst.BaseExpression | None]:
        """What is stored at one of ``places``, except for what ``node`` is part of."""
        found: list[cst.BaseExpression | None] = []
        for origin, path in places:
            if isinstance(origin, cst.Call):
                found += self._made_with(origin, path)
            for target, value in self.stores.get(path[-1], ()):
                if value is not None and self._tree.within(node, value):
                    continue
                if (origin, path) in self._stored_by(target):
                    found.append(value)
            for end in range(1, len(path)):  # `config.DATA = edict(WORKERS=4)`
                for target, value in self.stores.get(path[end - 1], ()):
                    if value is not None and (origin, path[:end]) in self._stored_by(target):
                        found += self._made_with(value, path[end:])
        return list(dict.fromkeys(found))

    def _stored_by(self, target: cst.Attribute) -> frozenset[_Place]:
        """Where an assignment to ``target`` stores a value; ``self.workers = args.workers`` stores none in ``args``."""
        if self._names.members(target):
            return self._places(target, _DEPTH) or _UNKNOWN
        return _extended(self._places(target.value, _DEPTH), target.attr.value) or _UNKNOWN

    def alike(self, node: cst.Attribute) -> list[cst.BaseExpression]:
        """What a top level stores under the path of ``node``, two names or more: ``_C.DATA.WORKERS = 4``.

        For ``cfg.DATA.WORKERS`` of an object that comes from out of sight.
        """
        names = (dotted_name(node) or "").split(".")
        found: list[cst.BaseExpression] = []
        for target, value in self.stores.get(names[-1], ()):
            path = (dotted_name(target) or "").split(".")[1:]
            if len(path) < _LEAST or names[-len(path) :] != path or len(names) == len(path):
                continue
            if value is None or self._tree.function_of(target) is not None:
                return []
            found.append(value)
        return found

    @cached_property
    def stores(self) -> dict[str, list[tuple[cst.Attribute, cst.BaseExpression | None]]]:
        """By name of the attribute what is stored, on which object."""
        found: dict[str, list[tuple[cst.Attribute, cst.BaseExpression | None]]] = defaultdict(list)
        for target, value, _ in self._tree.stores:
            if isinstance(target, cst.Attribute):
                found[target.attr.value].append((target, value))
        return dict(found)

    @cached_property
    def names(self) -> frozenset[str]:
        """The attributes that the program sets from outside, or gives to a record: ``Munch(train=loader)``."""
        return frozenset(self.stores) | given_to_records(self._tree)

    def _places(self, node: cst.BaseExpression, depth: int) -> _Places:
        """Where the value of ``node`` may be kept; empty if unknown."""
        if depth <= 0:
            return _UNKNOWN
        key = (node, depth)
        for known in (self._known, self._provisional):
            if key in known:
                return known[key]
        found, is_final = self._values.guard((Records, node), lambda: self._found(node, depth), None)
        if is_final or found is not None:  # else the node may be asked for within its own answer
            (self._known if is_final else self._provisional)[key] = found
        return found

    def _found(self, node: cst.BaseExpression, depth: int) -> _Places:
        if isinstance(node, cst.Name):
            return self._of_bindings(self._values.reaching.of(node), depth)
        if isinstance(node, cst.Attribute):
            members = self._names.members(node)
            if members:
                return self._of_bindings(members, depth)
            own = self._own_attribute(node)
            if own:
                return self._of_bindings(own, depth)
            return _extended(self._places(node.value, depth), node.attr.value)
        return self._of_call(node, depth) if isinstance(node, cst.Call) else _UNKNOWN

    def _own_attribute(self, node: cst.Attribute) -> list[Binding]:
        """What binds ``self.config`` in the methods of its class."""
        definition = self._values.of(node.value).definition
        if not isinstance(definition, cst.ClassDef):
            return []
        for item in self._definitions.lineage(definition):
            bindings = self._tree.scopes[item].attributes.get(node.attr.value)
            if bindings:
                return bindings
        return []

    def _of_call(self, node: cst.Call, depth: int) -> _Places:
        if self._names.resolve(node.func) in knowledge.COPIES and node.args:
            return self._places(node.args[0].value, depth - 1)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _COPYING and not node.args:
            return self._places(node.func.value, depth - 1)
        called = self._definitions.called(node, self._values)
        if not called or not all(isinstance(item, cst.FunctionDef) for item in called):
            return frozenset({(node, ())})
        returned = [
            value for item in called if isinstance(item, cst.FunctionDef) for value in self._definitions.returns(item)
        ]
        return _all_of(self._places(value, depth - 1) if value is not None else _UNKNOWN for value in returned)

    def _parts(self, value: cst.BaseExpression, path: tuple[int, ...]) -> list[cst.BaseExpression | None]:
        """What unpacking ``value`` gives at ``path``: ``config`` of ``args, config = read_options()``."""
        part = unpacked(value, path)
        if part is not None or not isinstance(value, cst.Call):
            return [part]
        called = self._definitions.called(value, self._values)
        returned = [
            item for made in called if isinstance(made, cst.FunctionDef) for item in self._definitions.returns(made)
        ]
        if not returned or not all(isinstance(made, cst.FunctionDef) for made in called):
            return [None]
        return [unpacked(item, path) if item is not None else None for item in returned]

    def _of_bindings(self, bindings: list[Binding], depth: int) -> _Places:
        return _all_of(self._of_binding(item, depth) for item in bindings if item.kind is not BindingKind.ANNOTATION)

    def _of_binding(self, binding: Binding, depth: int) -> _Places:
        if binding.kind is BindingKind.ASSIGN and binding.value is not None:
            return _all_of(
                self._places(part, depth - 1) if part is not None else _UNKNOWN
                for part in self._parts(binding.value, binding.path)
            )
        if binding.kind is BindingKind.PARAM and isinstance(binding.node, cst.Param):
            return self._of_parameter(binding.node, depth)
        return _UNKNOWN

    def _of_parameter(self, param: cst.Param, depth: int) -> _Places:
        function = owner_of(self._tree, param)
        if function is None:
            return _UNKNOWN
        if self._tree.class_of(function) is not None and first_parameter(function) is param:
            return _UNKNOWN
        given = self._definitions.arguments_for(function, param, self._values)
        return _all_of(self._places(value, depth - 1) for value in given)

    def _made_with(self, node: cst.BaseExpression, path: tuple[str, ...]) -> Iterator[cst.BaseExpression]:
        """What ``edict(DATA=edict({"WORKERS": 4}))``, ``edict(**config)`` or a dictionary has under a path of names."""
        if not path:
            return
        entries: list[tuple[str, cst.BaseExpression]] = []
        if isinstance(node, cst.Call):
            entries = [(item.keyword.value, item.value) for item in node.args if item.keyword is not None]
            for display in self._displays(node):
                yield from self._made_with(display, path)
        elif isinstance(node, cst.Dict):
            for element in node.elements:
                if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
                    entries.append((str(element.key.evaluated_value), element.value))
        for name, value in entries:
            if name != path[0]:
                continue
            if len(path) == 1:
                yield value
            else:
                yield from self._made_with(value, path[1:])

    def _displays(self, node: cst.Call) -> Iterator[cst.Dict]:
        """The dictionaries whose items a call is given: ``edict({"WORKERS": 4})``, ``Config(**defaults)``."""
        for index, item in enumerate(node.args):
            if item.star == "**" or (index == 0 and item.keyword is None and not item.star):
                named = self._values.reaching.of(item.value) if isinstance(item.value, cst.Name) else []
                bound = [binding.value for binding in named if binding.kind is BindingKind.ASSIGN and not binding.path]
                for value in bound or [item.value]:
                    if isinstance(value, cst.Dict):
                        yield value


def _extended(places: _Places, *names: str) -> _Places:
    """The places that attributes lead to."""
    return None if places is None else frozenset((origin, (*path, *names)) for origin, path in places)


def _all_of(alternatives: Iterable[_Places]) -> _Places:
    """All places of several alternatives; none if one of them is unknown."""
    given = list(alternatives)
    found = [places for places in given if places is not None]
    if not found:
        return None if given else _UNKNOWN
    return frozenset().union(*found) if all(found) else _UNKNOWN
