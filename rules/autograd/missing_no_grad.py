from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Note, Rule, Severity

from ._inference_sketch import may_infer
from ._words import RECORDING_WORDS

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.training.inference_site import InferenceSite
    from torchlint.rule.sketch import Sketch

#: The reason for no fix where other code runs in between.
_SUSPENDED = "no fix: gradients would stay disabled for other code while this is suspended"


class MissingNoGrad(Rule):
    """Inference without `torch.no_grad()` builds an autograd graph that nothing uses.

    ## What it does
    Flags the first forward pass of inference code that records gradients. Inference means that

    - the network is in evaluation mode there (networks of transformers and diffusers are after `from_pretrained`, and
      so is `lpips.LPIPS`, and what calls `self.eval()` in its constructor), or
    - a function or loop only evaluates, by its name, its data or the name of a script that trains nothing, or
    - the output is only used after it is detached, by the function or by all of its callers, also in a training step
      (`target_network(x).detach()`), in a network that runs another one, also by a method
      (`self.features(x).detach()`), and in one that trains itself (`target = reward + self.value(state)`), or
    - only numbers, indices or samples of a distribution are read from it, such as the best action of an agent, or
    - its input is made with `volatile=True`, which turned gradients off before torch 0.4, or
    - a script loads weights, trains nothing and detaches the output, or only reads numbers or indices from it.

    There must be no `no_grad()` or `inference_mode()` around the call, on its function or in its callers, and no
    backward pass may go through an output. If some callers disable gradients and one does not, a note names that
    caller. A method without a known caller is not reported if the project calls a method of this name with gradients
    disabled. A function that trains or evaluates depending on a parameter (`run_epoch("val")`) is flagged if a caller
    passes a constant for which nothing is trained, also if another function computes the loss for it, or passes the
    constant on. Inference that runs once is reported at information level. A file that tries out its network under
    `if __name__ == "__main__":` is not reported, and of functions that measure a network only those that put it into
    evaluation mode.

    ## Why it is slow
    Every operation stores what its backward pass would need. The activations of all layers stay in memory until the
    output is deleted, so batches must be smaller. Layers with a fused inference path cannot use it.

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
    `eval()` does not disable gradients. `detach()` on the result does not either: the graph exists by then.

    ## Fix safety
    Unsafe: other code may use the gradients of what the function returns. The fix decorates a function that does
    nothing but inference. In code that also trains, it wraps only the loop or statement. No fix is offered for a loop
    or statement with a `yield` or `await`: gradients would stay disabled while other code runs.

    ## When to ignore
    Ignore it if gradients of the outputs are needed: saliency maps, adversarial examples, guidance.

    ## References
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    """

    code = "TL402"
    name = "missing-no-grad"
    words = RECORDING_WORDS
    project_words = ("torch",)
    since = (0, 4)
    demo = ("GPU", "CPU")

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a call that is not in a network may run one."""
        return sketch.answer(may_infer)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.syntax.suspension import suspension_in
        from torchlint.model.training.inference import Inference
        from torchlint.model.training.purpose import Purposes

        for site in module.fact(Inference).recording:
            if module.fact(Purposes).is_self_test(site.forward):
                continue
            what, where = site.evidence
            wrapped = self._wrapped(module, site)
            suspended = next(filter(None, (suspension_in(module.tree, item) for item in wrapped)), None)
            yield self.diagnostic(
                module,
                site.forward,
                "inference without `torch.no_grad()` builds an autograd graph",
                label="not under `no_grad()`: neither here nor in its callers"
                if site.unguarded is None
                else "not under `no_grad()` here and in one of the callers",
                notes=(
                    Note.at(module, where, f"this is inference: {what}"),
                    *self._graph_notes(module, site),
                    *(() if suspended is None else (Note.at(module, suspended, _SUSPENDED),)),
                ),
                fix=self._fix(module, site, wrapped) if suspended is None else None,
                severity=Severity.INFO if module.fact(Inference).runs_once(site) else None,
                cause=Cause(module.tree.index(module.fact(Inference).place(site)), "also without `no_grad()`"),
            )

    def _graph_notes(self, module: Module, site: InferenceSite) -> tuple[Note, ...]:
        if site.phase is not None:
            return (Note("only the calls that train need gradients"),)
        unused = Note("no known `backward()` uses the outputs")
        if site.unguarded is None:
            return (unused,)
        return (Note.at(module, site.unguarded, "this call records gradients, other calls disable them"), unused)

    def _wrapped(self, module: Module, site: InferenceSite) -> list[cst.CSTNode]:
        """The statements that the fix wraps; empty if it decorates the function, or if there is no fix."""
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
            message = (
                f"wrap {'this statement' if len(wrapped) < 2 else 'these statements'} in `with {torch}.no_grad():`"
            )
        if changed is None:
            return None
        return Fix(message, (*imported, *changed), Applicability.UNSAFE, "the outputs no longer have gradients")
