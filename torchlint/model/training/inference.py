"""Inference: which statements of a file run a network without training it, and what is known of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.data.devices import Devices
from torchlint.model.module import Module
from torchlint.model.numerics.precision import Precision
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.tree import dotted_name
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import Loops, is_batch
from torchlint.model.training.networks import Networks
from torchlint.model.training.outputs import DETACHING, GRADIENTLESS, Outputs
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.regions import GradMode, Regions
from torchlint.model.training.training import Training

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

#: Words by which a function says that it is inference ...
_EVALUATING = frozenset(
    "evaluate evaluation eval evaluator validate validation valid val vali test testing predict prediction "
    "predictions predictor infer inference".split()
)
#: ... or that it may be.
_USING = frozenset(
    "generate generation sample samples sampling translate translation caption captioning extract extraction embed "
    "embedding embeddings reconstruct reconstruction reconstructions demo visualize synthesize transcribe detect "
    "recognize segment classify encode decode features answer chat plot show images search".split()
)
_MEASURING = frozenset(
    "fps bench benchmark profile profiling latency throughput speed flops timing warmup time".split()
)
_CHECKING = frozenset("test check compare verify".split())
_TRAINING = frozenset("train training fit pretrain finetune learn optimize update step loss".split())
#: Words of code that wants gradients although it trains nothing.
_GRADIENT_SEEKING = re.compile(
    r"attack|adversar|pgd|fgsm|saliency|grad_?cam|guid(?!e_|eline)|dream|invert|inversion|langevin|energy|forces?\b|"
    r"style_transfer|influence|fisher|hessian|jacobian|attribution|visuali[sz]ation"
)
_GRADIENT_LIBRARIES = ("captum", "torchattacks", "foolbox", "pytorch_grad_cam", "functorch", "higher", "learn2learn")
#: Libraries whose parameters are views that inference mode does not get along with.
_SHARDING = ("torch.distributed.fsdp", "torch.distributed._composable", "deepspeed", "fairscale")
_HOOKS = frozenset({"register_hook", "register_backward_hook", "register_full_backward_hook", "retain_grad"})

#: Words of functions in which an agent chooses what to do.
_ACTING = frozenset({"act", "action", "actions"})
#: What a policy gradient, an advantage or a bonus is made of.
_LIKELIHOOD = re.compile(r"log_?p|prob_?log|logprob|entropy|saved|value", re.IGNORECASE)

_SHOWN = ("save_image", "imsave", "imwrite", "imshow", "make_grid", "tensor2im")

_BLANK = frozenset({"zeros", "ones", "empty", "zeros_like", "ones_like", "full"})
_RANDOM = _BLANK | {"rand", "randn", "randint", "rand_like", "randn_like", "arange"}

_HELD_OUT = re.compile(r"val|test|eval|dev|infer|predict", re.IGNORECASE)
_ADVERSARIES = re.compile(r"discriminator|^net_?d$|^d_net$|adversarial", re.IGNORECASE)
_MOVING_TARGETS = re.compile(r"teacher|target|ema|momentum|frozen|vgg|lpips|perceptual", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Region:
    """Statements that run a network without training it."""

    forward: cst.Call  #: the first forward that is meant
    model: cst.BaseExpression  #: the network it runs
    node: cst.CSTNode  #: the function, loop or statement that is the region
    evidence: tuple[str, cst.CSTNode | None]  #: why it is inference: a text, and where that is seen


class Inference:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._excluded: dict[cst.CSTNode, bool] = {}

    # -- questions of the rules

    @cached_property
    def recording(self) -> list[Region]:
        """Regions whose forwards record an autograd graph that nothing uses."""
        if self._is_out_of_reach:
            return []
        return self._judged(self._recorded, self._indirect)

    @cached_property
    def in_training_mode(self) -> list[Region]:
        """Regions that run a network of this file that nothing in the file may have put into evaluation mode."""
        module = self._module
        if (
            self._is_out_of_reach
            or module.fact(Devices).uses_trainer
            or module.fact(Precision).plays_games
            or self._is_adversarial
        ):
            return []
        return self._judged(self._in_training_mode)

    def runs_once(self, region: Region) -> bool:
        """Whether all forwards of ``region`` run once when the program runs."""
        return all(
            self._module.fact(Purposes).runs_once(call)
            for calls in self._forwards.values()
            for call in calls
            if self._module.tree.within(call, region.node)
        )

    def _judged(
        self, judge: Callable[[cst.Call, cst.FunctionDef | None], Region | None], more: Iterable[cst.Call] = ()
    ) -> list[Region]:
        """The regions that ``judge`` sees at the forwards of the file, and at ``more`` calls, each place once."""
        found: dict[cst.CSTNode, Region] = {}
        forwards = [(function, call) for function, calls in self._forwards.items() for call in calls]
        for function, call in (*forwards, *((self._module.function_of(call), call) for call in more)):
            if function is None or not self._is_excluded(function):
                region = judge(call, function)
                if region is not None:
                    found.setdefault(self._place(region), region)
        return list(found.values())

    def _place(self, region: Region) -> cst.CSTNode:
        """What is reported once: a function or loop, or the block of a single statement."""
        if isinstance(region.node, cst.BaseSmallStatement):
            blocks = [block for block, _, _ in self._module.tree.block_path(region.forward)]
            return next((block for block in blocks if not isinstance(block, cst.SimpleStatementLine)), region.node)
        return region.node

    # -- forwards

    @cached_property
    def _forwards(self) -> dict[cst.FunctionDef | None, list[cst.Call]]:
        """The forward calls of the file by the function that runs them."""
        found: dict[cst.FunctionDef | None, list[cst.Call]] = {}
        for call in self._module.tree.calls:
            home = self._module.tree.function_of(call)
            if isinstance(home, cst.Lambda) or not self._module.fact(Networks).runs_network(call):
                continue
            found.setdefault(home, []).append(call)
        return found

    @cached_property
    def _indirect(self) -> dict[cst.Call, cst.BaseExpression]:
        """The calls of methods that run a network for training too, as ``self.step(batch)``, and that network."""
        module = self._module
        found: dict[cst.Call, cst.BaseExpression] = {}
        for function, forwards in self._forwards.items():
            if function is None or module.tree.class_of(function) is None or module.fact(Regions).disables(function):
                continue
            trained = [call for call in forwards if module.fact(Gradients).reaches_backward(call)]
            networks = [network for network in map(module.fact(Networks).network_of, trained) if _is_own(network)]
            if networks and not module.fact(Gradients).trains(function):
                for call in module.callers(function).calls:
                    if isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) == "self":
                        found[call] = networks[0]
        return found

    # -- what is left alone

    @cached_property
    def _is_out_of_reach(self) -> bool:
        roots = {name.partition(".")[0] for name in self._module.own_imported_names}
        return self._module.fact(Purposes).is_test or not roots.isdisjoint(_GRADIENT_LIBRARIES)

    @cached_property
    def _is_adversarial(self) -> bool:
        """Whether a generator plays against a discriminator: it is sampled in training mode by habit."""
        tree = self._module.tree
        words = [name for name, nodes in tree.names.items() if tree.is_own(nodes[0])]
        words += [node.attr.value for node in tree.attributes if tree.is_own(node)]
        return any(_ADVERSARIES.search(word) for word in words)

    def _is_excluded(self, function: cst.FunctionDef) -> bool:
        if function not in self._excluded:
            self._excluded[function] = self._is_of_another_kind(function)
        return self._excluded[function]

    def _is_of_another_kind(self, function: cst.FunctionDef) -> bool:
        module = self._module
        words = words_of(function.name.value)
        if words & _MEASURING or (function.name.value.startswith("__") and function.name.value != "__call__"):
            return True
        method: cst.FunctionDef | None = function
        while method is not None:  # a function inside a method is a part of it
            owner = module.tree.class_of(method)
            if owner is not None and module.values.instance(owner).kind is Kind.MODULE:
                return True
            method = module.function_of(method)
        if module.fact(Regions).is_inference_hook(function) or self._seeks_gradients(function):
            return True
        if any(isinstance(node, cst.Assert) for node in module.tree.nodes_in(function)) and "test" in words:
            return True
        return self._is_handed_out(function)

    def _seeks_gradients(self, function: cst.FunctionDef) -> bool:
        module = self._module
        owner = module.tree.class_of(function)
        outer = module.function_of(function)
        names = [function.name.value, owner.name.value if owner is not None else "", outer.name.value if outer else ""]
        if any(_GRADIENT_SEEKING.search(_snake(name)) for name in names):
            return True
        if module.tree.first_within(self._hooks, owner or function) is not None:
            return True
        if module.tree.first_within(self._gradients_read, function) is not None:
            return True
        return any(map(self._wants_gradients, module.tree.calls_in(function)))

    @cached_property
    def _hooks(self) -> list[cst.Attribute]:
        return [node for node in self._module.tree.attributes if node.attr.value in _HOOKS]

    @cached_property
    def _gradients_read(self) -> list[cst.Attribute]:
        """Each ``.grad`` of a tensor."""
        module = self._module
        return [node for node in module.tree.attributes if node.attr.value == "grad" and module.name_of(node) is None]

    def _wants_gradients(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "requires_grad_":
            return not call.args or dotted_name(call.args[0].value) != "False"
        return any(
            item.keyword is not None and item.keyword.value == "requires_grad" and dotted_name(item.value) == "True"
            for item in call.args
        )

    def _is_handed_out(self, function: cst.FunctionDef) -> bool:
        """Whether the function is given to others to call, under a mode that is not seen here."""
        if self._module.tree.class_of(function) is not None:
            return False
        callers = self._module.callers(function)
        return not callers.complete

    def is_frozen(self, model: cst.BaseExpression) -> bool:
        """Whether the parameters of ``model`` are switched off, so that it records nothing."""
        last = (dotted_name(model) or "").rpartition(".")[2]
        return bool(last) and last in self._frozen

    def _freezes(self, evaluated: cst.CSTNode) -> bool:
        """``.eval().requires_grad_(False)``."""
        above = self._module.tree.parent(evaluated)
        return isinstance(above, cst.Attribute) and above.attr.value == "requires_grad_"

    @cached_property
    def _frozen(self) -> set[str]:
        tree = self._module.tree
        found: set[str] = set()
        for call in self._module.methods("requires_grad_"):
            if call.args and dotted_name(call.args[0].value) == "False" and isinstance(call.func, cst.Attribute):
                found.add((dotted_name(call.func.value) or "").rpartition(".")[2])
        for target, value, statement in tree.stores:
            if not (isinstance(target, cst.Attribute) and target.attr.value == "requires_grad"):
                continue
            if value is None or dotted_name(value) != "False":
                continue
            for loop in self._module.fact(Loops).around(statement):
                if isinstance(loop.node, cst.For):
                    for call in tree.calls_in(loop.node.iter):
                        if isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("parameters"):
                            found.add((dotted_name(call.func.value) or "").rpartition(".")[2])
        return found

    # -- recording a graph

    def _recorded(self, call: cst.Call, function: cst.FunctionDef | None) -> Region | None:
        module = self._module
        model = self._indirect.get(call) or module.fact(Networks).network_of(call)
        if module.fact(Gradients).reaches_backward(call) or self.is_frozen(model) or self._is_dry_run(call, function):
            return None
        if module.fact(Regions).grad_mode(call) is not GradMode.RECORDING:
            return None
        trains = module.fact(Gradients).trains(function) if function is not None else False
        evaluated = module.fact(Training).evaluation(call, model)
        if evaluated is not None and self._freezes(evaluated):
            return None
        if function is None or trains or function.name.value == "main":
            return self._recorded_statement(call, model, evaluated)
        if self._already_refused_by_numpy(call, function):
            return None
        if isinstance(call.func, cst.Attribute) and model is call.func.value and evaluated is None:
            if call.func.attr.value != "forward" and not module.definitions.called(call, module.values):
                return None  # only the class, which is not seen, knows under which mode it runs
        if not self._is_consumed(call, function):
            return None
        if evaluated is not None:
            return Region(call, model, function, (self._quoted(evaluated), evaluated))
        words = words_of(function.name.value)
        if words & _TRAINING or self._is_smoke_test(function, model):
            return None
        loop = self._batch_loop(call)
        if words & _EVALUATING and (loop is not None or self._reads(function)):
            return Region(call, model, function, (f"`{function.name.value}` evaluates", None))
        if words & _ACTING and self._only_chooses(call, function):
            return Region(call, model, function, (f"`{function.name.value}` only chooses an action", None))
        if words & _USING and self._leaves_graph(call, function):
            return Region(call, model, function, (f"`{function.name.value}` only reads the outputs", None))
        return None

    def _quoted(self, evaluated: cst.CSTNode) -> str:
        code = self._module.code(evaluated)
        return f"`{code}`" if len(code) <= 40 and code.isprintable() else "`eval()`"

    def _recorded_statement(
        self, call: cst.Call, model: cst.BaseExpression, evaluated: cst.CSTNode | None
    ) -> Region | None:
        """In code that also trains, or outside a function: a loop or statement that does not train."""
        node: cst.CSTNode | None = self.outermost_loop(call)
        if node is None:
            node = self._module.tree.statement_of(call)
            if (
                evaluated is None
                or not isinstance(node, cst.BaseSmallStatement)
                or self._module.fact(Gradients).trains(node)
            ):
                return None
        if evaluated is not None:
            return Region(call, model, node, (self._quoted(evaluated), evaluated))
        loop = self._batch_loop(call)
        if loop is not None and self._is_held_out(loop) and self._reads(node):
            return Region(call, model, node, ("no loss of this loop is propagated backward", None))
        return None

    def _batch_loop(self, call: cst.Call) -> cst.For | None:
        """The loop over a loader around ``call``."""
        for loop in self._module.fact(Loops).around(call):
            if isinstance(loop.node, cst.For) and (is_batch(loop.over) or _over_batches(loop.node)):
                return loop.node
        return None

    def _is_held_out(self, loop: cst.For) -> bool:
        names = [part.value for part in self._module.tree.nodes_in(loop.iter) if isinstance(part, cst.Name)]
        names += [part.attr.value for part in self._module.tree.nodes_in(loop.iter) if isinstance(part, cst.Attribute)]
        return any(_HELD_OUT.search(name) for name in names)

    def outermost_loop(self, call: cst.Call) -> cst.For | cst.While | None:
        """The largest loop around ``call`` in its function that does not train."""
        found: cst.For | cst.While | None = None
        for loop in self._module.fact(Loops).around(call):
            if self._module.fact(Gradients).trains(loop.node):
                break
            found = loop.node
        return found

    def _reads(self, node: cst.CSTNode) -> bool:
        """Whether outputs are visibly taken off the graph, or only shown."""
        for part in self._module.tree.nodes_in(node):
            if isinstance(part, cst.Attribute) and part.attr.value in DETACHING:
                return True
            if isinstance(part, cst.Call) and (dotted_name(part.func) or "").rpartition(".")[2] in _SHOWN:
                return True
        return False

    def _leaves_graph(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the output is detached, which shows that it was recorded, or drawn into a file."""
        for part in self._module.tree.nodes_in(function):
            taken: list[cst.CSTNode] = []
            if isinstance(part, cst.Attribute) and part.attr.value in ("data", "detach", "detach_"):
                taken = [part.value]
            elif isinstance(part, cst.Call) and (dotted_name(part.func) or "").rpartition(".")[2] in _SHOWN:
                taken = [argument.value for argument in part.args]
            if any(self._module.fact(Outputs).carries(item, {call}, frozenset()) for item in taken):
                return True
        return False

    def _only_chooses(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the output becomes an action, and its probability is not what a loss is made of."""
        tree = self._module.tree
        chosen = False
        for part in tree.nodes_in(function):
            if isinstance(part, (cst.Name, cst.Attribute)):
                name = part.value if isinstance(part, cst.Name) else part.attr.value
                if isinstance(name, str) and _LIKELIHOOD.search(name):
                    return False
            if isinstance(part, cst.Attribute) and part.attr.value in DETACHING:
                chosen = chosen or self._module.fact(Outputs).carries(part.value, {call}, frozenset())
        return chosen

    def _is_consumed(self, call: cst.Call, function: cst.FunctionDef, depth: int = 3) -> bool:
        """Whether the output stays in the file: not returned to callers out of sight that may want its gradient."""
        module = self._module
        returned = [item for item in module.definitions.returns(function) if item is not None]
        returned += module.definitions.yields(function)
        if not any(self._module.fact(Outputs).carries(item, {call}, DETACHING) for item in returned):
            return True
        callers = module.callers(function).calls
        return bool(callers) and depth > 0 and all(self._is_consumed_at(caller, depth - 1) for caller in callers)

    def _is_consumed_at(self, call: cst.Call, depth: int) -> bool:
        function = self._module.function_of(call)
        return function is None or self._is_consumed(call, function, depth)

    def _already_refused_by_numpy(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether the output becomes an array without ``detach()``: that raises, unless gradients are off already."""
        for other in self._module.methods("numpy"):
            if isinstance(other.func, cst.Attribute) and self._module.tree.within(other, function):
                if self._module.fact(Outputs).carries(other.func.value, {call}, GRADIENTLESS):
                    return True
        return False

    def _is_smoke_test(self, function: cst.FunctionDef, model: cst.BaseExpression) -> bool:
        """Whether the network is made in the function itself and given random numbers."""
        if not isinstance(model, cst.Name):
            return False
        scope = self._module.names.home_of(model)
        if scope is None or scope.node is not function or any(b.kind == "param" for b in scope.bindings[model.value]):
            return False
        return not any(
            isinstance(part, cst.Attribute) and part.attr.value in ("load_state_dict", "load", "load_from_checkpoint")
            for part in self._module.tree.nodes_in(function)
        )

    def _is_dry_run(self, call: cst.Call, function: cst.FunctionDef | None) -> bool:
        """Whether all the network is given are zeros or ones, or in a script, outside any loop, random numbers."""
        made = self._given(call)
        return made <= _BLANK or (made <= _RANDOM and function is None and not self._module.fact(Loops).around(call))

    def _given(self, call: cst.Call) -> set[str]:
        """The functions of torch that made the arguments of a forward; "" for anything else."""
        names = [self._module.value(argument.value).name for argument in call.args]
        return {name[6:] if name.startswith("torch.") else "" for name in names} or {""}

    # -- in training mode

    def _in_training_mode(self, call: cst.Call, function: cst.FunctionDef | None) -> Region | None:
        module = self._module
        model = module.fact(Networks).network_of(call)
        text = dotted_name(model)
        if text is None or _MOVING_TARGETS.search(text) or module.fact(Gradients).reaches_backward(call):
            return None
        disabled = module.fact(Regions).grad_mode(call) in (GradMode.NO_GRAD, GradMode.INFERENCE)
        if module.fact(Regions).grad_mode(call) is GradMode.UNKNOWN:
            return None
        loop = self._batch_loop(call)
        node: cst.CSTNode | None
        if function is not None and not module.fact(Gradients).trains(function):
            words = words_of(function.name.value)
            if words & _TRAINING or self._is_smoke_test(function, model):
                return None
            if words & _CHECKING and self._given(call) <= _RANDOM:
                return None
            if not disabled and not (words & _EVALUATING and (loop is not None or self._reads(function))):
                return None
            node = function
        else:
            node = self.outermost_loop(call)
            if node is None or loop is None or not (disabled or self._is_held_out(loop)):
                return None
        constructors = module.fact(Training).constructors(model)
        if not constructors or module.fact(Training).may_be_in_evaluation(model, constructors):
            return None
        if not any(module.fact(Training).depends_on_mode(made) for made in constructors):
            return None
        first = min(constructors, key=module.tree.index)
        return Region(call, model, node, ("built in training mode", first))

    # -- where a fix may go

    def function_to_decorate(self, region: Region) -> cst.FunctionDef | None:
        """The function, if the region is one and nothing but inference."""
        node = region.node
        if not isinstance(node, cst.FunctionDef) or self._module.definitions.yields(node) or node.asynchronous:
            return None
        return node

    def statement_to_wrap(self, region: Region) -> cst.CSTNode | None:
        """The statement of a block that holds the region, where it is not a function."""
        if isinstance(region.node, cst.FunctionDef):
            return None
        path = self._module.tree.block_path(region.forward)
        for block, _, statement in path:
            if isinstance(block, cst.SimpleStatementLine):
                if len(block.body) != 1:
                    return None
                continue
            if self._module.tree.within(region.node, statement):
                return statement
        return None

    def construction(self, region: Region) -> cst.CSTNode | None:
        """The statement of the constructor that makes the network of ``region``, a ``self.network`` that nothing else
        sets, in a file that trains nothing: there it can be put into evaluation mode for good."""
        tree = self._module.tree
        owner = tree.class_of(self._module.function_of(region.forward) or region.forward)
        text = dotted_name(region.model) or ""
        if owner is None or self._module.fact(Gradients).backwards or not re.fullmatch(r"self\.\w+", text):
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

    def first_statement(self, region: Region) -> cst.CSTNode | None:
        """The outermost statement of the region that holds the forward and sees the network bound before it."""
        tree = self._module.tree
        bound = self._bound_at(region)
        found: cst.CSTNode | None = None
        for block, _, statement in tree.block_path(region.forward):
            if isinstance(block, cst.SimpleStatementLine):
                continue
            if tree.index(statement) < bound:
                break
            if not isinstance(block, (cst.IndentedBlock, cst.Module)):
                return None
            found = statement
            if statement is region.node or tree.within(region.node, statement):
                break
        return found

    def _bound_at(self, region: Region) -> int:
        """How far down the function the network is bound; -1 if outside."""
        tree = self._module.tree
        node: cst.CSTNode = region.model
        while isinstance(node, cst.Attribute):
            node = node.value
        if not isinstance(node, cst.Name):
            return tree.index(region.forward)
        home = tree.scope_of(region.forward)
        scope = self._module.names.scope_with(node.value, home)
        if scope is None or scope is not home:
            return -1
        reached = self._module.values.reaching.of(node)
        return max((item.order for item in reached if item.kind != "param"), default=-1)

    def may_stay_in_evaluation(self, region: Region) -> bool:
        """Whether no training after the region needs a ``train()`` that the file lacks."""
        module = self._module
        for backward in module.fact(Gradients).backwards:
            home = module.tree.function_of(backward)
            here = module.tree.function_of(region.forward)
            around = module.fact(Loops).around(region.node) if home is here else []
            if home is here and not around and module.tree.index(backward) < module.tree.index(region.forward):
                continue
            if not any(
                switch.evaluation is False
                and module.tree.function_of(switch.call) is home
                and (not around or module.tree.within(switch.call, around[-1].node))
                for switch in module.fact(Training).switches
            ):
                return False
        return True


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower()


def words_of(name: str) -> set[str]:
    """The words of an identifier in snake case or camel case."""
    return set(re.split(r"[_\d]+", _snake(name)))


def _is_own(network: cst.BaseExpression) -> bool:
    return (dotted_name(network) or "").startswith("self.")


def _over_batches(node: cst.For) -> bool:
    """Whether a loop of unknown value unpacks a pair called like a batch: ``for images, labels in batches``."""
    target = node.target
    return isinstance(target, cst.Tuple) and bool(
        re.search(r"batch|data|set\b|iter", dotted_name(node.iter) or "", re.IGNORECASE)
    )
