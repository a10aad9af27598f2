from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


#: The successors that torch 1.10 does not have, with the first version that has them.
_NEEDS = {"GradScaler": "2.3", "custom_fwd": "2.4", "custom_bwd": "2.4"}


class DeprecatedAmpApi(Rule):
    """The code uses `torch.cuda.amp` or `torch.cpu.amp`, which are deprecated.

    ## What it does
    Flags calls and decorators of `torch.cuda.amp.autocast`, `GradScaler`, `custom_fwd` and `custom_bwd`, and of
    `torch.cpu.amp.autocast` and `GradScaler`, however they are imported, and places that assign or return `autocast`
    itself, or pass it to `functools.partial` (`cast = torch.cuda.amp.autocast if use_amp else nullcontext`). Code for
    older versions of torch (the `else` of a version check, an `except` branch) is not flagged. Each of these names is
    reported once per file, at its first use.

    ## Why it is slow
    It is not: the deprecated names compute the same. Since torch 2.4 each of them emits a `FutureWarning`. Code that
    passes the device as an argument can also run on another device.

    ## Example
    ```python
    scaler = torch.cuda.amp.GradScaler()
    with torch.cuda.amp.autocast(True, torch.float16):
        loss = model(images)
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda")
    with torch.amp.autocast("cuda", enabled=True, dtype=torch.float16):
        loss = model(images)
    ```
    The first parameter of the new names is the device, and `dtype` now precedes `enabled`: positional arguments must
    not be copied unchanged.

    ## Fix safety
    Safe: the deprecated names call the new ones with the same values. The fix changes an import together with all its
    uses. It keeps an import that another file of the project imports from this one. Unsafe if the program may compare
    objects with the deprecated class, as in `isinstance(scaler, torch.cuda.amp.GradScaler)`: that class is a subclass
    of `torch.amp.GradScaler`, so the result is False for the new objects. Unsafe for `GradScaler` (torch 2.3),
    `custom_fwd` and `custom_bwd` (torch 2.4) if no requirement and no setting states the oldest version of torch. No
    fix is offered if `*args` hides which argument is which, if the import is needed for something else, or where
    `autocast` is not called, because the calls of the new name must pass the device.

    ## When to ignore
    Ignore it if the code must run on torch older than 2.4. Set `target-torch` in that case.

    ## References
    - [torch.amp: automatic mixed precision](https://docs.pytorch.org/docs/stable/amp.html)
    """

    code = "TL303"
    name = "deprecated-amp-api"
    words = ("amp", ("cuda.amp", "cpu.amp", "cuda import", "cpu import"))
    in_tests = True
    since = (2, 4)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.syntax.dotted import last_part

        from ._amp_names import Imports, change, is_current, uses

        current = [use for use in uses(module) if is_current(module, use)]
        imports = Imports(module, current)
        fixes: dict[tuple[int, str, str], Fix] = {}  # all uses of an import are changed by the same edits
        for use in current:
            changes = change(module, use, imports)
            compared = changes is not None and imports.is_compared(use.name)
            caution = f"objects created here are no longer instances of `{use.name}`" if compared else ""
            needed = _NEEDS.get(last_part(use.successor))
            if not caution and needed and module.target_torch is None:
                caution = f"needs torch {needed} or newer, and no requirement states a version"
            applicability = Applicability.UNSAFE if caution else Applicability.SAFE
            key = id(changes), use.successor, caution
            if changes and key not in fixes:
                fixes[key] = Fix(f"use `{use.successor}`", changes, applicability, caution)
            yield self.diagnostic(
                module,
                use.node,
                f"`{use.name}` is deprecated since torch 2.4",
                label=f"replaced by `{use.successor}`",
                fix=fixes.get(key),
                cause=Cause(use.name, "also used"),
            )
