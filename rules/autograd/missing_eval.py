from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._inference_sketch import may_infer
from ._words import GRADIENTLESS_WORDS

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module
    from torchlint.model.training.inference_site import InferenceSite
    from torchlint.rule.sketch import Sketch

#: The reason for no fix where another place needs dropout.
_SAMPLED = "no fix: `eval()` would disable dropout where the same input runs repeatedly"


class MissingEval(Rule):
    """Inference runs without `model.eval()`, in training mode.

    ## What it does
    Flags inference on a network that this file creates, if nothing in the file may have called `eval()` on it.
    Inference is code without gradients, or a function or loop that only evaluates.

    Not flagged are networks in whose class no layer is known to depend on the mode: dropout with a rate of 0 does not,
    instance norm without running statistics does not, and layers of unknown libraries are not known to. `self.training`
    may select which of the outputs are returned, and a parameter that is always false may leave out the batch norm.
    Neither is a forward pass flagged that runs repeatedly on the same input and collects its outputs (Monte Carlo
    dropout).

    ## Why it is slow
    In training mode, dropout draws random numbers, batch norm computes and stores statistics of each batch, and
    attention layers cannot use their fused inference path. It is first of all a bug: the outputs are random, or depend
    on the other items of the batch.

    ## Example
    ```python
    @torch.no_grad()
    def evaluate(model, loader):
        for images, labels in loader:
            outputs = model(images)
    ```

    ## Use instead
    ```python
    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        for images, labels in loader:
            outputs = model(images)
    ```
    Call `model.train()` before training continues.

    ## Fix safety
    Unsafe: the outputs change, which is the purpose of the fix. The fix is wrong if the code needs dropout or batch
    statistics: for Monte Carlo dropout, for generators that are sampled in training mode, or when batch norm statistics
    are estimated again. The network stays in evaluation mode. No fix is offered if the file trains the network
    afterwards without calling `train()`, or repeats a forward pass of it on the same input elsewhere.

    ## When to ignore
    Ignore it if the outputs of training mode are wanted.

    ## References
    - [Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval)
    - [Evaluation mode](https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval)
    """

    code = "TL401"
    name = "missing-eval"
    words = GRADIENTLESS_WORDS
    project_words = ("torch",)
    demo = ("GPU", "CPU")

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a call that is not in a network may run one."""
        return sketch.answer(may_infer)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.training.inference import Inference

        for site in module.fact(Inference).in_training_mode:
            name = module.code(site.model)
            what, where = site.evidence
            sampled = self._sampled(module, site)
            yield self.diagnostic(
                module,
                site.forward,
                f"inference without `{name}.eval()` runs in training mode",
                label=f"`{name}.eval()` is never called",
                notes=(
                    Note.at(module, where, f"`{name}` is {what}"),
                    *self._phase_notes(module, site),
                    *(() if sampled is None else (Note.at(module, sampled, _SAMPLED),)),
                ),
                fix=self._fix(module, site) if site.phase is None and sampled is None else None,
            )

    def _phase_notes(self, module: Module, site: InferenceSite) -> tuple[Note, ...]:
        if site.phase is None:
            return ()
        what, where = site.phase.evidence
        return (Note.at(module, where, what),)

    def _sampled(self, module: Module, site: InferenceSite) -> cst.Call | None:
        """The forward pass elsewhere that needs the dropout of a network of the same name."""
        from torchlint.model.syntax.dotted import last_name
        from torchlint.model.training.networks import Networks
        from torchlint.model.training.sampling import Sampling

        for call in module.fact(Sampling).all:
            network = module.fact(Networks).network_of(call)
            if module.tree.root_of(call) in module.related and last_name(network) == last_name(site.model):
                return call
        return None

    def _fix(self, module: Module, site: InferenceSite) -> Fix | None:
        from torchlint.model.training.inference_places import (
            constructing_statement,
            first_statement,
            may_stay_in_evaluation,
        )

        line = f"{module.code(site.model)}.eval()"
        construction = constructing_statement(module, site)
        if construction is not None:
            inserted, place = edits.insert_after(module, construction, line), "in `__init__`"
        else:
            statement = first_statement(module, site)
            if statement is None or not may_stay_in_evaluation(module, site):
                return None
            inserted, place = edits.insert_above_comments(module, statement, line), "before the inference"
        if inserted is None:
            return None
        caution = "changes the outputs, and leaves the network in evaluation mode"
        return Fix(f"add `{line}` {place}", inserted, Applicability.UNSAFE, caution)
