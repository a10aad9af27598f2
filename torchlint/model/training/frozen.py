"""Networks whose parameters are frozen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.options import Options
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import bare, dotted_name, last_name
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.training.data_flow import DataFlow
from torchlint.model.training.evaluation import KEEPING_MODE
from torchlint.model.training.loops import Loops
from torchlint.model.training.parameters import Parameters

#: Functions that switch the parameters of a network off or on, and those that only switch them off.
_SWITCHES = frozenset({"requires_grad", "set_requires_grad", "toggle_grad", "toggle_requires_grad", "set_grad"})
_FREEZES = frozenset({"freeze", "freeze_model", "freeze_network", "freeze_parameters", "freeze_params"})

#: Functions that make embeddings of given vectors.
_TABLES = frozenset({"torch.nn.Embedding.from_pretrained", "torch.nn.EmbeddingBag.from_pretrained"})
#: How many expressions a network is followed back through.
_DEPTH = 40
#: Methods of a network that switch its parameters off and on.
_METHODS = ("freeze", "unfreeze")
#: Methods that return the network itself.
_GIVING_ITSELF = KEEPING_MODE | {"eval"}


class Frozen:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made_by: dict[cst.CSTNode, set[cst.CSTNode]] = {}  #: by network the calls that made it

    def has(self, model: cst.BaseExpression) -> bool:
        """Whether the parameters of ``model`` are switched off, or it has none, so that it records nothing.

        If they are switched on again anywhere, only the function that switches them off counts, and those of which it
        precedes all calls.
        """
        if self._module.value(model).definition in self._frozen_classes:
            return True
        if self._module.fact(Parameters).has_none(model) or self._is_loaded_table(model):
            return True
        return self._is_switched_off(model) or any(map(self._is_switched_off_before, self._originals(model)))

    def _is_loaded_table(self, model: cst.BaseExpression) -> bool:
        """Whether ``model`` is an embedding of given vectors, which is frozen unless ``freeze=False`` is passed."""
        made = self._module.value(model).origins
        return bool(made) and all(isinstance(call, cst.Call) and self._loads_table(call) for call in made)

    def _loads_table(self, call: cst.Call) -> bool:
        if self._module.name_of(call.func) not in _TABLES:
            return False
        given = {item.keyword.value: item.value for item in call.args if item.keyword is not None}
        by_position = len(call.args) - len(given)
        is_seen = by_position < 2 and not any(item.star for item in call.args)
        return is_seen and ("freeze" not in given or dotted_name(given["freeze"]) == "True")

    def _originals(self, model: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The networks of which ``model`` is a copy: ``copy.deepcopy(net).eval()``; none if a copy is switched on."""
        found: list[cst.BaseExpression] = []
        on = {last_name(network) for network in self._switched[1]}
        while isinstance(model, cst.Name) and model.value not in on:
            bound = self._module.names.bindings(model)
            if len(bound) != 1 or bound[0].path or bound[0].value is None:
                break
            made = bare(bound[0].value, _GIVING_ITSELF, (), with_arguments=True)
            if not isinstance(made, cst.Call) or self._module.name_of(made.func) not in knowledge.COPIES:
                break
            if len(made.args) != 1 or made.args[0].value in found:
                break
            model = made.args[0].value
            found.append(model)
        return found

    def _is_switched_off_before(self, model: cst.BaseExpression) -> bool:
        """Whether the parameters of ``model`` are switched off before this place, in the same function."""
        tree, function_of = self._module.tree, self._module.function_of
        return self._is_switched_off(model) and any(
            tree.index(network) < tree.index(model) and function_of(network) is function_of(model)
            for network in self._switched[0]
            if self._may_be(model, network)
        )

    def _is_switched_off(self, model: cst.BaseExpression) -> bool:
        off, on = self._switched
        thawed: dict[str, list[cst.BaseExpression]] = {}
        for network in on:
            thawed.setdefault(last_name(network), []).append(network)
        function_of = self._module.function_of
        found = [network for network in off if self._may_be(model, network)]
        return any(
            (last_name(network) not in thawed or function_of(network) is function_of(model))
            and not any(self._comes_between(network, item, model) for item in thawed.get(last_name(network), ()))
            for network in found
        ) or self._is_off_in_callers(model, found, thawed.get(last_name(model), ()))

    def _is_off_in_callers(
        self, model: cst.BaseExpression, off: Sequence[cst.BaseExpression], on: Sequence[cst.BaseExpression]
    ) -> bool:
        """Whether all calls of the function around ``model`` follow a place of ``off``, and none of ``on`` between."""
        tree, function = self._module.tree, self._module.function_of(model)
        callers = self._module.callers(function) if isinstance(function, cst.FunctionDef) else None
        if callers is None or not callers.complete or not callers.calls or not off:
            return False

        def follows(call: cst.Call, network: cst.BaseExpression) -> bool:
            between = (tree.index(network) < tree.index(item) < tree.index(call) for item in on)
            return tree.dominates(self._statement_of(network), call) and not any(between)

        return all(any(follows(call, network) for network in off) for call in callers.calls)

    def _comes_between(self, off: cst.BaseExpression, on: cst.BaseExpression, model: cst.BaseExpression) -> bool:
        """Whether a function switches parameters off, then on, then runs the network: a discriminator's step."""
        tree = self._module.tree
        return tree.index(off) < tree.index(on) and tree.dominates(self._statement_of(on), model)

    def _statement_of(self, on: cst.BaseExpression) -> cst.CSTNode:
        """The statement that switches on: a loop over the parameters as a whole."""
        loop = nearest(self._module.tree, on, cst.For)
        return loop if loop is not None and self._module.tree.within(on, loop.iter) else on

    def _may_be(self, model: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether two expressions may be the same network: by their names, if it is not known what made them."""
        is_named_so = last_name(model) != "" and last_name(model) == last_name(other)
        if not is_named_so and not isinstance(other, cst.Name):
            return False
        made = [self._module.value(node).origins for node in (model, other)]
        may_be = not made[0].isdisjoint(made[1]) if all(made) else is_named_so
        if made[0] and not made[1] and self._is_given_nothing(other):
            return False
        return may_be and not self._is_another(model, other)

    def _is_given_nothing(self, network: cst.BaseExpression) -> bool:
        """Whether a network is a parameter of a function that only functions without calls run, if any."""
        module, waiting, seen = self._module, [network], {network}
        while waiting:
            param = module.names.parameter(waiting.pop())
            owner = owner_of(module.tree, param) if param is not None else None
            if param is None or owner is None or owner.decorators or module.tree.class_of(owner) is not None:
                return False
            if not module.callers(owner).complete:
                return False
            given = module.passed_by_all(param)
            if any(item is None for item in given):
                return False
            waiting += [item for item in given if item is not None and item not in seen]
            seen.update(waiting)
        return True

    def _is_another(self, model: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether ``model`` is never what ``other`` refers to, a variable of another function or script.

        One function may make both.
        """
        if other not in self._made_by:
            self._made_by[other] = self._made(other)
        flow, made = self._module.fact(DataFlow), self._made_by[other]
        if (
            not made
            or not flow.sources(model, outward=True)
            or self._module.function_or_file(model) is self._module.function_or_file(other)
        ):
            return False

        def may_be_made(part: cst.CSTNode) -> bool:
            return part in made or (isinstance(part, cst.Name) and self._is_given_out_of_sight(part))

        return not flow.search(may_be_made, lambda part: False, outward=True, depth=_DEPTH).finds(model)

    def _made(self, network: cst.CSTNode) -> set[cst.CSTNode]:
        """The calls that made a network, behind all its names; none if one of them is a parameter or unknown."""
        module, found = self._module, set[cst.CSTNode]()
        waiting, seen = [network], {network}
        while waiting:
            node = waiting.pop()
            sources: list[cst.CSTNode] = []
            if isinstance(node, cst.Call):
                found.add(node)
                given = [module.value(item.value) for item in node.args]
                if any(value.kind is Kind.MODULE and value.sure for value in given):
                    return set()  # a copy or a wrapper
                if isinstance(node.func, cst.Attribute) and module.name_of(node.func) is None:
                    sources = [node.func.value]  # `net.cuda()`
            else:
                sources = [source for source, _ in module.fact(DataFlow).sources(node)]
                bindings = module.names.bindings(node) if isinstance(node, cst.Name) else []
                if not sources or any(item.kind is BindingKind.PARAM for item in bindings):
                    return set()
            waiting += [source for source in sources if source not in seen]
            seen.update(sources)
        return found

    def _is_given_out_of_sight(self, name: cst.Name) -> bool:
        """Whether a name is a parameter, and not all calls that pass it are seen."""
        params = [item.node for item in self._module.names.bindings(name) if isinstance(item.node, cst.Param)]
        owners = [owner_of(self._module.tree, param) for param in params]
        return any(
            owner is None or not (callers := self._module.callers(owner)).calls or not callers.complete
            for owner in owners
        )

    @cached_property
    def _frozen_classes(self) -> frozenset[cst.CSTNode]:
        """The classes whose constructors switch off all parameters: ``self.requires_grad_(False)``."""
        module = self._module
        found: set[cst.CSTNode] = set()
        for network in self._switched[0]:
            method = module.function_of(network)
            owner = module.tree.class_of(method) if method is not None else None
            if method is None or owner is None or dotted_name(network) != "self":
                continue
            init = module.definitions.method(owner, "__init__")
            called = module.tree.calls_in(init.body) if init is not None else ()
            if init is method or any(dotted_name(call.func) == f"self.{method.name.value}" for call in called):
                found.add(owner)
        return frozenset(found)

    @cached_property
    def _switched(self) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """The networks whose parameters are all switched off, and those whose parameters may be switched on."""
        module = self._module
        off: list[cst.BaseExpression] = []
        on: list[cst.BaseExpression] = []
        for method in module.methods("requires_grad_"):
            is_off = method.argument("requires_grad").literal() == "False"
            networks = self._of_parameters(method.node) if isinstance(method.receiver, cst.Name) else []
            (off if is_off else on).extend(networks or [method.receiver])
            off += self._assigned(method.node) if is_off else ()
        for call in module.tree.calls_named(*_SWITCHES, *_FREEZES):
            (off if _switches_off(call) else on).extend(_networks_given(call))
        for method in module.methods(*_METHODS):
            (off if method.name == "freeze" else on).extend(self._switched_by_method(method))
        for target, value, statement in module.tree.stores:
            if isinstance(target, cst.Attribute) and self._freezes_table(target, value):
                off.append(target.value)
            if not (isinstance(target, cst.Attribute) and target.attr.value == "requires_grad") or value is None:
                continue
            (off if self._is_false(value) else on).extend(self._of_parameters(statement))
        leave_out = module.fact(Options).leave_out
        return [network for network in off if not leave_out(network)], on

    def _of_parameters(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """The networks over all whose parameters the loops around ``node`` go."""
        return [
            call.func.value
            for loop in self._module.fact(Loops).around(node)
            if isinstance(loop.node, cst.For) and not self._is_of_some(node, loop.node)
            for call in self._module.tree.calls_in(loop.node.iter)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("parameters")
        ]

    def _is_false(self, node: cst.BaseExpression) -> bool:
        """Whether it is False, or a parameter of a constructor that is False by default and that no call passes."""
        if dotted_name(node) == "False":
            return True
        param = self._module.names.parameter(node)
        owner = owner_of(self._module.tree, param) if param is not None else None
        if param is None or owner is None or owner.name.value != "__init__" or dotted_name(param.default) != "False":
            return False  # a method may switch them off and on
        given = self._module.passed_by_all(param)
        return all(item is None or dotted_name(item) == "False" for item in given)

    def _assigned(self, made: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The names that a network gets: ``net`` of ``net = Net().requires_grad_(False).cuda()``."""
        tree, node = self._module.tree, made
        while isinstance(above := tree.parent(node), cst.Attribute) and above.attr.value in _GIVING_ITSELF:
            call = tree.parent(above)
            if not isinstance(call, cst.Call):
                return []
            node = call
        return [item.target for item in above.targets] if isinstance(above, cst.Assign) else []

    def _switched_by_method(self, call: Call) -> list[cst.BaseExpression]:
        """``teacher`` of ``teacher.freeze()``, and of ``teacher = student.copy().freeze()``."""
        if call.node.args or dotted_name(call.receiver) == "self":
            return []
        statement = self._module.tree.parent(call.node)
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        return [call.receiver, *(item.target for item in targets)]

    def _freezes_table(self, target: cst.Attribute, value: cst.BaseExpression | None) -> bool:
        """``embedding.weight = nn.Parameter(table, requires_grad=False)``: an embedding has no other parameters."""
        if target.attr.value != "weight" or not isinstance(value, cst.Call):
            return False
        is_off = any(
            item.keyword is not None and item.keyword.value == "requires_grad" and dotted_name(item.value) == "False"
            for item in value.args
        )
        return is_off and self._module.value(target.value).name.endswith("Embedding")

    def _is_of_some(self, statement: cst.CSTNode, loop: cst.For) -> bool:
        """Whether a condition in a loop selects parameters: ``if "encoder" in name:``."""
        return any(True for _ in branches(self._module.tree, statement, loop))


def _switches_off(call: cst.Call) -> bool:
    """Whether a call of a function that switches parameters passes ``False``, or can do nothing else."""
    return last_name(call.func) in _FREEZES or any(dotted_name(item.value) == "False" for item in call.args)


def _networks_given(call: cst.Call) -> list[cst.BaseExpression]:
    """The networks in the first argument of a call, one or several in a list."""
    first = call.args[0].value if call.args else None
    if isinstance(first, (cst.List, cst.Tuple)):
        return [element.value for element in first.elements]
    return [first] if isinstance(first, (cst.Name, cst.Attribute)) else []


def freezes(module: Module, evaluated: cst.CSTNode) -> bool:
    """Whether ``evaluated`` goes on to freeze the network: ``.eval().requires_grad_(False)``."""
    above = module.tree.parent(evaluated)
    return isinstance(above, cst.Attribute) and above.attr.value == "requires_grad_"
