"""Samples: which loops run a network on one sample at a time, although the samples could form batches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import ADDING, Kind
from torchlint.model.semantics.value import Role
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.training.evaluation import Evaluation
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import Loops
from torchlint.model.training.networks import Networks

from ._sample_sizes import SampleSizes
from ._sample_words import ONE_BY_ONE, TIMING, runs_on_images, runs_on_texts
from ._singles import Singles
from ._windows import Windows

#: Methods that keep something for later iterations.
_KEEPING = ADDING | {"copy_", "put", "push"}
#: Methods that pass one text, or one conversation, to a tokenizer.
_ENCODING = frozenset({"encode", "encode_plus", "apply_chat_template"})
_BATCH = re.compile(r"batch|chunk|group|loader", re.IGNORECASE)
_HANDFUL = 10
#: The maximum number of expressions that a sample is followed through.
_LIMIT = 60
#: How many changes of device or form a function may make to a sample that it is given.
_CHANGES = 4


@dataclass(frozen=True, eq=False)
class SampleLoop:
    """A loop that runs a network once per sample."""

    call: cst.Call  #: the call that runs the network
    loop: cst.CSTNode  #: a `for` loop, or a comprehension
    single: cst.CSTNode | None  #: the expression that creates a batch of size 1, if the file does so itself
    reason: str  #: why the samples can share a batch
    evidence: cst.CSTNode | None  #: the place that shows it


@dataclass(frozen=True, eq=False)
class _Iteration:
    """A `for` loop, or a comprehension."""

    node: cst.CSTNode
    target: cst.BaseExpression
    iter: cst.BaseExpression
    body: cst.CSTNode


@dataclass(frozen=True, eq=False)
class _Run:
    """A call that runs a network on one sample."""

    given: cst.CSTNode  #: the expression that contains the sample
    single: cst.CSTNode | None
    reason: str
    evidence: cst.CSTNode | None


class Samples:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._sizes = module.fact(SampleSizes)
        self._singles = Singles(module)
        self._windows = Windows(module)
        self._has_images, self._has_texts = runs_on_images(module.text), runs_on_texts(module.text)
        self._callers: dict[cst.CSTNode, list[tuple[cst.Call, _Iteration]]] = {}

    @cached_property
    def loops(self) -> list[SampleLoop]:
        """The loops of the file that run a network, or a pipeline, on one sample at a time; each loop once."""
        found: dict[cst.CSTNode, SampleLoop] = {}
        for call in self._calls:
            for item in self._loops_of(call):
                found.setdefault(item.loop, item)
        return [item for item in found.values() if self._module.is_own(item.loop)]

    @property
    def _calls(self) -> list[cst.Call]:
        """The calls of the file, and those in functions of other files that its loops call, in order."""
        own = self._tree.calls_in(self._module.root)
        around = self._module.fact(Loops).around
        run = {
            function: None
            for call in own
            for item in around(call)[:1]
            if isinstance(item.node, cst.For) and self._takes_item(call, item.node)
            for function in self._module.definitions.called(call, self._module.values)
            if isinstance(function, cst.FunctionDef) and not self._module.is_own(function)
        }
        others = [call for function in run for call in self._tree.calls_in(function.body)]
        return sorted(dict.fromkeys((*own, *others)), key=self._tree.index)

    def _takes_item(self, call: cst.Call, loop: cst.For) -> bool:
        """Whether an argument of ``call`` is computed from an item of ``loop``, at this iteration."""
        targets = self._tree.names_in(loop.target)
        used = (self._tree.names_in(*self._sources(argument.value, loop.body)) for argument in call.args)
        return not all(map(targets.isdisjoint, used))

    def _loops_of(self, call: cst.Call) -> Iterator[SampleLoop]:
        """The loop around ``call``, or those around the calls of the function that contains it."""
        given = next((item.value for item in call.args if item.star != "*"), None)
        if given is None or self._module.fact(Networks).is_of_library(call):
            return
        around = self._around(call)
        if around is not None:
            found = self._runs(call, given, around.body)
            if found is None or not found.reason:
                return
            fed = [item.value for item in call.args]
            if self._is_free(call, found.given, around, fed) and self._is_inference(call, found):
                yield SampleLoop(call, around.node, found.single, found.reason, found.evidence)
            return
        if self._module.fact(Loops).around(call):
            return  # a `while` loop
        function = self._module.function_of(call)
        callers = self._looping_callers(function) if function is not None else []
        if function is None or not callers or self._is_one_by_one(function.body):
            return
        found = self._runs(call, given, function.body)
        if found is None and not self._is_passed_on(given):
            return
        for caller, loop in callers:
            item = self._loop_of_caller(caller, loop, found, self._fed(caller, function, given))
            if item is not None and self._is_inference(call, found):
                yield item

    def _around(self, call: cst.Call) -> _Iteration | None:
        """The innermost loop around a call, if that is a `for` loop or a comprehension."""
        for above, child in climb(self._tree, call, self._tree.statement_of(call)):
            if isinstance(above, (cst.ListComp, cst.GeneratorExp)) and child is above.elt:
                over = above.for_in
                is_plain = over.inner_for_in is None and not over.ifs
                return _Iteration(above, over.target, over.iter, above.elt) if is_plain else None
        loop = next((item.node for item in self._module.fact(Loops).around(call)), None)
        return _Iteration(loop, loop.target, loop.iter, loop.body) if isinstance(loop, cst.For) else None

    def _looping_callers(self, function: cst.FunctionDef) -> list[tuple[cst.Call, _Iteration]]:
        """The calls of a function that are directly in a `for` loop or a comprehension, with that loop."""
        known = self._callers.get(function)
        if known is None:
            loops = [(call, self._around(call)) for call in self._module.callers(function).calls]
            known = self._callers[function] = [(call, loop) for call, loop in loops if loop is not None]
        return known

    def _loop_of_caller(
        self, caller: cst.Call, loop: _Iteration, found: _Run | None, fed: list[cst.BaseExpression]
    ) -> SampleLoop | None:
        """The loop around a call of the function that runs the network on ``fed``, the arguments of the call.

        The function creates the batch of size 1, as ``found`` says, or its caller does. Either defines the size.
        """
        if found is not None and found.reason:
            if not any(self._is_free(caller, item, loop, fed) for item in fed):
                return None
            return SampleLoop(caller, loop.node, found.single, found.reason, found.evidence)
        for given in fed:
            single = self._singles.single(given, loop.body) if found is None else found.single
            sample = single if found is None else given
            evidence = self._same_size(sample, given, loop.body) if single is not None else None
            if evidence is not None and self._is_free(caller, given, loop, fed):
                return SampleLoop(caller, loop.node, single, *evidence)
        return None

    def _is_passed_on(self, given: cst.BaseExpression) -> bool:
        """Whether a network may run on a parameter as it is, or on another device: the caller may make a batch of 1."""
        node: cst.CSTNode | None = given
        for _ in range(_CHANGES):
            node = self._module.values.reaching.assigned(node) or node
            if not isinstance(node, cst.Call):
                break
            node = self._singles.changed(node)
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else []
        return self._has_images and bool(reached) and all(item.kind is BindingKind.PARAM for item in reached)

    def _fed(self, caller: cst.Call, function: cst.FunctionDef, given: cst.CSTNode) -> list[cst.BaseExpression]:
        """The arguments of ``caller`` for the parameters of ``function`` that the network's input is made from."""
        names = self._tree.names_in(*self._sources(given, function.body))
        passed = [
            self._module.definitions.argument_of(caller, function, param)
            for param in parameters_of(function)
            if param.name.value in names
        ]
        return [item for item in passed if item is not None]

    def _runs(self, call: cst.Call, given: cst.BaseExpression, body: cst.CSTNode) -> _Run | None:
        """Whether ``call`` may run a network on one sample that the statements of ``body`` create."""
        if self._has_texts and self._is_pipeline(call):
            one = given if self._is_one(given, body) else None
            return _Run(one, None, "the pipeline accepts a list of inputs and `batch_size=`", None) if one else None
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "generate":
            if not self._has_texts:
                return None
            model = self._module.value(call.func.value)
            named = last_name(call.func.value).lower()
            if model.kind is not Kind.MODULE or not (model.sure or named.endswith("model")):
                return None
            text = self._tokenized(given, body)
            return _Run(text, None, "the tokenizer can pad several texts to one length", None) if text else None
        if not self._has_images:
            return None
        singles = ((item.value, self._singles.single(item.value, body)) for item in call.args)
        found = [
            _Run(given, single, *(self._same_size(single, given, body) or ("", None)))
            for given, single in singles
            if single is not None
        ]
        if any(self._singles.varies(run.single) for run in found) or any(
            not run.reason and self._singles.is_measured(run.single, body) for run in found
        ):
            return None  # an input is of another size for each sample
        known = next((run for run in found if run.reason), None)
        if known is None and found and self._windows.are_cut(self._sources(found[0].given, body)):
            return None  # the size that the caller gives is not that of the sample
        return known or next(iter(found), None)

    def _is_inference(self, call: cst.Call, run: _Run | None) -> bool:
        """Whether ``call`` runs a pipeline or generates a text, as ``run`` says, or runs a network for inference."""
        if run is not None and run.single is None:
            return True
        networks, module = self._module.fact(Networks), self._module
        if self._runs_without_gradients(call):
            return True
        if not networks.runs_network(call):
            return False
        if not module.fact(GradModes).of(call).is_off:
            if module.fact(Evaluation).of(call, networks.network_of(call)) is None:
                return False
        return not module.fact(Gradients).reaches_backward(call)  # asked last, as it takes longest

    def _runs_without_gradients(self, call: cst.Call) -> bool:
        """Whether ``call`` is of a method that turns gradients off, runs a network and returns what that gives."""
        networks, modes = self._module.fact(Networks), self._module.fact(GradModes)
        called = self._module.definitions.called(call, self._module.values)
        return bool(called) and all(
            isinstance(function, cst.FunctionDef)
            and modes.disables(function)
            and any(self._module.definitions.returns(function))
            and any(map(networks.runs_network, self._tree.calls_in(function.body)))
            for function in called
        )

    # -- texts

    def _is_one(self, node: cst.CSTNode, body: cst.CSTNode) -> bool:
        """Whether ``node`` may be a single text: not a list of texts, not a slice, not named like a batch."""
        value = self._module.value(node)
        if value.kind in (Kind.BATCH, Kind.LOADER, Kind.SEQUENCE) or value.role is Role.BATCH:
            return False
        parts = [part for source in self._sources(node, body) for part in self._tree.nodes_in(source)]
        return not any(
            isinstance(part, (cst.Slice, cst.ListComp))
            or (isinstance(part, cst.Name) and _BATCH.search(part.value))
            or (isinstance(part, cst.BinaryOperation) and isinstance(part.left, cst.List))  # `[prompt] * n`
            for part in parts
        )

    def _is_pipeline(self, call: cst.Call) -> bool:
        """``pipe(text)`` where ``pipe = transformers.pipeline(...)``."""
        if not isinstance(call.func, cst.Name):
            return False
        made = [item.value for item in self._module.names.bindings(call.func) if item.kind is BindingKind.ASSIGN]
        return bool(made) and all(
            isinstance(value, cst.Call) and self._module.name_of(value.func) == "transformers.pipeline"
            for value in made
        )

    def _tokenized(self, node: cst.CSTNode, body: cst.CSTNode) -> cst.BaseExpression | None:
        """The text behind ``inputs`` or ``inputs["input_ids"]``, if ``body`` calls a tokenizer for it."""
        for source in self._sources(node, body):
            for call in self._tree.calls_in(source):
                owner, method = call.func, ""
                if isinstance(call.func, cst.Attribute) and call.func.attr.value in _ENCODING:
                    owner, method = call.func.value, call.func.attr.value
                name = last_name(owner).lower()
                if not call.args or not (name.endswith("tokenizer") or "Tokenizer" in self._module.value(owner).name):
                    continue
                text = call.args[0].value
                return text if method == "apply_chat_template" or self._is_one(text, body) else None
        return None

    # -- the input of a call

    def _sources(self, node: cst.CSTNode, body: cst.CSTNode) -> list[cst.CSTNode]:
        """``node`` and the expressions of ``body`` that it is computed from, through the names they use."""
        found: list[cst.CSTNode] = [node]
        for part in found:  # grows during the iteration
            for name in self._tree.nodes_in(part):
                if not isinstance(name, cst.Name) or len(found) > _LIMIT:
                    continue
                for binding in self._module.values.reaching.of(name):
                    value = binding.value
                    if value is not None and value not in found and self._tree.within(binding.node, body):
                        found.append(value)
        return found

    def _is_free(self, call: cst.Call, given: cst.CSTNode, loop: _Iteration, fed: list[cst.BaseExpression]) -> bool:
        """Whether each iteration uses another sample, needs no earlier iteration, and nothing waits for one result.

        The input of the network is made from ``fed``: arguments of ``call``.
        """
        if self._is_handful(loop) or self._is_one_by_one(loop.body):
            return False
        names, targets = self._tree.names_in(*self._sources(given, loop.body)), self._tree.names_in(loop.target)
        if names.isdisjoint(targets):
            return False
        kept = names - targets
        for argument in fed:
            expressions = self._sources(argument, loop.body)
            if any(self._tree.within(call, part) for part in expressions if part is not argument):
                return False  # the result of an earlier iteration
        for inner in self._tree.calls_in(loop.body):
            owner = dotted_name(inner.func.value) if isinstance(inner.func, cst.Attribute) else None
            if owner in kept and last_name(inner.func) in _KEEPING:
                return False
        return not any(
            isinstance(target, cst.Subscript)
            and dotted_name(target.value) in kept
            and not self._is_bound_in(target.value, loop.body)
            for target, _, statement in self._tree.stores
            if self._tree.within(statement, loop.body)
        )

    def _is_bound_in(self, node: cst.BaseExpression, body: cst.CSTNode) -> bool:
        """Whether only the statements of ``body`` bind a name: ``row = rows[i]``, so that it is new."""
        bindings = self._module.names.bindings(node) if isinstance(node, cst.Name) else []
        return bool(bindings) and all(self._tree.within(binding.node, body) for binding in bindings)

    def _is_handful(self, loop: _Iteration) -> bool:
        """Whether the file lists the samples, or there are a few, or the names show that the items are batches."""
        value = self._module.value(loop.iter)
        if value.elements or any(
            _BATCH.search(name) for name in (*self._tree.names_in(loop.target), dotted_name(loop.iter) or "")
        ):
            return True
        counts = self._counts(loop.iter)
        if len(counts) == 1:
            number = self._module.value(counts[0].value).constant
            return isinstance(number, int) and number <= _HANDFUL
        return len(counts) == 3 and any(isinstance(item.value, cst.Integer) for item in counts[1:])

    def _counts(self, node: cst.BaseExpression) -> list[cst.Arg]:
        """The arguments of ``range(0, n, size)``, also where it is given to another function: ``tqdm(range(n))``."""
        if not isinstance(node, cst.Call):
            return []
        if self._module.name_of(node.func) != "builtins.range":
            return self._counts(node.args[0].value) if node.args else []
        return list(node.args)

    def _is_one_by_one(self, body: cst.CSTNode) -> bool:
        """Whether samples arrive one by one, or single samples are measured or shown."""
        calls = {call: last_name(call.func) for call in self._tree.calls_in(body)}
        return any(
            ONE_BY_ONE.match(name) and not (TIMING.match(name) and self._is_conditional(call, body))
            for call, name in calls.items()
        )

    def _is_conditional(self, node: cst.CSTNode, body: cst.CSTNode) -> bool:
        """Whether ``node`` is in a branch of ``body``, such as one that measures the time if it is asked to."""
        return any(
            isinstance(above, cst.If) and child is not above.test for above, child in climb(self._tree, node, body)
        )

    def _same_size(
        self, single: cst.CSTNode | None, given: cst.CSTNode, body: cst.CSTNode
    ) -> tuple[str, cst.CSTNode | None] | None:
        """Why all samples have the same size, and the place that shows it; None if that is not certain."""
        sources = self._sources(given, body)
        for source in sources:
            for call in self._tree.calls_in(source):
                for resize in self._sizes.fixed_by(call, body):
                    return "all samples get the same size", resize
        rows = self._singles.rows(single)
        if rows is not None:
            return "the samples are rows of a tensor or array", rows
        window = self._windows.among(sources, body)
        if window is not None:
            return "the samples are windows of one size", window
        loader = self._sizes.batched_by(sources, body)
        return None if loader is None else ("a loader makes batches of the same dataset", loader)
