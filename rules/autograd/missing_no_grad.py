from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule, Severity

from ._words import RECORDING_WORDS

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.training.inference import InferenceSite

#: Why there is no fix where other code runs in between.
_SUSPENDED = "no fix: other code would run without gradients while this is suspended"


class MissingNoGrad(Rule):
    """Inference records an autograd graph that nobody uses.

    ## What it does
    Flags the first forward call of a region that is inference (the network is in evaluation mode there, a function or
    loop only evaluates, the output is only read after it was detached, or a script loads weights, trains nothing and
    detaches the output) where gradients are recorded: no `no_grad()` or `inference_mode()` around it, on its function
    or in its callers, and no output reaches a backward pass. Where some callers turn gradients off and one does not,
    that caller is named. Inference that runs once is reported at information level. A function that trains or evaluates
    as a parameter says (`run_epoch("val")`) is flagged where a caller passes a constant with which nothing is trained.

    ## Why it is slow
    Every operation stores what its backward would need. The activations of all layers stay in memory until the output
    is dropped, so batches must be smaller, and layers with a fused inference path cannot take it.

    ## Example
    ```python
    def evaluate(model, loader):
        model.eval()
        for images, labels in loader:
            correct += (model(images).argmax(1) == labels).sum().item()
    ```

    ## Use instead
    ```python
    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        for images, labels in loader:
            correct += (model(images).argmax(1) == labels).sum().item()
    ```
    `eval()` does not turn gradients off, nor does `detach()` on the result: the graph is recorded before.

    ## Fix safety
    Unsafe: code elsewhere might use the gradients of what the function returns. A function that does nothing but
    inference is decorated; in code that also trains, only the loop or statement is wrapped. No fix is offered for a
    loop or statement with a `yield` or `await`: while it waits, gradients would be off in the code that goes on.

    ## When to ignore
    When gradients of the outputs are wanted after all: saliency maps, adversarial examples, guidance.

    ## References
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    """

    code = "TL402"
    name = "missing-no-grad"
    words = RECORDING_WORDS
    demo = ("GPU", "CPU")

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.syntax.suspension import suspension_in
        from torchlint.model.training.inference import Inference

        for site in module.fact(Inference).recording:
            what, where = site.evidence
            wrapped = self._wrapped(module, site)
            suspended = next(filter(None, (suspension_in(module.tree, item) for item in wrapped)), None)
            yield self.diagnostic(
                module,
                site.forward,
                "inference without `torch.no_grad()` builds an autograd graph",
                label="no `no_grad()` here, on the function or in its callers"
                if site.unguarded is None
                else "no `no_grad()` here, on the function or in one of its callers",
                notes=(
                    Note.at(module, where, f"this is inference: {what}"),
                    *self._graph_notes(module, site),
                    *(() if suspended is None else (Note.at(module, suspended, _SUSPENDED),)),
                ),
                fix=self._fix(module, site, wrapped) if suspended is None else None,
                severity=Severity.INFO if module.fact(Inference).runs_once(site) else None,
            )

    def _graph_notes(self, module: Module, site: InferenceSite) -> tuple[Note, ...]:
        if site.phase is not None:
            return (Note("gradients are only needed by the calls that train"),)
        unused = Note("no output reaches a backward pass in this file")
        if site.unguarded is None:
            return (unused,)
        return (Note.at(module, site.unguarded, "this call records gradients, others turn them off"), unused)

    def _wrapped(self, module: Module, site: InferenceSite) -> list[cst.CSTNode]:
        """The statements that the fix wraps; empty where it decorates the function, or there is no fix."""
        from torchlint.model.training.inference_places import evaluating_site, function_to_decorate, statements_to_wrap

        if site.phase is not None:
            evaluation = evaluating_site(module, site)
            return [] if evaluation is None else statements_to_wrap(module, evaluation)
        return statements_to_wrap(module, site) if function_to_decorate(module, site) is None else []

    def _fix(self, module: Module, site: InferenceSite, wrapped: list[cst.CSTNode]) -> Fix | None:
        from torchlint.model.training.inference_places import function_to_decorate

        named = edits.name_module(module, "torch", wrapped[0] if wrapped else site.node)
        if named is None:
            return None
        torch, imported = named
        function = function_to_decorate(module, site) if site.phase is None else None
        if function is not None:
            changed = edits.decorate(module, function, f"{torch}.no_grad()")
            message = f"decorate `{function.name.value}` with `@{torch}.no_grad()`"
        else:
            changed = edits.wrap_in_with(module, wrapped, f"{torch}.no_grad()") if wrapped else None
            message = f"wrap {'it' if len(wrapped) < 2 else 'these statements'} in `with {torch}.no_grad():`"
        if changed is None:
            return None
        return Fix(message, (*imported, *changed), Applicability.UNSAFE, "outputs have no gradient any more")
