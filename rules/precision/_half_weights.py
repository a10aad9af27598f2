"""Networks that are trained with 16-bit weights under autocast."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.numerics.autocasts import Autocast, Autocasts
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import bare
from torchlint.model.syntax.nodes import TRIES
from torchlint.model.training.steps import Steps
from torchlint.source.lexemes import code_of

_LOW = frozenset({"torch.bfloat16", "torch.float16", "torch.half"})
#: Methods that return the network itself.
_SAME = frozenset({"to", "cuda", "train", "eval"})
#: Words of programs that train only some weights, keep float32 copies, or cast weights back.
_REASONS = re.compile(
    r"requires_grad|peft|[Ll]o[Rr][Aa]|deepspeed|apex|fully_shard|FullyShardedDataParallel|FSDP|master|\.float\(\)"
    r"|\.to\((?:dtype=)?torch\.float(?:32)?\)|[Ss]tochastic_?[Rr]ound|[Kk]ahan|copy\.deepcopy|bitsandbytes|optimum"
)


@dataclass(frozen=True, eq=False)
class HalfTraining:
    """A network that is cast to 16 bits, and then trained under autocast."""

    cast: cst.Call
    network: cst.BaseExpression
    optimizer: cst.Call
    autocast: Autocast


class HalfWeights:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @property
    def trained(self) -> Iterator[HalfTraining]:
        """The casts of networks that are trained afterwards, in order."""
        module = self._module
        texts = (code_of(module.file_of_root[root].text) for root in module.related)
        if any(map(_REASONS.search, texts)):
            return
        for call in module.own_methods("half", "bfloat16", "to"):
            if not self._casts(call) or self._is_conditional(call.node):
                continue
            network = bare(call.receiver, _SAME, (), with_arguments=True)  # of `model.cuda().half()`
            made = module.value(network).origins
            if module.value(network).kind is not Kind.MODULE or not made:
                continue
            optimizer = self._optimizer(call.node, made)
            autocast = self._autocast(made) if optimizer is not None else None
            if optimizer is not None and autocast is not None:
                yield HalfTraining(call.node, network, optimizer, autocast)

    def _casts(self, call: Call) -> bool:
        if call.method == "to":
            return any(self._module.name_of(item.value) in _LOW for item in call.node.args)
        return not call.node.args

    def _is_conditional(self, call: cst.Call) -> bool:
        return any(
            isinstance(above, (cst.If, cst.IfExp, *TRIES, cst.Match, cst.For, cst.While))
            and child is not getattr(above, "test", None)
            for above, child in climb(self._tree, call)
        )

    def _optimizer(self, cast: cst.Call, made: frozenset[cst.CSTNode]) -> cst.Call | None:
        """The optimizer that is given the parameters of the network after the cast, in the same function."""
        for call in self._module.methods("parameters"):
            if not made & self._module.value(call.receiver).origins:
                continue
            for above in self._tree.ancestors(call.node):
                if isinstance(above, cst.Call) and self._module.value(above).is_optimizer_of_torch:
                    return above if self._tree.dominates(cast, above) else None
                if isinstance(above, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                    break
        return None

    def _autocast(self, made: frozenset[cst.CSTNode]) -> Autocast | None:
        """An autocast to 16 bits around a forward pass that trains the network."""
        module = self._module
        for step in module.fact(Steps).loops:
            if not any(made & module.value(item).origins for item in module.fact(Steps).networks(step)):
                continue
            found = module.fact(Autocasts).around(step.forward)
            if found is not None and found.enabled is True and found.dtype in _LOW:
                return found
        return None
