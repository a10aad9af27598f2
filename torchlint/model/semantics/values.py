"""What an expression is worth: its kind, the calls it came from, its device; followed through names and functions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import libcst as cst

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.names import Names
from torchlint.model.syntax.tree import COMPREHENSIONS, Binding, Scope, Tree, dotted_name

_T = TypeVar("_T")

#: Expressions nested or chained deeper than this are unknown.
_MAX_DEPTH = 40
#: So many values are evaluated again because a cycle cut them short; then the first answer stays.
_MAX_FORGOTTEN = 20_000


@dataclass(frozen=True)
class Value:
    """What is known of a value. Unknown is a first-class answer."""

    kind: Kind = Kind.UNKNOWN
    #: The calls that made it: a loader's constructor; for batches and their tensors the loaders they came from.
    origins: frozenset[cst.CSTNode] = frozenset()
    device: str = ""  #: "cuda" (also where a condition picks it), "cpu", another device, or "" for unknown
    elements: tuple[Value, ...] = ()  #: of a sequence whose members are known one by one
    each: Value | None = None  #: of an iterable: what every item is
    constant: object = None  #: of a literal
    name: str = ""  #: dotted name of the class or function that made it
    definition: cst.ClassDef | cst.FunctionDef | None = None  #: its class, or itself if a class or function
    role: str = ""  #: of a tensor: "batch", "output" of a module, "loss"
    compiles: frozenset[cst.CSTNode] = frozenset()  #: the ``torch.compile`` calls it went through
    sure: bool = True  #: False: guessed from a name or a use, or not the same on all paths

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return self.kind is not Kind.UNKNOWN


UNKNOWN = Value()
NONE = Value(Kind.NONE)
NUMBER = Value(Kind.NUMBER)
STRING = Value(Kind.STRING)
TENSOR = Value(Kind.TENSOR)


def join(values: Iterable[Value]) -> Value:
    """What is true of all ``values``; None as one of several stands for "not yet set"."""
    known: Value | None = None
    sure = True
    only_none = False
    for value in values:
        if value.kind is Kind.NONE:
            only_none = True
        elif value.kind is Kind.UNKNOWN:
            sure = False
        elif known is None:
            known = value
        else:
            known = _join_two(known, value)
            if known is None:
                return UNKNOWN
    if known is None:
        return NONE if only_none and sure else UNKNOWN
    return known if sure else replace(known, sure=False)


_RELATED = {
    frozenset({Kind.TENSOR, Kind.BATCH}): Kind.TENSOR,
    frozenset({Kind.MODULE, Kind.LOSS}): Kind.MODULE,
    frozenset({Kind.STRING, Kind.DEVICE}): Kind.DEVICE,
    frozenset({Kind.TENSOR, Kind.NUMBER}): Kind.TENSOR,
}


def _join_two(a: Value, b: Value) -> Value | None:
    kind = a.kind if a.kind is b.kind else _RELATED.get(frozenset({a.kind, b.kind}))
    if kind is None:
        return None
    device = _join_devices(device_text(a), device_text(b))
    elements: tuple[Value, ...] = ()
    if a.elements and len(a.elements) == len(b.elements):
        elements = tuple(join(pair) for pair in zip(a.elements, b.elements, strict=True))
    each = join([a.each, b.each]) if a.each is not None and b.each is not None else a.each or b.each
    return Value(
        kind=kind,
        origins=a.origins | b.origins,
        device=device,
        elements=elements,
        each=each,
        constant=a.constant if a.constant == b.constant else None,
        name=a.name if a.name == b.name else "",
        definition=a.definition if a.definition is b.definition else None,
        role=a.role if a.role == b.role else a.role or b.role,
        compiles=a.compiles | b.compiles,
        sure=a.sure and b.sure and a.kind is b.kind,
    )


def device_text(value: Value) -> str:
    """The device a value names, if it is a device or a string that names one."""
    if value.device:
        return value.device
    if value.kind is Kind.STRING and isinstance(value.constant, str):
        return value.constant.partition(":")[0]
    return ""


def _join_devices(a: str, b: str) -> str:
    """CUDA if one of the two is: ``"cuda" if available else "cpu"``, ``device or "cuda"``; of others, any will do."""
    if "cuda" in (a, b):
        return "cuda"
    return a if b else ""


class Values:
    """Evaluates the expressions of one file, lazily and once."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._known: dict[cst.CSTNode, Value] = {}
        self._running: set[cst.CSTNode] = set()
        self._cyclic = False
        self._provisional: list[cst.CSTNode] = []  #: known nodes whose value a cycle cut short
        self._forgotten = 0
        self._depth = 0
        self._shared: dict[Hashable, Value] = {}  #: by what several nodes have in common
        self._sorted: dict[tuple[Scope, str], tuple[list[Binding], list[int]]] = {}
        self._uses: dict[str, set[str]] | None = None
        self._stores: dict[str, list[cst.BaseExpression | None]] | None = None

    # -- entry points

    def of(self, node: cst.CSTNode | None) -> Value:
        """The value of expression ``node``."""
        if node is None:
            return UNKNOWN
        known = self._known.get(node)
        if known is not None:
            return known
        if node in self._running or self._depth > _MAX_DEPTH:
            self._cyclic = True
            return UNKNOWN
        outer_cyclic, self._cyclic = self._cyclic, False
        self._running.add(node)
        self._depth += 1
        try:
            value = self._evaluate(node)
        finally:
            self._depth -= 1
            self._running.discard(node)
        self._known[node] = value
        if not self._running:
            self._forget_provisional()
        elif self._cyclic and not (value and value.sure):
            self._provisional.append(node)
        self._cyclic = (outer_cyclic or self._cyclic) and bool(self._running)
        return value

    def _forget_provisional(self) -> None:
        """What a cycle cut short is worked out anew when asked for by itself; up to a limit, or it never ends."""
        if self._provisional and self._forgotten < _MAX_FORGOTTEN:
            self._forgotten += len(self._provisional)
            for node in self._provisional:
                self._known.pop(node, None)
        self._provisional.clear()

    def _once(self, key: Hashable, evaluate: Callable[[], Value]) -> Value:
        """What ``evaluate`` gives, kept under ``key`` unless a cycle cut it short, or something it may have used."""
        known = self._shared.get(key)
        if known is not None:
            return known
        value, is_final = self.attempt(evaluate)
        if is_final:
            self._shared[key] = value
        return value

    def attempt(self, evaluate: Callable[[], _T]) -> tuple[_T, bool]:
        """What ``evaluate`` gives, and whether it is final: no cycle cut short a value that it may have used."""
        cuts = self._definitions.cuts
        outer_cyclic, self._cyclic = self._cyclic, False
        found = evaluate()
        is_final = not self._cyclic and not self._provisional and cuts == self._definitions.cuts
        self._cyclic = outer_cyclic or self._cyclic
        return found, is_final

    def iterated(self, value: Value) -> Value:
        """What a loop over ``value`` binds."""
        if value.kind is Kind.LOADER:
            return Value(Kind.BATCH, value.origins, role="batch", sure=value.sure)
        if value.kind is Kind.BATCH:
            return Value(Kind.TENSOR, value.origins, role="batch", sure=value.sure)
        if value.kind is Kind.TENSOR:
            return value
        if value.each is not None:
            return value.each
        if value.elements:
            return join(value.elements)
        if value.kind is Kind.MODULE:
            return Value(Kind.MODULE, sure=False)
        return UNKNOWN

    def unpacked(self, value: Value, path: tuple[int, ...]) -> Value:
        """The part of ``value`` that unpacking binds at ``path``."""
        for position in path:
            if value.kind is Kind.BATCH or (value.kind is Kind.TENSOR and value.role == "batch"):
                value = Value(Kind.TENSOR, value.origins, role="batch", sure=value.sure)
            elif value.elements and 0 <= position < len(value.elements):
                value = value.elements[position]
            else:
                value = self.iterated(value)
        return value

    def reaching(self, bindings: list[Binding], at: cst.CSTNode, scope: Scope) -> list[Binding]:
        """Those of ``bindings`` (of ``scope``) whose value may be seen at ``at``."""
        tree = self._tree
        seen_from = tree.scope_of(at)
        while isinstance(seen_from.node, COMPREHENSIONS) and seen_from is not scope and seen_from.parent is not None:
            seen_from = seen_from.parent  # a comprehension runs where it stands
        if len(bindings) == 1 or seen_from is not scope:
            return bindings
        here = tree.index(at)
        statement = tree.statement_of(at)
        found: list[Binding] = []
        stop: Binding | None = None
        ordered, orders = self._in_order(bindings, scope)
        behind = bisect_right(orders, here)
        while behind and stop is None:
            first = bisect_left(orders, orders[behind - 1])
            for binding in ordered[first:behind]:
                if (
                    binding.node is statement
                    and binding.kind in ("assign", "augment")
                    and not isinstance(binding.node, cst.NamedExpr)
                ):
                    continue  # its own right side sees what was there before
                if tree.exclusive(binding.node, at):
                    continue
                found.append(binding)
                if self._settles(binding, at):
                    stop = binding
                    break
            behind = first
        loop = self._outer_loop(at)
        if loop is not None and (stop is None or not tree.within(stop.node, loop)):
            known = set(found)
            later = ordered[bisect_left(orders, here) : bisect_right(orders, tree.last(loop))]
            found.extend(binding for binding in later if tree.within(binding.node, loop) and binding not in known)
        return found

    def bound_between(self, scope: Scope, name: str, low: int, high: int) -> list[Binding]:
        """The bindings of ``name`` in ``scope`` behind index ``low`` and before index ``high``, in order."""
        ordered, orders = self._in_order(scope.bindings[name], scope)
        return ordered[bisect_right(orders, low) : bisect_left(orders, high)]

    def _in_order(self, bindings: list[Binding], scope: Scope) -> tuple[list[Binding], list[int]]:
        """``bindings``, which are all of one name in ``scope``, in the order of the text, and their places in it."""
        key = (scope, bindings[0].name)
        if key not in self._sorted:
            ordered = sorted(bindings, key=lambda item: item.order)
            self._sorted[key] = ordered, [binding.order for binding in ordered]
        return self._sorted[key]

    # -- how bindings reach places

    def _settles(self, binding: Binding, at: cst.CSTNode) -> bool:
        """Whether nothing bound before ``binding`` can still be seen at ``at``."""
        node = binding.node
        if binding.kind in ("param", "star"):
            return True
        if binding.kind in ("for", "with") and isinstance(node, (cst.For, cst.With)):
            if self._tree.within(at, node.body):
                return True
            return binding.kind == "with" and self._tree.dominates(node, at)
        if isinstance(node, cst.CompFor):
            return True
        return self._tree.dominates(node, at)

    def _outer_loop(self, at: cst.CSTNode) -> cst.CSTNode | None:
        found: cst.CSTNode | None = None
        for above in self._tree.ancestors(at):
            if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                break
            if isinstance(above, (cst.For, cst.While)):
                found = above
        return found

    def binding_value(self, binding: Binding) -> Value:
        """What ``binding`` gives its name."""
        if binding.kind == "assign":
            return self.unpacked(self.of(binding.value), binding.path)
        if binding.kind == "for":
            return self.unpacked(self.iterated(self.of(binding.value)), binding.path)
        if binding.kind == "with":
            return self.unpacked(self.of(binding.value), binding.path)
        if binding.kind == "param":
            return self._once(binding, lambda: self._parameter(binding))
        if binding.kind == "annotation" and isinstance(binding.node, cst.AnnAssign):
            return self.annotated(binding.node.annotation)
        if binding.kind == "function" and isinstance(binding.node, cst.FunctionDef):
            return Value(Kind.FUNCTION, definition=binding.node)
        if binding.kind == "class" and isinstance(binding.node, cst.ClassDef):
            return Value(Kind.CLASS, definition=binding.node)
        if binding.kind == "augment":
            added = self.of(binding.node.value) if isinstance(binding.node, cst.AugAssign) else NONE
            if added.kind is Kind.TENSOR and added.role != "batch":
                return Value(Kind.TENSOR, device=added.device, role=added.role, sure=added.sure)  # ``loss += part``
            return NONE  # leaves the kind as it was
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
        function = self._tree.parent(self._tree.parent(param) or param)
        given: list[Value] = []
        if isinstance(function, cst.FunctionDef):
            owner = self._tree.class_of(function)
            if owner is not None and not _is_static(function):
                first = (*function.params.posonly_params, *function.params.params)[:1]
                if first and first[0] is param:
                    return self._instance_of(None, None, owner)
            given = [self.of(argument) for argument in self._definitions.arguments_for(function, param, self)]
            if function.params.params[:1] == (param,) and self._definitions.is_spawned(function):
                given.append(NUMBER)
        if param.default is not None:
            given.append(self.of(param.default))
        seen = join(given) if given else UNKNOWN
        if seen.kind in (Kind.UNKNOWN, Kind.NONE):
            return promised or self._guess(binding.name)
        return seen

    def _guess(self, text: str) -> Value:
        """A guess from a name and from what is done with it elsewhere in the file; never sure."""
        used = self._used_as(text)
        last = text.rpartition(".")[2].lower()
        if any(word in last for word in knowledge.LOADER_NAMES):
            return Value(Kind.LOADER, sure=False)
        if "optim" in last and not used & {"zero", "parameters"}:
            return Value(Kind.OPTIMIZER, sure=False)
        if last in knowledge.LOSS_NAMES:
            return Value(Kind.LOSS, sure=False)
        if last == "scaler" or last.endswith("grad_scaler"):
            return Value(Kind.SCALER, sure=False)
        if used & {"parameters", "named_parameters", "eval"} or (
            "train" in used and used & {"state_dict", "load_state_dict"}
        ):
            return Value(Kind.MODULE, sure=False)
        if last.startswith(knowledge.VERBS):
            return UNKNOWN
        stem = last.rstrip("0123456789_").lower()
        if any(stem == word or stem.endswith(word) or stem.startswith(word + "_") for word in knowledge.MODULE_NAMES):
            return Value(Kind.MODULE, sure=False)
        if last.startswith("net") and len(last) <= 8:
            return Value(Kind.MODULE, sure=False)
        return UNKNOWN

    def _used_as(self, text: str) -> set[str]:
        if self._uses is None:
            self._uses = {}
            for attribute in self._tree.attributes:
                base = dotted_name(attribute.value)
                if base is not None:
                    self._uses.setdefault(base, set()).add(attribute.attr.value)
        return self._uses.get(text, set())

    def stored(self, text: str) -> list[cst.BaseExpression | None]:
        """What the file assigns to the dotted name ``text`` (``args.device``), None where it unpacks."""
        if self._stores is None:
            self._stores = {}
            for target, value, _ in self._tree.stores:
                name = dotted_name(target)
                if name is not None:
                    self._stores.setdefault(name, []).append(value)
        return self._stores.get(text, [])

    # -- expressions

    def _evaluate(self, node: cst.CSTNode) -> Value:
        if isinstance(node, cst.Name):
            return self._name(node)
        if isinstance(node, cst.Call):
            return self._call(node)
        if isinstance(node, cst.Attribute):
            return self._attribute(node)
        if isinstance(node, cst.SimpleString):
            text = node.evaluated_value
            return Value(Kind.STRING, constant=text if isinstance(text, str) else None)
        if isinstance(node, (cst.Integer, cst.Float)):
            return Value(Kind.NUMBER, constant=_number(node))
        if isinstance(node, cst.FormattedString):
            first = node.parts[0] if node.parts else None
            if isinstance(first, cst.FormattedStringText) and first.value.startswith("cuda"):
                return Value(Kind.DEVICE, device="cuda")
            return STRING
        if isinstance(node, cst.ConcatenatedString):
            return STRING
        if isinstance(node, cst.IfExp):
            return join([self.of(node.body), self.of(node.orelse)])
        if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
            starred = any(isinstance(element, cst.StarredElement) for element in node.elements)
            elements = tuple(self.of(element.value) for element in node.elements)
            return Value(Kind.SEQUENCE, elements=() if starred else elements, each=join(elements) if elements else None)
        if isinstance(node, cst.Dict):
            values = [self.of(element.value) for element in node.elements]
            return Value(Kind.SEQUENCE, each=join(values) if values else None)
        if isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
            return Value(Kind.SEQUENCE, each=self.of(node.elt))
        if isinstance(node, cst.DictComp):
            return Value(Kind.SEQUENCE, each=self.of(node.value))
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, cst.BooleanOperation):
            return join([self.of(node.left), self.of(node.right)])
        if isinstance(node, cst.BinaryOperation):
            left, right = self.of(node.left), self.of(node.right)
            if isinstance(left.constant, int) and isinstance(right.constant, int):
                return Value(Kind.NUMBER, constant=_whole(node.operator, left.constant, right.constant))
            return self._arithmetic(left, right)
        if isinstance(node, cst.UnaryOperation):
            inner = self.of(node.expression)
            if isinstance(node.operator, cst.Not):
                return Value(Kind.OTHER)
            return replace(inner, constant=None) if inner.kind in (Kind.TENSOR, Kind.NUMBER) else UNKNOWN
        if isinstance(node, cst.Comparison):
            sides = [self.of(node.left), *(self.of(item.comparator) for item in node.comparisons)]
            return TENSOR if any(side.kind is Kind.TENSOR for side in sides) else Value(Kind.OTHER)
        if isinstance(node, cst.NamedExpr):
            return self.of(node.value)
        if isinstance(node, cst.Await):
            return self.of(node.expression)
        if isinstance(node, cst.Lambda):
            return Value(Kind.FUNCTION)
        return UNKNOWN

    def _arithmetic(self, left: Value, right: Value) -> Value:
        for side in (left, right):
            if side.kind in (Kind.TENSOR, Kind.BATCH):
                roles = {left.role, right.role}
                role = "loss" if "loss" in roles else "output" if "output" in roles else side.role
                return Value(
                    Kind.TENSOR,
                    left.origins | right.origins if role == "batch" else frozenset(),
                    side.device,
                    role=role,
                )
        if left.kind is right.kind and left.kind in (Kind.NUMBER, Kind.STRING, Kind.ARRAY, Kind.SEQUENCE):
            return Value(left.kind, each=left.each)
        if Kind.ARRAY in (left.kind, right.kind):
            return Value(Kind.ARRAY)
        return UNKNOWN

    def _name(self, node: cst.Name) -> Value:
        if node.value in ("None", "True", "False"):
            return NONE if node.value == "None" else Value(Kind.OTHER, constant=node.value == "True")
        scope = self._names.scope_with(node.value, self._tree.scope_of(node))
        if scope is None:
            return UNKNOWN
        bindings = scope.bindings[node.value]
        reached = self.reaching(bindings, node, scope)
        if reached is bindings:  # the same for whoever sees them all
            return self._once((scope, node.value), lambda: self._bound(node.value, bindings))
        return self._bound(node.value, reached)

    def _bound(self, name: str, reached: list[Binding]) -> Value:
        """The value of a name that may be bound by any of ``reached``."""
        values = [self.binding_value(binding) for binding in reached if binding.kind not in ("delete", "except")]
        if not values:
            return UNKNOWN
        found = join(values)
        if found.kind is Kind.NONE and any(binding.kind == "augment" for binding in reached):
            return UNKNOWN
        if not found and any(binding.kind in ("assign", "for", "with") for binding in reached):
            hint = self._guess(name)
            if hint.kind is not Kind.LOADER or all(b.kind in ("assign", "with") for b in reached):
                moves = [self.moved_to(b.value) for b in reached if isinstance(b.value, cst.Call) and not b.path]
                return replace(hint, device=next((device for device in moves if device), ""))
        return found

    def _attribute(self, node: cst.Attribute) -> Value:
        members = self._names.members(node)
        if members:
            bound = join([self.binding_value(binding) for binding in members])
            if bound or members[0].kind != "import":
                return bound
        name = self._names.resolve(node)
        if name is not None:
            return _named_constant(name)
        attr = node.attr.value
        base = self.of(node.value)
        if base.kind in (Kind.TENSOR, Kind.BATCH):
            if attr in ("data", "T", "mT", "grad", "real", "imag"):
                return base
            if attr == "device":
                return Value(Kind.DEVICE, device=base.device)
            return Value(Kind.OTHER) if attr in ("shape", "dtype", "ndim") else self._part_of_batch(base)
        if base.kind is Kind.MODULE and attr in ("module", "_orig_mod") and base.definition is None:
            return base
        if base.kind is Kind.MODULE and attr == "device":
            return Value(Kind.DEVICE, device=base.device)
        if base.kind is Kind.DEVICE and attr == "type":
            return Value(Kind.DEVICE, device=base.device, sure=base.sure)
        if base.definition is not None and base.kind is not Kind.FUNCTION:
            found = self._class_attribute(base.definition, attr)
            if found is not None:
                return found
            if base.kind is Kind.MODULE and attr == "module":
                return base
        text = dotted_name(node)
        if text is not None:
            stored = self.stored(text)
            if stored:
                seen = self._once(("stored", text), lambda: self._join_stored(stored))
                if seen:
                    return seen
            if base.kind not in (Kind.TRAINER,):
                return self._guess(text)
        return UNKNOWN

    def _join_stored(self, stored: list[cst.BaseExpression | None]) -> Value:
        return UNKNOWN if None in stored else join([self.of(value) for value in stored])

    def _part_of_batch(self, base: Value) -> Value:
        if base.role == "batch":
            return Value(Kind.TENSOR, base.origins, role="batch", sure=False)
        return UNKNOWN

    def _class_attribute(self, owner: cst.CSTNode, attr: str) -> Value | None:
        for definition in self._definitions.lineage(owner):
            scope = self._tree.scopes[definition]
            if attr in scope.attributes or attr in scope.bindings:
                return self._once(("attribute", scope, attr), partial(self._attribute_of, scope, attr))
        return None

    def _attribute_of(self, scope: Scope, attr: str) -> Value:
        """The value of an attribute that a class and its methods bind."""
        bindings = scope.attributes.get(attr, []) + scope.bindings.get(attr, [])
        found = join([self.binding_value(binding) for binding in bindings])
        return found if found.kind is not Kind.UNKNOWN else self._guess(f"self.{attr}")

    def _subscript(self, node: cst.Subscript) -> Value:
        base = self.of(node.value)
        if base.kind is Kind.BATCH or (base.kind is Kind.TENSOR and base.role == "batch"):
            return Value(Kind.TENSOR, base.origins, role="batch", sure=base.sure)
        if base.kind is Kind.TENSOR:
            return base
        if base.elements and len(node.slice) == 1:
            index = node.slice[0].slice
            if isinstance(index, cst.Index):
                position = _integer(index.value)
                if position is not None and -len(base.elements) <= position < len(base.elements):
                    return base.elements[position]
        if base.kind is Kind.SEQUENCE and base.each is not None:
            index = node.slice[0].slice
            return base if isinstance(index, cst.Slice) else base.each
        if base.kind is Kind.MODULE:
            return Value(Kind.MODULE, sure=False)
        if base.kind is Kind.ARRAY:
            return base
        text = dotted_name(node.value)
        if text is not None and any(word in text.lower() for word in ("loader", "dataloader")):
            return Value(Kind.LOADER, sure=False)
        return UNKNOWN

    # -- calls

    def _call(self, node: cst.Call) -> Value:
        name = self._names.resolve(node.func)
        first = node.args[0].value if node.args and node.args[0].star == "" else None
        if name is not None:
            found = self._library_call(node, name, first)
            if found is not None:
                return found
        definitions = self._definitions.called(node, self)
        if definitions:
            return join([self._call_of_definition(node, definition) for definition in definitions])
        if isinstance(node.func, cst.Attribute):
            found = self._method(node, node.func, first)
            if found is not None:
                return found
        elif name is None or not name.startswith("torch."):
            callee = self.of(node.func)
            if callee.kind is Kind.MODULE:
                return Value(Kind.TENSOR, device=callee.device, role="output", sure=callee.sure)
            if callee.kind is Kind.LOSS:
                return Value(Kind.TENSOR, role="loss", sure=callee.sure)
        return self._passed_through(node)

    def _passed_through(self, node: cst.Call) -> Value:
        """An unknown call on a loader most often wraps it: ``log_every(loader, 10)``, ``Prefetcher(loader)``."""
        for argument in node.args[:2]:
            value = self.of(argument.value)
            if value.kind is Kind.LOADER and argument.star == "":
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
        returned = self._once(("returned", definition), lambda: self.returned(definition))
        if not returned and definition.name.value == "cycle":
            return self._passed_through(node)
        return returned

    def returned(self, function: cst.FunctionDef) -> Value:
        """What calling ``function`` gives: all its returns, or an iterable of its yields."""
        if function in self._running:
            self._cyclic = True
            return UNKNOWN
        self._running.add(function)
        try:
            each = [self.of(item) for item in self._definitions.yields(function)]
            each += [self.iterated(self.of(item)) for item in self._definitions.delegated(function)]
            if each:
                return Value(Kind.SEQUENCE, each=join(each))
            return join([NONE if item is None else self.of(item) for item in self._definitions.returns(function)])
        finally:
            self._running.discard(function)

    def _instance_of(self, name: str | None, node: cst.CSTNode | None, definition: cst.ClassDef | None) -> Value:
        """An instance of the class called ``name``, or defined in the file."""
        if definition is None and node is not None and name is None:
            value = self.of(node)
            if value.kind is Kind.CLASS and isinstance(value.definition, cst.ClassDef):
                definition = value.definition
        if definition is not None:
            return self.instance(definition)
        if name is None:
            return UNKNOWN
        return _instance_by_name(name)

    def instance(self, definition: cst.ClassDef) -> Value:
        """What an instance of a class of the file is."""
        for base in self._definitions.base_names(definition):
            found = _instance_by_base(base)
            if found.kind is not Kind.UNKNOWN:
                return replace(found, definition=definition, name=definition.name.value)
        body = self._tree.scopes[definition]
        if "forward" in body.bindings and definition.bases:
            return Value(Kind.MODULE, definition=definition, name=definition.name.value, sure=False)
        return Value(Kind.OTHER, definition=definition, name=definition.name.value)

    def _library_call(self, node: cst.Call, name: str, first: cst.BaseExpression | None) -> Value | None:
        if name == knowledge.DATA_LOADER:
            return Value(Kind.LOADER, frozenset({node}), name=name)
        if name.startswith("builtins."):
            return self._builtin(node, name[9:], first)
        if name in knowledge.ITERATION_WRAPPERS:
            return self.of(first) if first is not None else self.of(_keyword(node, "iterable"))
        if name in knowledge.WRAPPERS:
            inner = self.of(first if first is not None else _keyword(node, "model", "module"))
            if name == "torch.compile":
                return replace(inner, compiles=inner.compiles | {node})
            return inner
        if name == "torch.device":
            given = self.of(first)
            return Value(Kind.DEVICE, device=device_text(given), sure=given.sure)
        if name in ("torch.cuda.current_device", "torch.cuda.device", "torch.accelerator.current_accelerator"):
            return Value(Kind.DEVICE, device="cuda")
        if name in knowledge.TRAINERS:
            return Value(Kind.TRAINER, frozenset({node}), name=name)
        if name in ("torch.utils.data.random_split", "torch.utils.data.Subset", "torch.utils.data.ConcatDataset"):
            inner = self.of(first if first is not None else _keyword(node, "dataset"))
            if name.endswith("random_split"):
                return Value(Kind.SEQUENCE, each=inner if inner else Value(Kind.DATASET))
            if inner.kind is Kind.SEQUENCE and inner.each is not None:
                inner = inner.each
            return inner if inner.kind is Kind.DATASET else Value(Kind.DATASET, frozenset({node}), name=name)
        if name in knowledge.AUTOCASTS or name in knowledge.GRAD_MODES or name.startswith("contextlib."):
            return Value(Kind.CONTEXT, frozenset({node}), name=name)
        made = _instance_by_name(name)
        if made:
            device = self._device_argument(node)
            return replace(made, origins=frozenset({node}), device=device or made.device)
        return None

    def _device_argument(self, node: cst.Call) -> str:
        given = _keyword(node, "device")
        return device_text(self.of(given)) if given is not None else ""

    def _builtin(self, node: cst.Call, name: str, first: cst.BaseExpression | None) -> Value | None:
        if name in ("iter", "list", "tuple", "reversed", "sorted", "set"):
            return self.of(first)
        if name == "enumerate":
            return Value(Kind.SEQUENCE, each=Value(Kind.SEQUENCE, elements=(NUMBER, self.iterated(self.of(first)))))
        if name == "zip":
            items = tuple(self.iterated(self.of(argument.value)) for argument in node.args if argument.star == "")
            return Value(Kind.SEQUENCE, each=Value(Kind.SEQUENCE, elements=items))
        if name == "next":
            return self.iterated(self.of(first))
        if name == "map":
            return Value(Kind.SEQUENCE)
        if name in ("len", "int", "float", "round", "abs", "id", "hash"):
            return NUMBER
        if name in ("range",):
            return Value(Kind.SEQUENCE, each=NUMBER)
        if name in ("str", "repr", "input", "format"):
            return STRING
        if name in ("sum", "max", "min"):
            inner = self.of(first)
            item = self.iterated(inner)
            return item if item.kind in (Kind.TENSOR, Kind.NUMBER) else UNKNOWN
        if name in ("getattr", "super"):
            return UNKNOWN
        return Value(Kind.OTHER) if name in ("print", "isinstance", "bool", "dict", "open", "hasattr") else None

    def _method(self, node: cst.Call, func: cst.Attribute, first: cst.BaseExpression | None) -> Value | None:
        attr = func.attr.value
        base = self.of(func.value)
        if base.kind in (Kind.TENSOR, Kind.BATCH):
            return self._tensor_method(node, attr, base)
        if base.kind in (Kind.MODULE, Kind.LOSS):
            return self._module_method(node, attr, base)
        if base.kind is Kind.TRAINER:
            if attr in (
                "prepare",
                "setup",
                "setup_dataloaders",
                "setup_module",
                "prepare_data_loader",
                "prepare_model",
            ):
                values = tuple(self.of(argument.value) for argument in node.args if argument.star == "")
                return values[0] if len(values) == 1 else Value(Kind.SEQUENCE, elements=values)
            if attr == "autocast":
                return Value(Kind.CONTEXT, frozenset({node}), name="accelerate.autocast")
            return UNKNOWN
        if base.kind is Kind.LOADER:
            if attr in ("__iter__", "iter"):
                return base
            if attr in ("next", "__next__"):
                return self.iterated(base)
            return None
        if base.kind is Kind.SCALER and attr == "scale":
            return self.of(first)
        if base.kind is Kind.SEQUENCE and attr in ("values", "copy", "items", "keys", "get", "pop"):
            if attr == "items":
                return Value(Kind.SEQUENCE, each=Value(Kind.SEQUENCE, elements=(STRING, base.each or UNKNOWN)))
            if attr in ("get", "pop"):
                return base.each or UNKNOWN
            return Value(Kind.SEQUENCE, each=STRING) if attr == "keys" else base
        if base.kind is Kind.STRING:
            return STRING
        if base.kind is Kind.ARRAY:
            return Value(Kind.ARRAY)
        if attr in ("from_pretrained", "create_model", "from_config", "load_from_checkpoint"):
            owner = self._names.resolve(func.value) or ""
            if owner.startswith(knowledge.EVAL_BY_DEFAULT_PACKAGES) and _makes_no_module(owner):
                return Value(Kind.OTHER, name=owner)
            return Value(Kind.MODULE, frozenset({node}), name=f"{owner}.{attr}", sure=bool(owner))
        return None

    def _tensor_method(self, node: cst.Call, attr: str, base: Value) -> Value:
        if attr in knowledge.TENSOR_EXITS:
            return Value(knowledge.TENSOR_EXITS[attr])
        if attr in ("items", "values", "keys") and base.role == "batch":
            part = Value(Kind.TENSOR, base.origins, role="batch", sure=base.sure)
            each = Value(Kind.SEQUENCE, elements=(STRING, part)) if attr == "items" else part
            return Value(Kind.SEQUENCE, each=each if attr != "keys" else STRING)
        if attr in ("cuda", "to", "cpu", "pin_memory", "type", "xpu"):
            return replace(base, device=self.moved_to(node) or base.device)
        return replace(base, kind=Kind.TENSOR)

    def _module_method(self, node: cst.Call, attr: str, base: Value) -> Value | None:
        if attr in ("cuda", "to", "cpu", "half", "float", "double", "bfloat16", "eval", "train", "requires_grad_"):
            return replace(base, device=self.moved_to(node) or base.device)
        if attr in ("apply", "share_memory", "xpu", "to_empty", "compile"):
            return base
        if attr in ("forward", "__call__"):
            role = "loss" if base.kind is Kind.LOSS else "output"
            return Value(Kind.TENSOR, device=base.device, role=role, sure=base.sure)
        if attr in ("parameters", "buffers"):
            return Value(Kind.SEQUENCE, each=Value(Kind.TENSOR, device=base.device))
        if attr in ("named_parameters", "modules", "children", "state_dict", "named_modules"):
            return Value(Kind.SEQUENCE)
        return None

    def moved_to(self, node: cst.Call) -> str:
        """The device that ``x.to(...)``, ``x.cuda()``, ``x.type(...)`` moves to; "" if unknown or no move."""
        if not isinstance(node.func, cst.Attribute):
            return ""
        attr = node.func.attr.value
        if attr in ("cuda", "cpu", "xpu"):
            return attr
        if attr == "to":
            target = _keyword(node, "device")
            if target is None and node.args and node.args[0].keyword is None and node.args[0].star == "":
                target = node.args[0].value
            return self.device_of(target)
        if attr == "type" and node.args:
            value = self.of(node.args[0].value)
            return value.device
        return ""

    def device_of(self, node: cst.CSTNode | None) -> str:
        """The device that an expression names."""
        if node is None:
            return ""
        value = self.of(node)
        if value.kind is Kind.NUMBER:
            return "cuda"
        if value.kind in (Kind.TENSOR, Kind.MODULE):
            return value.device
        return device_text(value)


def _named_constant(name: str) -> Value:
    if name.startswith("torch.cuda.") and name.endswith("Tensor"):
        return Value(Kind.DTYPE, device="cuda", name=name)
    if name.startswith("torch.") and name.endswith("Tensor") and name.count(".") == 1:
        return Value(Kind.DTYPE, device="cpu", name=name)
    if name in _DTYPES:
        return Value(Kind.DTYPE, name=name)
    return Value(Kind.UNKNOWN, name=name)


_DTYPES = frozenset(
    f"torch.{name}"
    for name in (
        "float16 bfloat16 float32 float64 half float double int8 int16 int32 int64 long int short uint8 bool "
        "complex64 complex128 channels_last contiguous_format channels_last_3d preserve_format float8_e4m3fn"
    ).split()
)

_LOSS_FUNCTIONS = ("_loss", "cross_entropy", "cross_entropy_with_logits", "kl_div", "nll_loss", "with_logits")


def _instance_by_base(name: str) -> Value:
    """What instances of a class deriving from the class called ``name`` are."""
    if name in knowledge.MODULE_BASES or (name.startswith("torch.nn.") and not name.startswith("torch.nn.functional")):
        return Value(Kind.MODULE)
    if name in knowledge.LIGHTNING_MODULES:
        return Value(Kind.MODULE)
    if name in knowledge.DATASET_BASES or name.startswith(("torch.utils.data.", "torchvision.datasets.")):
        return Value(Kind.DATASET)
    last = name.rpartition(".")[2]
    if name.startswith(("transformers.", "diffusers.", "timm.", "torchvision.models.")):
        return Value(Kind.MODULE) if last.endswith(("Model", "Mixin", "Net", "PreTrainedModel")) else UNKNOWN
    if last in ("Dataset", "IterableDataset", "VisionDataset") and name.startswith("."):
        return Value(Kind.DATASET, sure=False)
    if last.endswith(("PreTrainedModel", "ModelMixin", "VisionModel", "TextModel", "BaseModel")):
        return Value(Kind.MODULE, sure=False)
    return UNKNOWN


def _instance_by_name(name: str) -> Value:
    """What calling the library class or function ``name`` gives."""
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn.functional."):
        return Value(Kind.TENSOR, role="loss" if last.endswith(_LOSS_FUNCTIONS) else "")
    if name.startswith("torch.nn."):
        if name.startswith(("torch.nn.init.", "torch.nn.utils.")):
            return UNKNOWN
        if last in ("Parameter", "Buffer"):
            return Value(Kind.TENSOR, name=name)
        if last.endswith("Loss"):
            return Value(Kind.LOSS, name=name)
        return Value(Kind.MODULE, name=name) if last[:1].isupper() else UNKNOWN
    if name == "torch.optim.Optimizer" or name.startswith("torch.optim."):
        kind = Kind.SCHEDULER if name.startswith("torch.optim.lr_scheduler.") else Kind.OPTIMIZER
        return Value(kind, name=name) if last[:1].isupper() else UNKNOWN
    if name.endswith(".GradScaler") and name.startswith("torch."):
        return Value(Kind.SCALER, name=name)
    if name in ("torch.utils.data.DataLoader",):
        return Value(Kind.LOADER, name=name)
    if name.startswith(("torch.utils.data.", "torchvision.datasets.", "torchaudio.datasets.")) and last[:1].isupper():
        if last.endswith(("Sampler", "WorkerInfo")):
            return Value(Kind.OTHER, name=name)
        return Value(Kind.DATASET, name=name)
    if name.startswith(("torchvision.models.", "timm.create_model", "timm.models.", "segmentation_models_pytorch.")):
        return Value(Kind.MODULE, name=name)
    if name.startswith("torchvision.transforms."):
        return Value(Kind.OTHER, name=name)
    if name == "torch.Tensor":
        return Value(Kind.TENSOR, name=name)
    if name.startswith("torch.cuda.") and last.endswith("Tensor"):
        return Value(Kind.TENSOR, device="cuda", name=name)
    if name == "torch.hub.load":
        return Value(Kind.MODULE, name=name, sure=False)
    if name.startswith("torch.") and name.count(".") == 1 and last not in knowledge.NOT_TENSOR:
        return Value(Kind.TENSOR, name=name, device="cpu" if last in knowledge.FACTORIES else "")
    if name.startswith(("torch.linalg.", "torch.fft.", "torch.special.")):
        return Value(Kind.TENSOR, name=name)
    if name.startswith("numpy."):
        return Value(Kind.ARRAY, name=name)
    if name in _MODULE_CLASSES:
        return Value(Kind.MODULE, name=name)
    return UNKNOWN


_MODULE_CLASSES = knowledge.MODULE_BASES | {"torch.nn.Module"}


def _makes_no_module(owner: str) -> bool:
    last = owner.rpartition(".")[2]
    return last.endswith(("Tokenizer", "TokenizerFast", "Processor", "Config", "Extractor", "Scheduler"))


def _keyword(node: cst.Call, *names: str) -> cst.BaseExpression | None:
    for argument in node.args:
        if argument.keyword is not None and argument.keyword.value in names:
            return argument.value
    return None


def _number(node: cst.Integer | cst.Float) -> float | int | None:
    try:
        value: float | int = node.evaluated_value
    except (ValueError, OverflowError):
        return None
    return value


def _whole(operator: cst.BaseBinaryOp, left: int, right: int) -> int | None:
    """The result of `28 * 28`, `width + 1` or `width // 2`."""
    if isinstance(operator, cst.Multiply):
        return left * right
    if isinstance(operator, cst.Add):
        return left + right
    return left // right if isinstance(operator, cst.FloorDivide) and right else None


def _integer(node: cst.BaseExpression) -> int | None:
    sign = 1
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        sign, node = -1, node.expression
    if isinstance(node, cst.Integer):
        value = _number(node)
        return None if value is None else sign * int(value)
    return None


def _is_static(function: cst.FunctionDef) -> bool:
    return any(dotted_name(decorator.decorator) == "staticmethod" for decorator in function.decorators)
