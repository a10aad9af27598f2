"""Forwards in code that trains, or in a script, whose outputs are only used without their autograd graph."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import PARTS_AND_RESULTS, dotted_name, is_attribute_of_self, prefixes
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.training.data_flow import Taken
from torchlint.model.training.evaluation import Evaluation
from torchlint.model.training.exclusions import Exclusions
from torchlint.model.training.frozen import Frozen
from torchlint.model.training.grad_mode import GradMode, GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.inference_site import InferenceSite
from torchlint.model.training.loaded_weights import LoadedWeights
from torchlint.model.training.networks import Networks
from torchlint.model.training.output_uses import OutputUses
from torchlint.model.training.outputs import DETACHING, Output, Outputs
from torchlint.model.training.trial_runs import TrialRuns
from torchlint.model.training.weight_changes import is_optimizer_call

#: Why nothing needs a graph.
_DETACHED = "the output is only read after it is detached"
_READ = "only numbers or indices that are read from the output are used"
#: How many functions that return an output it is followed through.
_CALLER_DEPTH = 2
#: Words of a script that wants a gradient.
_DIFFERENTIATING = frozenset({"backward", "grad", "jacobian", "hessian", "requires_grad", "requires_grad_"})


class DiscardedGraphs:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._uses = module.fact(OutputUses)

    @cached_property
    def in_networks(self) -> list[InferenceSite]:
        """Networks that other networks run for outputs that they only detach: the teacher in a distiller.

        Not the layers of a list, which are a small part of one.
        """
        module, tree = self._module, self._module.tree
        found: list[InferenceSite] = []
        for call in tree.calls_in(module.root):
            home = tree.function_of(call)
            if not isinstance(home, cst.FunctionDef) or not module.fact(Exclusions).is_part_of_network(home):
                continue
            reason = self._reason_in_network(call, home) if self._runs_network(call, home) else ""
            statement, model = tree.statement_of(call), module.fact(Networks).network_of(call)
            is_recorded = dotted_name(model) and module.fact(GradModes).of(call) is GradMode.RECORDING
            if reason and is_recorded and not self._is_frozen(call) and not self._is_for_guarded_call(call, home):
                if self._is_all_of(statement, call) or self._needs_no_graph(statement, home):
                    found.append(InferenceSite(call, model, statement, (reason, None)))
        return found

    @property
    def metrics(self) -> Iterator[cst.Call]:
        """The calls of networks that only measure, in functions that read an output and keep this one in no object."""
        for call in self._module.fact(Evaluation).metrics_in(self._module.root):
            home = self._home_of(call)
            is_read = self._uses.reads(home) or self._is_printed(call, home)
            if is_read and not self._uses.is_kept(call, home):
                yield call

    def _is_printed(self, call: cst.Call, home: cst.CSTNode) -> bool:
        """Whether ``home`` prints the output of ``call``, also in a text."""
        carries = self._module.fact(Outputs).carries
        prints = (item for item in self._module.tree.calls_in(home) if dotted_name(item.func) == "print")
        return any(carries(given.value, {call}, DETACHING) for item in prints for given in item.args)

    def _runs_network(self, call: cst.Call, home: cst.FunctionDef) -> bool:
        """Whether ``call`` runs a network, or a method of the object that does: ``self.value(state)``.

        In an object that does not train itself, only `forward` counts and methods that only training code calls, the
        method may keep nothing else, and the output must be detached.
        """
        networks, gradients = self._module.fact(Networks), self._module.fact(Gradients)
        if networks.runs_network(call):
            return True
        if not is_attribute_of_self(call.func) or not networks.is_seen_to_run(call):
            return False
        methods = self._module.fact(Dispatch).functions(call)
        if any(map(gradients.trains, methods)):
            return False  # as MAML does
        if gradients.backwards and gradients.trains(home):
            return True
        if home.name.value != "forward" and not self._is_called_in_training(home):
            return False  # it may be chosen by its name, as for beam search, where gradients are off
        return self._uses.only_leaves_graph(call, home) and not any(map(self._uses.keeps, methods))

    def _is_called_in_training(self, method: cst.FunctionDef) -> bool:
        """Whether all calls of a method are seen, in functions that train."""
        callers = self._module.callers(method)
        return callers.complete and bool(callers.calls) and all(map(self.trains_around, callers.calls))

    def _is_for_guarded_call(self, call: cst.Call, home: cst.FunctionDef) -> bool:
        """Whether ``call`` may only be for calls of ``home`` that disable gradients: it is under ``if mode == "dev":``.

        So it is if a parameter decides whether it runs, and there are such calls.
        """
        tree, names, modes = self._module.tree, self._module.names, self._module.fact(GradModes)
        tests = (item.test for item in branches(tree, call, home) if item.test is not None)
        given = (names.parameter(node, rebound=True) for test in tests for node in tree.inside(test, cst.Name))
        if all(param is None or owner_of(tree, param) is not home for param in given):
            return False
        return any(modes.of(caller).is_off for caller in self._module.fact(Dispatch).callers(home))

    def _is_frozen(self, call: cst.Call) -> bool:
        """Whether a network is frozen that ``call`` runs, itself or in a method."""
        networks = self._module.fact(Networks)
        methods = self._module.fact(Dispatch).functions(call)
        inner = (run for method in methods for run in self._module.tree.calls_in(method.body))
        ran = [networks.network_of(run) for run in (call, *filter(networks.runs_network, inner))]
        return any(map(self._module.fact(Frozen).has, ran))

    def _reason_in_network(self, call: cst.Call, home: cst.FunctionDef) -> str:
        """Why nothing needs the graph of ``call`` in a method of a network; empty if something may.

        If only numbers are read from the output, all calls of the method must be seen: only they show the grad mode.
        """
        if self._module.fact(Exclusions).may_be_under_no_grad(home):
            return ""
        return self.reason_in_function(call, home) or self._reason_in_methods(call, home)

    def _reason_in_methods(self, call: cst.Call, home: cst.FunctionDef) -> str:
        """The same where ``home`` returns the output to other methods of the network, which only detach it.

        Such as a policy whose distribution is only sampled: ``return to_numpy(self.distribution(states).sample())``.
        """
        gradients, calls = self._module.fact(Gradients), self._module.callers(home).calls
        if home.name.value == "forward" or gradients.trains(home) or not all(map(self._is_in_own_method, calls)):
            return ""
        return _DETACHED if self.reason_in_callers(call, home, depth=1) == _DETACHED else ""

    def _is_in_own_method(self, call: cst.Call) -> bool:
        """Whether a method of a network that trains nothing calls a method of the same object."""
        exclusions, method = self._module.fact(Exclusions), self._home_of(call)
        if not isinstance(method, cst.FunctionDef) or not is_attribute_of_self(call.func):
            return False
        if not exclusions.is_part_of_network(method) or exclusions.may_be_under_no_grad(method):
            return False
        return not self._module.fact(Gradients).trains(method)

    def reason_in_function(self, call: cst.Call, home: cst.FunctionDef) -> str:
        """Why nothing needs the graph of ``call`` in a function that trains nothing; empty if something may."""
        if self._uses.only_leaves_graph(call, home):
            return _DETACHED
        callers = self._module.callers(home)
        is_seen = callers.complete and bool(callers.calls) and not self._module.fact(TrialRuns).is_given_numbers(call)
        is_read = is_seen and self._uses.is_only_read(call, home)
        return _READ if is_read else ""

    def reason_in_callers(self, call: cst.Call, home: cst.FunctionDef, depth: int = _CALLER_DEPTH) -> str:
        """The same where ``home`` returns the output with its graph, and no caller needs it."""
        callers = self._module.callers(home)
        if not callers.complete or not callers.calls or not self._uses.only_goes_to_callers(call, home):
            return ""
        reasons = [
            self._reason_in_caller(item, depth - 1)
            for caller in callers.calls
            for item in self._taken(caller, call, home)
        ]
        return "" if "" in reasons else min(reasons, default="")

    def _taken(self, caller: cst.Call, call: cst.Call, home: cst.FunctionDef) -> list[Output]:
        """The elements with the output of ``call`` of the tuple that ``caller`` unpacks; ``caller`` if it does not.

        Not those that it drops: ``values, _ = self.run(x)``.
        """
        assignment, outputs = self._module.tree.parent(caller), self._module.fact(Outputs)
        targets = assignment.targets if isinstance(assignment, cst.Assign) and len(assignment.targets) == 1 else ()
        target = targets[0].target if targets else None
        returned = self._module.definitions.returns(home)
        if not isinstance(target, cst.Tuple) or not returned:
            return [caller]
        found: dict[int, Output] = {}
        dropped = {i for i, item in enumerate(target.elements) if dotted_name(item.value) == "_"}
        for item in returned:
            if not isinstance(item, cst.Tuple) or len(item.elements) != len(target.elements):
                return [caller]
            for i, element in enumerate(item.elements):
                if outputs.carries(element.value, {call}, DETACHING):
                    found[i] = Taken(caller, (i,))
        return [item for i, item in found.items() if i not in dropped] if found else [caller]

    def _reason_in_caller(self, call: Output, depth: int) -> str:
        home = self._home_of(call.call if isinstance(call, Taken) else call)
        if self._uses.only_leaves_graph(call, home):
            return _DETACHED
        if isinstance(home, cst.FunctionDef) and isinstance(call, cst.Call):
            return self.reason_in_function(call, home) or (self.reason_in_callers(call, home, depth) if depth else "")
        return _READ if self._uses.is_only_read(call, home) else ""

    def _needs_no_graph(self, statement: cst.CSTNode, home: cst.FunctionDef) -> bool:
        """Whether a statement in a function that trains only assigns what no backward pass needs the gradient of."""
        gradients = self._module.fact(Gradients)
        is_assigned = isinstance(statement, cst.Assign) and not gradients.carries_gradient(statement.value)
        return is_assigned and gradients.trains(home)

    def _is_all_of(self, statement: cst.CSTNode, call: cst.Call) -> bool:
        """Whether a statement only assigns the output of ``call``: ``wanted = self.teacher(x)[0].detach()``."""
        value = statement.value if isinstance(statement, cst.Assign) else None
        return any(part is call for part in (value, *prefixes(value, PARTS_AND_RESULTS)))

    def trains_around(self, call: cst.Call) -> bool:
        """Whether the function around ``call``, or the script, trains."""
        return self._module.fact(Gradients).trains(self._home_of(call))

    def reason(self, call: cst.Call) -> str:
        """Why nothing needs the graph of the output of ``call``; empty if something may."""
        if self.trains_around(call):
            return self._reason_in_training(call)
        return self._reason_in_script(call)

    def _reason_in_training(self, call: cst.Call) -> str:
        """The reason in code that trains. Gradients are recorded there, so that reading an index shows no grad mode."""
        home = self._home_of(call)
        if self._uses.only_leaves_graph(call, home):
            return "" if self._is_read_from_network(call, home) else _DETACHED
        if not self._module.fact(Gradients).carries_gradient(call) and self._uses.is_only_read(call, home):
            return _READ
        return ""

    def _is_read_from_network(self, call: cst.Call, home: cst.CSTNode) -> bool:
        """Whether ``home`` reads what ``call`` keeps in the network, as a part of its loss: ``net.box_loss``."""
        tree, run = self._module.tree, self._module.fact(Dispatch).run(call)
        kept = {
            target.attr.value
            for target, _, place in tree.stores
            if is_attribute_of_self(target) and any(tree.within(place, method) for method in run)
        }
        if kept:  # `net.loss` may be a property
            owners = [owner for method in run if (owner := tree.class_of(method)) is not None]
            kept |= {
                item.name.value
                for item in tree.functions
                if tree.class_of(item) in owners
                and any(dotted_name(one.decorator) == "property" for one in item.decorators)
            }
        reads = tree.attributes_named(*kept) if kept else ()
        return any(tree.within(read, home) and not is_attribute_of_self(read) for read in reads)

    def _reason_in_script(self, call: cst.Call) -> str:
        """The reason in a script that loads weights and trains nothing, at its top level or in ``main``."""
        module, home = self._module, self._home_of(call)
        words = module.words_of(module.root)
        if isinstance(home, cst.FunctionDef) and home.name.value != "main":
            return ""
        if words & _DIFFERENTIATING or self._uses.is_given_away(call, home):
            return ""
        if not module.fact(LoadedWeights).within(module.root):
            return ""
        if "optim" in words and self._may_optimize:
            return ""
        if isinstance(home, cst.FunctionDef) and self._uses.converts_without_detach(call, home):
            return ""
        is_read = not module.fact(TrialRuns).is_given_numbers(call) and self._uses.is_only_read(call, home)
        only = is_read or self._uses.leaves_graph(call, home)
        return "the script loads weights and trains nothing" if only else ""

    @cached_property
    def _may_optimize(self) -> bool:
        """Whether an optimizer of the file takes steps or is passed on, other than to a scheduler."""
        module = self._module
        if any(map(is_optimizer_call, module.tree.calls_in(module.root))):
            return True
        return any(
            module.value(argument.value).kind is Kind.OPTIMIZER
            for call in module.tree.calls_in(module.root)
            if not (module.name_of(call.func) or "").startswith("torch.optim.")
            for argument in call.args
        )

    def _home_of(self, call: cst.Call) -> cst.FunctionDef | cst.Module:
        function = self._module.function_of(call)
        return function if isinstance(function, cst.FunctionDef) else self._module.root
