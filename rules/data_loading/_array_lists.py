"""Lists of NumPy arrays that are passed to a constructor of tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name, index_of
from torchlint.model.syntax.scopes import Binding, unpacked

from ._array_list_words import OBSERVATION
from ._observations import Observations

_TYPED = tuple(
    f"torch.{kind}Tensor" for kind in ("", "Float", "Double", "Half", "Long", "Int", "Short", "Byte", "Bool")
)
_FACTORIES = ("torch.tensor", "torch.as_tensor")
#: Functions of NumPy that give an array of one dimension or more.
_ARRAYS = frozenset(
    f"numpy.{name}"
    for name in "arange argsort array asarray ascontiguousarray clip column_stack concatenate copy cumsum diff empty "
    "empty_like expand_dims eye flip fliplr flipud frombuffer fromiter full full_like hstack linspace load moveaxis "
    "ones ones_like outer pad repeat reshape roll rollaxis rot90 squeeze stack swapaxes tile transpose vstack zeros "
    "zeros_like".split()
)
#: ... and functions of libraries for images and sound that do.
_ARRAYS |= {f"cv2.{name}" for name in ("cvtColor", "imread", "resize", "warpAffine", "warpPerspective")}
_ARRAYS |= {f"librosa.{name}" for name in ("amplitude_to_db", "power_to_db", "stft")}
_ARRAYS |= {f"librosa.feature.{name}" for name in ("melspectrogram", "mfcc")}
#: Functions that give several arrays of indices, in a tuple; NumPy's ``where`` does if it gets nothing but a condition.
_INDICES = frozenset(
    {
        *(f"numpy.{name}" for name in ("nonzero", "where", "tril_indices", "triu_indices", "diag_indices")),
        "scipy.optimize.linear_sum_assignment",
    }
)
#: Methods of an array that give an array of one dimension or more.
_METHODS = frozenset("astype copy flatten ravel repeat reshape swapaxes transpose".split())
#: How a file of arrays gets its name.
_OPENED = (BindingKind.ASSIGN, BindingKind.WITH)
#: The maximum number of names and calls that an array is followed through.
_DEPTH = 8
_RETURNS = 3  #: ... of functions, that a list of observations is
_SPARSE = frozenset({"scipy.sparse.coo_matrix", "scipy.sparse.coo_array"})


@dataclass(frozen=True, eq=False)
class ArrayList:
    """A call that makes a tensor of a list of arrays."""

    call: cst.Call
    data: cst.BaseExpression  #: the list, as it is written in the call
    array: cst.CSTNode  #: one of its arrays, or what contains observations
    observed: bool  #: whether the arrays are observations of an environment
    keeps_type: bool  #: whether the call itself says which type the tensor has


class ArrayLists:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._observations = Observations(module)

    def all(self) -> Iterator[ArrayList]:
        """The calls of the file that are given a list of arrays, in order."""
        for call in self._module.own_calls(*_FACTORIES, *_TYPED):
            arguments = call.node.args
            if not arguments or arguments[0].star or arguments[0].keyword is not None:
                continue
            data = arguments[0].value
            if call.name not in _FACTORIES and len(arguments) > 1:
                continue
            array = self._array_in(data)
            observed = self._observed_in(data) if array is None else None
            if array is not None or observed is not None:
                typed = call.name in _TYPED or call.argument("dtype").node is not None
                yield ArrayList(call.node, data, array or observed or data, observed is not None, typed)

    def _observed_in(self, data: cst.BaseExpression, depth: int = _RETURNS) -> cst.CSTNode | None:
        """An observation of a list that contains nothing else, or a name for all of them."""
        observations = self._observations
        if not observations.are_arrays:
            return None
        if isinstance(data, cst.Call) and self._module.name_of(data.func) == "builtins.list" and len(data.args) == 1:
            data = data.args[0].value
        if isinstance(data, cst.ListComp):
            return data.elt if observations.is_item(data.elt) else None
        if isinstance(data, cst.List):
            given = data.elements[0].value if len(data.elements) == 1 else None
            return given if isinstance(given, cst.Name) and observations.is_image(given) else None
        if observations.is_list(data) or (isinstance(data, cst.Attribute) and self._is_filled_with_observed(data)):
            return data
        if not isinstance(data, cst.Name):
            return None
        found = self._filled(data, observations.is_appended)
        bound = self._module.values.reaching.only(data) if found is None else None
        if (
            bound is None
            or bound.kind is not BindingKind.ASSIGN
            or len(bound.path) != 1
            or not isinstance(bound.value, cst.Call)
        ):
            return found
        return data if self._returns_observed(bound.value, data, bound.path[0], depth) else None

    def _returns_observed(self, call: cst.Call, name: cst.Name, place: int, depth: int) -> bool:
        """Whether functions of the program return a tuple with such a list, which gets ``name``.

        ``return states, actions``, ``return zip(*batch)``.
        """
        observations = self._observations
        returned = self._returned(call) if depth > 0 else []
        return bool(returned) and all(
            (observations.is_unzipped(item) and observations.names(name))
            or self._returns_observed(item, name, place, depth - 1)
            if isinstance(item, cst.Call)
            else (part := unpacked(item, (place,))) is not None and self._observed_in(part, depth - 1) is not None
            for item in returned
        )

    def _returned(self, call: cst.Call) -> list[cst.BaseExpression | None]:
        """What the functions that ``call`` may run return; nothing if another, a coroutine or a generator may run."""
        called = self._module.definitions.called(call, self._module.values)
        functions = [item for item in called if isinstance(item, cst.FunctionDef) and item.asynchronous is None]
        if len(functions) < len(called) or any(map(self._module.definitions.yields, functions)):
            return []
        return [item for function in functions for item in self._module.definitions.returns(function)]

    def _is_filled_with_observed(self, attribute: cst.Attribute) -> bool:
        """Whether observations are appended to an attribute, and nothing else is: ``self.states.append(state)``."""
        name, stores = attribute.attr.value, self._module.fact(Stores)
        puts = [(value, at) for to, value, at in stores.containers.get(name, ()) if isinstance(to, cst.Attribute)]
        return (
            OBSERVATION.fullmatch(name) is not None
            and bool(puts)
            and all(self._is_empty(value) for _, value, _ in stores.attributes.get(name, ()))
            and all(
                isinstance(at, cst.Call) and called_name(at) == "append" and self._observations.is_appended(value)
                for value, at in puts
            )
        )

    def _array_in(self, data: cst.BaseExpression | None, depth: int = _RETURNS) -> cst.CSTNode | None:
        """An array of a list that contains nothing else; None if it may contain something else."""
        if isinstance(data, cst.Name):
            return self._filled(data, self._is_array) or self._array_returned_as(data, depth)
        if self._gives_indices(data):
            return data
        if isinstance(data, cst.ListComp):
            return data.elt if self._is_array(data.elt) else None
        if isinstance(data, (cst.List, cst.Tuple)):
            values = [element.value for element in data.elements if isinstance(element, cst.Element)]
            if values and len(values) == len(data.elements) and all(map(self._is_array, values)):
                return values[0]
        return None

    def _array_returned_as(self, name: cst.Name, depth: int) -> cst.CSTNode | None:
        """An array of a list that functions of the program return in a tuple, and nothing here changes."""
        scope, bound = self._module.names.home_of(name), self._module.values.reaching.only(name)
        if scope is None or bound is None or bound.kind is not BindingKind.ASSIGN or not bound.path or depth <= 0:
            return None
        uses = self._module.values.reaching.uses_of(bound, scope)
        if not isinstance(bound.value, cst.Call) or any(map(self._is_changed, uses)):
            return None
        found = [self._array_in(unpacked(item, bound.path), depth - 1) for item in self._returned(bound.value)]
        return found[0] if found and all(item is not None for item in found) else None

    def _filled(self, name: cst.Name, is_array: Callable[[cst.CSTNode], bool]) -> cst.CSTNode | None:
        """An item of a list that is built in the same function, if all of them are arrays."""
        scope = self._module.names.home_of(name)
        reached = self._module.values.reaching.of(name)
        if scope is None or scope is not self._tree.scope_of(name) or len(reached) != 1:
            return None
        value = unpacked(reached[0].value, reached[0].path)
        if reached[0].kind is not BindingKind.ASSIGN:
            return None
        uses = [use for use in self._module.values.reaching.uses_of(reached[0], scope) if use is not name]
        if self._is_empty(value):
            return self._appended(uses, is_array)
        if isinstance(value, (cst.ListComp, cst.List)) and not any(map(self._is_changed, uses)):
            return self._array_in(value)
        return None

    def _is_empty(self, value: cst.BaseExpression | None) -> bool:
        """``[]``, ``list()``."""
        if isinstance(value, cst.Call):
            return not value.args and self._module.name_of(value.func) == "builtins.list"
        return isinstance(value, cst.List) and not value.elements

    def _appended(self, uses: list[cst.Name], is_array: Callable[[cst.CSTNode], bool]) -> cst.CSTNode | None:
        """What is appended to an empty list, if that is all that happens to it."""
        appended: list[cst.BaseExpression] = []
        for use in uses:
            method = self._tree.parent(use)
            call = self._tree.parent(method) if isinstance(method, cst.Attribute) else None
            if isinstance(call, cst.Call) and isinstance(method, cst.Attribute) and method.attr.value == "append":
                appended += [argument.value for argument in call.args]
            elif self._is_changed(use):
                return None
        return appended[0] if appended and all(map(is_array, appended)) else None

    def _is_changed(self, use: cst.Name) -> bool:
        """Whether a use of a list may change it: anything but `len(x)`, an iteration or an item."""
        parent = self._tree.parent(use)
        if isinstance(parent, cst.Arg):
            call = self._tree.parent(parent)
            return not isinstance(call, cst.Call) or self._module.name_of(call.func) not in (
                "builtins.len",
                "builtins.enumerate",
                "builtins.zip",
                *_FACTORIES,
                *_TYPED,
            )
        if isinstance(parent, (cst.For, cst.CompFor)):
            return parent.iter is not use
        return not self._tree.is_target(use)

    def _is_array(self, node: cst.CSTNode | None, depth: int = _DEPTH) -> bool:
        """`np.stack(frames)`, `mask.cpu().numpy()`, arithmetic with such, and a name for the result."""
        if depth <= 0:
            return False
        if isinstance(node, cst.BinaryOperation):
            return self._is_combined(node, depth)
        if isinstance(node, cst.Name):
            reached = self._module.values.reaching.of(node)
            return bool(reached) and all(self._binds_array(item, depth - 1) for item in reached)
        if isinstance(node, cst.Attribute) and node.attr.value in ("row", "col"):
            return self._is_sparse(node.value)
        if isinstance(node, cst.Attribute) and node.attr.value == "T":
            return self._is_array(node.value, depth - 1)
        if isinstance(node, cst.Subscript):
            is_sliced = any(isinstance(item.slice, cst.Slice) for item in node.slice)
            if self._gives_indices(node.value):
                return isinstance(index_of(node), cst.Integer)
            return self._is_array(node.value, depth - 1) if is_sliced else self._is_of_file(node)
        if not isinstance(node, cst.Call):
            return False
        return self._makes(node) or self._is_changed_array(node, depth) or self._returns_array(node, (), depth - 1)

    def _gives_indices(self, node: cst.BaseExpression | None) -> bool:
        """Whether ``node`` is a tuple of arrays: ``np.nonzero(mask)``, ``linear_sum_assignment(costs)``."""
        name = self._module.name_of(node.func) if isinstance(node, cst.Call) else None
        return isinstance(node, cst.Call) and name in _INDICES and (name != "numpy.where" or len(node.args) == 1)

    def _is_of_file(self, item: cst.Subscript) -> bool:
        """Whether ``item`` is an array of a file of NumPy: ``np.load("points.npz")["points"]``."""
        file: cst.CSTNode | None = item.value
        if isinstance(file, cst.Name):
            bound = self._module.values.reaching.only(file)
            file = bound.value if bound is not None and not bound.path and bound.kind in _OPENED else None
        return (
            isinstance(index_of(item), cst.SimpleString)
            and isinstance(file, cst.Call)
            and self._module.name_of(file.func) == "numpy.load"
        )

    def _is_changed_array(self, call: cst.Call, depth: int) -> bool:
        """``image.transpose([2, 0, 1])``, ``np.array(image)[..., :3].copy()``."""
        func = call.func
        return isinstance(func, cst.Attribute) and func.attr.value in _METHODS and self._is_array(func.value, depth - 1)

    def _is_combined(self, node: cst.BinaryOperation, depth: int) -> bool:
        return self._is_array(node.left, depth - 1) or self._is_array(node.right, depth - 1)

    def _returns_array(self, call: cst.Call, path: tuple[int, ...], depth: int) -> bool:
        """Whether all functions of the program that ``call`` may run return an array, or one at ``path`` of a tuple."""
        returned = self._returned(call) if depth > 0 else []
        return bool(returned) and all(
            self._returns_array(item, path, depth - 1)
            if path and isinstance(item, cst.Call)
            else self._is_array(unpacked(item, path), depth)
            for item in returned
        )

    def _is_sparse(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a sparse matrix of SciPy that keeps its row and column indices: ``matrix.tocoo()``."""
        if isinstance(node, cst.Name):
            reached = self._module.values.reaching.of(node)
            made = [item.value for item in reached if item.kind is BindingKind.ASSIGN and not item.path]
            return (
                bool(made)
                and len(made) == len(reached)
                and all(isinstance(item, cst.Call) for item in made)
                and all(self._is_sparse(item) for item in made if item is not None)
            )
        if not isinstance(node, cst.Call):
            return False
        name = self._module.name_of(node.func)
        return name in _SPARSE or (name is None and called_name(node) == "tocoo" and not node.args)

    def _binds_array(self, binding: Binding, depth: int) -> bool:
        if binding.kind is BindingKind.AUGMENT and isinstance(binding.node, cst.AugAssign):  # `image /= 255`
            return self._is_array(binding.node.target, depth)
        if binding.kind is not BindingKind.ASSIGN:
            return False
        if binding.path and isinstance(binding.value, cst.Call):  # `states, rewards = envs.step(actions)`
            if self._gives_indices(binding.value):
                return len(binding.path) == 1
            return self._returns_array(binding.value, binding.path, depth)
        return self._is_array(unpacked(binding.value, binding.path), depth)

    def _makes(self, call: cst.Call) -> bool:
        if self._module.name_of(call.func) in _ARRAYS:
            return True
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "numpy" or call.args:
            return False
        given = call.func.value
        return self._module.value(given).kind is Kind.TENSOR or _MOVED.search(self._module.code(given)) is not None


#: A tensor before it becomes an array; also what a distribution draws.
_MOVED = re.compile(r"\.(?:cpu|detach)\(\)$|\.data$|\.r?sample\(\)$")
