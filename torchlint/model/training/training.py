"""Training and evaluation mode: which calls switch it, and whether a module may be in evaluation mode."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.tree import Binding, dotted_name

#: Methods of a network that give it back in the mode it was in (or in training mode).
_KEEPING_MODE = frozenset("to cuda cpu float half double bfloat16 train requires_grad_ apply share_memory xpu".split())
#: What the name of a function of another file says if it may switch the mode.
_MODE_WORDS = ("eval", "infer", "load", "prepare", "setup", "convert", "quant", "freeze", "mode", "test", "valid")
#: Libraries whose functions and classes build networks in training mode.
_FACTORIES = ("torchvision.models.", "timm.create_model", "timm.models.", "segmentation_models_pytorch.", "torch.nn.")
#: Imported roots whose classes are no networks, or that hand out networks in evaluation mode.
_OTHER_ROOTS = frozenset(
    "torch torchvision torchaudio torchtext transformers diffusers sentence_transformers peft timm numpy scipy sklearn "
    "pandas PIL cv2 matplotlib builtins typing collections pathlib argparse os sys json accelerate datasets open_clip "
    "clip ultralytics facenet_pytorch pytorch_lightning lightning onnxruntime tensorflow keras easydict "
    "omegaconf".split()
)


@dataclass(frozen=True, eq=False)
class ModeSwitch:
    """A call of ``eval()`` or ``train()`` on something that may be a module."""

    call: cst.Call
    target: str  #: dotted text of the receiver, "" for any other expression
    evaluation: bool | None  #: True for ``eval()``, False for ``train()``, None for ``train(flag)``


class Training:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._tree = module.tree
        self._names = module.names
        self._definitions = module.definitions
        self._values = module.values

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

    def last_switch(self, node: cst.CSTNode, target: str | None = None) -> ModeSwitch | None:
        """The last mode switch before ``node`` in its function that is sure to have run.

        With ``target``, only switches of that object or of its owner count.
        """
        function = self._tree.function_of(node)
        found: ModeSwitch | None = None
        for part in [None] if target is None else _owners(target):
            switches = self._switches_of.get((function, part), [])
            before = bisect_left(switches, self._tree.index(node), key=self._place)
            near = (switch for switch in reversed(switches[:before]) if self._tree.dominates(switch.call, node))
            last = next(near, None)
            if last is not None and (found is None or self._place(last) > self._place(found)):
                found = last
        return None if found is not None and target is not None and self._is_rebound(target, found, node) else found

    @cached_property
    def _switches_of(self) -> dict[tuple[cst.CSTNode | None, str | None], list[ModeSwitch]]:
        """The mode switches of each function, by the name of what they switch; under None all of them."""
        found: dict[tuple[cst.CSTNode | None, str | None], list[ModeSwitch]] = {}
        for switch in self.switches:
            function = self._tree.function_of(switch.call)
            found.setdefault((function, None), []).append(switch)
            if switch.target:
                found.setdefault((function, switch.target), []).append(switch)
        return found

    def _place(self, switch: ModeSwitch) -> int:
        return self._tree.index(switch.call)

    def _is_rebound(self, target: str, switch: ModeSwitch, node: cst.CSTNode) -> bool:
        """Whether another object has got the name between the switch and ``node``; wrapping it does not count."""
        first = target.partition(".")[0]
        scope = self._names.scope_with(first, self._tree.scope_of(switch.call))
        low, high = self._tree.index(switch.call), self._tree.index(node)
        between = self._values.reaching.between(scope, first, low, high) if scope is not None else ()
        for binding in between:
            if binding.kind == "assign" and binding.value is not None:
                parts = self._tree.nodes_in(binding.value)
                if not any(isinstance(part, cst.Name) and part.value == first for part in parts):
                    return True
        return False

    # -- evaluation mode that is sure

    def evaluation(self, at: cst.CSTNode, model: cst.BaseExpression | None, depth: int = 3) -> cst.CSTNode | None:
        """The ``eval()`` that is in force at ``at`` for ``model``, or for the networks there; None if there is none.

        It is looked for before the place, in the expression that made the model, in the constructor of the object
        around, at module level, and in all callers.
        """
        text = dotted_name(model) if model is not None else None
        own = self.last_switch(at, text) if text else None
        if own is not None:
            return own.call if own.evaluation else None
        if model is not None:
            made = self._evaluated(model, (), depth)
            if made is not None:
                return made
        function = self._tree.function_of(at)
        if not isinstance(function, cst.FunctionDef) or depth <= 0:
            return None
        near = self.last_switch(at)
        if near is not None and near.evaluation and (text is None or near.target != "self"):
            return near.call
        for switch in self.switches if text else ():
            if switch.evaluation and self._lasts(switch, text or "", function):
                return switch.call
        outer = self._tree.function_of(function)
        if outer is not None:
            found = self.evaluation(function, model, depth - 1)
            if found is not None:
                return found
        return self._evaluated_by_callers(function, model, depth)

    def _lasts(self, switch: ModeSwitch, text: str, function: cst.FunctionDef) -> bool:
        """Whether ``switch``, made by the constructor or at module level, is never undone."""
        if not same_object(switch.target, text):
            return False
        home = self._tree.function_of(switch.call)
        if text.startswith("self."):
            if not isinstance(home, cst.FunctionDef) or home.name.value != "__init__":
                return False
            if self._tree.class_of(home) is not self._tree.class_of(function):
                return False
        elif home is not None or text.partition(".")[0] in self._tree.scopes[function].bindings:
            return False
        return not any(other.evaluation is not True and same_object(other.target, text) for other in self.switches)

    def _evaluated_by_callers(
        self, function: cst.FunctionDef, model: cst.BaseExpression | None, depth: int
    ) -> cst.CSTNode | None:
        callers = self._definitions.callers(function, self._values)
        if not callers.calls:
            return None
        param = self._parameter(function, model)
        found: list[cst.CSTNode | None] = []
        for call in callers.calls:
            given = self._definitions.argument_of(call, function, param) if param is not None else None
            found.append(self.evaluation(call, given, depth - 1))
        return found[0] if None not in found else None

    def _parameter(self, function: cst.FunctionDef, model: cst.BaseExpression | None) -> cst.Param | None:
        if not isinstance(model, cst.Name):
            return None
        for param in (*function.params.posonly_params, *function.params.params, *function.params.kwonly_params):
            if param.name.value == model.value:
                return param
        return None

    def _evaluated(self, node: cst.CSTNode, path: tuple[int, ...], depth: int) -> cst.CSTNode | None:
        """The ``eval()`` in the expression, or in the function of the file, that made a network."""
        if depth < 0:
            return None
        if isinstance(node, cst.Call):
            if isinstance(node.func, cst.Attribute):
                if node.func.attr.value == "eval" and not node.args:
                    return node
                if node.func.attr.value in _KEEPING_MODE:
                    return self._evaluated(node.func.value, path, depth)
            if self._names.resolve(node.func) in knowledge.WRAPPERS and node.args:
                return self._evaluated(node.args[0].value, path, depth)
            found: list[cst.CSTNode | None] = []
            for definition in self._definitions.called(node, self._values):
                if isinstance(definition, cst.FunctionDef):
                    for item in self._definitions.returns(definition):
                        part = _element(item, path)
                        found.append(self.evaluation(part, part, depth - 1) if part is not None else None)
            return found[0] if found and None not in found else None
        if isinstance(node, (cst.Name, cst.Attribute)):
            made = [
                self._evaluated(value, part, depth - 1) if value is not None else None
                for value, part in self._bound(node, path)
            ]
            return made[0] if made and None not in made else None
        return None

    def _bound(
        self, node: cst.Name | cst.Attribute, path: tuple[int, ...]
    ) -> list[tuple[cst.BaseExpression | None, tuple[int, ...]]]:
        """What may be bound to a name or an attribute of ``self``: each expression with the part taken from it."""
        bindings: list[Binding] = []
        if isinstance(node, cst.Name):
            if self._names.home_of(node) is None:
                return [(None, ())]
            bindings = self._values.reaching.of(node)
        elif dotted_name(node.value) == "self":
            owner = self._values.of(node.value).definition
            for definition in self._definitions.lineage(owner) if owner is not None else ():
                bindings = bindings or self._tree.scopes[definition].attributes.get(node.attr.value, [])
            # `self.model = wrap(self.model)` says nothing of where it comes from
            bindings = [item for item in bindings if item.value is None or not self._tree.within(node, item.value)]
        found: list[tuple[cst.BaseExpression | None, tuple[int, ...]]] = []
        for binding in bindings:
            if isinstance(binding.node, cst.Param):
                function = self._tree.parent(self._tree.parent(binding.node) or binding.node)
                given: list[cst.BaseExpression] = []
                if isinstance(function, cst.FunctionDef):
                    given = self._definitions.arguments_for(function, binding.node, self._values)
                found.extend((value, path) for value in given)
                if not given:
                    found.append((None, path))
            elif binding.kind == "assign":
                if isinstance(binding.value, cst.Name) and binding.value.value == "None":
                    continue
                found.append((binding.value, (*binding.path, *path)))
            else:
                found.append((None, ()))
        return found

    # -- training mode that is sure

    def constructors(self, model: cst.BaseExpression) -> frozenset[cst.Call] | None:
        """The calls that build ``model`` in training mode; None unless all ways it may come are seen."""
        return self._constructors(model, (), 12)

    def _constructors(self, node: cst.CSTNode | None, path: tuple[int, ...], depth: int) -> frozenset[cst.Call] | None:
        if node is None or depth < 0:
            return None
        if isinstance(node, cst.Tuple):
            part = _element(node, path)
            return self._constructors(part, path[1:], depth - 1) if part is not node else None
        if isinstance(node, cst.Attribute) and node.attr.value in ("module", "_orig_mod"):
            return self._constructors(node.value, path, depth - 1)
        if isinstance(node, (cst.Name, cst.Attribute)):
            return _all([self._constructors(value, part, depth - 1) for value, part in self._bound(node, path)])
        if isinstance(node, cst.IfExp):
            return _all([self._constructors(item, path, depth - 1) for item in (node.body, node.orelse)])
        return self._built_by(node, path, depth) if isinstance(node, cst.Call) else None

    def _built_by(self, node: cst.Call, path: tuple[int, ...], depth: int) -> frozenset[cst.Call] | None:
        func = node.func
        name = self._names.resolve(func)
        if name is not None and name in knowledge.WRAPPERS:
            return self._constructors(node.args[0].value, path, depth - 1) if node.args else None
        if isinstance(func, cst.Attribute) and name is None and func.attr.value in _KEEPING_MODE:
            return self._constructors(func.value, path, depth - 1)
        definitions = self._definitions.called(node, self._values)
        if definitions:
            found: list[frozenset[cst.Call] | None] = []
            for definition in definitions:
                if isinstance(definition, cst.ClassDef):
                    found.append(frozenset({node}))
                else:
                    for item in self._definitions.returns(definition):
                        found.append(self._constructors(item, path, depth - 1))
            return _all(found)
        return frozenset({node}) if name is not None and not path and _builds_network(name) else None

    def may_be_in_evaluation(self, model: cst.BaseExpression, constructors: frozenset[cst.Call]) -> bool:
        """Whether anything in the file may put ``model``, built by ``constructors``, into evaluation mode.

        Any ``eval()`` in the file on an object of that name, on an unnamed one, or on a loop variable counts, and so
        does a function of another file that is given the model and whose name speaks of a mode.
        """
        text = dotted_name(model) or ""
        last = text.rpartition(".")[2]
        if text.startswith("self.") and self._inherits_from_elsewhere(model):
            return True
        for switch in self.switches:
            if switch.evaluation is False:
                continue
            other = switch.target.rpartition(".")[2]
            if not switch.target or same_object(switch.target, text) or other in (last, "self", "module"):
                return True
            assert isinstance(switch.call.func, cst.Attribute)
            made = self._constructors(switch.call.func.value, (), 12)
            if made is None or made & constructors:
                return True
        if any(
            isinstance(target, cst.Attribute) and target.attr.value == "training" for target, _, _ in self._tree.stores
        ):
            return True
        return last in self._handed_over

    def _inherits_from_elsewhere(self, model: cst.BaseExpression) -> bool:
        """Whether the class around ``model`` has a base in another file, whose methods may switch the mode."""
        method = self._tree.function_of(model)
        owner = self._tree.class_of(method) if method is not None else None
        names = self._definitions.base_names(owner) if owner is not None else iter(())
        return any(not name.startswith(("torch.nn.", "builtins.", "abc.", "typing.")) for name in names)

    @cached_property
    def _handed_over(self) -> set[str]:
        """The last names of what ``load_for_inference(model)``, a function of another file, is given."""
        found: set[str] = set()
        for call in self._tree.calls:
            name = (dotted_name(call.func) or "").rpartition(".")[2].lower()
            if any(word in name for word in _MODE_WORDS) and not self._definitions.called(call, self._values):
                found.update((dotted_name(item.value) or "").rpartition(".")[2] for item in call.args)
        return found

    def depends_on_mode(self, constructor: cst.Call) -> bool:
        """Whether the network that ``constructor`` builds depends on its mode; a class out of sight counts as yes."""
        for definition in self._definitions.called(constructor, self._values):
            if isinstance(definition, cst.ClassDef):
                return self._class_depends(definition, set())
        name = self._names.resolve(constructor.func) or ""
        if name == "torch.nn.Sequential":
            inner = [call for call in self._tree.calls_in(constructor) if call is not constructor]
            return any(self._call_depends(call, set()) for call in inner)
        return self._depends_by_name(name) or _has_dropout(constructor) if name.startswith("torch.nn.") else True

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


def _owners(target: str) -> list[str]:
    """What switches ``model.encoder`` when it is switched: ``model`` and ``model.encoder``."""
    parts = target.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def same_object(switched: str, used: str) -> bool:
    """Whether switching the object called ``switched`` switches the one called ``used``: itself or a part of it."""
    return bool(switched) and (used == switched or used.startswith(switched + "."))


def _element(node: cst.BaseExpression | None, path: tuple[int, ...]) -> cst.BaseExpression | None:
    """The element that unpacking takes from a tuple; the expression itself where there is nothing to take."""
    if not path:
        return node
    if isinstance(node, (cst.Tuple, cst.List)) and 0 <= path[0] < len(node.elements):
        return node.elements[path[0]].value
    return None


def _all(found: list[frozenset[cst.Call] | None]) -> frozenset[cst.Call] | None:
    result: frozenset[cst.Call] = frozenset()
    for item in found:
        if item is None:
            return None
        result |= item
    return result or None


def _builds_network(name: str) -> bool:
    """Whether calling ``name`` builds a network in training mode: a library's, or a class of the project."""
    last = name.rpartition(".")[2]
    if name.startswith(_FACTORIES):
        return not name.startswith(("torch.nn.functional.", "torch.nn.init.", "torch.nn.utils."))
    return last[:1].isupper() and name.lstrip(".").partition(".")[0] not in _OTHER_ROOTS
