"""The effect of a call on the work that is queued for the GPU: add to it, wait for it, or none."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_forms import TensorForms, compared
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import is_tested, nearest
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import is_read_of_loss, last_name
from torchlint.model.training.evaluation import Evaluation
from torchlint.model.training.loops import Loops, is_backward
from torchlint.model.training.networks import Networks
from torchlint.model.training.step_places import StepPlaces

from ._clocks import CLOCKS

#: Functions of torch that wait for the GPU.
_WAITING = (
    *("torch.cuda.", "torch.save", "torch.nonzero", "torch.unique", "torch.equal", "torch.allclose", "torch.ops."),
    *("torch.masked_select", "torch.bincount", "torch.argwhere"),
)
#: Builtins and methods of tensors, modules, optimizers and containers that do not synchronize.
_BUILTINS = frozenset(
    f"builtins.{name}"
    for name in "range len enumerate zip list tuple dict isinstance issubclass super hasattr getattr callable".split()
)
_METHODS = frozenset(
    "abs add_ addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ amax amin append argmax argmin argsort backward baddbmm "
    "bernoulli_ bfloat16 bmm bool broadcast_to buffers byte ceil children chunk clamp clamp_ clamp_min clip clip_ "
    "clone contiguous copy_ cos cumprod cumsum data_parallel data_ptr detach detach_ diagonal diff dim div div_ dot "
    "double eq erf eval exp exp_ expand expand_as expm1 extend fill_ flatten flip float floor fmod gather ge get gt "
    "half index_add index_add_ index_copy_ index_fill_ index_select int isinf isnan items keys le lerp lerp_ log "
    "log10 log1p log_softmax logaddexp logical_and logical_not logical_or logsumexp long lt masked_fill masked_fill_ "
    "matmul max mean min mm modules movedim mul mul_ named_buffers named_modules named_parameters narrow ne neg "
    "new_empty new_ones new_zeros no_grad norm normal_ numel outer parameters permute pow prod random_ reciprocal "
    "relu relu_ remainder repeat requires_grad_ reshape reshape_as roll round rsqrt scatter scatter_ scatter_add_ "
    "sigmoid sigmoid_ sign sin size softmax sort split sqrt sqrt_ square squeeze squeeze_ std step stride sub sub_ "
    "sum swapaxes t tanh tanh_ tile topk train transpose tril triu trunc type type_as unbind unflatten unfold "
    "uniform_ unsqueeze unsqueeze_ values var view view_as where zero_ zero_grad".split()
)
_READING = frozenset({"item", "tolist", "numpy", "cpu"})
_READING_BUILTINS = frozenset({"builtins.float", "builtins.int"})
#: The maximum number of calls that are followed into functions of the project.
_DEPTH = 3
#: The maximum number of expressions that a function is followed through: a variable, a return value, a table.
_HOLDING_DEPTH = 6


#: What may have an effect on the queue.
Effective: TypeAlias = "cst.Call | cst.Comparison | cst.Subscript"
#: The effects of a function, with the number of calls that are followed into others; or, given whether it trains, those
#: behind the last layer that it runs.
_Question: TypeAlias = "tuple[cst.FunctionDef, int, bool | None]"


class Work(Enum):
    """The effect on the queue."""

    RUNS = "runs"  #: a network or a backward pass is queued
    COPIES = "copies"  #: something is copied to the GPU, which waits unless it is on the GPU already
    WAITS = "waits"  #: the CPU waits until all work is done
    UNKNOWN = "unknown"


class Queued:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: CyclicMemo[_Question, list[Work]] = CyclicMemo([Work.UNKNOWN])

    def by(self, node: Effective) -> list[Work]:
        """The effects of a call itself, without its arguments, or of a test of a tensor, in order."""
        return self._by(node, _DEPTH)

    def in_order(self, begin: int, end: int, around: cst.CSTNode) -> list[Effective]:
        """The calls between two indices, and what reads a tensor there in ``around``, in the order in which they run.

        Arguments come first.
        """
        tree = self._module.tree
        nodes: list[Effective] = [*tree.calls_between(begin, end)]
        reads: tuple[Effective, ...] = (*self._tests_in(around), *self._numbers_in(around))
        nodes += (read for read in reads if begin < tree.index(read) < end)
        return sorted(nodes, key=lambda node: (tree.last(node), -tree.index(node)))

    def _in_body(self, function: cst.FunctionDef) -> list[Effective]:
        tree = self._module.tree
        return self.in_order(tree.index(function.body), tree.last(function.body) + 1, function)

    def _tests_in(self, around: cst.CSTNode) -> list[cst.Comparison]:
        """The comparisons in conditions that read a tensor: ``if label != -1:``."""
        tree, forms = self._module.tree, self._module.fact(TensorForms)
        return [
            part
            for part in tree.inside(around, cst.Comparison)
            if is_tested(tree, part) and any(forms.is_tensor(side, self._is_tensor) for side in compared(part))
        ]

    def _numbers_in(self, around: cst.CSTNode) -> list[cst.Subscript]:
        """``loss.data[0]``: how code for torch before 0.4, which takes a number from it, reads a loss."""
        return list(filter(is_read_of_loss, self._module.tree.inside(around, cst.Subscript)))

    def _is_tensor(self, name: cst.Name) -> bool:
        return self._module.value(name).kind is Kind.TENSOR

    def periodic_condition(self, node: Effective, outer: cst.CSTNode) -> cst.If | None:
        """The condition such as ``step % 20 == 0`` inside of ``outer`` that guards ``node``."""
        for item in branches(self._module.tree, node, outer):
            left = item.test.left if isinstance(item.test, cst.Comparison) else None
            if item.guard is not None and isinstance(left, cst.BinaryOperation):
                if isinstance(left.operator, cst.Modulo):
                    return item.guard
        return None

    def _by(self, call: Effective, depth: int) -> list[Work]:
        module = self._module
        if not isinstance(call, cst.Call):
            return [Work.WAITS]
        if is_backward(call):
            return [Work.RUNS]
        if module.fact(Networks).runs_network(call):
            return [Work.RUNS, *([Work.WAITS] if self._reads_its_outputs(call, depth) else [])]
        name = module.name_of(call.func)
        if name is not None:
            return self._by_library(call, name)
        called = module.value(call.func)
        if called.kind is Kind.LOSS or (called.kind is Kind.MODULE and called.name.startswith("torch.nn.")):
            return []
        known = self._by_method(call, call.func) if isinstance(call.func, cst.Attribute) else None
        if known is not None:
            return known
        functions = self._functions(call.func, _HOLDING_DEPTH) or self._forwards(call) if depth > 0 else None
        if not functions:
            return [Work.UNKNOWN]
        return [work for function in functions for work in self._by_function(function, depth - 1)]

    def _by_method(self, call: cst.Call, func: cst.Attribute) -> list[Work] | None:
        """The effects of a call of a method that is known by its name; None for others."""
        method, module = func.attr.value, self._module
        if method in _READING:
            return [Work.WAITS]
        owner = module.value(func.value).kind
        if method in ("to", "cuda"):
            return self._by_move(call, owner)
        if method == "step" and "sched" in last_name(func.value).lower():
            return []  # it computes a learning rate
        if owner is Kind.SCALER:
            return [Work.UNKNOWN]  # its step checks whether gradients overflowed
        functions = module.definitions.called(call, module.values)
        if not functions:
            return [] if method in _METHODS else None
        return self._by_updates(functions) if method == "step" else None

    def _by_updates(self, functions: list[cst.FunctionDef | cst.ClassDef]) -> list[Work] | None:
        """The effects of the steps of optimizers of the project, which only compute, unless one reads a tensor."""
        steps = [item for item in functions if isinstance(item, cst.FunctionDef)]
        if not steps or not all(map(self._module.fact(StepPlaces).is_forward, steps)):
            return None
        return [work for step in steps for work in self._by_function(step, _DEPTH - 1) if work is Work.WAITS]

    def _reads_its_outputs(self, call: cst.Call, depth: int) -> bool:
        """Whether the network of the project that ``call`` runs reads its outputs itself, as detectors do."""
        functions = self._functions(call.func, _HOLDING_DEPTH) or self._forwards(call) if depth > 0 else None
        if not any(self._ends_with_wait(function, depth - 1, trains=True) for function in functions or ()):
            return False
        network = self._module.fact(Networks).network_of(call)
        if self._module.fact(Evaluation).of(call, network) is None:
            return True
        return any(self._ends_with_wait(function, depth - 1, trains=False) for function in functions or ())

    def _ends_with_wait(self, function: cst.FunctionDef, depth: int, *, trains: bool) -> bool:
        """Whether a method of a network waits, and runs no layer after that."""
        return Work.WAITS in self._known.get((function, depth, trains), self._find)

    def _find(self, question: _Question) -> list[Work]:
        function, depth, trains = question
        if trains is None:
            return self._find_effects(function, depth)
        waits = Work.WAITS in self._by_function(function, depth) and self._waits_last(function, depth, trains)
        return [Work.WAITS] if waits else []

    def _is_of_training(self, node: Effective, function: cst.FunctionDef) -> bool:
        """Whether ``node`` is under ``if self.training:``."""
        return any(
            item.guard is not None and self._module.code(item.guard.test) == "self.training"
            for item in branches(self._module.tree, node, function)
        )

    def _waits_last(self, function: cst.FunctionDef, depth: int, trains: bool) -> bool:
        tree, loops = self._module.tree, self._module.fact(Loops)
        last: Effective | None = None  # what waits, or the loop around it, which may wait after what it runs
        end = 0
        for node in self._in_body(function):
            if not trains and self._is_of_training(node, function):
                continue
            if Work.WAITS in self._by(node, depth):
                last, end = node, max(map(tree.last, (node, *(loop.node for loop in loops.around(node)))))
            elif last is not None and tree.index(node) > end and isinstance(node, cst.Call):
                if self._module.fact(Networks).runs_network(node) and not self._is_other_path(last, node, function):
                    last = None
        return last is not None

    def _is_other_path(self, waiting: Effective, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether ``call`` does not run after what waits: in another branch, or behind its ``return`` in a branch."""
        tree = self._module.tree
        leaves = nearest(tree, waiting, cst.Return, cst.FunctionDef)
        branch = nearest(tree, waiting, cst.If, cst.FunctionDef)
        is_left = isinstance(leaves, cst.Return) and branch is not function
        return is_left or tree.exclusive(waiting, call)

    def _by_library(self, call: cst.Call, name: str) -> list[Work]:
        if name in _READING_BUILTINS:
            given = call.args[0].value if call.args else None
            kind = self._module.value(given).kind
            if kind is Kind.NUMBER or self._is_count(given):
                return []
            return [Work.WAITS if kind is Kind.TENSOR else Work.UNKNOWN]
        if name in CLOCKS or name in _BUILTINS or (name.startswith("builtins.") and name.endswith("Error")):
            return []
        if not name.startswith(("torch.", "tqdm.")):
            return [Work.UNKNOWN]
        if name.startswith("torch.cuda.synchronize"):
            return [Work.WAITS]
        return [Work.UNKNOWN] if name.startswith(_WAITING) or is_tested(self._module.tree, call) else []

    def _by_move(self, call: cst.Call, owner: Kind) -> list[Work]:
        """``x.to(device)``, ``x.cuda()``: a copy from memory that is not pinned waits for the work before it."""
        code = [self._module.code(argument.value) for argument in call.args]
        if any("cpu" in text for text in code):
            return [Work.WAITS]
        if owner is Kind.MODULE or any(
            item.keyword is not None and item.keyword.value == "non_blocking" for item in call.args
        ):
            return []
        if len(call.args) == 1 and self._module.value(call.args[0].value).kind is Kind.DTYPE:
            return []
        return [Work.COPIES]

    def _is_count(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` is a length or a size, which the CPU knows."""
        while isinstance(node, cst.Subscript):
            node = node.value
        if isinstance(node, cst.Name):
            bindings = self._module.names.bindings(node)
            return bool(bindings) and all(
                item.kind is BindingKind.ASSIGN and not isinstance(item.value, cst.Name) and self._is_count(item.value)
                for item in bindings
            )
        if isinstance(node, cst.Call):
            return self._module.name_of(node.func) == "builtins.len" or last_name(node.func) in ("size", "dim", "numel")
        return isinstance(node, cst.Attribute) and node.attr.value == "shape"

    def _by_function(self, function: cst.FunctionDef, depth: int) -> list[Work]:
        return self._known.get((function, depth, None), self._find)

    def _find_effects(self, function: cst.FunctionDef, depth: int) -> list[Work]:
        found: list[Work] = []
        waits_in_loop = False
        for node in self._in_body(function):
            works = self._by(node, depth) if self.periodic_condition(node, function) is None else []
            found += works
            if self._module.fact(Loops).around(node) and not {Work.WAITS, Work.UNKNOWN}.isdisjoint(works):
                waits_in_loop = True
        if waits_in_loop:  # of many iterations, only the work of the last one may not be finished
            found.append(Work.UNKNOWN)
        is_later = function.asynchronous or self._module.definitions.yields(function)
        return [Work.UNKNOWN] if found and is_later else found

    # -- which functions are called

    def _functions(self, func: cst.CSTNode, depth: int) -> list[cst.FunctionDef] | None:
        """The functions of the project that ``func`` may be; None if it may be others."""
        module = self._module
        found: list[cst.FunctionDef] = []
        for item in module.definitions.referenced(func, module.values):
            function = item if isinstance(item, cst.FunctionDef) else module.definitions.method(item, "__init__")
            if function is None:
                return None
            found += [function, *self._overriding(function)]
        if found:
            return found
        return self._held(func, depth)

    def _forwards(self, call: cst.Call) -> list[cst.FunctionDef] | None:
        """The functions that a call of a module of the project runs, if it is not a network, such as a loss."""
        definition = self._module.value(call.func).definition
        if self._module.value(call.func).kind is not Kind.MODULE or not isinstance(definition, cst.ClassDef):
            return None
        forward = self._module.definitions.method(definition, "forward")
        return [forward, *self._overriding(forward)] if forward is not None else None

    def _overriding(self, method: cst.FunctionDef) -> list[cst.FunctionDef]:
        """The methods of derived classes that may override ``method``."""
        module = self._module
        owner = module.tree.class_of(method)
        if owner is None or method.name.value == "__init__":
            return []
        others = (module.definitions.method(item, method.name.value) for item in module.definitions.derived(owner))
        return [other for other in others if other is not None and other is not method]

    def _held(self, node: cst.CSTNode, depth: int) -> list[cst.FunctionDef] | None:
        """The functions that a variable, a table or a function of the project may return."""
        module = self._module
        given: list[cst.CSTNode | None] = []
        if isinstance(node, cst.Name):
            bindings = module.values.reaching.of(node)
            given = [item.value if item.kind is BindingKind.ASSIGN and not item.path else None for item in bindings]
        elif isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name):
            bindings = module.names.bindings(node.value)
            tables = [item.value for item in bindings if item.kind is BindingKind.ASSIGN]
            if len(tables) == len(bindings) == 1 and isinstance(tables[0], cst.Dict):
                given = [item.value for item in tables[0].elements]
        elif isinstance(node, cst.Call):
            if module.name_of(node.func) == "functools.partial" and node.args:
                given = [node.args[0].value]
            elif module.name_of(node.func) is None:
                for definition in module.definitions.called(node, module.values):
                    returned = module.definitions.returns(definition) if isinstance(definition, cst.FunctionDef) else []
                    given += returned or [None]
        found: list[cst.FunctionDef] = []
        for item in given:
            functions = self._functions(item, depth - 1) if item is not None and depth > 0 else None
            if not functions:
                return None
            found += functions
        return found
