"""Functions, classes and methods of a program that nothing in its project uses."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.dotted import last_name

#: Classes of libraries that call few methods of derived classes, and these methods.
_BASES = frozenset({"torch.nn.Module", "torch.utils.data.Dataset", "torch.utils.data.IterableDataset"})
_CALLED_BY_THEM = frozenset({"forward", "extra_repr", "reset_parameters", "get_extra_state", "set_extra_state"})
#: Decorators that do not register the method that they decorate.
_PLAIN_DECORATORS = frozenset("staticmethod classmethod property no_grad inference_mode enable_grad autocast".split())


class Unused:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[str, bool] = {}

    def has(self, offset: int) -> bool:
        """Whether the character at ``offset``, of this file, is in an unused function or class of its top level.

        Or in a method that nothing calls.
        """
        return not all(map(self.may_run, self._module.positions.definitions_at(offset)))

    def may_run(self, definition: cst.FunctionDef | cst.ClassDef) -> bool:
        """Whether something in the project may use ``definition``, itself and not what is around it."""
        owner = self._module.tree.class_of(definition)
        if owner is None:
            return self._is_used(definition.name.value)
        return isinstance(definition, cst.ClassDef) or self._is_called(definition, owner)

    def _is_used(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._module.is_used(name)
        return self._known[name]

    def _is_called(self, method: cst.FunctionDef, owner: cst.ClassDef) -> bool:
        """Whether something may call a method of a class: by its name, or a library that knows the class."""
        decorators = (last_name(self._module.callee(item.decorator)) for item in method.decorators)
        return (
            method.name.value in _CALLED_BY_THEM
            or not _PLAIN_DECORATORS.issuperset(decorators)
            or not self._module.definitions.is_known_whole(owner, _BASES)
            or self._module.is_called(method.name.value)
        )
