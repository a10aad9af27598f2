"""The kinds of operations that a compiler cannot handle; without heavy imports, because messages need them."""

from __future__ import annotations

from enum import Enum


class BreakKind(Enum):
    """Why the compiler breaks the graph."""

    READ = "read"  #: reads the value of a tensor
    BRANCH = "branch"  #: a branch depends on the value of a tensor
    SHAPE = "shape"  #: the shape of a result depends on values
    OUTPUT = "output"  #: prints or logs
    PYTHON = "python"  #: a Python function that cannot be traced
    LAYER = "layer"  #: creates a layer
    RECURRENT = "recurrent"  #: runs a recurrent layer


class StateKind(Enum):
    """The kind of a Python value that changes."""

    NUMBER = "number"
    LIST = "list"
    DICT = "dict"
