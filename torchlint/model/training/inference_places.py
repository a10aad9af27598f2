"""Where a change to an inference site may be made."""

from __future__ import annotations

import re
from itertools import takewhile

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import base_of, dotted_name
from torchlint.model.syntax.suspension import suspension_in
from torchlint.model.training.exclusions import Exclusions
from torchlint.model.training.grad_mode import GradMode, GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.inference_site import InferenceSite
from torchlint.model.training.loops import Loops
from torchlint.model.training.mode_switches import ModeSwitches
from torchlint.model.training.networks import Networks


def function_to_decorate(module: Module, site: InferenceSite) -> cst.FunctionDef | None:
    """The function, if the site is one and nothing but inference."""
    node = site.node
    if not isinstance(node, cst.FunctionDef) or module.definitions.yields(node) or node.asynchronous:
        return None
    return node


def evaluating_site(module: Module, site: InferenceSite) -> InferenceSite | None:
    """The call that runs a site of several phases for evaluation, if it is the only one, and in this file."""
    places = site.phase.places if site.phase is not None else ()
    if site.phase is None or len(places) != 1 or places[0] not in site.phase.calls:
        return None  # another function chooses the phase
    if not isinstance(places[0], cst.Call) or not module.is_own(places[0]):
        return None
    return InferenceSite(places[0], site.model, module.tree.statement_of(places[0]), site.evidence)


def statements_to_wrap(module: Module, site: InferenceSite) -> list[cst.CSTNode]:
    """The statement of a block that contains the site, where it is not a function, and those behind it of its kind."""
    if isinstance(site.node, cst.FunctionDef):
        return []
    path = module.tree.block_path(site.forward)
    for block, position, statement in path:
        if isinstance(block, cst.SimpleStatementLine):
            if len(block.body) != 1:
                return []
            continue
        if module.tree.within(site.node, statement):
            following = block.body[position + 1 :]  # type: ignore[attr-defined]
            return [statement, *takewhile(lambda item: _runs_again(module, site, item), following)]
    return []


def _runs_again(module: Module, site: InferenceSite, statement: cst.CSTNode) -> bool:
    """Whether a simple statement only runs the same network again, without a use for its gradients."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    function = module.function_of(statement)
    if function is not None and module.fact(Exclusions).is_part_of_network(function):
        return False  # which trains what it runs
    if suspension_in(module.tree, statement) is not None:
        return False
    networks = module.fact(Networks)
    forwards = [call for call in module.tree.calls_in(statement) if networks.runs_network(call)]
    return bool(forwards) and all(
        dotted_name(networks.network_of(call)) == dotted_name(site.model)
        and module.fact(GradModes).of(call) is GradMode.RECORDING
        and not module.fact(Gradients).reaches_backward(call)
        for call in forwards
    )


def constructing_statement(module: Module, site: InferenceSite) -> cst.CSTNode | None:
    """The statement of the constructor that makes the network of ``site``, a ``self.network`` that nothing else
    sets, in a file that trains nothing: there it can be put into evaluation mode for good."""
    tree = module.tree
    owner = tree.class_of(module.function_of(site.forward) or site.forward)
    text = dotted_name(site.model) or ""
    if owner is None or module.fact(Gradients).backwards or not re.fullmatch(r"self\.\w+", text):
        return None
    stores = [
        statement
        for target, _, statement in tree.stores
        if dotted_name(target) == text and tree.class_of(tree.function_of(statement) or statement) is owner
    ]
    home = tree.function_of(stores[0]) if len(stores) == 1 else None
    if not isinstance(home, cst.FunctionDef) or home.name.value != "__init__":
        return None
    line = tree.parent(stores[0])
    return line if isinstance(line, cst.SimpleStatementLine) and tree.parent(line) is home.body else None


def first_statement(module: Module, site: InferenceSite) -> cst.CSTNode | None:
    """The outermost statement of the site that contains the forward, with the network bound before it."""
    tree = module.tree
    bound = _bound_at(module, site)
    found: cst.CSTNode | None = None
    for block, _, statement in tree.block_path(site.forward):
        if isinstance(block, cst.SimpleStatementLine):
            continue
        if tree.index(statement) < bound:
            break
        if not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        found = statement
        if statement is site.node or tree.within(site.node, statement):
            break
    return found


def _bound_at(module: Module, site: InferenceSite) -> int:
    """How far down the function the network is bound; -1 if outside."""
    tree = module.tree
    node = base_of(site.model, {cst.Attribute})
    if not isinstance(node, cst.Name):
        return tree.index(site.forward)
    home = tree.scope_of(site.forward)
    scope = module.names.scope_with(node.value, home)
    if scope is None or scope is not home:
        return -1
    reached = module.values.reaching.of(node)
    return max((item.order for item in reached if item.kind is not BindingKind.PARAM), default=-1)


def may_stay_in_evaluation(module: Module, site: InferenceSite) -> bool:
    """Whether no training after the site needs a ``train()`` that the file lacks."""
    for backward in module.fact(Gradients).backwards:
        home = module.tree.function_of(backward)
        here = module.tree.function_of(site.forward)
        around = module.fact(Loops).around(site.node) if home is here else []
        if home is here and not around and module.tree.index(backward) < module.tree.index(site.forward):
            continue
        if not any(
            switch.evaluation is False
            and module.tree.function_of(switch.call) is home
            and (not around or module.tree.within(switch.call, around[-1].node))
            for switch in module.fact(ModeSwitches).all
        ):
            return False
    return True
