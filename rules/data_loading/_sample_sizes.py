"""Sample sizes: which calls give every sample the same size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.data.loaders import Loaders
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.configuration import Configuration
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call, keyword
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.parameters import parameters_of

#: Functions and methods that give every sample the same size.
_RESIZERS = frozenset(
    "resize imresize Resize CenterCrop center_crop RandomCrop RandomResizedCrop warpAffine warpPerspective".split()
)
_INTERPOLATE = "torch.nn.functional.interpolate"
#: Functions that return a network of CLIP with the transform of its images.
_WITH_TRANSFORM = frozenset(
    {"clip.load", "open_clip.create_model_and_transforms", "open_clip.create_model_from_pretrained"}
)
#: Functions that create an image or array, and the position of the size among their arguments.
_BLANK = {"PIL.Image.new": 1, "numpy.zeros": 0, "numpy.ones": 0, "numpy.full": 0}
_COPYING = frozenset({"numpy.array", "numpy.asarray", "numpy.ascontiguousarray"})
#: The maximum number of expressions between a function's result and its size.
_LIMIT = 30


class SampleSizes(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree

    def fixed_by(self, call: cst.Call, body: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Calls that give a sample a size that does not depend on the names that ``body`` binds.

        Yields ``call`` itself, a call in the transform that it runs, or a call of a function of the project.
        """
        if self._resizes(call, body) or self._resizes_inside(call, body):
            yield call
        if not isinstance(call.func, (cst.Name, cst.Attribute)) or self._forest.name_of(call.func) is not None:
            return
        values = (
            self._forest.values.stored(dotted_name(call.func) or "") if isinstance(call.func, cst.Attribute) else []
        )
        if isinstance(call.func, cst.Name):
            values = [item.value for item in self._forest.names.bindings(call.func) if item.kind is BindingKind.ASSIGN]
        if len(values) == 1 and values[0] is not None:
            if isinstance(values[0], cst.Call) and self._forest.name_of(values[0].func) in _WITH_TRANSFORM:
                yield values[0]
            yield from (inner for inner in self._tree.calls_in(values[0]) if self._resizes(inner, body))

    def _resizes(self, call: cst.Call, body: cst.CSTNode) -> bool:
        last = last_name(call.func)
        if isinstance(call.func, cst.Attribute) and not last:
            last = call.func.attr.value
        if self._forest.name_of(call.func) == _INTERPOLATE:
            size = keyword(call, "size") or next((item.value for item in call.args[1:2] if item.keyword is None), None)
            return size is not None and not is_none(size) and self._is_constant(size, call, body)
        if last not in _RESIZERS:
            return False
        if "Crop" in last or "crop" in last:
            return bool(call.args)
        sizes = [item.value for item in call.args if isinstance(item.value, (cst.Tuple, cst.List))]
        return any(len(size.elements) == 2 and self._is_fixed(size, call, body) for size in sizes)

    def _is_fixed(self, size: cst.CSTNode, call: cst.Call, body: cst.CSTNode) -> bool:
        """Whether a size in the arguments of ``call`` depends neither on the names of ``body`` nor on the sample."""
        names = self._names_in(size)
        others = [call.func, *(item.value for item in call.args if item.value is not size)]
        if names.keys() & {text for other in others for text in self._names_in(other)}:
            return False
        above = self._tree.parent(body)
        changing = above if isinstance(above, cst.For) else body  # the loop binds its variables too
        return not any(
            self._tree.within(binding.node, changing)
            for name in names.values()
            for binding in self._forest.names.bindings(name)
        )

    def _is_constant(self, size: cst.BaseExpression, call: cst.Call, body: cst.CSTNode) -> bool:
        """Whether a size is fixed, and not by a parameter of the function that may differ from call to call."""
        reached = self._forest.values.reaching
        bound = (binding for name in self._names_in(size).values() for binding in reached.of(name))
        is_passed = any(binding.kind is BindingKind.PARAM for binding in bound)
        return not is_passed and self._is_fixed(size, call, body)

    def _names_in(self, node: cst.CSTNode) -> dict[str, cst.Name]:
        """The variables in an expression; not ``self``, modules or functions of libraries."""
        return {
            part.value: part
            for part in self._tree.nodes_in(node)
            if isinstance(part, cst.Name) and part.value != "self" and self._forest.name_of(part) is None
        }

    # -- datasets

    def batched_by(self, sources: Iterable[cst.CSTNode], body: cst.CSTNode) -> cst.CSTNode | None:
        """What makes batches of the dataset that the samples are items of, which must then be of one size."""
        loop = self._tree.parent(body)
        indexed = [
            node.value
            for source in sources
            for node in self._tree.nodes_in(source)
            if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
        ]
        looped = loop.iter if isinstance(loop, cst.For) else None
        while isinstance(looped, cst.Call) and looped.args and self._forest.value(looped).kind is not Kind.DATASET:
            looped = looped.args[0].value  # enumerate(tqdm(dataset))
        for node in (*indexed, *([looped] if looped is not None else [])):
            value = self._forest.value(node)
            if value.kind is Kind.DATASET:
                found = next((loader for origin in value.origins for loader in self._batched.get(origin, ())), None)
                if found is not None:
                    return found.node
        return None

    @cached_property
    def _batched(self) -> dict[cst.CSTNode, list[Call]]:
        """The loaders that stack several items, by the calls that make their datasets."""
        found: dict[cst.CSTNode, list[Call]] = defaultdict(list)
        for loader in self._forest.fact(Loaders).calls:
            size = loader.argument("batch_size").value
            if size is None or loader.opaque or self._forest.fact(Configuration).written_as(size, "1") is not None:
                continue
            if all(loader.argument(name).absent for name in ("collate_fn", "batch_sampler")):
                for origin in self._forest.value(loader.argument("dataset").value).origins:
                    found[origin].append(loader)
        return found

    # -- functions of the project: ``resize_image(image, (640, 640))``

    def _resizes_inside(self, call: cst.Call, body: cst.CSTNode) -> bool:
        """Whether the function of the project that ``call`` runs gives its result a size that the caller passes."""
        forest = self._forest
        called = forest.definitions.called(call, forest.values)
        if len(called) != 1 or not isinstance(called[0], cst.FunctionDef):
            return False
        function = called[0]
        returned = forest.definitions.returns(function)
        sizes = [self._size_of(item, function, 6) for item in returned]
        if not sizes or None in sizes:
            return False
        needed = {name for size in sizes if size is not None for name in self._parameters_in(size, function)}
        for param in parameters_of(function):
            if param.name.value in needed:
                given = forest.definitions.argument_of(call, function, param) or param.default
                if given is not None and not self._is_fixed(given, call, body):
                    return False
        return True

    def _size_of(
        self, node: cst.BaseExpression | None, function: cst.FunctionDef, depth: int
    ) -> list[cst.BaseExpression] | None:
        """The expressions that may define the size of ``node``; None if unknown."""
        if node is None or depth <= 0:
            return None
        found: list[cst.BaseExpression] = []
        if isinstance(node, cst.Name):
            reached = self._forest.values.reaching.of(node)
            for binding in reached:
                if binding.kind is not BindingKind.ASSIGN or binding.path:
                    return None
                size = self._size_of(binding.value, function, depth - 1)
                if size is None:
                    return None
                found += size
            return found or None
        if isinstance(node, cst.Tuple):  # the sample, and where it is in the result
            sizes = (self._size_of(item.value, function, depth - 1) for item in node.elements)
            return next((size for size in sizes if size is not None), None)
        if not isinstance(node, cst.Call):
            return None
        name = self._forest.name_of(node.func)
        if name in _BLANK and len(node.args) > _BLANK[name]:
            return [node.args[_BLANK[name]].value]
        if name in _COPYING and node.args:
            return self._size_of(node.args[0].value, function, depth - 1)
        if name == "cv2.resize" and len(node.args) > 1:
            return [node.args[1].value]
        if name is None and isinstance(node.func, cst.Attribute) and node.func.attr.value == "resize" and node.args:
            return [node.args[0].value]
        return None

    def _parameters_in(self, sizes: list[cst.BaseExpression], function: cst.FunctionDef) -> set[str]:
        """The parameters of ``function`` on which sizes depend, through its variables."""
        found: set[str] = set()
        waiting: list[cst.CSTNode] = list(sizes)
        for part in waiting:  # grows during the iteration
            for name in self._tree.nodes_in(part):
                if not isinstance(name, cst.Name) or len(waiting) > _LIMIT:
                    continue
                for binding in self._forest.names.bindings(name):
                    if binding.kind is BindingKind.PARAM:
                        found.add(name.value)
                    elif (
                        binding.value is not None
                        and binding.value not in waiting
                        and self._tree.within(binding.node, function)
                    ):
                        waiting.append(binding.value)
        return found
