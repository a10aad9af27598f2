from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Rule

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.model.module import Module

_FLAG = "torch.backends.cudnn.deterministic"
_CALLS = ("torch.use_deterministic_algorithms", "torch.set_deterministic")
_COMPARISONS = ("torch.testing.assert_close", "torch.testing.assert_allclose", "torch.autograd.gradcheck")


class DeterministicMode(Rule):
    """Deterministic algorithms replace faster ones in every run.

    ## What it does
    Flags `torch.use_deterministic_algorithms(True)` and `torch.backends.cudnn.deterministic = True` if nothing requests
    them: no option, no optional seed, no function named for it. Tests and code that compares results are not flagged.
    Neither is a setting that the file resets.

    ## Why it is slow
    If the fastest algorithm adds numbers in varying order, a deterministic algorithm replaces it: scattered sums are
    sorted first, and some convolutions and their gradients use a slower kernel. `torch.use_deterministic_algorithms`
    also makes `torch.empty` fill its memory. A seed does not need this mode: seeding fixes the random numbers,
    deterministic mode fixes the last digits of sums.

    ## Example
    ```python
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    ```

    ## Use instead
    ```python
    torch.manual_seed(0)
    if args.deterministic:
        torch.use_deterministic_algorithms(True)
    ```

    ## Fix safety
    Advice only: torchlint cannot decide whether runs must be reproducible to the last digit.

    ## When to ignore
    Ignore it if runs must be reproducible: to find a bug, to compare two versions, or because a regulation requires it.

    ## References
    - [Reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html)
    - [torch.use_deterministic_algorithms](https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html)
    """

    code = "TL904"
    name = "deterministic-mode"
    default = Default.OPT_IN
    words = ("torch", ("cudnn.deterministic", "use_deterministic_algorithms(", "set_deterministic("))
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.program.switches import Switches

        if any(module.calls(*_COMPARISONS)):
            return
        places: list[tuple[cst.CSTNode, str]] = []
        for switch in module.fact(Switches).flags(_FLAG):
            if switch.value == "True" and not switch.conditional:
                places.append((switch.node, f"{_FLAG} = True"))
        calls = list(module.own_calls(*_CALLS))
        if all(_literal(call.node) == "True" for call in calls):
            places += [
                (call.node, f"{call.name}(True)") for call in calls if not module.fact(Switches).conditional(call.node)
            ]
        for place, code in places:
            function = module.function_of(place)
            if function is not None and "determin" in function.name.value.lower():
                continue
            yield self.diagnostic(
                module,
                place,
                f"`{code}` replaces faster algorithms in every run",
                label="no option controls it",
            )


def _literal(call: cst.Call) -> str | None:
    """The name that is the first argument: `True`, `False`, or a variable."""
    import libcst as cst

    value = call.args[0].value if call.args else None
    return value.value if isinstance(value, cst.Name) else None
