"""Host reads: where a training step takes a number off the GPU, and has to wait for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.model import running
from torchlint.model.knowledge import Kind
from torchlint.model.loops import is_backward, is_batch, is_step
from torchlint.model.tree import COMPREHENSIONS, Binding, dotted_name

if TYPE_CHECKING:
    from torchlint.model.module import Module

#: How many calls deep a step is followed into functions of the file, and a value into its callers.
_DEPTH = 2
#: How many bindings a value is followed through.
_VALUE_DEPTH = 12
#: What takes a value off the device: what comes behind is a number, an array, or a tensor on the host.
_EXITS = frozenset({"item", "tolist", "numpy", "cpu", "size", "dim", "numel", "nelement"})
_SHAPES = frozenset({"shape", "dtype", "device", "ndim", "is_cuda"})
#: Methods and attributes between a tensor and its ``item()`` that are part of the read.
_OF_THE_READ = frozenset({"detach", "cpu", "data", "clone"})
_NUMBERS = frozenset(
    f"builtins.{name}"
    for name in (
        "float",
        "int",
        "len",
        "str",
        "bool",
        "round",
        "isinstance",
        "range",
        "type",
        "id",
        "getattr",
        "hasattr",
    )
)
#: Calls that ask what a number is worth in order to act on it.
_ASKING = re.compile(r"(^|_)(isnan|isfinite|isinf|is_nan|early_?stop\w*|stopper|allclose)$|^(step|should_\w+)$")
#: Names in a test that turn up at some steps only, or are turned on for a look.
_RARE = re.compile(
    r"verbose|debug|display|print|\blog\b|log_(freq|every|interval|now|step)|should|do_log|is_log|(^|_)rank$|"
    r"main_process|is_master|master_process|is_main|is_rank|local_rank|"
    r"(^|_)(step|steps|iter|iters|iteration|epoch|epochs|idx|count|counter|batch_idx)$|^(i|it|n|k|t|j)$",
    re.IGNORECASE,
)
_EPOCHS = re.compile(r"(?<!per_)(?<!per)epoch|^ep$", re.IGNORECASE)
_MEASURING = re.compile(r"^(bench|profil)|_(bench|benchmark|profile|profiler)\.py$")
#: What an agent chose, which the environment is told on the host.
_CHOICES = re.compile(r"action|^act$|^a$")
_CHOOSING = frozenset({"sample", "argmax", "multinomial", "max", "topk"})
#: What scripts call that run on the CPU as well.
_NO_EVIDENCE = frozenset(
    f"torch.cuda.{name}" for name in ("is_available", "manual_seed", "manual_seed_all", "device_count")
)
_OPTIMIZER = re.compile(r"opt|scaler|trainer|engine", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class HostRead:
    """A ``x.item()``, ``float(x)`` or ``int(x)`` that runs at every training step."""

    call: cst.Call
    tensor: cst.BaseExpression  #: what is read
    step: cst.CSTNode  #: the loop, or the function, that is the step


class HostReads:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._decided: dict[tuple[cst.CSTNode, bool], bool] = {}

    @cached_property
    def found(self) -> list[HostRead]:
        """The reads at every training step of values that the network or the loss of the step gave, in order."""
        if self._module.is_test or self._measures(self._module.path) or not self._on_gpu:
            return []
        found: dict[cst.CSTNode, HostRead] = {}
        for step in self._steps:
            for call in self._calls_at_every_round(step, step, _DEPTH, set()):
                tensor = self.read_by(call)
                if tensor is None or call in found or self._decides(call, step):
                    continue
                if self._is_of_step(call, tensor):
                    found[call] = HostRead(call, tensor, step)
        return sorted(found.values(), key=lambda read: self._tree.index(read.call))

    def running(self, read: HostRead) -> running.Running | None:
        """The sum or list that ``read`` goes into, if it could hold tensors until the loop is done."""
        return running.running(self._module, read)

    @cached_property
    def _on_gpu(self) -> bool:
        """Whether the file uses a GPU, or leaves the choice of the device to others."""
        module = self._module
        if module.uses_cuda or module.uses_trainer or module.imports("torch.cuda"):
            return True
        for node in self._tree.attributes:
            name = module.name_of(node) or ""
            if name.startswith("torch.cuda.") and name not in _NO_EVIDENCE:
                return True
        return any(move.device != "cpu" for move in module.placement.moves) or any(
            item.keyword is not None
            and item.keyword.value == "device"
            and module.placement.is_device(item.value)
            and module.values.device_of(item.value) != "cpu"
            for call in self._tree.calls
            for item in call.args
        )

    def _measures(self, path: str) -> bool:
        """Whether a file is there to time things, and so waits on purpose."""
        return bool(_MEASURING.search(path.replace("\\", "/").rpartition("/")[2]))

    # -- steps

    @cached_property
    def _steps(self) -> list[cst.CSTNode]:
        """The innermost loops around backward passes and optimizer steps; else the functions that hold them."""
        found: dict[cst.CSTNode, None] = {}
        for call in self._tree.calls:
            if not (is_backward(call) or self._steps_optimizer(call)):
                continue
            for place in self._rounds(call):
                found[place] = None
        return list(found)

    def _steps_optimizer(self, call: cst.Call) -> bool:
        if not is_step(call) or not isinstance(call.func, cst.Attribute):
            return False
        owner = call.func.value
        return self._module.value(owner).kind in (Kind.OPTIMIZER, Kind.SCALER) or bool(
            _OPTIMIZER.search(dotted_name(owner) or "")
        )

    def _rounds(self, call: cst.Call) -> list[cst.CSTNode]:
        """What is run again for every ``call``: the loop around it, or its function where the loop is elsewhere."""
        loops = self._module.loops.around(call)
        function = self._module.function_of(call)
        while not loops and function is not None and self._module.function_of(function) is not None:
            loops = self._module.loops.around(function)  # a closure given to the optimizer
            outer = self._module.function_of(function)
            if loops or outer is None:
                break
            function = outer
        if loops:
            inner, *outer = loops  # around the parts of a batch stands the loop over the batches
            rounds = [inner, *(loop for loop in outer if is_batch(loop.over))]
            return [loop.node for loop in rounds if not self._is_epoch(loop.node)]
        if function is None or not self._is_step(function):
            return []
        return [function]

    def _is_epoch(self, loop: cst.For | cst.While) -> bool:
        """Whether one step is one epoch: what is read once per epoch is left alone."""
        if not isinstance(loop, cst.For) or is_batch(self._module.loops.of(loop).over):
            return False
        names = [node.value for node in self._tree.nodes_in(loop.target) if isinstance(node, cst.Name)]
        if isinstance(loop.iter, cst.Call) and (dotted_name(loop.iter.func) or "").endswith("range"):
            names += [
                node.value if isinstance(node, cst.Name) else node.attr.value
                for item in loop.iter.args
                if item.keyword is None
                for node in self._tree.nodes_in(item.value)
                if isinstance(node, (cst.Name, cst.Attribute))
            ]
        return any(_EPOCHS.search(name) for name in names)

    def _is_step(self, function: cst.FunctionDef) -> bool:
        """Whether ``function`` is a training step: it runs forward and backward, and is called in a loop."""
        calls = self._module.callers(function).calls
        if any(_EPOCHS.search(param.name.value) for param in function.params.params):
            return False  # a step that is an epoch
        around = [loop for call in calls for loop in self._module.loops.around(call)[:1]]
        if around:
            return not all(self._is_epoch(loop.node) for loop in around)
        if calls and all(self._module.runs_once(call) for call in calls):
            return False
        inside = self._tree.calls_in(function.body)
        return any(is_backward(call) for call in inside) and any(self._steps_optimizer(call) for call in inside)

    # -- what runs at every round

    def _calls_at_every_round(
        self, body: cst.CSTNode, step: cst.CSTNode, depth: int, seen: set[cst.CSTNode]
    ) -> Iterator[cst.Call]:
        """The calls in ``body`` that run at every round, then those in functions of the file that they call."""
        seen.add(body)
        inner = body.body if isinstance(body, (cst.For, cst.While, cst.FunctionDef)) else body
        for call in self._tree.calls_in(inner):
            if not self.runs_at_every_round(call, body):
                continue
            yield call
            if depth <= 0:
                continue
            for definition in self._module.definitions.called(call, self._module.values):
                if isinstance(definition, cst.FunctionDef) and definition not in seen and self._feeds(call):
                    yield from self._calls_at_every_round(definition, step, depth - 1, seen)

    def _feeds(self, call: cst.Call) -> bool:
        """Whether ``call`` hands on something of the step: a metric of outputs, not a pass over other data."""
        return any(self._is_tensor_of_step(argument.value) for argument in call.args)

    def runs_at_every_round(self, node: cst.CSTNode, step: cst.CSTNode) -> bool:
        """Whether nothing between ``step`` and ``node`` lets some rounds pass by."""
        tree = self._tree
        child = node
        for above in tree.ancestors(node):
            if isinstance(above, (cst.FunctionDef, cst.Lambda)) and above is not step and child is above.body:
                return self._is_closure(above)
            if isinstance(above, (cst.ExceptHandler, cst.Match)):
                return False
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test and self._is_rare(above, step):
                return False
            if isinstance(above, (cst.For, cst.While)) and above is not step and self._is_other_pass(above, child):
                return False
            if isinstance(above, cst.IndentedBlock) and self._behind_exit(above, child):
                return False
            if above is step:
                return True
            child = above
        return False

    def is_counted(self, node: cst.CSTNode, step: cst.CSTNode) -> bool:
        """Whether ``node`` runs at every so many rounds of ``step`` only: under ``if i % 100 == 0``."""
        child = node
        for above in self._tree.ancestors(node):
            if above is step:
                return False
            if isinstance(above, cst.If) and child is above.body and self._counts(above.test):
                return True
            child = above
        return False

    def _counts(self, test: cst.BaseExpression) -> bool:
        return any(
            isinstance(node, cst.BinaryOperation)
            and isinstance(node.operator, cst.Modulo)
            and not (isinstance(node.right, cst.Integer) and node.right.value in ("1", "2"))
            for node in self._tree.nodes_in(test)
        )

    def _is_closure(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        return isinstance(function, cst.FunctionDef) and function.name.value == "closure"

    def _is_rare(self, branch: cst.If | cst.IfExp, step: cst.CSTNode) -> bool:
        """Whether the test of ``branch`` depends on a counter, a rank, a value of the round, or a wish to look."""
        varying = self._bound_in(step)
        for node in self._tree.nodes_in(branch.test):
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
                return self._counts(node)
            name = (
                node.value if isinstance(node, cst.Name) else node.attr.value if isinstance(node, cst.Attribute) else ""
            )
            if _RARE.search(name):
                return True
            if isinstance(node, cst.Name) and node.value in varying and not self._asks_for_type(node):
                return True
        return False

    def _asks_for_type(self, name: cst.Name) -> bool:
        """``isinstance(loss, float)``, ``scheduler is not None``, ``hasattr(outputs, "loss")``."""
        parent = self._tree.parent(name)
        if isinstance(parent, cst.Arg):
            call = self._tree.parent(parent)
            return isinstance(call, cst.Call) and (self._module.name_of(call.func) or "").rpartition(".")[2] in (
                "isinstance",
                "hasattr",
                "callable",
                "len",
                "is_tensor",
            )
        return isinstance(parent, cst.Comparison) and any(
            isinstance(item.comparator, cst.Name) and item.comparator.value == "None" for item in parent.comparisons
        )

    def _bound_in(self, step: cst.CSTNode) -> set[str]:
        """The names that a round of ``step`` binds."""
        return {
            name
            for scope in self._tree.scopes.values()
            for name, bindings in scope.bindings.items()
            if any(binding.kind != "param" and self._tree.within(binding.node, step) for binding in bindings)
        }

    def _is_other_pass(self, loop: cst.For | cst.While, child: cst.CSTNode) -> bool:
        """Whether ``loop``, inside of a step, goes through other data: a validation pass."""
        if child is not loop.body:
            return False
        return bool(self._module.loops.of(loop).loaders) and not any(
            is_backward(call) for call in self._tree.calls_in(loop.body)
        )

    def _behind_exit(self, block: cst.IndentedBlock, child: cst.CSTNode) -> bool:
        """Whether a ``continue`` under a counter stands before ``child`` in ``block``."""
        for statement in block.body:
            if statement is child:
                return False
            if isinstance(statement, cst.If) and self._ends_round(statement.body) and self._counts(statement.test):
                return True
        return False

    def _ends_round(self, block: cst.BaseSuite) -> bool:
        last = block.body[-1] if block.body else None
        if isinstance(last, cst.SimpleStatementLine):
            last = last.body[-1]
        return isinstance(last, (cst.Continue, cst.Return))

    # -- what is read

    def read_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """The tensor that ``call`` takes a number off: ``x`` of ``x.detach().item()``; None if it is no read."""
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "item":
            return self._bare(func.value)
        if self._module.name_of(func) in ("builtins.float", "builtins.int") and len(call.args) == 1:
            given = call.args[0]
            if given.keyword is None and not given.star:
                return self._bare(given.value)
        return None

    def _bare(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """``node`` without the ``detach()``, ``cpu()`` and ``data`` at its end."""
        while True:
            if isinstance(node, cst.Attribute) and node.attr.value == "data":
                node = node.value
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
                if node.func.attr.value not in _OF_THE_READ:
                    return node
                node = node.func.value
            else:
                return node

    def _is_of_step(self, call: cst.Call, tensor: cst.BaseExpression) -> bool:
        value = self._module.value(tensor)
        if value.sure and value.kind in (Kind.NUMBER, Kind.STRING, Kind.ARRAY, Kind.SEQUENCE, Kind.NONE, Kind.OTHER):
            return False
        if isinstance(call.func, cst.Attribute):
            return self._is_tensor_of_step(tensor)
        # `float(x)` may as well read a text or a number: `x` must be a tensor beyond doubt
        if not self.is_loss(tensor) and not (value.kind is Kind.TENSOR and value.sure):
            return False
        return self._is_tensor_of_step(tensor)

    def _is_tensor_of_step(self, node: cst.CSTNode) -> bool:
        return self._follow(node, _VALUE_DEPTH, set())

    def _follow(self, node: cst.CSTNode, depth: int, seen: set[cst.CSTNode]) -> bool:
        """Whether ``node`` is computed on the device from an output of a network or from a loss."""
        if node in seen or depth <= 0:
            return False
        seen.add(node)
        for part in self._live_parts(node):
            if self._is_source(part):
                return True
            for source, _ in self._module.gradients.sources(part, outward=True):
                if self._follow(source, depth - 1, seen):
                    return True
        return False

    def _live_parts(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The parts of ``node`` that its value is computed from on the device."""
        behind = -1
        for part in self._module.gradients.data_parts(node):
            if self._tree.index(part) <= behind:
                continue
            if self._leaves_device(part):
                behind = self._tree.last(part)
                continue
            yield part

    def _leaves_device(self, part: cst.CSTNode) -> bool:
        if isinstance(part, cst.Call):
            if isinstance(part.func, cst.Attribute) and part.func.attr.value in _EXITS:
                return True
            name = self._module.name_of(part.func) or ""
            return name in _NUMBERS or name.startswith(("numpy.", "math.", "sklearn."))
        if isinstance(part, cst.Attribute):
            return part.attr.value in _SHAPES
        if isinstance(part, cst.Name):
            value = self._module.value(part)
            return value.sure and value.kind in (Kind.NUMBER, Kind.STRING, Kind.ARRAY)
        return isinstance(part, cst.Lambda)

    def _is_source(self, part: cst.CSTNode) -> bool:
        if isinstance(part, cst.Call):
            if self._module.outputs.runs(part):
                return True
            value = self._module.value(part)
            return value.kind is Kind.TENSOR and value.role in ("output", "loss") and value.device != "cpu"
            return self._runs_network_elsewhere(part)
        return isinstance(part, (cst.Name, cst.Attribute)) and self._is_term(part)

    def _runs_network_elsewhere(self, call: cst.Call) -> bool:
        """``compute_loss(model, images)``, a function of another file."""
        name = self._module.name_of(call.func) or ""
        if name.startswith(("torch.", "builtins.")) or self._module.definitions.called(call, self._module.values):
            return False
        if isinstance(call.func, cst.Attribute) and call.func.attr.value[:1].isupper():
            return False
        return any(self._module.value(item.value).kind is Kind.MODULE for item in call.args) and isinstance(
            self._tree.parent(call), (cst.Assign, cst.AnnAssign)
        )

    def is_loss(self, node: cst.CSTNode) -> bool:
        """Whether a backward pass of the function around ``node`` starts from the name ``node``."""
        return (dotted_name(node), self._module.function_of(node)) in self._losses

    def _is_term(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is a name that such a loss is added up from."""
        return (dotted_name(node), self._module.function_of(node)) in self._terms

    @cached_property
    def _losses(self) -> set[tuple[str | None, cst.FunctionDef | None]]:
        return {
            (dotted_name(part), self._module.function_of(part))
            for call in self._tree.calls
            if is_backward(call) and isinstance(call.func, cst.Attribute)
            for root in (call.func.value, *(item.value for item in call.args[:1]))
            for part in self._added(root)
        }

    @cached_property
    def _terms(self) -> set[tuple[str | None, cst.FunctionDef | None]]:
        waiting = [
            part
            for call in self._tree.calls
            if is_backward(call) and isinstance(call.func, cst.Attribute)
            for root in (call.func.value, *(item.value for item in call.args[:1]))
            for part in self._added(root)
        ]
        found: dict[cst.CSTNode, None] = {}
        while waiting:
            part = waiting.pop()
            if part not in found:
                found[part] = None
                for source, _ in self._module.gradients.sources(part):
                    waiting.extend(self._added(source))
        return {(dotted_name(part), self._module.function_of(part)) for part in found}

    def _added(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The names that ``node`` adds up: ``a`` and ``b`` of ``(a + 2 * b) / n``, ``a`` of ``scaler.scale(a)``."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            return [node] if dotted_name(node) is not None else []
        if isinstance(node, cst.BinaryOperation):
            left = self._added(node.left)
            return left if isinstance(node.operator, cst.Divide) else left + self._added(node.right)
        if isinstance(node, cst.UnaryOperation):
            return self._added(node.expression)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value == "scale" and node.args:
                return self._added(node.args[0].value)
            if node.func.attr.value in ("mean", "sum", "squeeze"):
                return self._added(node.func.value)
        return []

    # -- what the number is for

    def _decides(self, call: cst.Call, step: cst.CSTNode) -> bool:
        """Whether the number decides how the program goes on: a test, an index, an environment's step."""
        if self._is_asked(call) or (self._module.precision.plays_games and self._is_choice(call)):
            return True
        statement = self._tree.statement_of(call)
        if not isinstance(statement, cst.Assign) or self._tree.parent(call) is not statement:
            return False
        names = [item.target for item in statement.targets]
        return any(
            isinstance(target, cst.Name)
            and any(
                self._tree.within(use, step) and self._sees(use, statement) and self._is_asked(use)
                for use in self._tree.names.get(target.value, ())
            )
            for target in names
        )

    def _is_choice(self, read: cst.Call) -> bool:
        """Whether ``read`` takes the action of an agent off the GPU."""
        tensor = self.read_by(read)
        if isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute):
            if tensor.func.attr.value in _CHOOSING:
                return True
        return bool(_CHOICES.search((dotted_name(tensor) or "").rpartition(".")[2]))

    def _sees(self, use: cst.Name, statement: cst.CSTNode) -> bool:
        scope = self._module.names.scope_with(use.value, self._tree.scope_of(use))
        if scope is None:
            return False
        reached: list[Binding] = self._module.values.reaching(scope.bindings[use.value], use, scope)
        return any(binding.node is statement for binding in reached)

    def _is_asked(self, node: cst.CSTNode) -> bool:
        child = node
        for above in self._tree.ancestors(node):
            if isinstance(above, (cst.If, cst.While, cst.IfExp)):
                return above.test is child
            if isinstance(above, cst.Assert):
                return True
            if isinstance(above, (cst.Index, cst.Slice)):
                parent = self._tree.parent(above)
                return parent is not None
            if isinstance(above, cst.Call) and child is not above.func:
                func = above.func
                last = func.attr.value if isinstance(func, cst.Attribute) else dotted_name(func) or ""
                if _ASKING.search(last) or self._module.name_of(func) == "builtins.range":
                    return True
            if isinstance(above, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Lambda, *COMPREHENSIONS)):
                return False
            child = above
        return False
