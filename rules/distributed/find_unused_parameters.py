from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.model.syntax.calls import Call

_WRAPPER = "torch.nn.parallel.DistributedDataParallel"
_KEYWORD = "find_unused_parameters"
_CALLS = {
    _WRAPPER: _KEYWORD,
    "accelerate.DistributedDataParallelKwargs": _KEYWORD,
    "accelerate.utils.DistributedDataParallelKwargs": _KEYWORD,
    "lightning.pytorch.strategies.DDPStrategy": _KEYWORD,
    "pytorch_lightning.strategies.DDPStrategy": _KEYWORD,
    "transformers.TrainingArguments": f"ddp_{_KEYWORD}",
}
#: Words of programs whose steps leave out parameters: chosen experts, layers or tasks, two networks in turn.
_LEAVES_OUT = re.compile(
    r"\bMoE|mixture.of.experts|[Ll]ayer_?[Dd]rop|supernet|sample_active|multi_?task|\btask_?(?:ids?|types?|idx)\b|[Dd]iscriminator|\bnetD\b|"
    r"adversarial[ _](?:loss|net|weight|learn)|arch_code|arch_param|architecture.search|unet_number|"
    r"(?i:\b_?(?:un)?freez)|\bset_\w*grad\("
)


class FindUnusedParameters(Rule):
    """`DistributedDataParallel` searches for unused parameters at every step.

    ## What it does
    Flags `find_unused_parameters=True` of `DistributedDataParallel`, of Accelerate's `DistributedDataParallelKwargs`
    and of Lightning's `DDPStrategy`, and `ddp_find_unused_parameters=True` of `transformers.TrainingArguments`.

    Not reported:

    - calls with a comment, which may give the reason; with `static_graph=True`, or options that are not seen;
    - networks that are only evaluated, such as a teacher that runs under `torch.no_grad()` everywhere;
    - networks whose `forward` may leave out a layer: under a condition on an argument, on an attribute that changes or
      at random, behind an early return (`if epoch < self.start: return loss`), or always. So does an encoder of
      transformers whose pooled output is not used, and a part whose class is chosen by its name (`getattr`) may;
    - files in whose words there are signs that some steps leave out parameters: mixtures of experts, dropped layers,
      several tasks, discriminators, searches of an architecture, layers that are frozen for a while.

    ## Why it is slow
    After each forward pass the wrapper walks the autograd graph on the CPU to find the parameters that the loss does
    not depend on, and the processes exchange which parameters were used. Without the option, a parameter that takes
    no part in the loss makes the next step raise an error.

    ## Example
    ```python
    model = DistributedDataParallel(model, device_ids=[rank], find_unused_parameters=True)
    ```

    ## Use instead
    ```python
    model = DistributedDataParallel(model, device_ids=[rank])
    ```
    If the same parameters are unused at every step, freeze them (`requires_grad_(False)`) or remove them. If the graph
    is the same at every step, `static_graph=True` searches only once.

    ## Fix safety
    Unsafe: training raises an error if a parameter takes no part in the loss of a step. torch warns at run time if the
    option is on and no parameter is unused.

    ## When to ignore
    When the parameters that take part differ from step to step.

    ## References
    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    - [DDP internal design](https://docs.pytorch.org/docs/stable/notes/ddp.html)
    """

    code = "TL812"
    name = "find-unused-parameters"
    default = Default.INFO
    words = (("find_unused_parameters=True", "find_unused_parameters = True"),)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        if _LEAVES_OUT.search(module.own_text):
            return
        for call in module.own_calls(*_CALLS):
            keyword = _CALLS[call.name]
            argument = call.argument(keyword)
            static = call.argument("static_graph")
            if argument.literal() != "True" or not (static.absent or static.literal() == "False"):
                continue
            if argument.node is None or module.comment_on(call.node):
                continue
            if call.name == _WRAPPER and (
                _only_evaluates(module)
                or _is_evaluated(module, call)
                or _runs_without_gradients(module, call)
                or _leaves_out_layers(module, call)
            ):
                continue
            yield self.diagnostic(
                module,
                argument.node,
                f"`{keyword}=True` searches the graph for unused parameters at every step",
                label="walks the autograd graph on the CPU",
                notes=(Note("torch warns at run time if no parameter is unused"),),
                fix=_fix(module, call, keyword),
            )


def _leaves_out_layers(module: Module, call: Call) -> bool:
    """Whether the forward pass of the wrapped network, if it is seen, may leave out layers."""
    from ._partial_forwards import PartialForwards

    network = call.argument("module").value or (call.node.args[0].value if call.node.args else None)
    return network is not None and module.fact(PartialForwards).leaves_out(network)


def _only_evaluates(module: Module) -> bool:
    """Whether a file evaluates in programs without a backward pass: DDP searches for parameters before it."""
    from torchlint.model.training.gradients import Gradients

    if ".eval()" not in module.own_text:
        return False
    return not any(module.tree.root_of(call) in module.related for call in module.fact(Gradients).backwards)


def _is_evaluated(module: Module, call: Call) -> bool:
    """Whether the function that wraps a network puts it into evaluation mode in its next statement."""
    import libcst as cst

    from torchlint.model.syntax.dotted import dotted_name
    from torchlint.model.training.mode_switches import ModeSwitches

    function, wrapped = module.function_of(call.node), module.tree.statement_of(call.node)
    if function is None or not isinstance(wrapped, cst.Assign):
        return False
    names = {dotted_name(item.target) for item in wrapped.targets}
    statements = function.body.body
    places = [place for place, item in enumerate(statements) if module.tree.within(call.node, item)]
    following = statements[places[0] + 1 : places[0] + 2] if places else ()
    return any(
        switch.evaluation
        and switch.target in names
        and isinstance(module.tree.parent(switch.call), cst.Expr)
        and module.tree.within(switch.call, item)
        for item in following
        if isinstance(item, cst.SimpleStatementLine)
        for switch in module.fact(ModeSwitches).all
    )


def _runs_without_gradients(module: Module, call: Call) -> bool:
    """Whether all calls by the name that the wrapped network gets are under ``no_grad``: ``self.teacher(images)``."""
    import libcst as cst

    from torchlint.model.syntax.dotted import last_name
    from torchlint.model.training.grad_mode import GradModes

    wrapped = module.tree.statement_of(call.node)
    if not isinstance(wrapped, cst.Assign):
        return False
    names = [name for item in wrapped.targets if (name := last_name(item.target))]
    runs = [run for run in module.tree.calls_named(*names) if module.name_of(run.func) is None]
    return bool(runs) and all(module.fact(GradModes).of(run).is_off for run in runs)


def _fix(module: Module, call: Call, keyword: str) -> Fix | None:
    argument = call.argument(keyword)
    if keyword == _KEYWORD and argument.node is not None:
        message, edited = f"remove `{keyword}=True`", edits.remove_argument(module, call.node, argument.node)
    else:
        message, edited = f"pass `{keyword}=False`", edits.set_argument(module, call.node, keyword, argument, "False")
    caution = "training raises an error if a parameter takes no part in the loss of a step"
    return None if edited is None else Fix(message, edited, Applicability.UNSAFE, caution)
