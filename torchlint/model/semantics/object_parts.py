"""Objects and what is inside of them, as `ObjectFlow` tells them apart."""

from __future__ import annotations

from collections.abc import Iterator

#: An object: the call that made it, the function it is, the parameter it came in by, the name it was imported under;
#: ``("self", class)`` is any instance of a class, ``("part", object, "layers.*")`` something inside an object.
Object = object
Objects = frozenset[Object]

#: Stands for a callable whose inside a compiler does not see.
SEALED: Object = "sealed"


def part_of(whole: Object, name: str) -> Object:
    """What is inside ``whole`` under ``name``; ``*`` for any name."""
    if isinstance(whole, tuple) and whole[0] == "part":
        return whole if whole[2].endswith(".*") and name == "*" else ("part", whole[1], f"{whole[2]}.{name}")
    return ("part", whole, name)


def enclosing(inner: Object) -> Iterator[Object]:
    """The objects that ``inner`` is inside of."""
    if isinstance(inner, tuple) and inner[0] == "part":
        yield inner[1]
        names = inner[2].split(".")
        yield from (("part", inner[1], ".".join(names[:count])) for count in range(1, len(names)))


def encloses(outer: Object, inner: Object) -> bool:
    """Whether ``inner`` is something inside ``outer``."""
    if not (isinstance(inner, tuple) and inner[0] == "part"):
        return False
    if isinstance(outer, tuple) and outer[0] == "part":
        return bool(outer[1] == inner[1] and inner[2].startswith(f"{outer[2]}."))
    return bool(outer == inner[1])
