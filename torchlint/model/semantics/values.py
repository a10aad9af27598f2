"""The abstract value of an expression: kind, origin calls and device, followed through names and functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import libcst as cst

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.branches import Bound, Branches, Returned
from torchlint.model.semantics.compounds import augmented_value, compound_value
from torchlint.model.semantics.contents import Contents
from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.engines import Engines
from torchlint.model.semantics.fields import Fields
from torchlint.model.semantics.guesses import Guesses
from torchlint.model.semantics.handed_back import HandedBack
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.library_calls import LibraryCalls
from torchlint.model.semantics.library_values import instance_by_base, instance_by_name, named_constant
from torchlint.model.semantics.mappings import body_of
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.moves import moved_to
from torchlint.model.semantics.named_tuples import NAMED_TUPLE, named_tuple
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.parameter_values import ParameterValues
from torchlint.model.semantics.parsers import Parsers
from torchlint.model.semantics.reaching import Reaching
from torchlint.model.semantics.records import Records
from torchlint.model.semantics.subscripts import Subscripts
from torchlint.model.semantics.value import (
    NONE,
    NUMBER,
    UNKNOWN,
    Role,
    Value,
    is_settled,
    iterated,
    join,
    join_bound,
    join_items,
    numbers_batches,
    unpacked,
)
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import replaces_callee
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import (
    class_parameter,
    first_parameter,
    is_accessor,
    is_property,
    is_static,
    owner_of,
)
from torchlint.model.syntax.scopes import Binding, Scope
from torchlint.model.syntax.tree import Tree

__all__ = ["Value", "Values"]

_T = TypeVar("_T")

#: Expressions nested or chained deeper than this are unknown.
_MAX_DEPTH = 40
_WITHOUT_VALUE = (BindingKind.DELETE, BindingKind.EXCEPT)


class Values:
    """Evaluates the expressions of one file, lazily and once."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._memo: CyclicMemo[cst.CSTNode, Value] = CyclicMemo(UNKNOWN, _MAX_DEPTH, is_settled)
        self._guesses = Guesses(tree)
        self.parsers = Parsers(tree, names, self)
        self._contents = Contents(tree, names, self)
        self._subscripts = Subscripts(self, definitions.items, self._contents, self._guesses)
        self.reaching = Reaching(tree, names)
        self.engines = Engines(tree, names, definitions, self)
        self.branches = Branches(tree, definitions, self.reaching)
        self.handed_back = HandedBack(tree, names, definitions, self.reaching)
        self.parameter_values = ParameterValues(tree, names, definitions, self)
        self.records = Records(tree, names, definitions, self)
        self._fields = Fields(tree, names, definitions, self)
        self._library = LibraryCalls(names, self)

    # -- entry points

    def of(self, node: cst.CSTNode | None) -> Value:
        """The value of expression ``node``."""
        return UNKNOWN if node is None else self._memo.get(node, self._evaluate)

    def _once(self, key: Hashable, evaluate: Callable[[], Value]) -> Value:
        """What ``evaluate`` gives, kept under ``key`` as the value of a node is."""
        return self._memo.once(key, evaluate)

    def attempt(self, find: Callable[[], _T]) -> tuple[_T, bool]:
        """What ``find`` gives, and whether it is final: no cycle cut short a value that it may have used."""
        return self._memo.attempt(find)

    def guard(self, key: Hashable, find: Callable[[], _T], unknown: _T) -> tuple[_T, bool]:
        """The same; ``unknown`` while the same ``key`` is being looked for."""
        return self._memo.guard(key, find, unknown)

    def binding_value(self, binding: Binding) -> Value:
        """What ``binding`` gives its name."""
        if binding.kind in (BindingKind.ASSIGN, BindingKind.WITH):
            return unpacked(self.of(binding.value), binding.path, binding.targets)
        if binding.kind is BindingKind.FOR:
            return unpacked(iterated(self.of(binding.value)), binding.path)
        if binding.kind is BindingKind.PARAM:
            return self._once(binding, lambda: self._parameter(binding))
        if binding.kind is BindingKind.STAR and isinstance(binding.node, cst.Param):
            function = owner_of(self._tree, binding.node)
            star = binding.node
            return self._once(binding, lambda: self.parameter_values.extra(function, star)) if function else UNKNOWN
        if binding.kind is BindingKind.ANNOTATION and isinstance(binding.node, cst.AnnAssign):
            return self.annotated(binding.node.annotation)
        if binding.kind is BindingKind.FUNCTION and isinstance(binding.node, cst.FunctionDef):
            return Value(Kind.FUNCTION, frozenset({binding.node}), definition=binding.node)
        if binding.kind is BindingKind.CLASS and isinstance(binding.node, cst.ClassDef):
            return Value(Kind.CLASS, frozenset({binding.node}), definition=binding.node)
        if binding.kind is BindingKind.AUGMENT and isinstance(binding.node, cst.AugAssign):
            return augmented_value(binding.node, self)
        return UNKNOWN

    def annotated(self, annotation: cst.Annotation | None) -> Value:
        """What an annotation promises."""
        if annotation is None:
            return UNKNOWN
        node: cst.CSTNode = annotation.annotation
        if isinstance(node, cst.Subscript):
            node = node.value
        if isinstance(node, cst.SimpleString):
            return UNKNOWN
        return self._instance_of(self._names.resolve(node), node, None)

    def _parameter(self, binding: Binding) -> Value:
        param = binding.node
        assert isinstance(param, cst.Param)
        promised = self.annotated(param.annotation)
        if promised.kind in (Kind.MODULE, Kind.LOADER, Kind.OPTIMIZER, Kind.DATASET):
            promised = replace(promised, sure=True)
        function = owner_of(self._tree, param)
        given: list[Value] = []
        if function is None:
            given = self.parameter_values.of_lambda(param)
        else:
            owner = self._tree.class_of(function)
            if owner is not None and not is_static(function):
                if class_parameter(self._tree, param) is not None:
                    return Value(Kind.CLASS, definition=owner, sure=not self._definitions.derived(owner))
                if first_parameter(function) is param:
                    return self._instance_of(None, None, owner)
            given = self.parameter_values.alternatives(function, param)
            if function.params.params[:1] == (param,) and self._definitions.is_spawned(function):
                given.append(NUMBER)
            given += [iterated(self.of(data)) for data in self.engines.data_for(function, param)]
            given += self.parsers.devices_of_command(function, param)
        if param.default is not None:
            given.append(self.of(param.default))
        seen = join(given) if given else UNKNOWN
        if seen.kind in (Kind.UNKNOWN, Kind.NONE) and not seen.shapes:
            return promised or self._guesses.of(binding.name)
        return seen

    def stored(self, text: str) -> list[cst.BaseExpression | None]:
        """What the file assigns to the dotted name ``text`` (``args.device``), None where it unpacks."""
        return self._tree.stored.get(text, [])

    # -- expressions

    def _evaluate(self, node: cst.CSTNode) -> Value:
        if type(node) is cst.Name:  # for other classes, `isinstance` takes ten times as long
            return self._name(node)
        if type(node) is cst.Call:
            return self._call(node)
        if type(node) is cst.Attribute:
            return self._attribute(node)
        if type(node) is cst.Subscript:
            return self._subscripts.of(node)
        return compound_value(node, self)

    def _name(self, node: cst.Name) -> Value:
        if node.value in ("None", "True", "False"):
            return NONE if node.value == "None" else Value(Kind.OTHER, constant=node.value == "True")
        scope = self._names.home_of(node)
        if scope is None:
            return UNKNOWN
        bindings = scope.bindings[node.value]
        reached = self.reaching.of(node)
        home, name = self._names.defined(node) or (scope, node.value)
        if reached is bindings:  # the same for everything that sees them all
            bound = self._once((scope, node.value), lambda: self._bound(node.value, bindings))
        else:
            bound = self._bound(node.value, reached)
        found = self._contents.filled(bound, home, name)
        return self.parameter_values.narrowed(node, reached[0], found) if len(reached) == 1 else found

    def _bound(self, name: str, reached: list[Binding]) -> Value:
        """The value of a name that may be bound by any of ``reached``."""
        values = [self.binding_value(binding) for binding in reached if binding.kind not in _WITHOUT_VALUE]
        if not values:
            return UNKNOWN
        found = self._guesses.corrected(name, join(values))
        augmented = [
            item.node for item in reached if item.kind is BindingKind.AUGMENT and isinstance(item.node, cst.AugAssign)
        ]
        if found.kind is Kind.NONE and augmented:
            return UNKNOWN
        if found.kind is Kind.NUMBER and found.sure and not all(self.of(item.value) for item in augmented):
            return replace(found, sure=False)  # ``loss = 0``, then ``loss += criterion(...)``
        if not (found or found.shapes) and any(
            item.kind in (BindingKind.ASSIGN, BindingKind.FOR, BindingKind.WITH) for item in reached
        ):
            hint = self._guesses.of_bound(name, reached)
            if hint.kind is not Kind.LOADER or all(b.kind in (BindingKind.ASSIGN, BindingKind.WITH) for b in reached):
                moves = [moved_to(b.value, self) for b in reached if isinstance(b.value, cst.Call) and not b.path]
                return replace(hint, device=next((device for device in moves if device), None))
        return found

    def _attribute(self, node: cst.Attribute) -> Value:
        members = self._names.members(node)
        if members:
            bound = join([self.binding_value(binding) for binding in members])
            bound = self._contents.filled(bound, self._tree.scope_of(members[0].node), node.attr.value)
            if bound or members[0].kind is not BindingKind.IMPORT:
                return bound
        name = self._names.resolve(node)
        if name is not None:
            return named_constant(name) or self.parsers.device(node)
        attr = node.attr.value
        base = self.of(node.value)
        known = self._library.attribute(base, attr)
        if known is not None:
            return known
        if base.definition is not None and base.kind is not Kind.FUNCTION:
            found = self._fields.given(base, attr) or self._class_attribute(base.definition, attr, base.origins)
            if found is not None:
                return self._fields.replaceable(base, attr, found)
            if base.kind is Kind.MODULE and attr == "module":
                return base
        held = [self._class_attribute(item, attr) for item in self._definitions.classes_of(base, self, node.value)]
        having = [value for value in held if value is not None]
        if having and all(having):
            return join(having)  # of an object of one of several classes, which has the attribute
        if declared := self.parsers.device(node):
            return declared
        text = dotted_name(node)
        stored = self.stored(text) if text is not None else []
        seen = UNKNOWN
        if stored:
            seen = self._once(("stored", text), lambda: self._join_stored(stored))
        elif attr in self.records.names:  # ``self.args.device`` of ``args.device = ...``
            seen = self._join_stored(self.records.stored_values(node))
        return seen if seen or text is None or base.kind is Kind.TRAINER else self._guesses.of(text)

    def _join_stored(self, stored: list[cst.BaseExpression | None]) -> Value:
        return UNKNOWN if None in stored else join([self.of(value) for value in stored])

    def _class_attribute(
        self, owner: cst.CSTNode, attr: str, made: frozenset[cst.CSTNode] = frozenset()
    ) -> Value | None:
        """The value of an attribute of an object of a class that the calls ``made`` may have made."""
        found: list[Value] = []
        for scope in self._definitions.scopes_with(owner, attr):
            seen = self.branches.bound_by(made, owner, scope.attributes.get(attr, [])) if made else None
            key = ("attribute", scope, attr, seen)
            found.append(self._once(key, partial(self._attribute_of, scope, attr, seen)))
        return join(found) if found else None

    def _attribute_of(self, scope: Scope, attr: str, seen: Bound | None) -> Value:
        """The value of an attribute that a class and its methods bind; of ``seen`` only, where an object is known."""
        bound = scope.attributes.get(attr, []) if seen is None else seen
        values = [
            self._of_member(item) for item in (*bound, *scope.bindings.get(attr, ())) if not is_accessor(item.node)
        ]
        found = self._guesses.corrected(f"self.{attr}", self._contents.filled(join_bound(values), scope, attr))
        return found if found or found.shapes else self._guesses.of(f"self.{attr}")

    def _of_member(self, binding: Binding) -> Value:
        """What ``binding`` gives an attribute: of a property, what it returns."""
        return self.returned(binding.node) if is_property(binding.node) else self.binding_value(binding)

    # -- calls

    def _call(self, node: cst.Call) -> Value:
        name = self._names.resolve(node.func)
        if name is not None and (known := self._library.function(node, name)) is not None:
            return known
        definitions = [] if self._library.moves_module(node) else self._definitions.called(node, self)
        if definitions and not all(map(self.branches.only_adds, definitions)):
            given = {item: self._call_of_definition(node, item) for item in definitions}
            return join(self._definitions.of_known_kind(given))
        if isinstance(node.func, cst.Attribute):
            found = self._library.method(node, node.func)
            if found is None and (callee := self.of(node.func)).kind is Kind.LOSS:
                return Value(Kind.TENSOR, role=Role.LOSS, sure=callee.sure)  # of `self.criterion(outputs, labels)`
            if found is not None:
                return found
        elif name is None and self._definitions.makes_loader(node):
            return Value(Kind.LOADER, frozenset({node}), name=knowledge.DATA_LOADER)
        elif name is None or not name.startswith("torch."):
            body = body_of(node.func, self.reaching)
            if body is not None and (made := self.of(body)).kind is Kind.LOADER:
                return made
            callee = self.of(node.func)
            if callee.kind is Kind.CLASS or (callee.kind is Kind.MODULE and not callee.sure):
                if isinstance(node.func, cst.Name) and replaces_callee(node, self._tree.parent(node)):
                    return self._guesses.of(node.func.value)
                if callee.name == NAMED_TUPLE:
                    return named_tuple(node, callee, self)
                if callee.kind is Kind.CLASS and callee.definition is None:
                    return self._guesses.instance(dotted_name(node.func) or "")
            if callee.kind is Kind.MODULE and (callee.sure or node.args):  # `model_func()` may create a network
                return Value(Kind.TENSOR, device=callee.device, role=Role.OUTPUT, sure=callee.sure)
            if callee.kind is Kind.LOSS:
                return Value(Kind.TENSOR, role=Role.LOSS, sure=callee.sure)
        return self._passed_through(node)

    def _passed_through(self, node: cst.Call) -> Value:
        """An unknown call most often wraps a loader, or ``enumerate(loader)``: ``log_every(loader, 10)``."""
        for argument in node.args[:2]:
            value = self.of(argument.value)
            if argument.star == "" and (value.kind is Kind.LOADER or numbers_batches(value)):
                return replace(value, sure=False)
        return UNKNOWN

    def _call_of_definition(self, node: cst.Call, definition: cst.ClassDef | cst.FunctionDef) -> Value:
        if isinstance(definition, cst.ClassDef):
            made = self._instance_of(None, None, definition)
            if made.kind in (Kind.UNKNOWN, Kind.OTHER):
                passed = self._passed_through(node)
                if passed and "__iter__" in self._tree.scopes[definition].bindings:
                    return passed
            return replace(made, origins=frozenset({node}))
        by_name = self._definitions.registries.made_by(node, definition)
        if by_name:
            return join_items(self._call_of_definition(node, item) for item in by_name)
        same = self.handed_back.same(node, definition, self)
        if same is not None:
            return self.of(same)  # whatever other calls pass
        handed, replaced = self.handed_back.of(node, definition)
        reached = self.branches.reached(node, definition)
        returned = self._once(("returned", definition, reached), lambda: self.returned(definition, reached))
        if returned or returned.shapes:
            return returned
        if handed is not None:
            return replace(self.of(handed), device=next(filter(None, (moved_to(one, self) for one in replaced)), None))
        return self._passed_through(node) if definition.name.value == "cycle" else self._fields.made(node, definition)

    def returned(self, function: cst.FunctionDef, reached: Returned | None = None) -> Value:
        """What calling ``function`` gives: its returns, all or those that are reached, or an iterable of its yields."""
        return self.guard((function, reached), lambda: self._returned(function, reached), UNKNOWN)[0]

    def _returned(self, function: cst.FunctionDef, reached: Returned | None) -> Value:
        each = [self.of(item) for item in self._definitions.yields(function)]
        each += [iterated(self.of(item)) for item in self._definitions.delegated(function)]
        if each:
            return Value(Kind.SEQUENCE, each=join(each))
        returns = self._definitions.returns(function) if reached is None else reached
        return join([NONE if item is None else self.of(item) for item in returns])

    def _instance_of(self, name: str | None, node: cst.CSTNode | None, definition: cst.ClassDef | None) -> Value:
        """An instance of the class called ``name``, or defined in the file."""
        if definition is None and node is not None and name is None:
            value = self.of(node)
            if value.kind is Kind.CLASS and isinstance(value.definition, cst.ClassDef):
                definition = value.definition
        if definition is not None:
            return self.instance(definition)
        return UNKNOWN if name is None else instance_by_name(name)

    def instance(self, definition: cst.ClassDef) -> Value:
        """What an instance of a class of the file is."""
        for base in self._definitions.base_names(definition):
            found = instance_by_base(base)
            if found.kind is not Kind.UNKNOWN:
                return replace(found, definition=definition, name=definition.name.value)
        body = self._tree.scopes[definition]
        if "forward" in body.bindings and definition.bases and not self._definitions.is_known_whole(definition):
            return Value(Kind.MODULE, definition=definition, name=definition.name.value, sure=False)
        each = self._once(("each", definition), lambda: self._each_of(definition))
        return Value(Kind.OTHER, definition=definition, name=definition.name.value, each=each or None)

    def object_of(self, method: cst.CSTNode) -> Value:
        """What ``self`` is in a method; unknown for other functions."""
        owner = self._tree.class_of(method)
        return UNKNOWN if owner is None else self.instance(owner)

    def _each_of(self, definition: cst.ClassDef) -> Value:
        """What a loop over an object of a class of the program takes: what its ``__iter__`` yields."""
        method = self._definitions.method(definition, "__iter__")
        return iterated(self.returned(method)) if method is not None else UNKNOWN
