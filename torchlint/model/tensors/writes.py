"""What changes a tensor in place or moves a module, also by another name of it or in functions of the program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import ADDING, Kind
from torchlint.model.syntax.calls import changes_in_place, keyword
from torchlint.model.syntax.dotted import PARTS_AND_RESULTS, called_name, index_of, prefixes
from torchlint.model.syntax.literals import is_true
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.scopes import Binding
from torchlint.model.tensors.aliases import Aliases, Origin, Path

#: Methods and attributes whose result shares the memory of the tensor or array, and functions that do with their first.
VIEWS = frozenset(
    "as_strided chunk contiguous detach diagonal expand expand_as flatten movedim narrow numpy permute ravel reshape "
    "select split squeeze swapaxes swapdims t tensor_split transpose unbind unflatten unfold unsqueeze view "
    "view_as".split()
)
#: Methods that return the tensor itself if it has their format.
_CASTS = frozenset({"bfloat16", "double", "float", "half", "int", "long"})
_VIEW_ATTRIBUTES = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})
_VIEWING = frozenset(f"torch.{name}" for name in VIEWS) | {
    "torch.as_tensor",
    "torch.asarray",
    "torch.from_numpy",
    "numpy.asarray",
    "numpy.ravel",
    "numpy.reshape",
    "numpy.squeeze",
    "numpy.transpose",
}
#: Functions of NumPy that change the array that they are given.
_OF_ARRAYS = frozenset(f"numpy.{name}" for name in ("copyto", "fill_diagonal", "place", "put", "putmask")) | {
    "numpy.random.shuffle"
}
#: Methods that are named like those that write to a tensor, but do not.
_HARMLESS = frozenset({"requires_grad_", "share_memory_", "retain_grad_"})
#: Methods that return their module, and that move it.
_OF_MODULES = frozenset(
    "apply bfloat16 compile cpu cuda double eval float half requires_grad_ share_memory to to_empty train type".split()
)
_MOVING = frozenset({"cpu", "cuda", "to", "to_empty"})
#: A call is followed through this many functions.
_DEPTH = 2
_AFFECTING = (cst.AugAssign, cst.Assign, cst.Call)


class Effects(ForestFact):
    """What happens to objects in a place: a function, a loop or a file."""

    def __init__(self, forest: Forest, aliases: Aliases) -> None:
        super().__init__(forest)
        self._forest = forest
        self.aliases = aliases
        self._direct: dict[cst.CSTNode, list[cst.BaseExpression]] = {}
        self._on_parameters: dict[tuple[cst.FunctionDef, int], tuple[tuple[cst.Param, Path], ...]] = {}

    def by(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The objects that a statement or call affects by itself."""
        raise NotImplementedError

    def on(self, affected: cst.BaseExpression, place: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, list[Origin]]]:
        """What in ``place`` affects an object or a part of it: expressions for it, and calls; with the names for it."""
        origins = self.aliases.of(affected)
        for target in self._direct_in(place):
            if shared := self.aliases.shared(target, origins):
                yield target, shared
        home = place if isinstance(place, cst.FunctionDef) else self._forest.function_of(place) or place
        kept = (*origins, *self.keepers(home, origins))
        for call in self._forest.tree.calls_in(place):
            if self._is_run_in(call, place) and (shared := self._through(call, kept)):
                yield call, shared

    def keepers(self, home: cst.CSTNode, origins: Sequence[Origin]) -> Iterator[Origin]:
        """The attributes and items of other objects that a function or file sets to an object: ``keeper.x = x``."""
        for node in self._forest.tree.inside(home, cst.Assign):
            targets = [item.target for item in node.targets if not isinstance(item.target, cst.Name)]
            if targets and self.aliases.shared(node.value, origins):
                yield from (origin for target in targets for origin in self.aliases.of(target))
        for call in self._forest.tree.calls_in(home):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in ADDING:
                if any(self.aliases.shared(item.value, origins) for item in call.args):
                    yield from (replace(one, path=(*one.path, None)) for one in self.aliases.of(call.func.value))

    def _through(self, call: cst.Call, origins: Sequence[Origin]) -> list[Origin]:
        """The names in a call of ``origins`` that functions of the program which it runs affect."""
        given = (call.func, *(item.value for item in call.args))
        if not any(self.aliases.shared(item, origins) for part in given for item in _owners(part)):
            return []
        return [found for node, path in self.affected_by(call) for found in self.aliases.shared(node, origins, path)]

    def _direct_in(self, place: cst.CSTNode) -> list[cst.BaseExpression]:
        if place not in self._direct:
            nodes = [node for node in self._forest.tree.nodes_in(place) if isinstance(node, _AFFECTING)]
            self._direct[place] = [target for node in nodes if self._is_run_in(node, place) for target in self.by(node)]
        return self._direct[place]

    def _is_run_in(self, node: cst.CSTNode, place: cst.CSTNode) -> bool:
        """Whether what is written in ``place`` is not in a function of a file."""
        return not isinstance(place, cst.Module) or self._forest.function_of(node) is None

    def affected_by(self, call: cst.Call, depth: int = _DEPTH) -> Iterator[tuple[cst.BaseExpression, Path]]:
        """The arguments of a call, and its object, that functions of the program affect, with the part of each."""
        dispatch = self._forest.fact(Dispatch)
        functions = dispatch.functions(call)
        owner = call.func.value if functions and isinstance(call.func, cst.Attribute) else call.func
        for function in functions or dispatch.forwards(call):
            for param, path in self._parameters_affected(function, depth - 1):
                passed: cst.BaseExpression | None = owner
                if self._forest.definitions.place_of(function, param) != -1:
                    passed = self._forest.definitions.argument_of(call, function, param)
                if passed is not None:
                    yield passed, path

    def _parameters_affected(self, function: cst.FunctionDef, depth: int) -> tuple[tuple[cst.Param, Path], ...]:
        """The parameters that a function affects, each with the part of it."""
        key = (function, depth)
        if key not in self._on_parameters:
            self._on_parameters[key] = tuple(dict.fromkeys(self._find_affected(function, depth)))
        return self._on_parameters[key]

    def _find_affected(self, function: cst.FunctionDef, depth: int) -> Iterator[tuple[cst.Param, Path]]:
        params = set(parameters_of(function))
        targets: list[tuple[cst.BaseExpression, Path]] = [(target, ()) for target in self._direct_in(function)]
        calls = self._forest.tree.calls_in(function.body) if depth > 0 else []
        for call in calls:
            given = (call.func, *(item.value for item in call.args))
            if any(self._parameters(item, params) for part in given for item in _owners(part)):
                targets += self.affected_by(call, depth)
        for target, path in targets:
            yield from self._parameters(target, params, path)

    def _parameters(
        self, node: cst.BaseExpression, params: set[cst.Param], path: Path = ()
    ) -> list[tuple[cst.Param, Path]]:
        """Those of the parameters of a function that ``node`` refers to a part of."""
        return [
            (origin.root.node, origin.path)
            for origin in self.aliases.of(node, path)
            if isinstance(origin.root, Binding)
            and isinstance(origin.root.node, cst.Param)
            and origin.root.node in params
        ]


class Writes(Effects):
    """What changes tensors and arrays in place."""

    def __init__(self, forest: Forest) -> None:
        super().__init__(forest, Aliases(forest, VIEWS | _CASTS, _VIEW_ATTRIBUTES, _VIEWING))

    def by(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The tensors that a statement or call changes in place by itself: ``x += 1``, ``x[0] = 1``, ``x.add_(1)``."""
        targets: Iterable[cst.BaseExpression] = ()
        if isinstance(node, cst.AugAssign):
            targets = (node.target,)
        elif isinstance(node, cst.Assign):
            targets = (item for target in node.targets for item in _items(target.target))
        elif isinstance(node, cst.Call):
            targets = self._by_call(node)
        return (target for target in targets if not _is_gradient(target))

    def _by_call(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        method, given = called_name(call), [item.value for item in call.args]
        name = self._forest.name_of(call.func)
        if (changes_in_place(method) and method not in _HARMLESS and method != "_") or method == "fill":
            if name is None and isinstance(call.func, cst.Attribute):
                yield call.func.value
            else:
                yield from given[:1]
        elif name is not None and name.startswith("torch.distributed."):
            yield from given
        elif name in _OF_ARRAYS:
            yield from given[:1]
        out = keyword(call, "out")
        if out is not None:
            yield from (item.value for item in out.elements) if isinstance(out, (cst.Tuple, cst.List)) else (out,)
        if is_true(keyword(call, "inplace")):
            yield from given[:1]


class Moves(Effects):
    """What moves modules to another device, or gives them other parts."""

    def __init__(self, forest: Forest) -> None:
        super().__init__(forest, Aliases(forest, _OF_MODULES, frozenset(), frozenset()))

    def by(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The modules that a call moves by itself, and those whose parts an assignment replaces by other modules."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _MOVING:
            moved = node.func.value
            is_alone = isinstance(self._forest.tree.parent(node), cst.Expr)  # of a tensor, it would return another
            if isinstance(moved, cst.Name) or is_alone or self._forest.value(moved).kind in (Kind.MODULE, Kind.LOSS):
                yield moved
        elif isinstance(node, cst.Assign) and self._forest.value(node.value).kind is Kind.MODULE:
            yield from (item.target for item in node.targets if isinstance(item.target, cst.Attribute))


def _owners(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """``node``, and of a method the object that it belongs to."""
    yield node
    if isinstance(node, cst.Attribute):
        yield node.value


def _items(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The items of tensors to which an assignment gives another value: not those of dictionaries, ``x["name"]``."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _items(element.value)
    elif isinstance(target, cst.Subscript) and not isinstance(index_of(target), cst.SimpleString):
        yield target


def _is_gradient(target: cst.BaseExpression) -> bool:
    """Whether ``target`` is of the gradient of a tensor, which has memory of its own."""
    parts = (target, *prefixes(target, PARTS_AND_RESULTS))
    return any(isinstance(part, cst.Attribute) and part.attr.value == "grad" for part in parts)
