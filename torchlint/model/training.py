"""Training and evaluation mode: which calls switch it, and whether a module may be in evaluation mode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model import knowledge
from torchlint.model.definitions import Definitions
from torchlint.model.knowledge import Kind
from torchlint.model.names import Names
from torchlint.model.tree import Tree, dotted_name
from torchlint.model.values import Value, Values


@dataclass(frozen=True, eq=False)
class ModeSwitch:
    """A call of ``eval()`` or ``train()`` on something that may be a module."""

    call: cst.Call
    target: str  #: dotted text of the receiver, "" for any other expression
    evaluation: bool | None  #: True for ``eval()``, False for ``train()``, None for ``train(flag)``


class Training:
    """Answers for one file."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: Values) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values

    @cached_property
    def switches(self) -> list[ModeSwitch]:
        """All mode switches of the file, in order."""
        found: list[ModeSwitch] = []
        for call in self._tree.calls:
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value not in ("eval", "train"):
                continue
            if self._names.resolve(func) is not None or len(call.args) > 1:
                continue
            flag = dotted_name(call.args[0].value) if call.args else None
            if func.attr.value == "eval":
                if call.args:
                    continue
                evaluation: bool | None = True
            elif call.args and flag not in ("True", "False"):
                if self._values.of(func.value).kind is not Kind.MODULE:
                    continue  # trainer.train(loader)
                evaluation = None
            else:
                evaluation = flag == "False"
            found.append(ModeSwitch(call, dotted_name(func.value) or "", evaluation))
        return found

    def switches_in(self, node: cst.CSTNode) -> list[ModeSwitch]:
        """The mode switches inside ``node``."""
        return [switch for switch in self.switches if self._tree.within(switch.call, node)]

    def last_switch(self, node: cst.CSTNode, target: str | None = None) -> ModeSwitch | None:
        """The last mode switch before ``node`` in its function that is sure to have run.

        With ``target``, only switches of that object or of its owner count.
        """
        function = self._tree.function_of(node)
        found: ModeSwitch | None = None
        for switch in self.switches:
            if self._tree.function_of(switch.call) is not function or not self._tree.dominates(switch.call, node):
                continue
            if target is None or same_object(switch.target, target):
                found = switch
        return found

    def may_be_in_evaluation(self, model: cst.BaseExpression, at: cst.CSTNode) -> bool:
        """Whether anything in the file may have put ``model`` into evaluation mode.

        Any ``eval()`` in the file on an object of that name, or on an unnamed one, counts: unknown means maybe.
        """
        text = dotted_name(model) or ""
        last = text.rpartition(".")[2]
        for switch in self.switches:
            if switch.evaluation is False:
                continue
            other = switch.target.rpartition(".")[2]
            if not switch.target or same_object(switch.target, text) or other == last or other in ("self", "module"):
                return True
            if self._shares_origin(model, switch):
                return True
        return not self._built_in_training_mode(model, at)

    def _shares_origin(self, model: cst.BaseExpression, switch: ModeSwitch) -> bool:
        func = switch.call.func
        assert isinstance(func, cst.Attribute)
        return bool(self._values.of(model).origins & self._values.of(func.value).origins)

    def _built_in_training_mode(self, model: cst.BaseExpression, at: cst.CSTNode) -> bool:
        """Whether every constructor the model may come from is seen, and leaves it in training mode."""
        value = self._values.of(model)
        if value.kind is not Kind.MODULE or not value.sure or not value.origins:
            return False
        for origin in value.origins:
            if not isinstance(origin, cst.Call):
                return False
            if isinstance(origin.func, cst.Attribute) and origin.func.attr.value in knowledge.EVAL_BY_DEFAULT:
                return False
        return True

    def depends_on_mode(self, value: Value) -> bool:
        """Whether the module's behaviour depends on its mode, as far as its class is seen; unseen counts as yes.

        Dropout with a literal probability of 0 does not count.
        """
        definition = value.definition
        if isinstance(definition, cst.ClassDef):
            return self._class_depends(definition, set())
        if value.name.startswith("torch.nn."):
            return self._depends_by_name(value.name)
        for origin in value.origins:
            if isinstance(origin, cst.Call) and self._names.resolve(origin.func) == "torch.nn.Sequential":
                return any(self._call_depends(call, set()) for call in self._tree.calls_in(origin))
        return True

    def _class_depends(self, definition: cst.ClassDef, seen: set[cst.CSTNode]) -> bool:
        if definition in seen:
            return False
        seen.add(definition)
        return any(
            self._call_depends(call, seen)
            for current in self._definitions.lineage(definition)
            for call in self._tree.calls_in(current)
        ) or self._reads_training(definition)

    def _reads_training(self, definition: cst.ClassDef) -> bool:
        return any(
            node.attr.value == "training" and self._tree.within(node, definition) for node in self._tree.attributes
        )

    def _call_depends(self, call: cst.Call, seen: set[cst.CSTNode]) -> bool:
        name = self._names.resolve(call.func)
        if name is not None:
            if name.startswith("torch.nn.") and not name.startswith(("torch.nn.functional.", "torch.nn.init.")):
                return self._depends_by_name(name) or _has_dropout(call)
            if name.rpartition(".")[2].startswith("dropout"):
                return True
            return not name.startswith(("torch.", "builtins.", "math.", "numpy.", "einops.", "functools.", "typing."))
        for definition in self._definitions.called(call, self._values):
            if isinstance(definition, cst.ClassDef) and self._class_depends(definition, seen):
                return True
        return False

    def _depends_by_name(self, name: str) -> bool:
        last = name.rpartition(".")[2]
        return name in knowledge.MODE_DEPENDENT_WHOLE or any(word in last for word in knowledge.MODE_DEPENDENT)


def _has_dropout(call: cst.Call) -> bool:
    """``nn.LSTM(..., dropout=0.1)``."""
    return any(
        argument.keyword is not None
        and argument.keyword.value == "dropout"
        and not (isinstance(argument.value, (cst.Float, cst.Integer)) and float(argument.value.value) == 0)
        for argument in call.args
    )


def same_object(switched: str, used: str) -> bool:
    """Whether switching the object called ``switched`` switches the one called ``used``: itself or a part of it."""
    return bool(switched) and (used == switched or used.startswith(switched + "."))
