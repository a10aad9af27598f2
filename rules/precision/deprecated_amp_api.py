from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class DeprecatedAmpApi(Rule):
    """Mixed precision is asked for through `torch.cuda.amp` or `torch.cpu.amp`, which are deprecated.

    ## What it does
    Flags calls and decorators of `torch.cuda.amp.autocast`, `GradScaler`, `custom_fwd` and `custom_bwd`, and of
    `torch.cpu.amp.autocast` and `GradScaler`, however they were imported. Code that is there for older versions of
    torch (the `else` of a version test, an `except` branch) is left alone. Each of these names is reported
    once per file, at its first use.

    ## Why it is slow
    It is not: the old names compute the same. Since torch 2.4 each of them raises a `FutureWarning`, and code that
    names its device as an argument can be pointed at another device.

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
    The device is the first parameter of the new names, and `dtype` now stands before `enabled`: positional arguments
    must not be passed on as they are.

    ## Fix safety
    Safe: the old names call the new ones with the same values. An import is changed together with everything that
    uses it. It stays as it is where another file of the project takes the name from this one. Unsafe where the
    program may compare objects with the deprecated class, as in `isinstance(scaler, torch.cuda.amp.GradScaler)`: it
    is a subclass of `torch.amp.GradScaler`, so the test is False for the new objects. No fix is offered where `*args`
    hides which argument is which, or where the import serves something else that must stay.

    ## When to ignore
    When the code must run on torch older than 2.4; say so with the setting `target-torch`.

    ## References
    - [torch.amp: automatic mixed precision](https://docs.pytorch.org/docs/stable/amp.html)
    """

    code = "TL303"
    name = "deprecated-amp-api"
    words = ("amp", ("cuda.amp", "cpu.amp", "cuda import", "cpu import"))
    in_tests = True
    since = (2, 4)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._amp_names import Imports, change, is_current, uses

        current = [use for use in uses(module) if is_current(module, use)]
        imports = Imports(module, current)
        for use in current:
            changes = change(module, use, imports)
            compared = changes is not None and imports.is_compared(use.name)
            applicability = Applicability.UNSAFE if compared else Applicability.SAFE
            caution = f"objects made here are not instances of `{use.name}`" if compared else ""
            yield self.diagnostic(
                module,
                use.node,
                f"`{use.name}` is deprecated since torch 2.4",
                label=f'`{use.successor}` takes the device "{use.device}" as an argument',
                fix=Fix(f"use `{use.successor}`", changes, applicability, caution) if changes else None,
                cause=Cause(use.name, "also used"),
            )
