"""How often a tensor is created: once for the program or for an object that lives long, or repeatedly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import is_super_call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import called_name, dotted_name, last_name
from torchlint.model.training.loops import Loops
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlaces

#: Operators of comparisons that something does not exist or fit: ``x is None``, ``"x" not in cache``,
#: ``len(cache) == 0``, ``x.shape != y.shape``, ``len(x) < count``.
_ASKING = (cst.Is, cst.NotIn, cst.Equal, cst.NotEqual, cst.LessThan, cst.GreaterThan)
#: Decorators of functions whose result is kept.
_CACHING = re.compile(r"cache|memo|once", re.IGNORECASE)
#: Functions that export a network.
_EXPORTS = frozenset({"torch.jit.trace", "torch.onnx.export", "torch.export.export"})
#: Names of functions, classes and files for an export, or for networks whose layers are merged once, after training.
_DEPLOYING = re.compile(
    r"onnx|export|deploy|\btrt|_trt|tensorrt|reparam|equivalent_kernel|fuse_(bn|conv)", re.IGNORECASE
)
#: Names of functions that set or load the weights of a network before it is trained.
_INITIALIZING = re.compile(r"^_?(init|initialize|reset)_?(weights?|parameters?)|load_(from_)?state_dict$")
#: Functions that make inputs with which a network is exported.
_EXAMPLES = re.compile(r"(example|dummy)_?inputs?|input_?examples?", re.IGNORECASE)
#: The statements of a block that are looked at: behind one that makes a tensor, and at the beginning of a method.
_NEAR = 50


def is_kept(module: Module, call: cst.Call) -> bool:
    """Whether the tensor of ``call`` is set up once and kept: at import, by a constructor, or in a cache."""
    if isinstance(module.tree.parent(call), cst.Expr) and called_name(call) in ("to", "cuda"):
        return True  # the result is not used: `torch.zeros(1).cuda()` only starts CUDA
    function = module.function_of(call)
    if function is None:
        return module.fact(Purposes).runs_once(call)
    if _runs_later(module, call, function):
        return False
    if module.fact(Purposes).is_constructor(function):
        return not is_of_step(module, function)
    if (
        _stands_for_operator(module, function)
        or _INITIALIZING.search(function.name.value)
        or _is_called_for_setup(module, function)
    ):
        return True
    if keeps_result(module, function) or _sets_up_once(module, function):
        return True
    return _is_cached(module, call, function) or _sets_up_global(module, function)


def _runs_later(module: Module, call: cst.Call, function: cst.FunctionDef) -> bool:
    """Whether ``call`` is in a lambda that a function returns or an attribute keeps: ``self.noise = lambda n: ...``."""
    return any(
        isinstance(child, cst.Lambda)
        and (
            isinstance(above, cst.Return)
            or (isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Attribute))
        )
        for above, child in climb(module.tree, call, function)
    )


def _is_called_for_setup(module: Module, function: cst.FunctionDef) -> bool:
    """Whether only constructors of objects that live long call a function, or also functions before their loops.

    Or functions that only such constructors call.
    """
    calls = module.fact(Purposes).calls_elsewhere(function)
    others = [call for call in calls if (caller := module.function_of(call)) is None or not _sets_up(module, caller)]
    return len(others) < len(calls) and all(_is_before_loop(module, call) for call in others)


def _is_before_loop(module: Module, call: cst.Call) -> bool:
    """Whether a function, which no step calls, prepares a loop by ``call``."""
    function = module.function_of(call)
    if function is None or module.fact(Loops).around(call) or module.fact(StepPlaces).repeating(call):
        return False
    loops = module.tree.inside(function.body, cst.For, cst.While)
    return any(module.tree.index(loop) > module.tree.index(call) for loop in loops)


def _sets_up(module: Module, function: cst.FunctionDef) -> bool:
    """Whether a function is the constructor of an object that lives long, or only such call it."""
    purposes = module.fact(Purposes)
    callers = [module.function_of(call) for call in module.callers(function).calls]
    homes = [function] if purposes.is_constructor(function) else callers
    return bool(homes) and all(
        home is not None and purposes.is_constructor(home) and not is_of_step(module, home) for home in homes
    )


def _sets_up_once(module: Module, function: cst.FunctionDef) -> bool:
    """Whether a method returns at once when it has run before: ``if self.ready: return``, and ``self.ready = True``."""
    body = function.body.body[:_NEAR]
    for guard in body if isinstance(function.body, cst.IndentedBlock) else ():
        if not isinstance(guard, cst.If):
            continue
        last = guard.body.body[-1]
        small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
        if not isinstance(small, cst.Return) or small.value is not None:
            return False
        computed = module.tree.inside(guard.test, cst.BinaryOperation)
        if any(isinstance(part.operator, cst.Modulo) for part in computed):
            return False  # it runs again: `if step % every != 0 or self.last == step: return`
        asked = module.code(guard.test)
        return any(
            isinstance(target, cst.Attribute) and target.attr.value in asked and module.tree.within(statement, function)
            for target, _, statement in module.tree.stores
        )
    return False


def keeps_result(module: Module, function: cst.FunctionDef) -> bool:
    """Whether a decorator of ``function`` keeps what it returned, as ``functools.cached_property`` does."""
    return any(_CACHING.search(last_name(module.callee(item.decorator))) for item in function.decorators)


def is_once(module: Module, call: cst.Call) -> bool:
    """Whether the function of ``call``, which is not a constructor, runs once, or exports a network or makes inputs
    for an export, or nothing uses what a network makes of it.
    """
    function = module.function_of(call)
    purposes = module.fact(Purposes)
    if function is None or purposes.is_constructor(function):
        return False
    return (
        purposes.runs_once(call)
        or _warms_up(module, call)
        or _EXAMPLES.search(function.name.value) is not None
        or is_for_deployment(module, function)
        or any(module.tree.within(export.node, function.body) for export in module.calls(*_EXPORTS))
    )


def _warms_up(module: Module, call: cst.Call) -> bool:
    """Whether a statement runs a network on the tensor of ``call``, perhaps by a name, and does not keep the result."""
    statement = module.tree.statement_of(call)
    if not isinstance(statement, cst.Assign):
        return _is_unused_run(module, statement, call)
    target = statement.targets[0].target
    home = module.names.home_of(target) if isinstance(target, cst.Name) else None
    if home is None or not isinstance(target, cst.Name) or statement.value is not call:
        return False
    uses = [
        use
        for use in module.names.uses_in(home, target.value)
        if use is not target and any(item.node is statement for item in module.values.reaching.of(use))
    ]
    return bool(uses) and all(_is_unused_run(module, module.tree.statement_of(use), use) for use in uses)


def _is_unused_run(module: Module, statement: cst.CSTNode, given: cst.BaseExpression) -> bool:
    """Whether a statement is a run of a network that is given a tensor: ``model(x)``."""
    run = statement.value if isinstance(statement, cst.Expr) else None
    return isinstance(run, cst.Call) and run is not given and module.fact(Networks).runs_network(run)


def _stands_for_operator(module: Module, function: cst.FunctionDef) -> bool:
    """Whether a `forward` only makes an output of the right shape while a network is exported.

    Its class names the operator in `symbolic`, and has no `backward`.
    """
    owner = module.tree.class_of(function)
    if owner is None or function.name.value != "forward":
        return False
    has_symbolic, has_backward = (module.tree.own_method(owner, name) for name in ("symbolic", "backward"))
    return has_symbolic is not None and has_backward is None


def is_for_deployment(module: Module, function: cst.FunctionDef) -> bool:
    """Whether a function exports a network or merges its layers, by its name, that of its class or of the file."""
    owner = module.tree.class_of(function)
    if _stands_for_operator(module, function):
        return True
    if owner is not None and function.name.value == "fuse" and len(function.params.params) == 1:
        return True  # ``model.fuse()`` merges layers; ``self.fuse(x, y)`` joins features
    names = [item.name.value for item in (function, owner) if item is not None]
    return any(map(_DEPLOYING.search, (*names, *module.file.place.split("/")[-2:])))


def is_of_step(module: Module, constructor: cst.FunctionDef) -> bool:
    """Whether a constructor runs once per batch and no attribute keeps the object, as for a mask of an attention."""
    owner = module.tree.class_of(constructor)
    if owner is None or module.values.instance(owner).kind not in (Kind.UNKNOWN, Kind.OTHER, Kind.MODULE):
        return False
    for call in module.callers(constructor).calls:
        derived = module.function_of(call) if is_super_call(call, "__init__") else None
        if derived is not None and derived is not constructor and is_of_step(module, derived):
            return True
        if _is_made_for_batch(module, call):
            return True
        repeated = module.fact(StepPlaces).repeating(call)
        if repeated is not None and not any(
            any(_stored(module.tree.statement_of(item))) for item in (call, *repeated.calls)
        ):
            return True
    return False


def _is_made_for_batch(module: Module, call: cst.Call) -> bool:
    """Whether a generator gives a new object for each batch of a loader: ``(Batch(x, y) for x, y in loader)``."""
    above = module.tree.parent(call)
    is_given = isinstance(above, cst.GeneratorExp) and above.elt is call and above.for_in.inner_for_in is None
    return is_given and isinstance(above, cst.GeneratorExp) and module.value(above.for_in.iter).kind is Kind.LOADER


def _is_cached(module: Module, call: cst.Call, function: cst.FunctionDef) -> bool:
    """Whether the tensor is stored where a condition around it asks for it, for good: ``if "mask" not in cache:``."""
    stored = {*_stored(module.tree.statement_of(call)), *_stored_by_name(module, call)}
    return _is_asked_for(module, stored, call, function) and not _is_reset(module, stored, call)


def _stored_by_name(module: Module, call: cst.Call) -> Iterator[object]:
    """Where the next statements of a block store what ``call`` makes: ``mask = make().to(x)``, ``self.mask = mask``."""
    statement = module.tree.statement_of(call)
    name = dotted_name(statement.targets[0].target) if isinstance(statement, cst.Assign) else None
    line = module.tree.line_of(statement) if name is not None else None
    for row in islice(line[0].body, line[1] + 1, line[1] + 1 + _NEAR) if line is not None else ():
        for part in row.body if isinstance(row, cst.SimpleStatementLine) else ():
            if not isinstance(part, cst.Assign):
                continue
            if dotted_name(part.value) == name:
                yield from _stored(part)
            if _replaces_value(module, part, name):
                return


def _replaces_value(module: Module, statement: cst.Assign, name: str | None) -> bool:
    """Whether a statement gives a name a value that is not made of its former one."""
    return dotted_name(statement.targets[0].target) == name and not any(
        dotted_name(part) == name for part in module.tree.nodes_in(statement.value)
    )


def _sets_up_global(module: Module, function: cst.FunctionDef) -> bool:
    """Whether ``function`` sets a global variable, and is only called while that does not exist."""
    names: set[object] = {
        item.name.value
        for node in module.tree.of_kind(cst.Global)
        if module.tree.within(node, function.body)
        for item in node.names
    }
    calls = module.callers(function).calls if names else ()
    return bool(calls) and all(
        (around := module.function_of(call)) is not None and _is_asked_for(module, names, call, around)
        for call in calls
    )


def _is_asked_for(module: Module, stored: set[object], node: cst.CSTNode, function: cst.FunctionDef) -> bool:
    """Whether ``node`` only runs while one of these attributes, or one stored with it, does not exist or fit."""
    for above, child in climb(module.tree, node, function):
        if isinstance(above, cst.If) and child is above.orelse and _takes_kept(module, above):
            return True
        if not isinstance(above, cst.If) or child is not above.body:
            continue
        if _replaces(module, above) or _fills_cache(module, above):
            return True
        if stored:
            missing = set(_missing(module, above.test))
            missing -= _counters(module) if missing else set()
            here = (name for part in module.tree.nodes_in(above.body) for name in _stored(part)) if missing else ()
            if not missing.isdisjoint(stored) or not missing.isdisjoint(here):
                return True
    return False


def _counters(module: Module) -> set[object]:
    """The names of attributes that count: ``self.steps += 1``. What they are compared with comes again."""
    targets = (item.target for item in module.tree.of_kind(cst.AugAssign))
    return {target.attr.value for target in targets if isinstance(target, cst.Attribute)}


def _replaces(module: Module, branch: cst.If) -> bool:
    """Whether a branch makes again what its condition asks, and keeps it: ``if grid.shape != size: ...``."""
    asked = module.tree.names_in(branch.test)
    if isinstance(branch.test, cst.Comparison) and isinstance(branch.test.comparisons[0].operator, cst.IsNot):
        return False  # `if index is not None: mask[places] = index`
    return any(
        isinstance(part, cst.Assign)
        and isinstance(part.value, cst.Name)
        and part.value.value in asked
        and isinstance(part.targets[0].target, (cst.Attribute, cst.Subscript))
        for part in module.tree.nodes_in(branch.body)
    )


def _fills_cache(module: Module, branch: cst.If) -> bool:
    """Whether a branch makes what a container has not yet, by this key: ``if n not in cache: ...; cache[n] = mask``."""
    test = branch.test
    comparison = test.comparisons[0] if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None
    if not isinstance(test, cst.Comparison) or comparison is None or not isinstance(comparison.operator, cst.NotIn):
        return False
    cache, key = dotted_name(comparison.comparator), _key(module, [test.left])
    targets = [item.target for part in module.tree.inside(branch.body, cst.Assign) for item in part.targets]
    return cache is not None and any(
        isinstance(target, cst.Subscript) and dotted_name(target.value) == cache and _key(module, target.slice) == key
        for target in targets
    )


def _key(module: Module, parts: Sequence[cst.CSTNode]) -> str:
    """A key as it is written, without parentheses and white space: of ``(rows, columns)`` and ``[rows, columns]``."""
    return "".join(",".join(map(module.code, parts)).split()).strip("()")


def _takes_kept(module: Module, branch: cst.If) -> bool:
    """Whether a branch takes what its `else` makes and keeps: ``if fits: x = self.x``, ``else: ...; self.x = x``."""
    values = [
        *(item.value for item in module.tree.inside(branch.body, cst.Assign)),
        *(item.value for item in module.tree.inside(branch.body, cst.Return)),
    ]
    taken = {value.attr.value for value in values if isinstance(value, cst.Attribute)}
    made = module.tree.nodes_in(branch.orelse) if taken and branch.orelse is not None else ()
    return any(name in taken for part in made for name in _stored(part))


def _missing(module: Module, test: cst.BaseExpression) -> Iterator[object]:
    """The names in the parts of a condition that something is missing: ``x is None``, ``not hasattr(y, "x")``."""
    for part in module.tree.nodes_in(test):
        asks = isinstance(part, cst.UnaryOperation) and isinstance(part.operator, cst.Not)
        if asks or (isinstance(part, cst.Comparison) and isinstance(part.comparisons[0].operator, _ASKING)):
            yield from map(_name, module.tree.nodes_in(part))


def _is_reset(module: Module, stored: set[object], call: cst.Call) -> bool:
    """Whether code other than a constructor sets one of these attributes though it exists: the state of a sequence.

    A value that is made of the attribute itself, such as a permutation of a queue, does not count. Nor does another
    branch than that of ``call``, in which the attribute is not needed.
    """
    attributes = module.fact(Stores).attributes
    return any(
        (function := module.function_of(statement)) is not None
        and not module.fact(Purposes).is_constructor(function)
        and not module.tree.exclusive(statement, call)
        and not _is_asked_for(module, {name}, statement, function)
        and name not in map(_name, module.tree.nodes_in(value))
        for name in stored
        for _, value, statement in attributes.get(str(name), ())
    )


def _stored(statement: cst.CSTNode) -> Iterator[object]:
    """The names of the attributes, buffers and containers that a statement stores something in."""
    if isinstance(statement, cst.Assign):
        for item in statement.targets:
            if isinstance(item.target, (cst.Attribute, cst.Subscript)):
                yield _name(item.target.value if isinstance(item.target, cst.Subscript) else item.target)
    elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        if called_name(statement.value) == "register_buffer" and statement.value.args:
            yield _name(statement.value.args[0].value)


def _name(node: cst.CSTNode) -> object:
    """The last part of a name; also ``"x"`` of ``hasattr(self, "x")``."""
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else None
