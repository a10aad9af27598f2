"""The kinds of what a compiler cannot handle; no heavy imports, as messages are looked up by them."""

from __future__ import annotations

from enum import Enum


class BreakKind(Enum):
    """Why the compiler gives up."""

    READ = "read"  #: the value of a tensor is read
    BRANCH = "branch"  #: a branch depends on the value of a tensor
    SHAPE = "shape"  #: the shape of a result depends on values
    OUTPUT = "output"  #: something is printed or logged
    PYTHON = "python"  #: a Python function that cannot be traced
    LAYER = "layer"  #: a layer is built
    RECURRENT = "recurrent"  #: a recurrent layer is run


class StateKind(Enum):
    """What Python state is."""

    NUMBER = "number"
    LIST = "list"
    DICT = "dict"
