"""Attributes that have the same numbers at every step: settings, and what constructors alone set."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name, dotted_name, index_of, is_attribute_of_self

from ._upload_words import OPTIONS, OPTIONS_PART

#: Numbers, and lists of them, of libraries: `math.pi`, `timm.data.constants.IMAGENET_DEFAULT_MEAN`.
NUMBERS = re.compile(r"(math|numpy)\.(pi|e|inf|nan|tau)|\w+(\.\w+)*\.[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


class FixedAttributes:
    """Answers for one file."""

    def __init__(self, module: Module, is_constant: Callable[[cst.BaseExpression, int], bool]) -> None:
        """``is_constant`` says whether an expression is a constant, followed to a depth."""
        self._module = module
        self._tree = module.tree
        self._is_constant = is_constant

    def is_fixed(self, node: cst.Attribute, depth: int) -> bool:
        """Whether an attribute is given constants or settings by constructors alone, or is that of a library."""
        name = self._module.name_of(node)
        if name is not None:
            return NUMBERS.fullmatch(name) is not None
        if isinstance(node.value, cst.Call):
            return self._module.name_of(node.value.func) in ("torch.finfo", "torch.iinfo")
        is_ignored = node.attr.value == "ignore_index" and self._module.value(node.value).kind is Kind.LOSS
        names = [node.attr.value] if is_ignored else self._path_in_options(node)
        if names:
            return all(map(self.is_set_by_constructors, names)) and not any(map(self._is_added_to, names))
        owner = self._owner_of(node)
        return isinstance(owner, cst.ClassDef) and self._is_set_once(owner, node.attr.value, depth)

    def is_set_by_constructors(self, name: str) -> bool:
        """Whether nothing but constructors assigns attributes of this name."""
        stored = self._module.fact(Stores).attributes.get(name, ())
        return all(self._is_constructing(place) for _, _, place in stored)

    def _is_added_to(self, name: str) -> bool:
        """Whether a statement changes an attribute of some object: ``args.scale *= 2``."""
        uses = ((use, self._tree.parent(use)) for use in self._tree.attributes_named(name))
        return any(isinstance(above, cst.AugAssign) and above.target is use for use, above in uses)

    def _path_in_options(self, node: cst.Attribute) -> list[str]:
        """The attributes that lead from the settings of a program to ``node``: two of ``model.config.text.begin``."""
        if OPTIONS.fullmatch(dotted_name(node.value) or ""):
            return [node.attr.value]
        *owners, last = (dotted_name(node) or "").split(".")
        at = next((place for place, name in enumerate(owners) if OPTIONS_PART.fullmatch(name)), None)
        return [] if at is None else [*owners[at + 1 :], last]

    def _owner_of(self, node: cst.Attribute) -> cst.CSTNode | None:
        """The class of ``self`` of ``self.mean``, or of ``self.net`` of ``self.net.mean``."""
        if is_attribute_of_self(node.value):
            return self._module.value(node.value).definition
        function = self._module.function_of(node)
        return self._tree.class_of(function) if function is not None and is_attribute_of_self(node) else None

    def _is_set_once(self, owner: cst.ClassDef, name: str, depth: int) -> bool:
        """Whether an attribute of ``self`` gets its value in the constructor alone, and that is not a tensor."""
        stores = self._module.fact(Stores)
        filled = stores.containers.get(name, ())
        if not all(self._is_constructing(place) or self._is_other(held, name) for held, _, place in filled):
            return False
        values: list[cst.BaseExpression] = []
        for item in self._module.definitions.lineage(owner):
            scope = self._tree.scopes[item]
            for binding in (*scope.attributes.get(name, ()), *scope.bindings.get(name, ())):
                function = self._tree.function_of(binding.node)
                constructs = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
                if (
                    binding.kind not in (BindingKind.ASSIGN, BindingKind.ANNOTATION)
                    or binding.path
                    or binding.value is None
                ):
                    return False
                if not constructs and function is not None:
                    return False
                values.append(binding.value)
        outside = [
            place
            for held, _, place in stores.attributes.get(name, ())
            if not self._is_constructing(place) and not self._is_of_other_class(held, owner)
        ]
        return bool(values) and not outside and all(self._is_setting(value, depth - 1) for value in values)

    def _is_other(self, container: cst.BaseExpression, name: str) -> bool:
        """Whether a container is not an attribute of this name, but a variable that is given something else.

        ``scale[mask] = 1`` with ``scale = x.std(dim=1)`` does not fill ``self.scale``.
        """
        reached = self._module.values.reaching.of(container) if isinstance(container, cst.Name) else ()
        return bool(reached) and all(
            item.kind is BindingKind.ASSIGN
            and item.value is not None
            and all(part.attr.value != name for part in self._tree.inside(item.value, cst.Attribute))
            and not (isinstance(item.value, cst.Attribute) and item.value.attr.value == name)
            for item in reached
        )

    def _is_of_other_class(self, node: cst.BaseExpression, owner: cst.ClassDef) -> bool:
        """Whether ``node`` is ``self`` in a class that neither derives from ``owner`` nor is a base class of it."""
        function = self._module.function_of(node) if dotted_name(node) == "self" else None
        other = self._tree.class_of(function) if function is not None else None
        lineage = self._module.definitions.lineage
        return other is not None and other not in lineage(owner) and owner not in lineage(other)

    def _is_constructing(self, place: cst.CSTNode) -> bool:
        """Whether a place is in a constructor, or in a method that only constructors name."""
        function = self._tree.function_of(place)
        if self._is_in_constructor(place) or not isinstance(function, cst.FunctionDef):
            return self._is_in_constructor(place)
        uses = self._tree.attributes_named(function.name.value) if self._tree.class_of(function) is not None else []
        return bool(uses) and all(map(self._is_in_constructor, uses))

    def _is_in_constructor(self, node: cst.CSTNode) -> bool:
        function = self._tree.function_of(node)
        return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"

    def _is_setting(self, value: cst.BaseExpression, depth: int) -> bool:
        """Whether a constructor keeps a number or a list: a constant, or a parameter that may be one.

        Or what is computed from such: ``vocabulary - 1 if tokens is None else tokens.get("start", 1)``.
        """
        if depth > 0 and isinstance(value, (cst.IfExp, cst.BinaryOperation)) and not self._module.value(value):
            parts = (value.body, value.orelse) if isinstance(value, cst.IfExp) else (value.left, value.right)
            return all(self._is_setting(part, depth - 1) for part in parts)
        known = self._module.value(value)
        if known.kind in (Kind.NUMBER, Kind.SEQUENCE, Kind.ARRAY):
            return True
        if not known and (self._is_given(value) or self._is_option(value)):
            return True
        return self._is_constant(value, depth)

    def _is_given(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a parameter, of a constructor, that is not bound to something else."""
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else []
        return bool(reached) and all(isinstance(item.node, cst.Param) for item in reached)

    def _is_option(self, node: cst.BaseExpression) -> bool:
        """``options["scale"]`` and ``kwargs.get("scale", 2)``, of a parameter, and ``cfg.MODEL.SCALE``."""
        if isinstance(node, cst.Attribute):
            root = node.value
            while isinstance(root, cst.Attribute) and not self._is_named_option(root):
                root = root.value
            return self._is_named_option(root)
        held: cst.BaseExpression | None = None
        key: cst.BaseExpression | None = None
        if isinstance(node, cst.Subscript):
            held, key = node.value, index_of(node)
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
            held, key = (node.func.value, node.args[0].value) if called_name(node) in ("get", "pop") else (None, None)
        if held is None or not isinstance(key, cst.SimpleString):
            return False
        return self._is_given(held) or self._is_named_option(held) or self._is_option(held)

    def _is_named_option(self, node: cst.BaseExpression) -> bool:
        """Whether the name of ``node`` is that of settings: ``cfg``, ``self.args``."""
        return OPTIONS.fullmatch(dotted_name(node) or "") is not None
