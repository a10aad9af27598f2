"""Expressions that can only be tensors, by how they are written: ``torch.clamp(...)``, ``x.topk(5)[0] > y``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.autograd_functions import AutogradFunctions
from torchlint.model.program.tensor_methods import MAKING, METHODS, SEVERAL, SEVERAL_BY_DIMENSION, SEVERAL_IF_ASKED
from torchlint.model.semantics.knowledge import GRADIENT_NORMS, NOT_TENSOR, Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import called_name
from torchlint.model.syntax.scopes import Binding, unpacked

#: Methods of a tensor that give a tensor, and that other objects have as well, with other results.
_COMPUTING = frozenset({"add", "bmm", "div", "expand", "expand_as", "matmul", "mm", "mul", "sub"})
#: Methods that only tensors have, and that change one in place.
_IN_PLACE = frozenset(
    "fill_ zero_ uniform_ normal_ random_ bernoulli_ clamp_ masked_fill_ add_ sub_ mul_ div_ copy_ scatter_".split()
)
#: Methods that give several tensors, and that no other object has.
_ONLY_OF_TENSORS = frozenset({"topk", "kthvalue"})
#: Methods that only tensors have, where they get no argument: other libraries have functions for them.
_ASKING = frozenset({"isfinite", "isinf", "isnan"})
#: Methods, and attributes, that neither arrays nor lists have: the size of an array is a number.
_MEMBERS_OF_TENSORS = (
    frozenset(
        "size dim numel clone to cpu cuda detach unsqueeze long index_select masked_fill type_as new_zeros".split()
    )
    | _IN_PLACE
    | _ONLY_OF_TENSORS,
    frozenset({"device", "is_cuda"}),
)
#: Functions of torch that take nothing but a tensor, and distributions that do.
_TAKING = METHODS - {"to", "cuda", "cpu"} | _COMPUTING | {"log", "log10", "log2", "logsumexp", "cosine_similarity"}
_TAKING_DISTRIBUTIONS = frozenset({"Categorical", "OneHotCategorical", "Dirichlet"})
_JOINING = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
#: Where distributions are, and their methods that give a tensor.
_DISTRIBUTIONS = "torch.distributions."
_DRAWING = frozenset({"sample", "rsample", "log_prob", "entropy"})
#: Functions of Python that give a tensor of tensors.
_BUILTINS = frozenset({"builtins.abs", "builtins.max", "builtins.min", "builtins.sum"})
#: Functions that make a tensor of one dimension, and those that make one of a size that they are given.
_LINES = frozenset({"torch.linspace", "torch.logspace", "torch.randperm", "torch.arange", "torch.bincount"})
_SIZED = frozenset(f"torch.{name}" for name in ("randint", "rand", "randn", "zeros", "ones", "empty", "full"))
ORDER = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual)
_DEPTH = 8
#: Methods that give the same tensor elsewhere.
_PLACING = frozenset({"to", "cuda", "cpu", "contiguous"})

#: Whether a name is known to be a tensor for another reason.
Known = Callable[[cst.Name], bool]


class TensorForms(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._used: dict[tuple[Binding, ...], bool] = {}

    def is_used_as_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether a variable is used as neither an array nor a list can be: ``x.size()``, ``torch.zeros_like(x)``.

        Not if the code asks for its type: then, it may also be a list. The uses of a tensor that replaces it,
        ``x = torch.stack(x)``, do not count.
        """
        home = self._forest.names.home_of(node) if isinstance(node, cst.Name) else None
        if home is None or not isinstance(node, cst.Name):
            return False
        reached = tuple(self._forest.values.reaching.of(node))
        if any(map(_is_list, reached)):
            return False  # it becomes a tensor later
        if reached not in self._used:
            uses = (use for binding in reached for use in self._forest.values.reaching.uses_of(binding, home))
            owners = list(map(self._forest.tree.parent, uses))
            self._used[reached] = not any(map(self._is_asked_for_type, owners)) and any(
                self._is_of_tensor(owner) if isinstance(owner, cst.Attribute) else self._is_given_to_torch(owner)
                for owner in owners
            )
        return self._used[reached]

    def _is_asked_for_type(self, argument: cst.CSTNode | None) -> bool:
        call = self._forest.tree.parent(argument) if isinstance(argument, cst.Arg) else None
        return isinstance(call, cst.Call) and self._forest.name_of(call.func) == "builtins.isinstance"

    def _is_given_to_torch(self, argument: cst.CSTNode | None) -> bool:
        """Whether an argument is the first one of a function that only takes tensors: ``torch.zeros_like(x)``.

        Or one of those that a function joins: ``torch.cat([x, y])``.
        """
        tree = self._forest.tree
        joined = tree.parent(argument) if isinstance(argument, cst.Element) else None
        argument = tree.parent(joined) if joined is not None else argument
        call = tree.parent(argument) if isinstance(argument, cst.Arg) else None
        if not isinstance(call, cst.Call) or call.args[0] is not argument:
            return False
        owner, _, last = (self._forest.name_of(call.func) or "").rpartition(".")
        if joined is not None:
            return owner == "torch" and last in _JOINING
        if owner == "torch":
            return last.endswith("_like") or last in _TAKING
        return owner == "torch.nn.functional" or (owner == "torch.distributions" and last in _TAKING_DISTRIBUTIONS)

    def _is_of_tensor(self, member: cst.Attribute) -> bool:
        methods, attributes = _MEMBERS_OF_TENSORS
        call = self._forest.tree.parent(member)
        is_called = isinstance(call, cst.Call) and call.func is member
        return member.attr.value in (methods if is_called else attributes)

    def is_tensor(self, node: cst.BaseExpression, known: Known = lambda name: False) -> bool:
        """Whether ``node`` can only be a tensor; ``known`` tells more of the names in it."""
        return self._is_tensor(node, known, _DEPTH)

    def _is_tensor(self, node: cst.BaseExpression, known: Known, depth: int) -> bool:
        if depth <= 0:
            return False
        if isinstance(node, cst.Name):
            return known(node) or self._is_bound_to_tensor(node, known, depth)
        if isinstance(node, cst.BinaryOperation):
            return any(self._is_tensor(side, known, depth - 1) for side in (node.left, node.right))
        if isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
            return self._is_tensor(node.expression, known, depth - 1)
        if isinstance(node, cst.IfExp):
            return all(self._is_tensor(side, known, depth - 1) for side in (node.body, node.orelse))
        if isinstance(node, cst.Comparison):
            return any(self._is_tensor(side, known, depth - 1) for side in compared(node))
        if isinstance(node, cst.Subscript):
            return self._is_tensor(node.value, known, depth - 1) or self._is_one_of_several(node.value, known, depth)
        if isinstance(node, cst.Attribute):
            if node.attr.value in ("indices", "values"):
                return self._is_one_of_several(node.value, known, depth)
            if node.attr.value == "data" and isinstance(node.value, cst.Attribute) and node.value.attr.value == "grad":
                return True
            return node.attr.value in ("data", "T") and self._is_tensor(node.value, known, depth - 1)
        return isinstance(node, cst.Call) and self._gives_tensor(node, known, depth)

    def _gives_tensor(self, call: cst.Call, known: Known, depth: int) -> bool:
        name = self._forest.name_of(call.func)
        if name in _BUILTINS:
            return self._is_of_tensors(call, known, depth)
        if name is not None:
            owner, _, last = name.rpartition(".")
            if last in NOT_TENSOR or not last.islower() or last.startswith("is_"):
                return False
            if owner == "torch":
                return not self._gives_several(last, call.args[1:], known, depth)
            if owner == "torch.nn.functional":
                return keyword(call, "return_indices") is None
            return name in GRADIENT_NORMS
        func = call.func
        if isinstance(func, cst.Attribute) and self._gives_several(func.attr.value, call.args, known, depth):
            return False
        value = self._forest.value(call)
        if value.kind is Kind.TENSOR and value.sure:
            return True
        passed = self._passed_on(call)
        if passed is not None and self._is_tensor(passed, known, depth - 1):
            return True
        own = self._forest.fact(AutogradFunctions).forward(call)
        if own is not None:
            returned = self._forest.definitions.returns(own)
            return not any(isinstance(item, (cst.Tuple, cst.List)) for item in returned)
        if not isinstance(func, cst.Attribute) or self._forest.definitions.called(call, self._forest.values):
            return False
        if func.attr.value in _DRAWING and self.is_distribution(func.value):
            return True
        if func.attr.value in MAKING or func.attr.value in _IN_PLACE or (func.attr.value in _ASKING and not call.args):
            return True
        if func.attr.value not in METHODS | _COMPUTING:
            return False
        if keyword(call, "dim") is not None:
            return True  # NumPy calls it `axis`
        return self._is_tensor(func.value, known, depth - 1)

    def _passed_on(self, call: cst.Call) -> cst.BaseExpression | None:
        """What a function of the program is given first and returns, perhaps moved: ``to_gpu(x)``."""
        called = self._forest.definitions.called(call, self._forest.values)
        function = called[0] if len(called) == 1 else None
        if not isinstance(function, cst.FunctionDef) or self._forest.tree.class_of(function) is not None:
            return None
        given = call.args[0].value if call.args and call.args[0].keyword is None and not call.args[0].star else None
        param = function.params.params[0] if function.params.params else None
        returned = self._forest.definitions.returns(function)
        is_passed = bool(returned) and all(item is not None and self._is_form_of(item, param) for item in returned)
        return given if is_passed else None

    def _is_form_of(self, node: cst.BaseExpression, param: cst.Param | None) -> bool:
        """``x``, ``x.cuda()``, ``x.to(device)`` of a parameter ``x``."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) in _PLACING:
            return self._is_form_of(node.func.value, param)
        reached = self._forest.values.reaching.of(node) if isinstance(node, cst.Name) else ()
        return param is not None and bool(reached) and all(item.node is param for item in reached)

    def _is_of_tensors(self, call: cst.Call, known: Known, depth: int) -> bool:
        """``abs(x)``, ``max(x, y)``, ``max([p.grad.max() for p in parameters])``: a function of Python, of tensors."""
        given = [item.value for item in call.args]
        if any(item.star or item.keyword is not None for item in call.args):
            return False
        if len(given) == 1 and self._is_one_of_several(given[0], known, depth):
            return True
        return bool(given) and all(self._is_tensor(item, known, depth - 1) for item in given)

    def _gives_several(self, name: str, given: Sequence[cst.Arg], known: Known, depth: int) -> bool:
        """Whether a function or method of this name gives several tensors; ``given``: its arguments after the tensor.

        ``x.topk(5)``, ``torch.max(x, 1)`` and not ``torch.max(x, y)``, ``x.nonzero(as_tuple=True)``.
        """
        if name in SEVERAL_BY_DIMENSION:
            is_elementwise = given and given[0].keyword is None and self._is_tensor(given[0].value, known, depth - 1)
            return bool(given) and not is_elementwise
        if name in SEVERAL_IF_ASKED:
            return not all(
                item.keyword is not None
                and (item.keyword.value in ("dim", "sorted") or self._forest.code(item.value) == "False")
                for item in given
            )
        return name in SEVERAL or (name == "where" and not given)

    def _is_bound_to_tensor(self, node: cst.Name, known: Known, depth: int) -> bool:
        reached = self._without_first(node, self._forest.values.reaching.of(node))
        added = [item.node for item in reached if isinstance(item.node, cst.AugAssign)]
        if added and all(self._is_tensor(item.value, known, depth - 1) for item in added):
            # the sum of a number and tensors: `loss = 0`, then `loss += criterion(...)` in a loop
            reached = [
                item
                for item in reached
                if item.node not in added and not isinstance(item.value, (cst.Integer, cst.Float))
            ]
            if not reached:
                return True
        return bool(reached) and all(self._binds_tensor(item, known, depth) for item in reached)

    def _binds_tensor(self, item: Binding, known: Known, depth: int) -> bool:
        """``x = ...``, ``for x in ...``; ``x, y = torch.max(...)``, ``x, y = z.min(), z.max()``."""
        part = unpacked(item.value, item.path) if item.kind is BindingKind.ASSIGN else item.value
        if part is not None and (item.kind is BindingKind.ASSIGN or (item.kind is BindingKind.FOR and not item.path)):
            return self._is_tensor(part, known, depth - 1) or (
                item.kind is BindingKind.FOR and self._is_one_of_several(part, known, depth)
            )
        return item.kind is BindingKind.ASSIGN and self._is_one_of_several(item.value, known, depth)

    def _without_first(self, node: cst.Name, reached: list[Binding]) -> list[Binding]:
        """``reached`` without the number that a variable is before the loop around ``node`` gives it another value."""
        tree = self._forest.tree
        loop = nearest(tree, node, cst.For, cst.While)
        inside = [item for item in reached if loop is not None and tree.within(item.node, loop)]
        if not inside:
            return reached
        value = self._forest.value
        return [item for item in reached if item in inside or item.path or value(item.value).kind is not Kind.NUMBER]

    def _is_one_of_several(self, node: cst.CSTNode | None, known: Known, depth: int) -> bool:
        """``x.topk(5)``, ``torch.max(x, 1)``, ``[x.cuda() for x in batch]``, or a variable that is one of them."""
        if depth <= 0:
            return False
        if isinstance(node, cst.Name):
            reached = self._forest.values.reaching.of(node)
            return bool(reached) and all(
                item.kind is BindingKind.ASSIGN
                and not item.path
                and self._is_one_of_several(item.value, known, depth - 1)
                for item in reached
            )
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return isinstance(node.elt, cst.Call) and self._is_tensor(node.elt, known, depth - 1)
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        name, of_torch = node.func.attr.value, self._forest.name_of(node.func) == f"torch.{node.func.attr.value}"
        if not self._gives_several(name, node.args[1:] if of_torch else node.args, known, depth):
            return False
        value = self._forest.value(node)
        if of_torch or (value.kind is Kind.TENSOR and value.sure) or self._is_tensor(node.func.value, known, depth - 1):
            return True
        return name in _ONLY_OF_TENSORS and not self._forest.definitions.called(node, self._forest.values)

    def is_line(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a tensor of one dimension for certain: ``torch.arange(n)``, ``x.flatten()``."""
        if isinstance(node, cst.Name):
            reached = self._forest.values.reaching.of(node)
            return bool(reached) and all(
                item.kind is BindingKind.ASSIGN
                and not item.path
                and item.value is not None
                and self.is_line(item.value)
                for item in reached
                if isinstance(item.value, cst.BaseExpression) or item.value is None
            )
        if not isinstance(node, cst.Call):
            return False
        name = self._forest.name_of(node.func)
        if name is not None:
            if name in _SIZED:
                return self._is_of_one_size(node)
            return name in _LINES or (name == "torch.flatten" and len(node.args) == 1)
        func = node.func
        if not isinstance(func, cst.Attribute) or not self.is_tensor(func.value):
            return False
        if func.attr.value == "flatten":
            return not node.args
        shape = [self._forest.code(item.value) for item in node.args]
        return func.attr.value in ("view", "reshape") and shape in (["-1"], ["(-1,)"])

    def _is_of_one_size(self, call: cst.Call) -> bool:
        """``torch.randint(9, (n,))``, ``torch.zeros(size=[n])``; a name alone may be that of several sizes."""
        given = [item.value for item in call.args if item.keyword is None or item.keyword.value == "size"]
        sizes = [item for item in given if isinstance(item, (cst.Tuple, cst.List))]
        return len(sizes) == 1 and len(sizes[0].elements) == 1 and isinstance(sizes[0].elements[0], cst.Element)

    def is_distribution(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a distribution of torch, or a name for one."""
        if isinstance(node, cst.Call):
            return (self._forest.name_of(node.func) or "").startswith(_DISTRIBUTIONS)
        if not isinstance(node, cst.Name):
            return False
        made = [item.value if not item.path else None for item in self._forest.values.reaching.of(node)]
        return bool(made) and all(isinstance(item, cst.Call) and self.is_distribution(item) for item in made)


def compared(node: cst.Comparison) -> list[cst.BaseExpression]:
    """Both sides of ``a < b``; nothing of ``a is b`` and ``a in b``."""
    if len(node.comparisons) != 1 or not isinstance(node.comparisons[0].operator, ORDER):
        return []
    return [node.left, node.comparisons[0].comparator]


def _is_list(binding: Binding) -> bool:
    """``rows = []``, ``rows = [None] * n``, ``rows = [f(x) for x in y]``."""
    value = binding.value
    if isinstance(value, cst.BinaryOperation):
        return any(isinstance(side, cst.List) for side in (value.left, value.right))
    return binding.kind is BindingKind.ASSIGN and not binding.path and isinstance(value, (cst.List, cst.ListComp))
