from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


class CudaInDataset(Rule):
    """A dataset, transform or collate function works on the GPU."""

    code = "TL105"
    name = "cuda-in-dataset"
    words = (("Dataset", "DataLoader"), ("cuda", "device"))
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        for work in module.loading.all_cuda_work():
            yield self.diagnostic(module, work.node, "CUDA")
