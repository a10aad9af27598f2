"""Which objects an expression may refer to or contain: followed from the calls that made them to where they are used.

Where Values says what kind of thing an expression is, this says which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.stores import Stores, trailing_name
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.object_parts import SEALED, Object, Objects, part_of
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import last_part
from torchlint.model.syntax.parameters import first_parameter, owner_of
from torchlint.model.syntax.scopes import Binding

#: An expression, and the part of its value that unpacking gives; or objects, and an attribute of theirs.
_Part = tuple[cst.CSTNode, tuple[int, ...]] | tuple[Objects, str]

_NOTHING: Objects = frozenset()
#: Expressions that may be or contain an object.
_FOLLOWED = frozenset(
    {
        *(cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Lambda, cst.IfExp, cst.BooleanOperation, cst.Await),
        *(cst.Tuple, cst.List, cst.Set, cst.Dict, cst.NamedExpr, cst.Element, cst.StarredElement),
        *(cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp),
    }
)
_MAX_DEPTH = 60
#: A part that is deeper inside a value than this is unknown: `a, b = b, a` in a loop would give ever deeper ones.
_MAX_PATH = 6

#: Methods that give the object itself, or a container of the same things.
_SAME = frozenset(
    "to cuda cpu xpu half float double bfloat16 eval train requires_grad_ apply to_empty share_memory "
    "type copy values".split()
)
#: Methods that give what is inside.
_INSIDE = frozenset("children modules named_children named_modules items get pop get_submodule".split())
#: Calls whose result contains what they are given.
_HOLDERS = frozenset(
    {
        "builtins.list",
        "builtins.tuple",
        "builtins.dict",
        "builtins.iter",
        "builtins.reversed",
        "builtins.sorted",
        "functools.partial",
        "torch.func.vmap",
        "torch.vmap",
        "torch.func.grad",
        "torch.func.functional_call",
        "collections.OrderedDict",
    }
)
#: Modules that consist of other modules.
_CONTAINERS = frozenset(
    f"torch.nn.{name}" for name in "Sequential ModuleList ModuleDict TransformerEncoder TransformerDecoder".split()
)
_OPAQUE = (
    "torch.compiler.disable",
    "torch._dynamo.disable",
    "torch._dynamo.skip",
    "torch.compiler.allow_in_graph",
    "torch._dynamo.allow_in_graph",
    "torch.compiler.assume_constant_result",
    "torch._dynamo.assume_constant_result",
    "torch.library.",
    "torch.jit.",
    "torch.fx.wrap",
    "triton.",
    "numba.",
)


class ObjectFlow(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values
        self._stores = forest.fact(Stores)
        self._memo: CyclicMemo[_Part, Objects] = CyclicMemo(_NOTHING, _MAX_DEPTH)
        self._classes_of: dict[Objects, tuple[set[cst.ClassDef], set[cst.ClassDef]]] = {}

    # -- entry points

    def of(self, node: cst.CSTNode | None, path: tuple[int, ...] = ()) -> Objects:
        """The objects that ``node`` may be or contain; with ``path``, its part that unpacking gives."""
        if node is None or type(node) not in _FOLLOWED or len(path) > _MAX_PATH:
            return _NOTHING
        return self._memo.get((node, path), self._find)

    def elements(self, node: cst.CSTNode | None, path: tuple[int, ...] = ()) -> Objects:
        """The objects inside the container ``node``."""
        return self._inside(self.of(node, path))

    def attribute(self, owners: Objects, name: str) -> Objects:
        """What the attribute ``name`` of these objects may refer to."""
        return self._memo.get((owners, name), self._find)

    def class_of(self, found: Object) -> cst.ClassDef | None:
        """The class, if the file defines it, of which ``found`` is an instance."""
        if isinstance(found, tuple) and found[0] == "self":
            return found[1] if isinstance(found[1], cst.ClassDef) else None
        if isinstance(found, cst.Call):
            return self._made.get(found)
        return None

    def instances(self, definition: cst.ClassDef) -> list[cst.Call]:
        """The calls that make an instance of a class of the file, or of one derived from it in the file."""
        return self._instances.get(definition, [])

    @cached_property
    def _instances(self) -> dict[cst.ClassDef, list[cst.Call]]:
        """The calls that make an instance of each class of the file, or of one derived from it."""
        found: dict[cst.ClassDef, list[cst.Call]] = {}
        for call, made in self._made.items():
            for definition in self._definitions.lineage(made):
                found.setdefault(definition, []).append(call)
        return found

    def is_holder(self, call: cst.Call) -> bool:
        """Whether ``call`` only wraps or stores the functions it is given, and runs none of them."""
        name = self._names.resolve(call.func) or ""
        return name in _HOLDERS or name in knowledge.WRAPPERS or name.startswith(("torch.nn.", *_OPAQUE))

    def is_sealed(self, function: cst.FunctionDef) -> bool:
        """Whether a decorator hides the function from a compiler: a custom operator, ``torch.compiler.disable``."""
        for decorator in function.decorators:
            node = decorator.decorator
            name = self._names.resolve(node.func if isinstance(node, cst.Call) else node)
            if name is not None and name.startswith(_OPAQUE):
                return True
            if name is None and trailing_name(node) in (
                "register_fake",
                "register_kernel",
                "register_autograd",
                "disable",
            ):
                return True
        return False

    # -- the evaluation

    @cached_property
    def _made(self) -> dict[cst.Call, cst.ClassDef]:
        found = {}
        for call in self._tree.calls:
            if isinstance(call.func, cst.Name):
                for definition in self._definitions.called(call, self._values):
                    if isinstance(definition, cst.ClassDef):
                        found[call] = definition
        return found

    def _find(self, part: _Part) -> Objects:
        node, path = part
        if isinstance(path, str):
            assert isinstance(node, frozenset)
            return self._find_attribute(node, path)
        assert isinstance(node, cst.CSTNode)
        if isinstance(node, cst.Name):
            return self._name(node, path)
        if isinstance(node, cst.Attribute):
            return self._attribute(node)
        if isinstance(node, cst.Call):
            return self._call(node, path)
        if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
            whole = not any(isinstance(element, cst.StarredElement) for element in node.elements)
            if path and whole and 0 <= path[0] < len(node.elements):
                return self.of(node.elements[path[0]].value, path[1:])
            return self._all(element.value for element in node.elements)
        if isinstance(node, cst.Dict):
            return self._all(element.value for element in node.elements)
        if isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
            return self.of(node.elt)
        if isinstance(node, cst.DictComp):
            return self.of(node.value)
        if isinstance(node, cst.Subscript):
            return self.elements(node.value)
        if isinstance(node, cst.IfExp):
            return self.of(node.body, path) | self.of(node.orelse, path)
        if isinstance(node, cst.BooleanOperation):
            return self.of(node.left, path) | self.of(node.right, path)
        if isinstance(node, (cst.NamedExpr, cst.Element, cst.StarredElement)):
            return self.of(node.value, path)
        return self.of(node.expression, path) if isinstance(node, cst.Await) else frozenset({node})

    def _all(self, nodes: Iterable[cst.CSTNode]) -> Objects:
        found: set[Object] = set()
        for node in nodes:
            found |= self.of(node)
        return frozenset(found)

    def _inside(self, found: Objects) -> Objects:
        holders = {item for item in found if isinstance(item, cst.Call) and self._holds(item)}
        inside = found - holders
        if inside == found:
            inside = frozenset(part_of(item, "*") if isinstance(item, tuple) else item for item in inside)
        return inside or frozenset(part_of(item, "*") for item in holders)

    def _holds(self, call: cst.Call) -> bool:
        return self._names.resolve(call.func) in _CONTAINERS

    def _name(self, node: cst.Name, path: tuple[int, ...]) -> Objects:
        scope = self._names.home_of(node)
        if scope is None:
            return _NOTHING
        found: set[Object] = set()
        for binding in self._values.reaching.of(node):
            found |= self._bound(binding, path)
        for container, value, _ in self._stores.containers.get(node.value, ()):
            if isinstance(container, cst.Name):
                if self._names.home_of(container) is scope:
                    found |= self.of(value)
        return frozenset(found)

    def _bound(self, binding: Binding, path: tuple[int, ...]) -> Objects:
        if binding.kind is BindingKind.ASSIGN:
            return self.of(binding.value, (*binding.path, *path))
        if binding.kind is BindingKind.FOR:
            return self._iterated(binding.value, (*binding.path, *path))
        if binding.kind is BindingKind.FUNCTION:
            return frozenset({binding.node})
        if binding.kind is BindingKind.IMPORT:
            return frozenset({knowledge.canonical(binding.imported)})
        if binding.kind is BindingKind.PARAM:
            return self._parameter(binding, path)
        return _NOTHING

    def _parameter(self, binding: Binding, path: tuple[int, ...]) -> Objects:
        param = binding.node
        function = owner_of(self._tree, param)
        if not isinstance(param, cst.Param) or function is None:
            return frozenset({param})
        owner = self._tree.class_of(function)
        if owner is not None and first_parameter(function) is param:
            return frozenset({("self", owner), *self.instances(owner)})
        given = self._definitions.arguments_for(function, param, self._values)
        found = {item for argument in given for item in self.of(argument, path)}
        if param.default is not None:
            found |= self.of(param.default, path)
        return frozenset(found or {param})

    def _iterated(self, node: cst.BaseExpression | None, path: tuple[int, ...]) -> Objects:
        """What a loop over ``node`` binds at ``path``."""
        found: set[Object] = set()
        for over, part in iterables(self._names, node, path) if node is not None else ():
            if isinstance(over, (cst.Tuple, cst.List)):
                found = found.union(*(self.of(element.value, part) for element in over.elements))
            else:
                found |= self.elements(over)
        return frozenset(found)

    def _attribute(self, node: cst.Attribute) -> Objects:
        members = self._names.members(node)
        if members:
            return frozenset().union(*(self._bound(binding, ()) for binding in members))
        name = self._names.resolve(node)
        if name is not None:
            return frozenset({name})
        base = self.of(node.value)
        attr = node.attr.value
        if attr in ("module", "_orig_mod") and not any(self.class_of(item) for item in base):
            return base
        return self.attribute(base, attr)

    def _find_attribute(self, owners: Objects, name: str) -> Objects:
        found: set[Object] = set()
        classes = {definition for owner in owners if (definition := self.class_of(owner)) is not None}
        for definition in classes:
            method = self._definitions.method(definition, name)
            if method is not None:
                found.add(method)
            for scope in (self._tree.scopes[item] for item in self._definitions.lineage(definition)):
                for binding in scope.bindings.get(name, []):
                    if binding.kind is BindingKind.ASSIGN:
                        found |= self.of(binding.value, binding.path)
        stored = False
        for base, value, _ in self._stores.attributes.get(name, ()):
            if self._same_owner(base, owners):
                stored = True
                found |= self.of(value)
        for container, value, _ in self._stores.containers.get(name, ()):
            if isinstance(container, cst.Attribute) and self._same_owner(container.value, owners):
                found |= self.of(value)
        if not stored and not found:
            found.update(part_of(owner, name) for owner in owners if not isinstance(owner, str))
        return frozenset(found)

    def _same_owner(self, base: cst.BaseExpression, owners: Objects) -> bool:
        """Whether ``base`` may be one of ``owners``; a method's ``self`` may be any object of its class."""
        others = self.of(base)
        if not owners.isdisjoint(others):
            return True
        ours, theirs = self._classes(owners), self._classes(others)
        return not (ours[0].isdisjoint(theirs[0]) and ours[0].isdisjoint(theirs[1]) and ours[1].isdisjoint(theirs[0]))

    def _classes(self, objects: Objects) -> tuple[set[cst.ClassDef], set[cst.ClassDef]]:
        """The classes, with their bases, of each ``self`` and of each instance among ``objects``."""
        known = self._classes_of.get(objects)
        if known is None:
            known = self._classes_of[objects] = (set(), set())
            for item in objects:
                definition = self.class_of(item)
                if definition is not None:
                    known[isinstance(item, cst.Call)].update(self._definitions.lineage(definition))
        return known

    def _call(self, node: cst.Call, path: tuple[int, ...]) -> Objects:
        name = self._names.resolve(node.func)
        given = [argument.value for argument in node.args]
        if name is not None:
            if name.startswith(_OPAQUE):
                return frozenset({SEALED})
            if name == "torch.compile" or name in knowledge.WRAPPERS:
                return frozenset({node}).union(self.of(given[0]) if given else _NOTHING)
            if name in _HOLDERS:
                return self._all(given)
            if name == "builtins.next":
                return self._iterated(given[0], path) if given else _NOTHING
            if name == "builtins.getattr" and len(given) > 1 and isinstance(given[1], cst.SimpleString):
                text = given[1].evaluated_value
                return self.attribute(self.of(given[0]), text) if isinstance(text, str) else _NOTHING
            if name.startswith("torch.nn.") and last_part(name)[:1].isupper():
                return frozenset({node}) | (self._all(given) if self._holds(node) else _NOTHING)
            if name.startswith(("builtins.", "torch.nn.functional.", "copy.")):
                return frozenset({node}) if name.startswith("copy.") else _NOTHING
        if isinstance(node.func, cst.Call) and self._names.resolve(node.func.func) == "torch.compile":
            return frozenset({node}) | self._all(given[:1])
        definitions = self._definitions.called(node, self._values)
        if definitions:
            return self._made_by(node, definitions, path)
        if isinstance(node.func, cst.Attribute):
            attr = node.func.attr.value
            if attr in _SAME:
                return self.of(node.func.value)
            if attr in _INSIDE:
                return self.elements(node.func.value)
            if attr in knowledge.PREPARING:
                if self._values.of(node.func.value).kind is Kind.TRAINER and given:
                    return self.of(given[path[0]]) if path and 0 <= path[0] < len(given) else self._all(given)
        if self._values.of(node).kind in (Kind.TENSOR, Kind.NUMBER, Kind.STRING, Kind.ARRAY, Kind.BATCH):
            return _NOTHING
        return frozenset({node if not path else ("part", node, str(path[0]))})

    def _made_by(
        self, node: cst.Call, definitions: list[cst.FunctionDef | cst.ClassDef], path: tuple[int, ...]
    ) -> Objects:
        found: set[Object] = set()
        for definition in definitions:
            if isinstance(definition, cst.ClassDef):
                found.add(node)
            else:
                for value in self._definitions.returns(definition):
                    found |= self.of(value, path)
        return frozenset(found)
