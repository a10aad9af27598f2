"""Inference: which statements of a program run a network without training it, and what is known of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from operator import itemgetter

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.syntax.dotted import called_name, dotted_name
from torchlint.model.training.constructors import Constructors
from torchlint.model.training.discarded_graphs import DiscardedGraphs
from torchlint.model.training.environments import Environments
from torchlint.model.training.evaluation import Evaluation
from torchlint.model.training.exclusions import Exclusions
from torchlint.model.training.frozen import Frozen, freezes
from torchlint.model.training.function_words import ACTING, CHECKING, EVALUATING, USING, says_training, words_of
from torchlint.model.training.grad_mode import GradMode, GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.inference_scripts import InferenceScripts
from torchlint.model.training.inference_site import InferenceSite
from torchlint.model.training.inner_gradients import InnerGradients
from torchlint.model.training.loops import Loops
from torchlint.model.training.mode_dependence import ModeDependence
from torchlint.model.training.mode_switches import ModeSwitches, same_object
from torchlint.model.training.networks import Networks
from torchlint.model.training.output_uses import OutputUses
from torchlint.model.training.phases import HELD_OUT, Phase, Phases, says_evaluation
from torchlint.model.training.purpose import Purpose, Purposes
from torchlint.model.training.sampling import Sampling
from torchlint.model.training.shared_steps import SharedSteps
from torchlint.model.training.trial_runs import TrialRuns
from torchlint.model.training.volatile_inputs import VolatileInputs

_GRADIENT_LIBRARIES = ("captum", "torchattacks", "foolbox", "pytorch_grad_cam", "functorch", "higher", "learn2learn")
_ADVERSARIES = re.compile(r"discriminator|^net_?d$|^d_net$|adversarial", re.IGNORECASE)
_MOVING_TARGETS = re.compile(r"teacher|target|ema|momentum|frozen|vgg|lpips|perceptual", re.IGNORECASE)


class Inference:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._exclusions = module.fact(Exclusions)
        self._discarded = module.fact(DiscardedGraphs)
        self._uses = module.fact(OutputUses)
        self._shared = module.fact(SharedSteps)
        self._trials = module.fact(TrialRuns)
        self._training: dict[cst.FunctionDef, tuple[list[cst.Call], Counter[cst.CSTNode]]] = {}

    @cached_property
    def recording(self) -> list[InferenceSite]:
        """The places whose forwards record an autograd graph that nothing uses."""
        if self._is_out_of_reach:
            return []
        guarded, home = self._may_be_guarded, self._module.function_of
        networks = (item for item in self._discarded.in_networks if not guarded(home(item.forward)))
        return [*self._sites(self._recorded, (*self._indirect, *self._discarded.metrics)), *networks]

    @cached_property
    def in_training_mode(self) -> list[InferenceSite]:
        """Places that run a network of this file that nothing in the file may have put into evaluation mode.

        Of a block of statements the first one.
        """
        module = self._module
        if self._is_out_of_reach:
            return []
        if module.fact(Environments).are_played or self._is_adversarial:
            return []
        sites = self._sites(self._in_training_mode, self._indirect)
        first = {self.place(site): site for site in reversed(sites)}
        return [site for site in sites if first[self.place(site)] is site]

    def runs_once(self, site: InferenceSite) -> bool:
        """Whether all forwards of ``site`` run once when the program runs."""
        tree, networks = self._module.tree, self._module.fact(Networks)
        forwards = [
            call
            for call in tree.calls_in(site.node)
            if not isinstance(tree.function_of(call), cst.Lambda) and networks.runs_network(call)
        ]
        return all(map(self._module.fact(Purposes).runs_once, forwards or [site.forward]))

    def _sites(
        self,
        recognize: Callable[[cst.Call, cst.FunctionDef | None], InferenceSite | None],
        more: Iterable[cst.Call] = (),
    ) -> list[InferenceSite]:
        """The sites that ``recognize`` returns for the forwards of the file and for ``more`` calls, each once."""
        found: dict[cst.CSTNode, InferenceSite] = {}
        forwards = [(function, call) for function, calls in self._forwards.items() for call in calls]
        for function, call in (*forwards, *((self._module.function_of(call), call) for call in more)):
            if function is None or not self._exclusions.has(function):
                site = recognize(call, function)
                if site is not None:
                    found.setdefault(site.node, site)
        return list(found.values())

    def place(self, site: InferenceSite) -> cst.CSTNode:
        """What is reported once: a function or loop, or the block of a single statement."""
        if isinstance(site.node, cst.BaseSmallStatement):
            blocks = [block for block, _, _ in self._module.tree.block_path(site.forward)]
            return next((block for block in blocks if not isinstance(block, cst.SimpleStatementLine)), site.node)
        return site.node

    @cached_property
    def _forwards(self) -> dict[cst.FunctionDef | None, list[cst.Call]]:
        """The forward calls of the file by the function that runs them, without functions that are left out anyway."""
        found: dict[cst.FunctionDef | None, list[cst.Call]] = {}
        for call in self._module.tree.calls_in(self._module.root):
            home = self._module.tree.function_of(call)
            if isinstance(home, cst.Lambda) or (home is not None and self._exclusions.of_place(home)):
                continue
            if self._module.fact(Networks).runs_network(call):
                found.setdefault(home, []).append(call)
        return found

    @property
    def _indirect(self) -> Iterator[cst.Call]:
        """The calls of functions that run a network for training too, as ``self.step(batch)``."""
        for call in self._module.tree.calls_in(self._module.root):
            home = self._module.function_of(call)
            if home is None or not self._exclusions.of_place(home):
                if self._shared.network(call) is not None:
                    yield call

    @cached_property
    def _is_out_of_reach(self) -> bool:
        """Whether the file has nothing to do with torch, or a library wants gradients of what looks like inference."""
        if not self._module.uses_torch:
            return True
        roots = {name.partition(".")[0] for name in self._module.own_imported_names}
        return not roots.isdisjoint(_GRADIENT_LIBRARIES)

    @cached_property
    def _is_adversarial(self) -> bool:
        """Whether a generator plays against a discriminator: it is sampled in training mode by habit."""
        return any(map(_ADVERSARIES.search, self._module.words_of(self._module.root)))

    def _recorded(self, call: cst.Call, function: cst.FunctionDef | None) -> InferenceSite | None:
        module = self._module
        if module.fact(GradModes).is_turned_on(call) or module.fact(Networks).is_of_unseen_method(call):
            return None
        run = module.fact(Dispatch).run(call)
        is_off = bool(run) and all(module.fact(Networks).runs_without_gradients(call, item) for item in run)
        if is_off or module.fact(InnerGradients).may_be_computed_by(call):
            return None  # it switches gradients off itself, as a filter may do, or needs them, as MAML does
        if run and all(map(self._exclusions.is_inference_itself, run)):
            return None  # reported where the method runs the network
        model = self._shared.network(call) or module.fact(Networks).network_of(call)
        volatile = module.fact(VolatileInputs).of(call)
        phases = self._evaluating_phases(call, function)
        if phases and function is not None:
            pairs = ((phase, self._recording_phase(call, function, phase)) for phase in phases)
            phase, recording = next(filter(itemgetter(1), pairs), (phases[0], None))
            if recording is None or module.fact(Frozen).has(model):
                return None
            place = recording.places[0]
            if len(recording.places) < len(phase.places) and isinstance(place, cst.Call) and module.is_own(place):
                return InferenceSite(place, model, module.tree.statement_of(place), recording.evidence, recording)
            return InferenceSite(call, model, function, recording.evidence, recording)
        if (
            (volatile is None and module.fact(Gradients).carries_gradient(call))
            or module.fact(Frozen).has(model)
            or self._trials.is_dry_run(call, function)
            or self._trials.only_describes(call, function)
        ):
            return None
        unguarded: cst.Call | None = None
        if module.fact(GradModes).of(call) is not GradMode.RECORDING:
            unguarded = module.fact(GradModes).unguarded_call(call)
            if unguarded is None or module.fact(Purposes).of(unguarded) not in (Purpose.WORK, Purpose.ONCE):
                return None
            if any(module.fact(Frozen).has(item.value) for item in unguarded.args):
                return None
        site = self._recorded_forward(call, function, model, volatile)
        if site is not None and unguarded is None and self._may_be_guarded(function):
            return None  # asked last: it may look at all files of the project
        if site is not None and function is not None and site.node is function and self._also_trains(call, function):
            site = replace(site, node=module.tree.statement_of(call))
        return site if unguarded is None or site is None else replace(site, unguarded=unguarded)

    def _also_trains(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether another call in ``function`` is for training: a forward, or one of the step that ``call`` shares."""
        if function not in self._training:
            self._training[function] = self._training_in(function)
        forwards, steps = self._training[function]
        if any(other is not call for other in forwards[:2]):
            return True
        is_shared, called = self._shared.network(call) is not None, self._module.definitions.called
        return is_shared and any(steps[item] > 1 for item in called(call, self._module.values))

    def _training_in(self, function: cst.FunctionDef) -> tuple[list[cst.Call], Counter[cst.CSTNode]]:
        """The forwards in ``function`` for training, and how often it calls each shared step."""
        module, calls = self._module, self._module.tree.calls_in(function.body)
        forwards = [
            call
            for call in calls
            if module.fact(Gradients).carries_gradient(call)
            and module.fact(Networks).runs_network(call)
            and module.fact(VolatileInputs).of(call) is None
        ]
        steps = (call for call in calls if self._shared.network(call) is not None)
        return forwards, Counter(item for call in steps for item in module.definitions.called(call, module.values))

    def _recorded_forward(
        self,
        call: cst.Call,
        function: cst.FunctionDef | None,
        model: cst.BaseExpression,
        volatile: cst.Call | None,
    ) -> InferenceSite | None:
        """The inference around a forward that records gradients and takes part in no backward pass."""
        module = self._module
        trains = module.fact(Gradients).trains(function) if function is not None else False
        evaluated = module.fact(Evaluation).of(call, model) or volatile
        if evaluated is not None and freezes(module, evaluated):
            return None
        apart = None if function is None or trains or function.name.value == "main" else function
        in_loss = evaluated is None and module.fact(Gradients).reaches_backward(call)
        if function is None or apart is None:
            return self._recorded_statement(call, model, evaluated, in_loss=in_loss)
        if in_loss and not self._uses.only_leaves_graph(call, apart) and not self._uses.is_only_read(call, apart):
            if not self._discarded.reason_in_callers(call, apart):
                return None
        if volatile is None and self._uses.converts_without_detach(call, function):
            return None
        if isinstance(call.func, cst.Attribute) and model is call.func.value and evaluated is None:
            if call.func.attr.value != "forward" and not module.fact(Networks).is_seen_to_run(call):
                return None  # only the class, which is not seen, knows under which mode it runs
        if volatile is None and not self._uses.is_consumed(call, function):
            return None
        if evaluated is not None:
            return InferenceSite(call, model, function, (self._quoted(evaluated), evaluated))
        by_name = self._reason_by_name(call, function)
        reason = by_name or self._discarded.reason_in_function(call, function)
        reason = reason or self._discarded.reason_in_callers(call, function)
        if self._trials.makes_network(function, model) or not reason:
            return None
        may_train = says_training(words_of(function.name.value)) or (not by_name and self._keeps_graph(function))
        node = module.tree.statement_of(call) if may_train else function
        return InferenceSite(call, model, node, (reason, None))

    def _keeps_graph(self, function: cst.FunctionDef) -> bool:
        """Whether an output of a forward in ``function`` may leave it with its graph, for a caller that trains."""
        forwards = self._forwards.get(function, ())
        return not all(self._discarded.reason_in_function(item, function) for item in forwards)

    def _reason_by_name(self, call: cst.Call, function: cst.FunctionDef) -> str:
        """Why ``function`` is inference by its name and what it does with the output; empty if it may train."""
        words = words_of(name := function.name.value)
        if says_training(words):
            return ""
        if words & EVALUATING and (
            self._module.fact(Loops).over_batches(call) is not None or self._uses.reads(function)
        ):
            return f"`{name}` is an evaluation function"
        acts = bool(words & ACTING) and not self._may_be_called_by_base(function)
        if acts and (self._uses.only_chooses(call, function) or self._uses.is_only_read(call, function)):
            return f"`{name}` only chooses an action"
        if words & USING and self._uses.leaves_graph(call, function):
            return f"`{name}` only reads the outputs"
        return ""

    def _may_be_called_by_base(self, function: cst.FunctionDef) -> bool:
        """Whether a base class out of sight may call a method, under a grad mode that is not seen."""
        owner = self._module.tree.class_of(function)
        if owner is None or self._module.definitions.is_known_whole(owner):
            return False
        return not self._module.callers(function).calls

    def _may_be_guarded(self, function: cst.FunctionDef | None, depth: int = 2) -> bool:
        """Whether code out of sight may call a method that trains nothing, or its caller, with gradients disabled."""
        if function is None or self._module.tree.class_of(function) is None or function.name.value == "forward":
            return False
        if self._module.fact(Gradients).trains(function) or says_training(words_of(function.name.value)):
            return False
        calls = self._module.fact(Purposes).calls_elsewhere(function)
        above = [self._may_be_guarded(self._module.function_of(call), depth - 1) for call in calls if depth > 0]
        return any(above) if calls else self._module.is_called_without_gradients(function.name.value)

    def _evaluating_phases(self, call: cst.Call, function: cst.FunctionDef | None) -> list[Phase]:
        """The phases in which ``function`` only evaluates the network that it trains in another one."""
        gradients = self._module.fact(Gradients)
        if function is None or not gradients.reaches_backward(call):
            return []
        phases = list(self._module.fact(Phases).evaluating(call, function))
        if not all(map(says_evaluation, phases)) and self._uses.is_given_away(call, function):
            phases = list(filter(says_evaluation, phases))
        if phases and not self._uses.reads(function):
            phases = list(filter(says_evaluation, phases)) if self._uses.reads_by_calls(function) else []
        if not phases or self._uses.is_kept(call, function):
            return []
        if self._uses.is_consumed(call, function, depth=0):
            return phases
        return [phase for phase in phases if not any(map(gradients.reaches_backward, phase.calls))]

    def _recording_phase(self, call: cst.Call, function: cst.FunctionDef, phase: Phase) -> Phase | None:
        """The phase with those of its places that record gradients; None if the function itself may turn them off."""
        modes = self._module.fact(GradModes)
        if self._module.fact(Networks).chooses_grad_mode(call, function):
            return None
        places = tuple(
            place
            for place in phase.places
            if modes.of(place) is GradMode.RECORDING or modes.unguarded_call(place) is not None
        )
        return replace(phase, places=places) if places else None

    def _quoted(self, evaluated: cst.CSTNode) -> str:
        code = self._module.code(evaluated)
        name = called_name(evaluated) if isinstance(evaluated, cst.Call) else "eval"
        return f"`{code}`" if len(code) <= 40 and code.isprintable() else f"`{name}()`"

    def _recorded_statement(
        self, call: cst.Call, model: cst.BaseExpression, evaluated: cst.CSTNode | None, *, in_loss: bool
    ) -> InferenceSite | None:
        """In code that also trains, or outside a function: a loop or statement that does not train."""
        statement = self._module.tree.statement_of(call)
        loop = self.outermost_loop(call)
        is_alone = isinstance(statement, cst.BaseSmallStatement) and not self._module.fact(Gradients).trains(statement)
        if evaluated is not None:
            node = loop or (statement if is_alone else None)
            return None if node is None else InferenceSite(call, model, node, (self._quoted(evaluated), evaluated))
        batches = self._module.fact(Loops).over_batches(call)
        if loop is not None and batches is not None and not in_loss:
            only_evaluates = self._module.fact(InferenceScripts).only_evaluates(self._module.tree.root_of(call))
            if (only_evaluates or self._is_held_out(batches)) and self._uses.reads(loop):
                return InferenceSite(call, model, loop, ("this loop has no backward pass", None))
        reason = self._discarded.reason(call) if is_alone else ""
        node = statement if loop is None or self._discarded.trains_around(call) else loop
        return InferenceSite(call, model, node, (reason, None)) if reason else None

    def _is_held_out(self, loop: cst.For) -> bool:
        return any(HELD_OUT.search(part.value) for part in self._module.tree.inside(loop.iter, cst.Name))

    def outermost_loop(self, call: cst.Call) -> cst.For | cst.While | None:
        """The largest loop around ``call`` in its function that does not train."""
        found: cst.For | cst.While | None = None
        for loop in self._module.fact(Loops).around(call):
            if self._module.fact(Gradients).trains(loop.node):
                break
            found = loop.node
        return found

    def _in_training_mode(self, call: cst.Call, function: cst.FunctionDef | None) -> InferenceSite | None:
        module = self._module
        model = self._shared.network(call) or module.fact(Networks).network_of(call)
        text = dotted_name(model)  # without arguments, it is a method for this purpose, which may leave out dropout
        if text is None or not call.args or _MOVING_TARGETS.search(text) or call in module.fact(Sampling).all:
            return None
        if module.fact(Networks).runs_only_parts(call) or self._is_kept_in_training_mode(text):
            return None  # the layers whose mode matters may be in others, or the mode is meant
        phase = next(filter(says_evaluation, self._evaluating_phases(call, function)), None)
        if phase is None and module.fact(Gradients).reaches_backward(call):
            return None
        disabled = module.fact(GradModes).of(call).is_off
        if phase is None and module.fact(GradModes).of(call) is GradMode.UNKNOWN:
            return None
        loops = module.fact(Loops)
        loop = loops.over_batches(call) or loops.taking_batch(call)
        node: cst.CSTNode | None = function
        if phase is None and function is not None and not module.fact(Gradients).trains(function):
            words = words_of(function.name.value)
            if says_training(words) or self._trials.makes_network(function, model):
                return None
            if words & CHECKING and self._trials.is_given_numbers(call):
                return None
            if not disabled and not (words & EVALUATING and (loop is not None or self._uses.reads(function))):
                node = self.outermost_loop(call) if loop is not None and self._is_held_out(loop) else None
        elif phase is None:
            root, node = module.tree.root_of(call), self.outermost_loop(call)
            if function is None and disabled and module.fact(InferenceScripts).only_loads(root):
                node = None if self._trials.is_given_numbers(call) else root
            elif loop is None or not (disabled or self._is_held_out(loop)):
                return None
        if node is None:
            return None
        constructors = module.fact(Constructors).of(model)
        if not constructors or module.fact(Constructors).may_be_in_evaluation(model, constructors):
            return None
        if not any(module.fact(ModeDependence).of(made) for made in constructors):
            return None
        first = min(constructors, key=module.tree.index)
        return InferenceSite(call, model, node, ("created in training mode", first), phase)

    def _is_kept_in_training_mode(self, text: str) -> bool:
        """Whether a file that trains nothing calls ``train()`` of the network called ``text``."""
        module = self._module
        own = (item for item in module.fact(ModeSwitches).all if module.is_own(item.call) and item.evaluation is False)
        return any(same_object(item.target, text) for item in own) and not module.fact(Gradients).trains(module.root)
