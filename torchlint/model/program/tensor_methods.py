"""The names of the methods of tensors that give a tensor; no heavy imports."""

from __future__ import annotations

#: Methods of a tensor that give a tensor of one element, or one to compare.
REDUCING = frozenset("all any sum max min mean norm prod amax amin isnan isinf isfinite std var count_nonzero".split())
#: Methods of a tensor that give a tensor.
_KEEPING = frozenset(
    "abs argmax argmin argsort bool clamp clone contiguous cpu cuda cumsum detach double eq exp flatten float gather "
    "ge gt half int le log long lt ne permute pow reshape round sigmoid softmax square sqrt squeeze t to transpose "
    "unsqueeze view".split()
)
#: Methods of a tensor that give one tensor.
METHODS = REDUCING | _KEEPING
#: Methods that only tensors have, and that give a new one.
MAKING = frozenset({"new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"})
#: Functions of torch, and methods of tensors, that give several tensors ...
SEVERAL = frozenset(
    "adaptive_max_pool1d aminmax broadcast_tensors chunk cummax cummin dsplit eig frexp geqrf gradient gru "
    "histogram histogramdd hsplit kthvalue lobpcg lstm lstm_cell lstsq lu lu_unpack meshgrid mode pca_lowrank qr "
    "rnn_relu rnn_tanh slogdet solve sort split split_with_sizes std_mean svd svd_lowrank symeig tensor_split topk "
    "triangular_solve unbind unsafe_chunk unsafe_split unsafe_split_with_sizes var_mean vsplit".split()
)
#: ... or one tensor without a dimension, ...
SEVERAL_BY_DIMENSION = frozenset({"max", "min", "median", "nanmedian"})
#: ... or one tensor if no argument asks for more.
SEVERAL_IF_ASKED = frozenset({"nonzero", "unique", "unique_consecutive"})
