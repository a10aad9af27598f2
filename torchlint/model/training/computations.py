"""Functions of a program that only compute their result from their arguments, and keep or pass on nothing."""

from __future__ import annotations

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.tensor_methods import MAKING, METHODS
from torchlint.model.semantics.knowledge import LIST_ADDING, Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.dotted import last_part
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.scopes import unpacked
from torchlint.model.tensors.creation import COMPUTING, SAME_EVERYWHERE

#: Libraries whose functions keep nothing.
_LIBRARIES = frozenset({"builtins", "torch", "numpy", "math"})
#: Methods that put their arguments into a list.
_FILLING = LIST_ADDING
#: Methods of a tensor that give a new one ...
_COPYING = MAKING | {"clone"}
#: ... or something else that is computed from it; what other objects have as well may keep its argument: ``add``.
_COMPUTED = frozenset(name for name in COMPUTING | SAME_EVERYWHERE if name[-1] != "_") - {"add"} | frozenset(
    "mm bmm matmul size dim numel item tolist numpy chunk split index_select masked_fill masked_select scatter "
    "nonzero unbind type type_as expand_as log_softmax logsumexp".split()
)
_METHODS = METHODS | MAKING | _COMPUTED
#: Methods that only tensors and arrays have, whose arguments are tensors.
_OF_TENSORS = frozenset(
    "expand_as view_as reshape_as type_as mul sub div matmul mm bmm eq ne lt le gt ge pow masked_fill masked_select "
    "index_select".split()
)
#: How the names of functions of torch begin that create tensors.
_NEW = ("zeros", "ones", "empty", "full", "rand")


class Computations(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._pure: CyclicMemo[cst.FunctionDef, bool] = CyclicMemo(False)

    def only_computes(self, call: cst.Call) -> bool:
        """Whether ``call`` only computes what it returns: of functions of the program, or as a method of a tensor."""
        called = self._forest.definitions.called(call, self._forest.values)
        if not called and isinstance(call.func, cst.Attribute):
            return call.func.attr.value in _OF_TENSORS
        return bool(called) and all(
            isinstance(item, cst.FunctionDef) and self._pure.get(item, self._is_pure) for item in called
        )

    def _is_pure(self, function: cst.FunctionDef) -> bool:
        forest = self._forest
        if forest.tree.class_of(function) is not None or forest.definitions.yields(function) or function.asynchronous:
            return False
        if function.decorators or forest.tree.scopes[function].outer_names:
            return False
        within = [item for item in forest.tree.stores if forest.tree.within(item[2], function)]
        if not all(isinstance(target, cst.Name) or self._is_in_own(target, function) for target, _, _ in within):
            return False
        return all(self._computes(call, function) for call in forest.tree.calls_in(function.body))

    def _computes(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether a call in ``function`` keeps nothing but in a list of the function itself."""
        name = self._forest.name_of(call.func)
        if name is not None:
            return name.partition(".")[0] in _LIBRARIES and not name.startswith("torch.autograd.")
        if isinstance(call.func, cst.Attribute):
            method = call.func.attr.value
            return method in _METHODS or self.fills_own(call, function)
        called = self._forest.value(call.func)
        is_loss = called.kind is Kind.LOSS and called.definition is None  # `criterion(output, labels)`, of a library
        return is_loss or self.only_computes(call)

    def fills_own(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether ``call`` puts its arguments into a list that ``function`` makes: ``outputs.append(x)``."""
        func = call.func
        return isinstance(func, cst.Attribute) and func.attr.value in _FILLING and self._is_own(func.value, function)

    def _is_in_own(self, target: cst.CSTNode, function: cst.FunctionDef) -> bool:
        return isinstance(target, cst.Subscript) and self._is_own(target.value, function)

    def _is_own(self, node: cst.BaseExpression, function: cst.FunctionDef) -> bool:
        """Whether ``node`` is a variable of ``function`` that is bound there to a new list, tensor or the like."""
        if not isinstance(node, cst.Name) or any(param.name.value == node.value for param in parameters_of(function)):
            return False
        home = self._forest.names.home_of(node)
        bindings = self._forest.values.reaching.of(node) if home is not None and home.node is function else ()
        made = [unpacked(item.value, item.path) for item in bindings]
        return bool(made) and all(isinstance(item, (cst.List, cst.Dict)) or self._is_new_tensor(item) for item in made)

    def _is_new_tensor(self, made: cst.CSTNode | None) -> bool:
        """``torch.zeros_like(x)``, ``x.new_zeros(3)``, ``x.clone()``."""
        if not isinstance(made, cst.Call):
            return False
        name = self._forest.name_of(made.func)
        if name is not None:
            return name.startswith("torch.") and last_part(name).startswith(_NEW)
        return isinstance(made.func, cst.Attribute) and made.func.attr.value in _COPYING
