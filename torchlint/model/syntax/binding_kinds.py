"""The kinds of bindings. A rule may import this at its top: it imports no parser."""

from __future__ import annotations

from enum import Enum


class BindingKind(Enum):
    """The statement, or part of one, that binds a name."""

    IMPORT = "import"
    ASSIGN = "assign"
    AUGMENT = "augment"  #: ``x += 1``
    ANNOTATION = "annotation"  #: ``x: int``, without a value
    FOR = "for"  #: also in a comprehension
    WITH = "with"
    PARAM = "param"
    STAR = "star"  #: ``*args`` or ``**options``
    FUNCTION = "function"
    CLASS = "class"
    EXCEPT = "except"
    MATCH = "match"  #: a name in a pattern
    DELETE = "delete"
