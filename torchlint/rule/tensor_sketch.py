"""Which expressions of a sketch may be tensors; no heavy imports."""

from __future__ import annotations

import ast
import builtins
import sys

from torchlint.rule.bindings import FUNCTIONS, Bound, BoundKind, Function
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import called_name, root_of

#: Builtin functions whose result is not a tensor and contains none.
_PLAIN = frozenset(
    "len int float str bool range isinstance issubclass hasattr callable id hash repr format input open round abs ord "
    "chr type print vars dir any all getattr".split()
)
#: Builtin functions whose result is a tensor if their argument is one.
_COPYING = frozenset({"list", "tuple", "set", "sorted", "reversed", "iter"})
#: Attributes and methods of tensors and other objects that are not tensors.
_NUMBERS = frozenset("shape dtype device ndim size dim numel nelement tolist item numpy".split())
#: Methods that return what a container contains.
_TAKING = frozenset("get pop values items copy __next__ next".split())
#: Methods that return a tensor, or several, if nothing is known of their object.
_RUNNING = frozenset({"forward", "__call__", "scale", "parameters", "buffers", "topk", "kthvalue"})
_TENSORS = frozenset(
    {"Tensor", "Parameter", "Variable", "Buffer"}
    | {f"{name}Tensor" for name in "Bool Byte Char Double Float Half Int Long Short BFloat16".split()}
)
#: Packages that belong to no project.
_PACKAGES = sys.stdlib_module_names | {"numpy", "scipy", "cv2", "PIL", "tqdm"}
_BUILTINS = frozenset(dir(builtins))
_PROPERTIES = frozenset({"data", "T", "mT", "grad", "real", "imag"})
#: The maximum number of expressions that are looked at.
_LIMIT = 400


def may_be_tensor(sketch: Sketch, node: ast.expr, at: ast.stmt) -> bool:
    """Whether an expression of a statement may be one tensor, as far as the file shows."""
    return _Expressions(sketch).may_be(node, at, inside=False)


class _Expressions:
    """Follows an expression to what it consists of."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch
        self._seen: set[tuple[ast.AST, bool]] = set()

    def may_be(self, node: ast.expr | None, at: ast.stmt, *, inside: bool) -> bool:
        """Whether an expression may be a tensor or, with ``inside``, contain tensors."""
        if node is None or (node, inside) in self._seen:
            return False
        self._seen.add((node, inside))
        if len(self._seen) > _LIMIT:
            return True
        if isinstance(node, ast.Name):
            return self._name(node.id, at, inside)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, at, inside)
        if isinstance(node, ast.Call):
            return self._call(node, at, inside)
        if isinstance(node, ast.Subscript):
            return self.may_be(node.value, at, inside=True) or not self._sketch.alone
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            return False
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            parts = node.values if isinstance(node, ast.Dict) else node.elts
            return inside and any(self.may_be(part, at, inside=True) for part in parts)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp, ast.Lambda)):
            made = (
                node.value
                if isinstance(node, ast.DictComp)
                else node.body
                if isinstance(node, ast.Lambda)
                else node.elt
            )
            return inside and self.may_be(made, at, inside=True)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return False
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        return any(self.may_be(part, at, inside=inside) for part in parts)

    def _name(self, name: str, at: ast.stmt, inside: bool) -> bool:
        inner = self._sketch.inner_bindings(at).get(name, [])
        if None in inner or any(self.may_be(item, at, inside=True) for item in inner):
            return True
        found = self._sketch.bindings(name, at)
        return any(self._bound(item, name, inside) for item in found) or not (found or self._sketch.alone)

    def _bound(self, item: Bound, name: str, inside: bool) -> bool:
        node = item.statement
        if item.kind is BoundKind.PARAMETER and item.function is not None:
            return self._parameter(item.function, name)
        if item.kind is BoundKind.OTHER:
            return isinstance(node, (ast.With, ast.AsyncWith)) or not self._sketch.alone
        if isinstance(node, ast.AnnAssign) and self._is_tensor_type(node.annotation):
            return True
        return self.may_be(item.value, node, inside=inside or item.kind is not BoundKind.VALUE)

    def _parameter(self, function: Function, name: str) -> bool:
        """Whether a caller, or the default, may give a parameter a tensor."""
        if name in ("self", "cls"):
            return False
        every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        parameter = next((item for item in every if item.arg == name), None)
        if not self._sketch.alone or parameter is None:
            return True
        if parameter.annotation is not None and self._is_tensor_type(parameter.annotation):
            return True
        if any(
            self.may_be(item, function, inside=False) for item in (*function.args.defaults, *function.args.kw_defaults)
        ):
            return True
        called = self._sketch.calls_of(function)
        place = every.index(parameter)
        return called is None or any(self._passes(call, at, name, place) for call, at in called)

    def _passes(self, call: ast.Call, at: ast.stmt, name: str, place: int) -> bool:
        """Whether a call may pass a tensor for a parameter: in a method, ``self`` is the first one."""
        if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
            return True
        given = [*call.args[max(place - 1, 0) : place + 1], *(item.value for item in call.keywords if item.arg == name)]
        return any(self.may_be(item, at, inside=False) for item in given)

    def _is_tensor_type(self, annotation: ast.expr) -> bool:
        node = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        return self._sketch.may_be(node, _TENSORS) or (isinstance(node, ast.Name) and self._is_class(node.id))

    def _is_class(self, name: str) -> bool:
        """Whether the file defines a class that may be derived from one of tensors."""
        classes = (item.statement for item in self._sketch.all_bindings(name))
        return any(isinstance(node, ast.ClassDef) and node.bases for node in classes)

    def _attribute(self, node: ast.Attribute, at: ast.stmt, inside: bool) -> bool:
        if node.attr in _NUMBERS:
            return False
        if not self._sketch.alone:
            return True
        if node.attr in _PROPERTIES and self.may_be(node.value, at, inside=inside):
            return True
        if f'"{node.attr}"' in self._sketch.text or f"'{node.attr}'" in self._sketch.text:
            return True  # `register_buffer("mean", ...)`
        stored = [*self._sketch.all_bindings(f".{node.attr}"), *self._sketch.all_bindings(node.attr)]
        return any(self._bound(item, node.attr, inside) for item in stored if item.kind is not BoundKind.PARAMETER)

    def _call(self, node: ast.Call, at: ast.stmt, inside: bool) -> bool:
        func, name = node.func, called_name(node)
        named = (item.statement for item in self._sketch.all_bindings(name) if item.kind is BoundKind.OTHER)
        own = [statement for statement in named if isinstance(statement, FUNCTIONS)]
        if any(self._returns(function, inside) for function in own):
            return True
        packages = self._sketch.packages(root_of(func))
        if packages and "" not in packages:
            is_outside = self._sketch.alone or packages <= _PACKAGES
            return "torch" in packages or not is_outside or self._any_may_be(node.args, at, inside)  # `tqdm(x)`
        if isinstance(func, ast.Name):
            return self._is_named_tensor(node, func.id, at, inside, is_own=bool(own))
        if not isinstance(func, ast.Attribute) or name in _RUNNING:
            return True
        if any(item.arg == "dim" for item in node.keywords):
            return True  # `(0.5 * x).mean(dim=0)`
        if name in _NUMBERS:
            return False
        if not self._sketch.alone or self._sketch.all_bindings(f".{name}"):  # `self.network(x)`
            return True
        return self.may_be(func.value, at, inside=inside or name in _TAKING)

    def _is_named_tensor(self, node: ast.Call, name: str, at: ast.stmt, inside: bool, *, is_own: bool) -> bool:
        """Whether a call of a name that is not imported from a library may return a tensor."""
        if not self._sketch.bindings(name, at):
            if name not in _BUILTINS:
                return True  # from a star import
            return name not in _PLAIN and self._any_may_be(node.args, at, inside or name not in _COPYING)
        return not is_own and not self._is_unknown(name)

    def _any_may_be(self, nodes: list[ast.expr], at: ast.stmt, inside: bool) -> bool:
        return any(self.may_be(item, at, inside=inside) for item in nodes)

    def _is_unknown(self, name: str) -> bool:
        """Whether a name is imported from another file of the project, of which nothing is known."""
        found = [item.statement for item in self._sketch.all_bindings(name)]
        return self._sketch.alone and all(isinstance(node, ast.ImportFrom) and node.level > 0 for node in found)

    def _returns(self, function: ast.stmt, inside: bool) -> bool:
        """Whether a function of the file may return, or yield, a tensor."""
        for statement in self._sketch.within(function):
            if isinstance(statement, ast.Return) and self.may_be(statement.value, statement, inside=inside):
                return True
            if isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Yield, ast.YieldFrom)):
                return True
        return False
