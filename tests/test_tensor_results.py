"""The tables of what gives no tensor, or several, contain what torch declares."""

from __future__ import annotations

import pytest

from torchlint.model.program.tensor_methods import SEVERAL, SEVERAL_BY_DIMENSION, SEVERAL_IF_ASKED
from torchlint.model.semantics.knowledge import NOT_TENSOR, TENSOR_EXITS

#: What programs do not call: parts of kernels, of exporters and of other backends.
INTERNAL = ("_", "batch_norm_", "cudnn_", "fbgemm_", "miopen_", "mkldnn_", "native_", "quantized_", "sym_", "is_")
SELDOM = {"choose_qparams_optimized", "embedding_bag", "max_pool1d_with_indices"}
SELDOM |= {"split_copy", "split_with_sizes_copy", "unbind_copy"}
NAMED = SEVERAL | SEVERAL_BY_DIMENSION | SEVERAL_IF_ASKED


def test_what_does_not_give_one_tensor_is_in_a_table() -> None:
    torch = pytest.importorskip("torch")
    results: dict[str, list[list[str]]] = {}
    for schema in torch._C._jit_get_all_schemas():
        owner, _, name = schema.name.partition("::")
        if owner == "aten":
            results.setdefault(name, []).append([str(item.type) for item in schema.returns])
    others = {name for name, found in results.items() if not name.startswith(INTERNAL) and ["Tensor"] not in found}
    functions = {name for name in others - SELDOM if callable(getattr(torch, name, None))}
    methods = {name for name in others - SELDOM if callable(getattr(torch.Tensor, name, None))}
    assert functions - NOT_TENSOR - NAMED == set()
    assert methods - TENSOR_EXITS.keys() - NAMED == set()
