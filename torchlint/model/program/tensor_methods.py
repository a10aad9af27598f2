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
