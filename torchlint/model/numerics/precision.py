"""Signs that a file already chooses its number format: mixed precision of any make, TF32, double precision."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.numerics.autocasts import Autocasts
from torchlint.model.numerics.derivatives import Derivatives
from torchlint.model.numerics.layers import NetworkLayers
from torchlint.model.numerics.precision_settings import PrecisionSettings
from torchlint.model.numerics.precision_words import PrecisionWords
from torchlint.model.numerics.sizes import Sizes
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import dotted_name, last_name
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.tensors.devices import Devices
from torchlint.model.tensors.new_tensors import NewTensors
from torchlint.model.tensors.placement import Placement
from torchlint.model.training.data_flow import DataFlow
from torchlint.model.training.environments import Environments
from torchlint.model.training.host_training import HostTraining
from torchlint.model.training.loops import Loops
from torchlint.model.training.networks import Networks
from torchlint.model.training.steps import Steps, TrainingLoop

_QUANTIZATION = ("torch.quantization", "torch.ao")

#: Libraries that set the precision of what their users train.
_LIBRARIES = frozenset(
    "accelerate deepspeed lightning pytorch_lightning composer colossalai fairscale megatron torchtitan "
    "catalyst fastai bitsandbytes".split()
)
#: Parts of them that leave it as it is: activation checkpointing.
_OTHER_PARTS = ("fairscale.nn.checkpoint",)
_TRAINERS = re.compile(r"^transformers\.\w*Trainer$|^(?:torchtune|trl)\.")

#: What normalizing flows add up, and solvers of differential equations.
_SUMS = re.compile(
    r"log_?(?:abs_?)?det(?![a-z])|(?:^|_)ldj(?:_|$)|log_?jacobian|delta_?log_?p|normali[sz]ing_?flow"
    r"|(?<![a-z])ode_?(?:int|func|solve|block|net)|torchdiffeq|torchsde|neural_?ode"
)
#: Functions without a 16-bit version on CUDA.
_DECOMPOSITIONS = re.compile(
    r"torch\.(?:linalg\.(?!(?:vector_|matrix_)?norm$|multi_dot$|cross$|matmul$|vecdot$)|fft\.(?!fftfreq|fftshift|ifftshift)"
    r"|sparse\.(?:mm|addmm|sampled_addmm)$|(?:spmm|smm|sspaddmm)$"
    r"|(?:svd|inverse|pinverse|cholesky\w*|det|logdet|slogdet|qr|lu|lstsq|symeig|eig|solve|triangular_solve|stft|istft)$)"
)
#: ... and methods of tensors.
_DECOMPOSING = ("svd", "symeig", "cholesky", "cholesky_solve", "logdet", "slogdet")
#: Those that take the input of a network, which is float32.
_SPECTROGRAMS = ("stft", "istft")
#: How many functions a forward pass is followed through.
_MAX_FUNCTIONS = 200

#: Of smaller layers, the time goes into launching kernels: 1024 x 1024.
_LARGE = 1 << 20
#: How the names of classes end that are one linear layer.
_LINEAR = ("inear", "LogisticRegression")
#: What makes a tensor of data or of a single value.
_OF_DATA = frozenset("tensor as_tensor new_tensor zeros ones full new_zeros new_ones new_full".split())
_HALVES = frozenset({"torch.float16", "torch.half", "torch.bfloat16"})


class Precision:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._summing: dict[cst.CSTNode, bool] = {}  #: by file whether it adds up log-determinants

    @cached_property
    def is_chosen(self) -> bool:
        """Whether anything in the file names another precision than float32, or its program sets one."""
        words = self._module.fact(PrecisionWords)
        settings = self._module.fact(PrecisionSettings)
        return self._uses_library or words.names_one or words.others_set_one or settings.are_for_all

    @cached_property
    def _uses_library(self) -> bool:
        """Whether a library that sets the precision is used."""
        module = self._module
        used = (name for name in module.imported_names if not name.startswith(_OTHER_PARTS))
        if any(name.partition(".")[0] in _LIBRARIES for name in used):
            return True
        if any(_TRAINERS.match(name) or name.startswith(_QUANTIZATION) for name in module.imported_names):
            return True
        return any(module.name_of(node) in _QUANTIZATION for node in module.tree.attributes_named("quantization", "ao"))

    @cached_property
    def float32_training(self) -> list[TrainingLoop]:
        """The training loops of the file that compute in float32 on CUDA and that autocast would serve."""
        return [step for step in self._steps if self._module.is_own(step.place) and self._is_float32(step)]

    @cached_property
    def trains_in_float32(self) -> bool:
        """Whether the program has such a training loop, in this file or another."""
        return any(map(self._is_float32, self._steps))

    @cached_property
    def _steps(self) -> list[TrainingLoop]:
        """The training loops of the program, unless the precision is chosen."""
        module = self._module
        if not module.fact(Devices).uses_cuda or not module.uses_torch:
            return []
        if self.is_double or self._module.fact(Environments).are_played:
            return []
        if self.is_chosen and (self._uses_library or not module.fact(PrecisionWords).are_for_inference):
            return []
        if self.differentiates_twice or self.defines_kernels or self.needs_digits:
            return []
        return module.fact(Steps).loops

    def _is_float32(self, step: TrainingLoop) -> bool:
        """Whether a step computes in float32 on CUDA, and autocast would serve it."""
        module = self._module
        return (
            not any(module.fact(Autocasts).is_on(call) for call in (step.forward, step.call))
            and not self._runs_on_host(step)
            and not module.fact(HostTraining).is_done_by(step.loop)
            and not self._differentiates_around(step.forward)
            and not self._is_tiny(step)
            and not self._trains_linear_layer(step)
            and not any(map(module.fact(PrecisionSettings).concern, module.fact(Steps).networks(step)))
            and not any(map(self._adds_determinants, module.fact(Steps).networks(step)))
            and not self._decomposes(step.forward)
        )

    def _is_tiny(self, step: TrainingLoop) -> bool:
        """Whether all networks of a step that have layers are tiny; also if the step runs none."""
        networks, sizes = self._module.fact(Steps).networks(step), self._module.fact(Sizes)
        with_layers = [network for network in networks if not sizes.has_no_layers(network)]
        if networks and not with_layers:  # ``diffusion.loss(model, images)``
            given = [item.value for item in step.forward.args]
            with_layers = [node for node in given if self._module.value(node).kind is Kind.MODULE]
            return bool(with_layers) and all(map(sizes.is_tiny, with_layers))
        return all(map(sizes.is_tiny, with_layers))

    def _adds_determinants(self, network: cst.BaseExpression) -> bool:
        """Whether the file that defines a network adds up log-determinants, or solves differential equations."""
        definition = self._module.value(network).definition
        root = None if definition is None else self._module.tree.root_of(definition)
        if root is not None and root not in self._summing:
            self._summing[root] = _has_sums(self._module.words_of(root))
        return root is not None and self._summing[root]

    def _decomposes(self, call: cst.Call) -> bool:
        """Whether ``call``, or a function that it may run, directly or not, has no 16-bit version on CUDA.

        Spectrograms do not count: they are computed from the data, which is float32.
        """
        run = self._module.fact(Dispatch).run
        waiting, seen = [call], set[cst.CSTNode]()
        for item in waiting:  # grows during the iteration
            if self._is_decomposition(item) and last_name(item.func) not in _SPECTROGRAMS:
                return True
            for function in run(item) if len(seen) < _MAX_FUNCTIONS else ():
                if function not in seen:
                    seen.add(function)
                    waiting += self._module.tree.calls_in(function.body)
        return False

    def _is_decomposition(self, call: cst.Call) -> bool:
        if _DECOMPOSITIONS.match(self._module.name_of(call.func) or ""):
            return True
        return isinstance(call.func, cst.Attribute) and call.func.attr.value in _DECOMPOSING

    def _trains_linear_layer(self, step: TrainingLoop) -> bool:
        """Whether a step only runs one linear layer of unknown size, such as a classifier of stored features."""
        module = self._module
        runs = [call for call in module.tree.calls_in(step.body) if module.fact(Networks).runs_network(call)]
        if step.forward not in runs:
            return False
        made = [origin for call in runs for origin in module.value(call.func).origins or {call}]
        is_linear = all(isinstance(call, cst.Call) and last_name(call.func).endswith(_LINEAR) for call in made)
        return is_linear and all(module.fact(Sizes).largest(call.func) is None for call in runs)

    def _runs_on_host(self, step: TrainingLoop) -> bool:
        """Whether the network gets a new host tensor, ``net(torch.randn(2, 3))``: on CUDA, it would raise an error.

        Not next to a tensor on CUDA: the network, or `nn.DataParallel`, moves it.
        """
        given = [argument.value for argument in step.forward.args]
        if any(self._module.value(item).device is Device.CUDA for item in given):
            return False
        created = any(self._module.fact(NewTensors).of(item) is not None for item in given)
        return created and not self._module.fact(Placement).is_gpu_default

    @cached_property
    def float32_product(self) -> tuple[cst.Call, Call] | None:
        """The first forward in a loop whose network multiplies matrices in float32, and the layer that does.

        Linear layers of another file may be the head of convolutions that are not seen, unless patches are embedded.
        """
        module = self._module
        if not module.fact(Devices).uses_cuda or not any(map(self._is_repeated, module.tree.calls_in(module.root))):
            return None
        if self.is_chosen or self.is_double or self._module.fact(Environments).are_played or self.needs_digits:
            return None
        for call in filter(self._is_repeated, module.tree.calls):
            network = module.fact(Networks).network_of(call)
            layers = module.fact(NetworkLayers).of(network)
            largest = module.fact(Sizes).largest(network)
            if layers is None or module.value(network).device is Device.CPU or self._is_moved_to_host(network):
                continue
            if largest is not None and largest < _LARGE:
                continue
            if module.fact(PrecisionSettings).concern(network):
                continue
            found = layers.product
            if found is not None and (not found.name.endswith("inear") or module.is_own(found.node) or layers.patches):
                return call, found
        return None

    def _is_repeated(self, call: cst.Call) -> bool:
        """Whether ``call`` runs a network in a loop, and not as a part of a network, which others run.

        The loop may be that of a caller of the function around it.
        """
        module = self._module
        function = module.function_of(call)
        if not self._is_in_loop(call):
            if function is None or not any(map(self._is_in_loop, module.callers(function).calls)):
                return False
        if not (module.fact(Networks).runs_network(call) or self._infers(call)):
            return False
        return module.values.object_of(function or call).kind is not Kind.MODULE

    def _is_in_loop(self, call: cst.Call) -> bool:
        module = self._module
        return bool(module.fact(Loops).around(call)) or nearest(module.tree, call, *COMPREHENSIONS) is not None

    def _infers(self, call: cst.Call) -> bool:
        """Whether ``call`` is of a method of a network that runs it without gradients, and without autocast."""
        module = self._module
        return module.fact(Networks).infers(call) and not any(
            module.fact(Autocasts).is_on(inner)
            for function in module.definitions.called(call, module.values)
            if isinstance(function, cst.FunctionDef)
            for inner in module.tree.calls_in(function.body)
        )

    def _is_moved_to_host(self, network: cst.BaseExpression) -> bool:
        """Whether all moves of ``network`` in its file go to the CPU: ``self.net.to(device)``, which is "cpu"."""
        name, root = dotted_name(network), self._module.tree.root_of(network)
        moves = [
            move
            for move in self._module.fact(Placement).moves
            if dotted_name(move.source) == name and self._module.tree.root_of(move.call) is root
        ]
        return name is not None and bool(moves) and all(move.device is Device.CPU for move in moves)

    def is_halved(self, network: cst.BaseExpression) -> bool:
        """Whether the file around ``network`` puts it into 16 bits, or a file that calls the function around it."""
        module = self._module
        root, function = module.tree.root_of(network), module.function_of(network)
        calls = module.callers(function).calls if function is not None else ()
        files = {root, *map(module.tree.root_of, calls)}
        named, origins = dotted_name(network), module.value(network).origins
        return any(
            (module.tree.root_of(halved) is root and dotted_name(halved) == named)
            or not origins.isdisjoint(module.value(halved).origins)
            for halved in self._halved
            if module.tree.root_of(halved) in files
        )

    @cached_property
    def _halved(self) -> list[cst.BaseExpression]:
        """What is put into 16 bits."""
        module = self._module
        found: list[cst.BaseExpression] = []
        for call in module.methods("half", "bfloat16", "to"):
            if call.method != "to" or any(module.name_of(item.value) in _HALVES for item in call.node.args):
                found.append(call.receiver)
        return found

    @cached_property
    def is_double(self) -> bool:
        """Whether the file computes in double precision."""
        module = self._module
        for attribute in module.tree.inside(module.root, cst.Attribute):
            name = module.name_of(attribute) or ""
            parent = module.tree.parent(attribute)
            if name == "torch.DoubleTensor" and parent in self._sampled:
                continue
            if isinstance(parent, cst.Arg) and self._converts_data(module.tree.parent(parent)):
                continue
            if name in ("torch.float64", "torch.DoubleTensor", "torch.cuda.DoubleTensor"):
                return True
            if name == "torch.double" and not isinstance(parent, cst.Call):
                return True
        return any(map(self._is_double, module.own_methods("double")))

    @cached_property
    def _sampled(self) -> set[cst.CSTNode]:
        """The calls that made what a sampler is given: the weights of the items."""
        module = self._module
        return {
            origin
            for call in module.tree.calls_where(lambda name: "Sampler" in name)
            if last_name(call.func)
            for item in call.args
            for origin in module.value(item.value).origins
        }

    def _is_double(self, call: Call) -> bool:
        """``model.double()``, or data on its way into a network; a count that is divided is not meant."""
        value = self._module.value(call.receiver)
        return value.kind is Kind.MODULE or (value.role is Role.BATCH and self._feeds_network(call.node))

    def _converts_data(self, call: cst.CSTNode | None) -> bool:
        """``labels.to(torch.float64)``: data that no network of the file is given, such as a sum that is reported."""
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return False
        if call.func.attr.value in _OF_DATA:
            return self._is_passing(call) and not self._feeds_network(call)
        if call.func.attr.value not in ("to", "type") or self._module.name_of(call.func) is not None:
            return False
        return self._module.value(call.func.value).kind is not Kind.MODULE and not self._feeds_network(call)

    def _is_passing(self, made: cst.Call) -> bool:
        """Whether a function that is not a method of a network makes a tensor, and keeps it in no object."""
        module = self._module
        function, statement = module.function_of(made), module.tree.statement_of(made)
        targets = [item.target for item in statement.targets] if isinstance(statement, cst.Assign) else []
        if function is None or module.values.object_of(function).kind is Kind.MODULE:
            return False
        return all(isinstance(item, cst.Name) for item in targets)

    def _feeds_network(self, made: cst.Call) -> bool:
        """Whether a network is given a value."""
        networks = self._module.fact(Networks)
        search = self._module.fact(DataFlow).search(lambda part: part is made, lambda part: False)
        return any(
            search.finds(item.value)
            for call in self._module.tree.calls_in(self._module.tree.function_of(made) or self._module.root)
            if networks.runs_network(call)
            for item in call.args
        )

    @property
    def loses_on_probabilities(self) -> bool:
        """Whether a loss of the program raises under CUDA autocast: binary cross entropy on probabilities."""
        return self._module.fact(Derivatives).loses_on_probabilities

    @property
    def may_break_autocast(self) -> bool:
        """Whether the program, in this file or another, does what autocast may not follow."""
        derivatives = self._module.fact(Derivatives)
        return any(derivatives.twice_in(root) or derivatives.kernels_in(root) for root in self._module.tree.roots)

    @property
    def differentiates_twice(self) -> bool:
        """Whether the file takes gradients of gradients, or of inputs: penalties, forces, meta learning."""
        return self._module.fact(Derivatives).twice_in(self._module.root)

    def _differentiates_around(self, forward: cst.Call) -> bool:
        """Whether the function around a forward pass takes such gradients, perhaps in another file: score matching."""
        function, differentiates = self._module.function_of(forward), self._module.fact(Derivatives).differentiates
        return function is not None and any(map(differentiates, self._module.tree.calls_in(function.body)))

    @cached_property
    def needs_digits(self) -> bool:
        """Whether the file computes what has too few digits in 16 bits, or no 16-bit version: flows, decompositions."""
        module = self._module
        if _has_sums(module.words_of(module.root) | module.own_imported_names):
            return True
        return any(map(self._is_decomposition, module.tree.calls_in(module.root)))

    @cached_property
    def defines_kernels(self) -> bool:
        """Whether the file has autograd functions of its own, which may not follow autocast."""
        return self._module.fact(Derivatives).kernels_in(self._module.root)


def _has_sums(words: Collection[str]) -> bool:
    return any(_SUMS.search(word.lower()) for word in words)
