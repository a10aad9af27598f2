"""Functions that run a network neither for training nor for plain inference."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.launches import target_of
from torchlint.model.syntax.calls import requires_gradient
from torchlint.model.training.function_words import EVALUATING, MEASURING, USING, says_training, snake_case, words_of
from torchlint.model.training.grad_mode import LIGHTNING_INFERENCE_HOOKS, GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import is_step
from torchlint.model.training.mode_switches import ModeSwitches
from torchlint.model.training.networks import Networks
from torchlint.model.training.output_uses import OutputUses
from torchlint.model.training.volatile_inputs import VolatileInputs

#: Words of code that wants gradients although it trains nothing.
_GRADIENT_SEEKING = re.compile(
    r"attack|adversar|pgd|fgsm|saliency|grad_?cam|guid(?!e_|eline)|dream|invert|inversion|langevin|energy|forces?\b|"
    r"style_transfer|influence|fisher|hessian|jacobian|attribution|visuali[sz]ation"
)
#: What runs the function that it is given for a command line.
_COMMANDS = ("absl.app.run", "fire.Fire", "typer.run", "tyro.cli")
_HOOKS = frozenset({"register_hook", "register_backward_hook", "register_full_backward_hook", "retain_grad"})


class Exclusions:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._excluded: dict[cst.CSTNode, bool] = {}
        self._of_place: dict[cst.CSTNode, bool] = {}

    def has(self, function: cst.FunctionDef) -> bool:
        """Whether nothing is to be said of the networks that ``function`` runs."""
        if function not in self._excluded:
            self._excluded[function] = self.of_place(function) or self._is_of_another_kind(function)
        return self._excluded[function]

    def of_place(self, function: cst.FunctionDef) -> bool:
        """The same, by the name and the class of the function alone."""
        if function not in self._of_place:
            self._of_place[function] = self._measures(function) or self._is_in_network(function)
        return self._of_place[function]

    def is_part_of_network(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is left out for no other reason than that it is a part of a network."""
        if self._measures(function) or not self.of_place(function):
            return False
        return not self._is_of_another_kind(function)

    def is_inference_itself(self, method: cst.FunctionDef) -> bool:
        """Whether a method of a network only runs it for prediction, so that it is asked for by itself."""
        return self._module.values.object_of(method).kind is Kind.MODULE and not self.of_place(method)

    def _measures(self, function: cst.FunctionDef) -> bool:
        name = function.name.value
        if name.startswith("__") and name != "__call__":
            return True
        return bool(words_of(name) & MEASURING) and not self._measures_inference(function)

    def _measures_inference(self, function: cst.FunctionDef) -> bool:
        """Whether a function that measures a network puts it into evaluation mode, or makes its input volatile."""
        module = self._module
        inputs = module.fact(VolatileInputs).all
        return self._calls_eval(function) or any(module.function_of(call) is function for call in inputs)

    def _calls_eval(self, function: cst.FunctionDef) -> bool:
        switches = (item.call for item in self._module.fact(ModeSwitches).all if item.evaluation)
        return any(self._module.function_of(call) is function for call in switches)

    def _is_in_network(self, function: cst.FunctionDef) -> bool:
        module = self._module
        return any(  # a function inside a method is a part of it
            module.values.object_of(method).kind is Kind.MODULE
            and not self._predicts(method)
            and not self._evaluates_in_step(method)
            for method in (function, *module.functions_around(function))
        )

    def _evaluates_in_step(self, method: cst.FunctionDef) -> bool:
        """Whether a method is a training step, which no code runs under ``no_grad``, and calls ``eval()``.

        It is that of a trainer that is a network itself.
        """
        calls = self._module.tree.calls_in(method.body)
        return (
            any(map(is_step, calls))
            and any(map(self._module.fact(Gradients).is_backward, calls))
            and self._calls_eval(method)
        )

    def _is_of_another_kind(self, function: cst.FunctionDef) -> bool:
        module = self._module
        if module.fact(GradModes).is_inference_hook(function) or self._seeks_gradients(function):
            return True
        is_test = "test" in words_of(function.name.value) and self._is_unit_test(function)
        return is_test or self._is_handed_out(function)

    def _is_unit_test(self, function: cst.FunctionDef) -> bool:
        """Whether a function asserts something, and no call passes it a network to evaluate."""
        if not self._module.tree.inside(function, cst.Assert):
            return False
        return not any(call.args for call in self._module.callers(function).calls)

    def _predicts(self, method: cst.FunctionDef) -> bool:
        """Whether a method of a network runs it for prediction only, and it is seen under which grad mode.

        ``volatile=True``, which turned gradients off before torch 0.4, shows that as well as the callers do.
        """
        module = self._module
        words = words_of(method.name.value)
        if says_training(words) or method.name.value in LIGHTNING_INFERENCE_HOOKS:
            return False
        if self._only_detaches(method):
            return True
        modes = self._own_switches(method)
        if not words & EVALUATING and True not in modes:
            return False
        if not module.fact(OutputUses).reads(method) and modes != {True, False}:
            return False
        callers = module.callers(method)
        if callers.complete and callers.calls and all(map(self._is_outside_networks, callers.calls)):
            return True
        return any(module.tree.within(call, method.body) for call in module.fact(VolatileInputs).all)

    def _only_detaches(self, method: cst.FunctionDef) -> bool:
        """Whether a method detaches all outputs of the networks that it runs, so that nobody needs their graph."""
        module = self._module
        forwards = [call for call in module.tree.calls_in(method.body) if module.fact(Networks).runs_network(call)]
        uses = module.fact(OutputUses)
        if not forwards or self.may_be_under_no_grad(method):
            return False
        return all(uses.only_leaves_graph(call, method) for call in forwards)

    def may_be_under_no_grad(self, method: cst.FunctionDef) -> bool:
        """Whether only code out of sight calls a method that infers by its name: ``infer``, ``generate``."""
        words = words_of(method.name.value)
        return bool(words & (EVALUATING | USING)) and not self._module.callers(method).calls

    def _own_switches(self, method: cst.FunctionDef) -> set[bool | None]:
        """For each ``self.eval()`` in a method of a network, or ``self.generator.eval()`` for a part, True.

        False for ``self.train()``, by which an evaluation ends.
        """
        return {
            switch.evaluation
            for switch in self._module.fact(ModeSwitches).all
            if switch.target.split(".")[0] == "self" and self._module.function_of(switch.call) is method
        }

    def _is_outside_networks(self, call: cst.Call) -> bool:
        """Whether a call is at module level, in a function with known callers, or in another class with known bases."""
        function = self._module.function_of(call)
        if function is None:
            return True
        owner = self._module.tree.class_of(function)
        if owner is not None:  # an unseen base class may call the method
            is_network = self._module.values.instance(owner).kind is Kind.MODULE
            return not is_network and self._module.definitions.is_known_whole(owner)
        return self._module.callers(function).complete

    def _seeks_gradients(self, function: cst.FunctionDef) -> bool:
        module = self._module
        if module.fact(Gradients).trains(function):
            return False  # what follows are signs of a backward pass, which is seen
        owner = module.tree.class_of(function)
        outer = module.function_of(function)
        names = [function.name.value, owner.name.value if owner is not None else "", outer.name.value if outer else ""]
        if any(_GRADIENT_SEEKING.search(snake_case(name)) for name in names):
            return True
        around = owner or function
        if any(module.tree.first_within(nodes, around) is not None for nodes in (self._hooks, self._graphs_read)):
            return True
        if module.tree.first_within(self._gradients_read, function) is not None:
            return True
        return any(map(requires_gradient, module.tree.calls_in(function)))

    @cached_property
    def _hooks(self) -> list[cst.Attribute]:
        """Each hook, without those of functions that train: they change the gradients of that training."""
        return [node for node in self._module.tree.attributes_named(*_HOOKS) if not self._is_in_training(node)]

    def _is_in_training(self, node: cst.Attribute) -> bool:
        function = self._module.tree.function_of(node)
        return isinstance(function, cst.FunctionDef) and self._module.fact(Gradients).trains(function)

    @cached_property
    def _graphs_read(self) -> list[cst.Attribute]:
        """Each ``.grad_fn`` of a tensor, by which a program walks through its graph."""
        return [*self._module.tree.attributes_named("grad_fn")]

    @cached_property
    def _gradients_read(self) -> list[cst.Attribute]:
        """Each ``.grad`` of a tensor."""
        module = self._module
        return [node for node in module.tree.attributes_named("grad") if module.name_of(node) is None]

    def _is_handed_out(self, function: cst.FunctionDef) -> bool:
        """Whether the function is given to others to call, under a mode that is not seen here."""
        if self._module.tree.class_of(function) is not None or self._module.fact(Gradients).trains(function):
            return False  # a function that trains records gradients
        if self._module.callers(function).complete or self._module.definitions.is_spawned(function):
            return False
        if function in self._started:
            return False
        return not self._is_returned_to_callers(function) and not self._is_chosen(function)

    @cached_property
    def _started(self) -> set[cst.FunctionDef | cst.ClassDef]:
        """The functions that processes, threads or command lines run: ``Process(target=test)``, ``app.run(main)``."""
        tree, definitions = self._module.tree, self._module.definitions
        calls = map(tree.parent, tree.keywords.get("target", ()))
        targets = [target_of(call) for call in calls if isinstance(call, cst.Call)]
        commands = (call for name in _COMMANDS for call in self._module.names.calls_of(name))
        targets += [call.args[0].value for call in commands if call.args]
        return {definition for target in targets if target is not None for definition in definitions.named(target)}

    def _is_chosen(self, function: cst.FunctionDef) -> bool:
        """Whether all uses of a function keep it in variables that are only called: ``test = test_nll``."""
        outer = self._module.function_or_file(function)
        uses = self._module.names.uses_in(self._module.tree.scopes[outer], function.name.value)
        kept = [use for use in uses if not self._module.tree.is_called(use)]
        return bool(kept) and all(map(self._is_only_called, kept))

    def _is_returned_to_callers(self, function: cst.FunctionDef) -> bool:
        """Whether the function that creates ``function`` returns it to code that keeps it in a variable and calls it.

        As in ``run = make_run(model)``, followed by ``run("train")``.
        """
        module = self._module
        outer = module.function_of(function)
        if not isinstance(outer, cst.FunctionDef) or module.tree.class_of(outer) is not None:
            return False
        uses = module.names.uses_in(module.tree.scopes[outer], function.name.value)
        others = [use for use in uses if not self._module.tree.is_called(use)]
        if not others or not all(isinstance(module.tree.parent(use), cst.Return) for use in others):
            return False
        callers = module.callers(outer)
        return callers.complete and bool(callers.calls) and all(map(self._is_only_called, callers.calls))

    def _is_only_called(self, value: cst.CSTNode) -> bool:
        """Whether a value becomes a variable that is only called."""
        statement = self._module.tree.parent(value)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return False
        target = statement.targets[0].target
        home = self._module.names.home_of(target) if isinstance(target, cst.Name) else None
        if home is None or not isinstance(target, cst.Name):
            return False
        return all(
            isinstance(self._module.tree.parent(use), cst.AssignTarget) or self._module.tree.is_called(use)
            for use in self._module.names.uses_in(home, target.value)
        )
