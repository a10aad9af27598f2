"""Parts of batches: which expressions are what a loader gave, and which were computed from it on the host."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import base_of
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.training.loops import batch_origins

#: How many names and functions a batch is followed through.
_DEPTH = 5
#: Methods that give what a dict contains.
CONTENTS = frozenset({"items", "values"})
#: Methods of an iterator that return a batch.
_TAKING = frozenset({"next", "__next__"})
#: Methods that return a part of a batch, or the same memory in another shape.
_SAME_MEMORY = frozenset(
    "items values get pop view squeeze unsqueeze detach permute transpose t narrow select requires_grad_".split()
)
#: Methods that return the same memory if they are called on a whole part of a batch.
_SAME_IF_WHOLE = frozenset({"contiguous", "reshape", "flatten"})

#: What labels are called, which are much smaller than the data that they belong to.
_LABELS = re.compile(r"^(y|\w+_y|y_\w+|(\w+_)?(targets?|labels?|lbls?|pids?|class(es)?|gts?)(_?\w)?)$", re.IGNORECASE)
#: ... and the data of a domain that is called the target, for which a network is adapted.
_OF_TARGET = re.compile(r"(data|images?|imgs?|inputs?|x)_targets?(_?\d)?|targets?_x", re.IGNORECASE)
#: Where graphs of DGL keep tensors; a loader does not pin them.
_OF_GRAPHS = frozenset({"ndata", "edata", "srcdata", "dstdata"})


class BatchParts(ForestFact):
    """Answers for one forest.

    A part of a batch is pinned if its loader pins. What is computed from it on the host is a new tensor, which is not.
    """

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def is_part(self, node: cst.BaseExpression) -> bool:
        """Whether ``node``, which comes from a batch, is a part of it, whichever way the program takes.

        What only some settings ask for is left aside: ``if args.half: images = images.half()``.
        """
        return self._is_part(node, (), _DEPTH, all_paths=True)

    def may_be_part(self, node: cst.BaseExpression) -> bool:
        """Whether ``node``, which comes from a batch, is a part of it in at least one way the program may take.

        So it may be after ``.float()``, which copies nothing if the images are float32, as most are.
        """
        return self._is_part(node, (), _DEPTH, all_paths=False)

    def given(self, node: cst.BaseExpression) -> frozenset[cst.CSTNode]:
        """The loaders whose batches, not yet moved, a parameter gets from some callers, while others pass a network."""
        bound = self._forest.values.reaching.only(node) if isinstance(node, cst.Name) else None
        if bound is None or not isinstance(bound.node, cst.Param) or not isinstance(node, cst.Name):
            return frozenset()
        kinds = self._forest.values.parameter_values.kinds_at(node)
        values = (
            []
            if self._forest.value(node)
            else map(self._forest.value, self._forest.values.parameter_values.passed_for(bound.node))
        )
        possible = [value for value in values if value.device is None and (kinds is None or value.kind in kinds)]
        return frozenset().union(*map(batch_origins, possible))

    def is_of_labels(self, move: cst.Call) -> bool:
        """Whether ``move`` moves labels: ``targets.cuda()``, ``Variable(labels.long()).cuda()``."""
        moved = move.func.value if isinstance(move.func, cst.Attribute) else None
        while isinstance(moved, cst.Call):
            held = unwrapped(self._forest, moved)
            moved = held if held is not moved else moved.func.value if isinstance(moved.func, cst.Attribute) else None
        name = moved.value if isinstance(moved, cst.Name) else ""
        return bool(_LABELS.match(name)) and not _OF_TARGET.fullmatch(name)

    def cast_to_float(self, moved: cst.BaseExpression) -> str:
        """``images`` if what is moved is ``images.float()``, there or in a statement before; empty for others."""
        moved = unwrapped(self._forest, moved)
        while isinstance(moved, cst.Subscript):
            moved = moved.value
        if isinstance(moved, cst.Name):
            values = [unpacked(binding.value, binding.path) for binding in self._forest.values.reaching.of(moved)]
            calls = [value for value in values if isinstance(value, cst.Call)]
            return next((name for call in calls if (name := self._name_of_cast(call))), "")
        return self._name_of_cast(moved) if isinstance(moved, cst.Call) else ""

    def _name_of_cast(self, call: cst.Call) -> str:
        """``images`` of ``images.float()`` and of ``Variable(images.float())``."""
        cast = unwrapped(self._forest, call)
        func = cast.func if isinstance(cast, cst.Call) else None
        is_cast = isinstance(func, cst.Attribute) and func.attr.value == "float"
        return self._forest.code(func.value) if isinstance(func, cst.Attribute) and is_cast else ""

    def is_of_graph(self, move: cst.Call) -> bool:
        """Whether ``move`` moves a graph, or a part of one: ``graphs.ndata["feat"].to(device)``."""
        return self._named_in(move) in self._graphs

    def is_of_graph_with_features(self, move: cst.Call) -> bool:
        """Whether ``move`` moves a graph, or a part of one, that contains the features of its nodes or edges."""
        return self._graphs.get(self._named_in(move), False)

    def _named_in(self, move: cst.Call) -> tuple[cst.CSTNode | None, str]:
        """The function of a move and the name of what it moves, or of that of which it moves a part."""
        node = base_of(move)
        return self._forest.function_of(move), node.value if isinstance(node, cst.Name) else ""

    @cached_property
    def _graphs(self) -> dict[tuple[cst.CSTNode | None, str], bool]:
        """The names of graphs, with the functions in which they are, and whether they contain features."""
        found: dict[tuple[cst.CSTNode | None, str], bool] = {}
        for node in self._forest.tree.attributes_named(*_OF_GRAPHS):
            if isinstance(node.value, cst.Name):
                key = self._forest.function_of(node), node.value.value
                part = self._forest.tree.parent(node)
                named = self._forest.code(part) if isinstance(part, cst.Subscript) else ""
                found[key] = found.get(key, False) or "feat" in named
        return found

    def _is_part(self, node: cst.CSTNode | None, path: tuple[int, ...], depth: int, *, all_paths: bool) -> bool:
        """Whether what ``path`` takes from ``node`` by unpacking is a part."""
        if isinstance(node, (cst.Tuple, cst.List)) and path:
            is_there = 0 <= path[0] < len(node.elements)
            return is_there and self._is_part(node.elements[path[0]].value, path[1:], depth, all_paths=all_paths)
        if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
            return bool(node.elements) and self._are_parts(self._elements(node, depth), depth, all_paths=all_paths)
        if isinstance(node, cst.Attribute) or (isinstance(node, cst.Subscript) and self._is_view(node)):
            return self._is_part(node.value, (), depth, all_paths=all_paths)
        if isinstance(node, cst.IfExp):  # `x[0] if len(x) > 1 else x`
            choose = all if all_paths else any
            return choose(self._is_part(side, path, depth, all_paths=all_paths) for side in (node.body, node.orelse))
        if isinstance(node, cst.ListComp):  # `[view[0] for view in views]`
            return depth > 0 and self._is_part(node.elt, path[1:], depth - 1, all_paths=all_paths)
        if isinstance(node, cst.DictComp):  # `{key: value[start:end] for key, value in batch.items()}`
            return depth > 0 and self._is_part(node.value, (), depth - 1, all_paths=all_paths)
        if isinstance(node, cst.Call):
            return self._is_part_returned(node, path, depth, all_paths=all_paths)
        if not isinstance(node, cst.Name):
            return False
        reached = self._forest.values.reaching.of(node)
        found = {binding: self._is_bound_to_part(binding, depth, all_paths=all_paths) for binding in reached}
        if not all_paths:
            return any(found.values())
        return any(found.values()) and all(found[binding] or self._is_optional(binding) for binding in reached)

    def _is_bound_to_part(self, binding: Binding, depth: int, *, all_paths: bool) -> bool:
        if binding.kind is BindingKind.ASSIGN:
            return depth > 0 and self._is_part(binding.value, binding.path, depth - 1, all_paths=all_paths)
        if binding.kind is BindingKind.FOR:
            found = iterables(self._forest.names, binding.value, binding.path) if binding.value is not None else ()
            items = [item for over, _ in found for item in self._elements(over, depth)]
        elif isinstance(binding.node, cst.Param):
            is_one = binding.kind is BindingKind.PARAM
            passed = self._forest.values.parameter_values.passed_for
            items = [] if depth <= 0 else passed(binding.node) if is_one else self._extra(binding.node)
        else:
            return False
        return self._are_parts(items, depth, all_paths=all_paths)

    def _are_parts(self, items: list[cst.BaseExpression], depth: int, *, all_paths: bool) -> bool:
        """Whether those of ``items`` that come from a batch are parts of one; also if none does."""
        given = [item for item in items if batch_origins(self._forest.value(item))]
        choose = all if all_paths else any
        return not given or choose(self._is_part(item, (), depth - 1, all_paths=all_paths) for item in given)

    def _elements(self, node: cst.BaseExpression | None, depth: int) -> list[cst.BaseExpression]:
        """What ``node`` contains, if that is written out: ``(images, labels)``, or the arguments for ``*tensors``."""
        if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
            return [element.value for element in node.elements]
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in CONTENTS:
            return self._elements(node.func.value, depth)
        bound = self._forest.values.reaching.only(node) if isinstance(node, cst.Name) and depth > 0 else None
        if bound is None or bound.path:
            return []
        if bound.kind is BindingKind.ASSIGN:
            return self._elements(bound.value, depth - 1)
        if not isinstance(bound.node, cst.Param):
            return []
        if bound.kind is BindingKind.STAR:
            return self._extra(bound.node)
        passed = self._forest.values.parameter_values.passed_for(bound.node)
        return [element for item in passed for element in self._elements(item, depth - 1)]

    def _extra(self, param: cst.Param) -> list[cst.BaseExpression]:
        """What calls pass for ``*tensors`` or ``**tensors``, one by one."""
        function = owner_of(self._forest.tree, param)
        if function is None:
            return []
        if param is function.params.star_arg:
            return self._forest.definitions.extra_arguments(function, self._forest.values)
        given = self._forest.values.parameter_values.extra_keywords(function)
        return [item.value for item in given if not item.star]

    def _is_view(self, node: cst.Subscript) -> bool:
        """Whether an index takes a part, and copies nothing: of a tensor, numbers and slices do."""
        if self._forest.value(node.value).kind is Kind.BATCH or self._is_kept_under_key(node):
            return True
        return all(self._is_key(item) for item in node.slice if isinstance(item.slice, cst.Index))

    def _is_key(self, item: cst.SubscriptElement) -> bool:
        """Whether an index takes one part, and copies nothing: a number, a string or ``...``."""
        index = item.slice.value if isinstance(item.slice, cst.Index) else None
        return isinstance(index, (cst.SimpleString, cst.Integer, cst.UnaryOperation, cst.Ellipsis)) or (
            index is not None and self._forest.value(index).kind in (Kind.NUMBER, Kind.STRING, Kind.NONE)
        )

    def _is_kept_under_key(self, node: cst.Subscript) -> bool:
        """``data[key] = data[key].cuda()``, ``{key: data[key].cuda() for key in keys}``: no index of a tensor."""
        index = node.slice[0].slice if len(node.slice) == 1 else None
        made, code = nearest(self._forest.tree, node, cst.DictComp, cst.Assign), self._forest.code
        if isinstance(made, cst.DictComp):
            return isinstance(index, cst.Index) and code(made.key) == code(index.value)
        targets = [item.target for item in made.targets] if isinstance(made, cst.Assign) else []
        return any(isinstance(item, cst.Subscript) and code(item) == code(node) for item in targets)

    def _is_part_returned(self, call: cst.Call, path: tuple[int, ...], depth: int, *, all_paths: bool) -> bool:
        """Whether ``call`` returns a part of a batch that it is given, or that it is called on."""
        if self._forest.name_of(call.func) == "builtins.next":
            return bool(call.args)
        held = unwrapped(self._forest, call)
        if held is not call:
            return self._is_part(held, path, depth, all_paths=all_paths)
        called = self._forest.definitions.called(call, self._forest.values)
        functions = [definition for definition in called if isinstance(definition, cst.FunctionDef)]
        same = [self._forest.values.handed_back.same(call, function, self._forest.values) for function in functions]
        if same and all(same) and not path:
            choose = all if all_paths else any
            return depth > 0 and choose(self._is_part(item, (), depth - 1, all_paths=all_paths) for item in same)
        returned = [item for function in functions for item in self._forest.definitions.returns(function)]
        if returned:
            choose = all if all_paths else any
            return depth > 0 and choose(self._is_part(item, path, depth - 1, all_paths=all_paths) for item in returned)
        if not isinstance(call.func, cst.Attribute):
            return False
        if call.func.attr.value in _TAKING:
            return True
        if call.func.attr.value == "float" and not all_paths:
            return self._is_part(call.func.value, (), depth, all_paths=False)
        if call.func.attr.value in _SAME_IF_WHOLE:
            return self._is_whole(call.func.value) and self._is_part(call.func.value, (), depth, all_paths=all_paths)
        return call.func.attr.value in _SAME_MEMORY and self._is_part(call.func.value, (), depth, all_paths=all_paths)

    def _is_whole(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a part of a batch as it is: a variable, ``batch["image"]``, an element of a list."""
        held = unwrapped(self._forest, node)
        if not isinstance(held, cst.Subscript):
            return isinstance(held, cst.Name)
        kind = self._forest.value(held.value).kind
        is_one = len(held.slice) == 1 and self._is_key(held.slice[0])
        return kind is Kind.SEQUENCE or (kind is Kind.BATCH and is_one)

    def _is_optional(self, binding: Binding) -> bool:
        """``images = images.half()`` or ``images, labels = mixup(images, labels)`` under a condition."""
        return (
            binding.kind is BindingKind.ASSIGN
            and isinstance(binding.value, cst.Call)
            and any(
                isinstance(node, cst.Name) and node.value == binding.name
                for node in self._forest.tree.nodes_in(binding.value)
            )
            and any(item.guard is not None for item in branches(self._forest.tree, binding.node))
        )


def unwrapped(forest: Forest, node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``Variable(x)`` or ``torch.as_tensor(x)``, which is ``x`` if that is a tensor; others as they are."""
    if not isinstance(node, cst.Call) or not node.args:
        return node
    name = forest.name_of(node.func)
    is_same = name == "torch.autograd.Variable" or (name == "torch.as_tensor" and len(node.args) == 1)
    return node.args[0].value if is_same else node
