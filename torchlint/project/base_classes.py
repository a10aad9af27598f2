"""The base classes that a text names, without parsing it."""

from __future__ import annotations

import re

from torchlint.source.lexemes import behind

#: What follows ``class``: a name, type parameters and the base classes.
_CLASS = re.compile(r"[ \t]*\w+[ \t]*(?:\[[^\]:]*\])?\(([^:]*)\)[ \t]*:")
_NAME = re.compile(r"[^\W\d]\w*")


def base_classes(text: str) -> frozenset[str]:
    """The names in the lists of base classes in a text; of ``nn.Module`` both."""
    return frozenset(name for _, header in behind(text, "class ", _CLASS) for name in _NAME.findall(header[1]))
