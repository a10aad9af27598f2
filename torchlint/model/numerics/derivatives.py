"""Derivatives that autocast may not follow: of gradients and inputs, of autograd functions, of probabilities."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import called_name, dotted_name, last_part

#: Losses that raise under CUDA autocast, for their input is a probability.
_PROBABILITY_LOSSES = frozenset({"torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy"})

#: Functions of penalties on gradients, or on the lengths of paths.
_PENALTIES = re.compile(r"(gradient|grad|r1|r2)_?penalty|r1_?reg|path_?regular|path_?length", re.IGNORECASE)

#: Names of parameters, or of tensors in their place.
_WEIGHTS = re.compile(r"param|weight|theta|vars", re.IGNORECASE)

#: What the methods of an autograd function may call if they only change elements, whatever their dtype.
_ELEMENTWISE = frozenset(
    "save_for_backward mark_non_differentiable needs_input_grad view_as view reshape expand_as clone detach size neg "
    "sign round floor ceil clamp clamp_ abs sigmoid tanh relu exp mul mul_ div div_ add add_ sub sub_ pow sqrt gt ge "
    "lt le eq ne masked_fill masked_fill_ where zeros_like ones_like new_zeros new_ones float type_as len isinstance "
    "contiguous".split()
)

#: What they may call if they only gather tensors of all processes.
_GATHERING = frozenset(
    "all_gather all_reduce broadcast reduce_scatter get_rank get_world_size is_initialized empty_like cat stack chunk "
    "unbind range tuple list".split()
)
_ANY_DTYPE = _ELEMENTWISE | _GATHERING


class Derivatives(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        super().__init__(forest)
        self._tree = forest.tree
        self._twice: dict[cst.CSTNode, bool] = {}
        self._kernels: dict[cst.CSTNode, bool] = {}

    def twice_in(self, root: cst.CSTNode) -> bool:
        """Whether a file, given by its root, takes gradients of gradients, or of inputs."""
        if root not in self._twice:
            self._twice[root] = self._is_twice_in(root)
        return self._twice[root]

    def kernels_in(self, root: cst.CSTNode) -> bool:
        """Whether a file, given by its root, has autograd functions of its own."""
        if root not in self._kernels:
            self._kernels[root] = any(
                "torch.autograd.Function" in self._forest.definitions.base_names(definition)
                and not self._works_in_any_dtype(definition)
                for definition in self._tree.inside(root, cst.ClassDef)
            )
        return self._kernels[root]

    @cached_property
    def loses_on_probabilities(self) -> bool:
        """Whether a loss of the program raises under CUDA autocast: binary cross entropy on probabilities."""
        tree, name_of = self._tree, self._forest.name_of
        words = {last_part(name) for name in _PROBABILITY_LOSSES}
        aliases = {
            name
            for scope in tree.scopes.values()
            for name, bound in scope.bindings.items()
            if any(last_part(item.imported) in words for item in bound)
        }
        names = (name for text in words | aliases for name in tree.names.get(text, ()))
        nodes = (*tree.attributes_named(*words), *names)
        return any(name_of(node) in _PROBABILITY_LOSSES for node in nodes)

    def differentiates(self, call: cst.Call) -> bool:
        """Whether ``call`` takes gradients that can be differentiated again, or gradients of parameters directly."""
        name = self._forest.name_of(call.func) or ""
        if name.startswith(("torch.func.", "torch.autograd.functional.")):
            return True
        if keyword(call, "create_graph") is not None:
            return True
        return name == "torch.autograd.grad" and not self._is_of_inputs(call)

    def _is_twice_in(self, root: cst.CSTNode) -> bool:
        calls = self._tree.calls_in(root)
        if any(map(self.differentiates, calls)):
            return True
        functions = self._tree.inside(root, cst.FunctionDef)
        return any(_PENALTIES.search(item.name.value) for item in functions) or any(
            _PENALTIES.search(dotted_name(call.func) or "") for call in calls
        )

    def _is_of_inputs(self, call: cst.Call) -> bool:
        """Whether gradients of inputs are taken, as for adversarial examples; meta learning takes those of weights."""
        given = next((item.value for item in call.args[1:2] if not item.star and item.keyword is None), None)
        elements = given.elements if isinstance(given, (cst.List, cst.Tuple)) else ()
        names = [item.value for item in elements] if elements else [given]
        return all(isinstance(name, cst.Name) and not _WEIGHTS.search(name.value) for name in names)

    def _works_in_any_dtype(self, definition: cst.ClassDef) -> bool:
        """Whether an autograd function works in any dtype: a reversed gradient, a straight-through one, a gathering."""
        if self._tree.inside(definition, cst.MatrixMultiply):
            return False
        return all(
            called_name(call) in _ANY_DTYPE
            and (self._forest.name_of(call.func) or "torch").partition(".")[0] in ("torch", "builtins")
            for call in self._tree.calls_in(definition.body)
        )
