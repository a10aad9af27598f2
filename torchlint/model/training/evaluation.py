"""Where a network is in evaluation mode for certain."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.dotted import PARTS_AND_RESULTS, dotted_name, last_name, prefixes
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.syntax.scopes import unpacked
from torchlint.model.training.mode_switches import ModeSwitch, ModeSwitches, same_object
from torchlint.model.training.network_origins import NetworkOrigins

#: Methods of a network that give it back in the mode it was in (or in training mode).
KEEPING_MODE = frozenset("to cuda cpu float half double bfloat16 train requires_grad_ apply share_memory xpu".split())
#: The names of networks of libraries that only measure; programs contain copies of them.
_METRICS = frozenset(name.rpartition(".")[2] for name in knowledge.METRIC_NETWORKS)
#: How many expressions a network that measures is followed through.
_METRIC_DEPTH = 4


class Evaluation(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values
        self._switches = forest.fact(ModeSwitches)
        self._origins = forest.fact(NetworkOrigins)
        roots = {name.partition(".")[0] for name in knowledge.METRIC_NETWORKS}
        copies = (item for item in forest.tree.classes if item.name.value in _METRICS)
        self._has_metrics = any(map(forest.imports, roots)) or any(copies)

    def of(self, at: cst.CSTNode, model: cst.BaseExpression | None, depth: int = 4) -> cst.CSTNode | None:
        """The ``eval()`` that is in force at ``at`` for ``model``, or for the networks there; None if there is none.

        It is looked for before the place, in the expression that made the model, in the constructor of the object
        around, at module level, and in all callers.
        """
        text = dotted_name(model) if model is not None else None
        own = self._switches.last_before(at, text) if text else None
        if own is not None:
            return own.call if own.evaluation else None
        if model is not None:
            made = self._evaluated(model, (), depth)
            if made is not None:
                return made
        function = self._tree.function_of(at)
        if not isinstance(function, cst.FunctionDef) or depth <= 0:
            return None
        near = self._switches.last_before(at)
        if near is not None and near.evaluation and (text is None or near.target != "self"):
            return near.call
        permanent = self._permanent(text, function) if text else None
        if permanent is not None:
            return permanent
        outer = self._tree.function_of(function)
        if outer is not None:
            found = self.of(function, model, depth - 1)
            if found is not None:
                return found
        return self._evaluated_by_callers(function, model, depth)

    def metrics_in(self, root: cst.CSTNode) -> list[cst.Call]:
        """The calls in a file of networks that only measure: ``lpips_fn(image, target)``."""
        calls = self._tree.calls_in(root) if self._has_metrics else ()
        return [call for call in calls if len(call.args) > 1 and self._runs_metric(call)]

    def _runs_metric(self, call: cst.Call) -> bool:
        if self._names.resolve(call.func) is not None:
            return False
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "forward":
            func = func.value
        made = self._evaluated(func, (), _METRIC_DEPTH)
        return made is not None and any(map(self._makes_metric, (made, *prefixes(made, PARTS_AND_RESULTS))))

    def _makes_metric(self, node: cst.CSTNode) -> bool:
        """``lpips.LPIPS(net="vgg")``; not without its layers that could be trained, or in training mode."""
        if not isinstance(node, cst.Call):
            return False
        if self._names.resolve(node.func) not in knowledge.METRIC_NETWORKS:  # maybe a copy in the program
            return last_name(node.func) in _METRICS and self._own_switch(node) is not None
        options = (keyword(node, name) for name in ("lpips", "eval_mode"))
        return all(option is None or dotted_name(option) == "True" for option in options)

    def _is_permanent(self, switch: ModeSwitch, text: str, function: cst.FunctionDef) -> bool:
        """Whether ``switch``, made by the constructor or at module level, is never undone.

        After ``self.eval()``, the ``train()`` of a network that contains this one undoes it.
        """
        if switch.target == "self" or not same_object(switch.target, text):
            return False
        home = self._tree.function_of(switch.call)
        if text.startswith("self."):
            if not isinstance(home, cst.FunctionDef) or home.name.value != "__init__":
                return False
            if self._tree.class_of(home) is not self._tree.class_of(function):
                return False
        elif home is not None or text.partition(".")[0] in self._tree.scopes[function].bindings:
            return False
        return not any(
            other.evaluation is not True and same_object(other.target, text) and not self._is_of_another(switch, other)
            for other in self._switches.all
        )

    def _is_of_another(self, one: ModeSwitch, other: ModeSwitch) -> bool:
        """Whether two switches are of networks that are made at different places, by all that is seen."""
        owners = [item.call.func.value for item in (one, other) if isinstance(item.call.func, cst.Attribute)]
        made = [self._values.of(owner) for owner in owners]
        return all(item.sure and item.origins for item in made) and made[0].origins.isdisjoint(made[-1].origins)

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
            found.append(self._of_receiver(call, model) or self.of(call, given, depth - 1))
        return found[0] if None not in found else None

    def _of_receiver(self, call: cst.Call, model: cst.BaseExpression | None) -> cst.CSTNode | None:
        """``learner.model.eval()`` before ``learner.infer(x)``, a method of an object that is not a network itself."""
        text = dotted_name(model) if model is not None else None
        func = call.func
        if text is None or not text.startswith("self.") or not isinstance(func, cst.Attribute):
            return None
        owner = dotted_name(func.value)
        if owner is None or self._values.of(func.value).kind is Kind.MODULE:
            return None
        network, function = owner + text.removeprefix("self"), self._tree.function_of(call)
        switch = self._switches.last_before(call, network)
        if switch is None and isinstance(function, cst.FunctionDef):
            return self._permanent(network, function)
        return switch.call if switch is not None and switch.evaluation else None

    def _permanent(self, text: str, function: cst.FunctionDef) -> cst.CSTNode | None:
        """The ``eval()`` in the constructor or at module level of a network that ``function`` calls ``text``."""
        switches = (item for item in self._switches.all if item.evaluation)
        return next((item.call for item in switches if self._is_permanent(item, text, function)), None)

    def _parameter(self, function: cst.FunctionDef, model: cst.BaseExpression | None) -> cst.Param | None:
        if not isinstance(model, cst.Name):
            return None
        for param in parameters_of(function):
            if param.name.value == model.value:
                return param
        return None

    def _evaluated(self, node: cst.CSTNode, path: tuple[int, ...], depth: int) -> cst.CSTNode | None:
        """The ``eval()`` in the expression, or in the function of the file, that made a network."""
        if depth < 0:
            return None
        if isinstance(node, cst.Call):
            if self._makes_metric(node):
                return node
            own = self._own_switch(node)
            if own is not None:
                return own
            if isinstance(node.func, cst.Attribute):
                if node.func.attr.value == "eval" and not node.args:
                    return node
                if node.func.attr.value == "from_pretrained" and self._is_given_in_evaluation(node):
                    return node
                if node.func.attr.value in KEEPING_MODE:
                    return self._evaluated(node.func.value, path, depth)
            if self._names.resolve(node.func) in knowledge.WRAPPERS and node.args:
                return self._evaluated(node.args[0].value, path, depth)
            found: list[cst.CSTNode | None] = []
            for definition in self._definitions.called(node, self._values):
                if isinstance(definition, cst.FunctionDef):
                    for item in self._definitions.returns(definition):
                        part = unpacked(item, path)
                        found.append(self.of(part, part, depth - 1) if part is not None else None)
            return found[0] if found and None not in found else None
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            made = [
                self._evaluated(value, part, depth - 1) if value is not None else None
                for value, part in self._origins.of(node, path)
            ]
            if not made and isinstance(node, cst.Attribute) and self._values.of(node.value).kind is Kind.MODULE:
                return self._evaluated(node.value, (), depth - 1)  # a part of a network
            return made[0] if made and None not in made else None
        return None

    def _own_switch(self, made: cst.Call) -> cst.Call | None:
        """The ``self.eval()`` in the constructor of the network that a call makes; not of a part of another network."""
        named = self._definitions.named(made.func) if self._last_in_constructor else []
        if len(named) != 1 or not isinstance(named[0], cst.ClassDef):
            return None
        if self._values.instance(named[0]).kind is not Kind.MODULE:
            return None
        init = self._definitions.method(named[0], "__init__")
        last = self._last_in_constructor.get(init) if init is not None else None
        if last is None or init is None or not self._values.branches.includes(made, init, last.call):
            return None
        owner = self._tree.class_of(self._tree.function_of(made) or made)
        return last.call if owner is None or self._values.instance(owner).kind is not Kind.MODULE else None

    @cached_property
    def _last_in_constructor(self) -> dict[cst.CSTNode, ModeSwitch]:
        """By constructor the ``self.eval()`` in it, if it is the last switch of the object there."""
        found = {self._tree.function_of(item.call): item for item in self._switches.all if item.target == "self"}
        return {
            home: item
            for home, item in found.items()
            if item.evaluation and isinstance(home, cst.FunctionDef) and home.name.value == "__init__"
        }

    def _is_given_in_evaluation(self, call: cst.Call) -> bool:
        """Whether a library makes a network in evaluation mode: ``AutoModel.from_pretrained(name)``; no pipeline."""
        value = self._values.of(call)
        package, _, name = value.name.removesuffix(".from_pretrained").rpartition(".")
        is_network = value.kind is Kind.MODULE and not name.startswith(("TF", "Flax")) and "Pipeline" not in name
        return is_network and f"{package}.".startswith(knowledge.EVAL_BY_DEFAULT_PACKAGES)


def is_of_evaluation(forest: Forest, node: cst.CSTNode) -> bool:
    """Whether ``node`` only runs in evaluation mode: in the ``else`` of ``if self.training:``, or after its return."""
    function = forest.function_of(node)
    if function is None or forest.tree.first_within(forest.tree.attributes_named("training"), function) is None:
        return False
    for item in conditions(forest.tree, node):
        if isinstance(item.node, cst.FunctionDef):
            return False
        if item.test is not None and item.kind in (ConditionKind.BRANCH, ConditionKind.EXIT):
            holds = item.kind is ConditionKind.BRANCH and not item.is_else
            if forest.code(item.test) == ("not self.training" if holds else "self.training"):
                return True
    return False
