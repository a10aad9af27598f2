from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

_PACKAGES = ("torch.quantization", "torch.ao.quantization")
_MODULES = ("", ".quantize", ".quantize_fx", ".quantize_pt2e")
#: The functions that quantize a network, and their successors in torchao.
_SUCCESSORS = {
    "quantize": "torchao.quantization.quantize_",
    "quantize_dynamic": "torchao.quantization.quantize_",
    "quantize_qat": "torchao.quantization.quantize_",
    "prepare": "torchao.quantization.quantize_",
    "prepare_qat": "torchao.quantization.quantize_",
    "convert": "torchao.quantization.quantize_",
    "prepare_fx": "torchao.quantization.pt2e.quantize_pt2e.prepare_pt2e",
    "prepare_qat_fx": "torchao.quantization.pt2e.quantize_pt2e.prepare_qat_pt2e",
    "convert_fx": "torchao.quantization.pt2e.quantize_pt2e.convert_pt2e",
    "prepare_pt2e": "torchao.quantization.pt2e.quantize_pt2e.prepare_pt2e",
    "prepare_qat_pt2e": "torchao.quantization.pt2e.quantize_pt2e.prepare_qat_pt2e",
    "convert_pt2e": "torchao.quantization.pt2e.quantize_pt2e.convert_pt2e",
}
_NAMES = tuple(f"{package}{part}.{name}" for package, part, name in product(_PACKAGES, _MODULES, _SUCCESSORS))


class DeprecatedQuantizationApi(Rule):
    """The code quantizes a network with `torch.quantization` or `torch.ao.quantization`, which are deprecated.

    ## What it does
    Flags calls of the functions of these packages that quantize a network (`quantize`, `quantize_dynamic`, `prepare`,
    `prepare_qat`, `convert`, and their variants for graphs), however they are imported. Code for other versions of
    torch is not flagged.

    ## Why it is slow
    The API is not slow itself, but its results are limited: `quantize_dynamic` and `convert` create int8 layers for
    CPUs. torchao, the successor, also quantizes for GPUs and works with `torch.compile`. The functions for eager mode
    and for FX graphs emit a `DeprecationWarning` that announces their removal.

    ## Example
    ```python
    model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    ```

    ## Use instead
    ```python
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    ```
    Quantization of graphs (`prepare_fx`, `prepare_pt2e`) has moved to `torchao.quantization.pt2e`.

    ## Fix safety
    Advice only: the new functions take other arguments, work in place and create other layers. The change affects the
    design of the program, and torchao must be installed.

    ## When to ignore
    Ignore it if the network is deployed to something that reads only the old format, such as a mobile runtime.

    ## References
    - [torchao: quantization](https://docs.pytorch.org/ao/stable/)
    - [Plan for the deprecation](https://github.com/pytorch/ao/issues/2259)
    """

    code = "TL311"
    name = "deprecated-quantization-api"
    default = Default.OPT_IN
    words = (("torch.quantization", "torch.ao", "import quantization"), ("quantize", "prepare", "convert"))
    in_tests = True
    since = (2, 8)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.program.version_checks import VersionChecks
        from torchlint.model.syntax.dotted import last_part

        for call in module.own_calls(*_NAMES):
            if module.fact(VersionChecks).for_other_versions(call.node):
                continue
            name = last_part(call.name)
            yield self.diagnostic(
                module,
                call.node,
                f"`{call.name}` is deprecated",
                label=f"replaced by `{_SUCCESSORS[name]}`",
            )
