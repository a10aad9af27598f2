"""Epochs: which loaders are iterated over repeatedly."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property

import libcst as cst

from torchlint.model.data.loaders import Loaders
from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.program.configuration import Configuration
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.options import Options
from torchlint.model.semantics.iterables import iterables
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Value, iterated
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.conditions import conjuncts
from torchlint.model.syntax.dotted import called_name, dotted_name, is_attribute_of_self, last_part
from torchlint.model.syntax.nodes import HANDLERS, Handler
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.training.function_words import words_of
from torchlint.model.training.loops import Loops

from ._endless import EndlessDatasets
from ._iterated_objects import loops_over
from ._trainer_epochs import TrainerEpochs, loaders_in

#: The maximum number of callers between an iteration and the loop over the epochs.
_DEPTH = 5
#: Functions that create a new iterator of a loader.
_ITERATORS = frozenset({"builtins.iter", "builtins.enumerate"})
#: Words in the names of functions of other files that iterate over a loader once ...
_ONE_PASS = frozenset("train training eval evaluate evaluation valid validate validation val test epoch".split())
_NAMES_PASS = re.compile("train|eval|valid|test|epoch|val")
#: ... unless they create something from it.
_MAKING = frozenset("get build make create prepare wrap setup init".split())


class Epochs:
    """Answers about the loaders of one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def repetition(self, loader: Call) -> cst.CSTNode | None:
        """What iterates over ``loader`` repeatedly: a loop around the one over its batches, or a trainer."""
        found = map(self._repetition, self._module.fact(Loaders).creating_calls(loader))
        return next((node for node in found if node is not None), None)

    def _repetition(self, loader: Call) -> cst.CSTNode | None:
        trained = self._module.fact(TrainerEpochs).of(loader)
        if trained is not None:
            return trained
        for place in self._passes(loader):
            if self._module.fact(EndlessDatasets).has_one_pass(place, loader):
                continue
            found = self._repeated(place, loader, _DEPTH)
            if found is not None and self._iterates_over(found, loader) and not self._are_several(loader, found, place):
                return None  # a pass within a pass: persistent workers serve only one at a time
            if found is not None:
                return found
        return None

    def _are_several(self, loader: Call, outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
        """Whether two passes are over different objects that one call makes, in a function that several calls run."""
        function = self._module.function_of(loader.node)
        if function is None or len(self._module.callers(function).calls) < 2:
            return False
        over = [self._module.code(node.iter) for node in (outer, inner) if isinstance(node, cst.For)]
        return len(set(over)) == len(over)

    # -- one pass

    def _passes(self, loader: Call) -> list[cst.CSTNode]:
        """The places that start to take batches from ``loader``."""
        found: list[cst.CSTNode] = []
        for consumer in self._module.fact(Loading).consumers(loader):
            if self._iterates_over(consumer.node, loader):
                found.append(consumer.node)
        return [*found, *self._calls_of_one_pass.get(loader.node, ())]

    @cached_property
    def _calls_of_one_pass(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """By loader, in order: the calls that keep an iterator of it, or pass it to a function that iterates."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        names = self._module.names
        named = (name for name in names.calls if name in _ITERATORS or _NAMES_PASS.search(last_part(name)))
        iterators = (call.node for call in self._module.methods("__iter__"))
        taking = dict.fromkeys((*names.calls_of(*named), *iterators, *self._tree.calls_where(_NAMES_PASS.search)))
        for call in sorted(taking, key=self._tree.index):
            given: list[cst.BaseExpression] = []
            iterated_by = self._iterated_by(call)
            if iterated_by is not None:
                given.append(iterated_by)
            if self._is_passed_on(call):
                given += [item.value for item in call.args]
            values = [self._module.value(node) for node in given]
            for loader in {loader for value in values for loader in self._latest(value, call)}:
                found.setdefault(loader, []).append(call)
        for function in self._tree.functions:
            for item in self._module.definitions.delegated(function):
                value = self._module.value(item)
                for loader in value.origins if value.kind is Kind.LOADER else ():
                    found.setdefault(loader, []).append(item)
        return found

    def _latest(self, value: Value, call: cst.Call) -> Collection[cst.CSTNode]:
        """The loaders that ``call`` may get: those that its function creates hide others of the same attribute."""
        loaders = value.origins if value.kind is Kind.LOADER else frozenset()
        function = self._module.function_of(call)
        return [item for item in loaders if self._module.function_of(item) is function] or loaders

    def _iterates_over(self, node: cst.CSTNode, loader: Call) -> bool:
        """Whether a loop or comprehension iterates over the loader, and not over the contents of a batch."""
        if isinstance(node, cst.For):
            return _binds_batch(self._module.fact(Loops).of(node).over, loader)
        if isinstance(node, COMPREHENSIONS):
            values = self._module.values
            return _binds_batch(iterated(values.of(node.for_in.iter)), loader)
        return False

    def _iterated_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """``loader`` of ``batches = iter(enumerate(loader))`` or ``loader.__iter__()``; None if no iterator is kept."""
        if not self._is_kept(call):
            return None
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "__iter__":
            return call.func.value
        node: cst.BaseExpression = call
        while isinstance(node, cst.Call) and node.args and self._module.name_of(node.func) in _ITERATORS:
            node = node.args[0].value
        return node if node is not call else None

    def _is_kept(self, call: cst.Call) -> bool:
        """``batches = iter(loader)``, ``next(iter(loader))``; also in lists of iterators."""
        parent = self._tree.parent(call)
        around = self._tree.parent(parent) if isinstance(parent, (cst.Arg, cst.Element)) else None
        if isinstance(around, cst.Call):
            return self._module.name_of(around.func) == "builtins.next"
        if isinstance(parent, cst.Element) and isinstance(around, (cst.Tuple, cst.List)):
            parent = self._tree.parent(around)  # `few, many = iter(labeled), iter(unlabeled)`
        if isinstance(parent, cst.ListComp) and parent.elt is call:
            parent = self._tree.parent(parent)  # `batches = [iter(loader) for loader in loaders]`
        return isinstance(parent, (cst.Assign, cst.AnnAssign))

    def _is_passed_on(self, call: cst.Call) -> bool:
        """``train_one_epoch(model, loader, epoch)``, a function of another file; ``trainer.train(epoch, loader)``."""
        name = self._module.name_of(call.func)
        last = last_part(name) if name is not None else called_name(call)
        words = words_of(last) if last.islower() and _NAMES_PASS.search(last) else set()
        if not words & _ONE_PASS or words & _MAKING:
            return False
        return self._is_unknown_method(call) if name is None else not name.startswith(("torch.", "builtins."))

    def _is_unknown_method(self, call: cst.Call) -> bool:
        """Whether ``call`` is of a method, on an object whose class is unknown."""
        if not isinstance(call.func, cst.Attribute) or self._module.definitions.called(call, self._module.values):
            return False
        return not self._module.value(call.func.value)

    def _is_loader(self, node: cst.BaseExpression, loader: Call) -> bool:
        value = self._module.value(node)
        return value.kind is Kind.LOADER and loader.node in value.origins

    # -- repeated passes

    def _repeated(self, place: cst.CSTNode, loader: Call, depth: int) -> cst.For | cst.While | None:
        """The loop around ``place``, there or in a caller, that iterates over ``loader`` at every iteration."""
        for loop in self._module.fact(Loops).around(place):
            block = self._restart(place, loop.node) or loop.node
            is_inside = self._tree.within(loader.node, block) and not self._is_made_once(loader.node, loop.node)
            if is_inside or self._builds(block, place, loader):
                return None
            if not self._runs_once(loop.node) and not self._chooses(loop.node, place, loader):
                return loop.node
        function = self._module.function_of(place)
        if function is None or depth <= 0 or self._module.function_of(loader.node) is function:
            return None
        calls = [call for call in self._module.fact(Dispatch).callers(function) if self._may_pass(call, loader)]
        places = (*calls, *loops_over(self._module, function))
        found = (self._repeated(place, loader, depth - 1) for place in places)
        return next((loop for loop in found if loop is not None), None)

    def _restart(self, place: cst.CSTNode, loop: cst.CSTNode) -> Handler | None:
        """The handler, in a loop, that starts a new pass where one has ended: ``except StopIteration: ...``."""
        above = self._tree.ancestors(place) if isinstance(place, cst.Call) else ()
        handlers = (node for node in above if isinstance(node, HANDLERS) and self._tree.within(node, loop))
        return next(handlers, None)

    def _is_made_once(self, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
        """Whether a flag lets one iteration of ``loop`` run ``node``: ``if epoch > 9 and not done: done = True``."""
        for above in self._tree.ancestors(node):
            if above is loop:
                return False
            for part in conjuncts(above.test) if isinstance(above, cst.If) else ():
                is_not = isinstance(part, cst.UnaryOperation) and isinstance(part.operator, cst.Not)
                if isinstance(part, cst.UnaryOperation) and is_not and self._is_set_in(above, part.expression):
                    return True
        return False

    def _is_set_in(self, block: cst.CSTNode, flag: cst.BaseExpression) -> bool:
        """Whether ``block`` sets a flag, a variable or ``args.done``, to True."""
        bindings = self._module.names.bindings(flag) if isinstance(flag, cst.Name) else []
        set_to = [(item.value, item.node) for item in bindings if item.kind is BindingKind.ASSIGN]
        name = dotted_name(flag) if isinstance(flag, cst.Attribute) else None
        set_to += [(value, node) for target, value, node in self._tree.stores if name and dotted_name(target) == name]
        return any(self._module.value(value).constant is True and self._tree.within(at, block) for value, at in set_to)

    def _may_pass(self, call: cst.Call, loader: Call, depth: int = 2) -> bool:
        """Whether the loaders that ``call`` passes, if it passes any, are this one.

        An object that ``call`` passes, or whose method it is, may have been given the loaders: ``Fetcher(loader)``. For
        ``self.validate()`` the callers of the method around show which object it is.
        """
        given = [item.value for item in call.args]
        owners = [*given, call.func.value] if isinstance(call.func, cst.Attribute) else given
        made = [origin for owner in owners for origin in self._made(owner)]
        passed = [*given, *(item.value for origin in made for item in origin.args)]
        origins = [loaders_in(self._module.value(item)) for item in passed]
        if any(origins):
            return any(loader.node in item for item in origins)
        around = self._module.function_of(call) if is_attribute_of_self(call.func) else None
        if around is None or depth <= 0:
            return True
        calls = self._module.callers(around).calls
        if calls:
            return any(self._may_pass(item, loader, depth - 1) for item in calls)
        return self._is_of_class_of(around, loader) or self._may_run(around)

    def _is_of_class_of(self, method: cst.FunctionDef, loader: Call) -> bool:
        """Whether the class of a method creates the loader."""
        creator = self._module.function_of(loader.node)
        return creator is not None and self._tree.class_of(method) is self._tree.class_of(creator)

    def _may_run(self, method: cst.FunctionDef) -> bool:
        """Whether a call may run a method, of an object whose class is unknown."""
        return any(
            isinstance(call.func, cst.Attribute)
            and self._module.value(call.func.value).kind in (Kind.UNKNOWN, Kind.OTHER)
            for call in self._tree.calls_named(method.name.value)
        )

    def _made(self, node: cst.BaseExpression) -> list[cst.Call]:
        """The calls of classes of the program that may have created an object, all of which are known."""
        value = self._module.value(node)
        classes = self._module.definitions.classes_of(value, self._module.values)
        if value.kind is not Kind.OTHER or (value.definition is None and not classes):
            return []
        return [origin for origin in value.origins if isinstance(origin, cst.Call)]

    def _builds(self, loop: cst.For | cst.While | Handler, place: cst.CSTNode, loader: Call) -> bool:
        """Whether an iteration of ``loop``, or a handler in it, builds the loader, by its function or its object.

        If ``place`` iterates over an object that is created before the loop, others that it creates do not matter.
        """
        home = self._module.function_of(loader.node)
        if home is None:
            return False
        owner = self._tree.class_of(home) if home.name.value == "__init__" else None
        if owner is not None and isinstance(place, cst.For) and self._is_made_before(place.iter, owner, loop):
            return False
        waiting, depth = [loop.body], 2
        while waiting and depth > 0:
            called = [
                item
                for node in waiting
                for call in self._tree.calls_in(node)
                for item in self._module.definitions.called(call, self._module.values)
            ]
            if any(item is home or item is owner for item in called):
                return True
            waiting, depth = [item.body for item in called if isinstance(item, cst.FunctionDef)], depth - 1
        return False

    def _is_made_before(self, node: cst.BaseExpression, owner: cst.ClassDef, loop: cst.CSTNode) -> bool:
        """Whether a loop over ``node`` takes the items of objects of a class that ``loop`` does not create."""
        made = [
            origin
            for over, _ in iterables(self._module.names, node, ())
            if self._module.value(over).definition is owner
            for origin in self._made(over)
        ]
        return bool(made) and not any(self._tree.within(origin, loop) for origin in made)

    def _runs_once(self, loop: cst.For | cst.While) -> bool:
        """``for _ in range(1)``."""
        count = loop.iter.args if isinstance(loop, cst.For) and isinstance(loop.iter, cst.Call) else ()
        if len(count) != 1:
            return False
        number = count[0].value
        if isinstance(number, cst.Attribute):  # the stored value may be set to 1 for a test run
            return self._module.value(self._module.fact(Options).default(number)).constant == 1
        sources = self._module.fact(Configuration).sources(number)
        return all(self._module.value(item).constant == 1 for item in (sources.values if sources else (number,)))

    def _chooses(self, loop: cst.For | cst.While, place: cst.CSTNode, loader: Call) -> bool:
        """Whether each iteration uses another loader: ``for phase in phases: for batch in loaders[phase]``."""
        if not isinstance(loop, cst.For):
            return False
        taken: list[cst.BaseExpression] = []
        if isinstance(place, cst.Call):
            taken = [item.value for item in place.args if self._is_loader(item.value, loader)]
        elif isinstance(place, (cst.For, *COMPREHENSIONS)):
            taken = [self._innermost(place.iter if isinstance(place, cst.For) else place.for_in.iter, loader)]
        for part in list(taken):
            if isinstance(part, cst.Name):
                bound = [item.value for item in self._module.names.bindings(part) if item.value is not None]
                taken += [self._innermost(item, loader) for item in bound if isinstance(item, cst.BaseExpression)]
        targets = self._tree.names_in(loop.target)
        names = [node for part in taken for node in self._tree.inside(part, cst.Name)]
        return any(node.value in targets and not self._is_of_comprehension(node) for node in names)

    def _is_of_comprehension(self, node: cst.Name) -> bool:
        """Whether a name is a variable of a comprehension, which is another one than that of a loop."""
        home = self._module.names.home_of(node)
        return home is not None and isinstance(home.node, COMPREHENSIONS)

    def _innermost(self, node: cst.BaseExpression, loader: Call) -> cst.BaseExpression:
        """``loader`` of ``enumerate(tqdm(loader, desc=f"epoch {epoch}"))``."""
        given = [item.value for item in node.args] if isinstance(node, cst.Call) else []
        if isinstance(node, cst.IfExp):  # with a progress bar in one process only
            given = [node.body, node.orelse]
        inner = next((item for item in given if self._gives_batches(item, loader)), None)
        return node if inner is None else self._innermost(inner, loader)

    def _gives_batches(self, node: cst.BaseExpression, loader: Call) -> bool:
        """Whether ``node`` is the loader, or numbers its batches: ``enumerate(loader)``."""
        return self._is_loader(node, loader) or _binds_batch(iterated(self._module.value(node)), loader)


def _binds_batch(value: Value, loader: Call) -> bool:
    """Whether ``value`` is a batch of the loader, or a pair that contains one."""
    if value.kind is Kind.BATCH:
        return loader.node in value.origins
    return any(_binds_batch(part, loader) for part in (*value.elements, *((value.each,) if value.each else ())))
