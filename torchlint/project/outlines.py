"""What the text of a file imports, without parsing it: enough for the import graph of a project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from torchlint.project.loaded_paths import NO_LOADS, PathLoads, path_loads
from torchlint.source.lexemes import COMMENT, STRING

_IMPORT = re.compile(
    r"(?:^|[;:])[ \t]*(?:from[ \t]+(?P<origin>\.+|\.*[ \t]*[\w.]+)[ \t]*\bimport\b[ \t]*"
    r"(?P<names>\([^()]*\)|(?:[^\r\n#;\\]|\\\r?\n)*)"
    r"|import[ \t]+(?P<modules>(?:[^\r\n#;\\]|\\\r?\n)+))",
    re.MULTILINE,
)
_SEPARATOR = re.compile(r"[;:]")
_DYNAMIC = re.compile(r"""\b(?:import_module|__import__)\([ \t]*["']([^\W\d][\w.]*)["'][ \t]*\)""")
_PACKAGE = r"[^\W\d]\w{0,60}(?:\.[^\W\d]\w{0,60}){0,8}"
#: ``"models." + name``, ``"models.%s" % name``, ``"models.{}".format(name)``, ``f"models.{name}"``, and relative ones,
#: up to what is not a literal.
_COMPUTED = re.compile(
    rf"""(?:\bimport_module\(\s*f?["'](?P<dots>\.+)(?:(?P<inner>{_PACKAGE})\.)?|["'](?P<package>{_PACKAGE})\.)"""
    r"""(?P<begin>\w{0,60})(?P<unknown>["'][ \t]*\+|%s|\{)"""
)
#: What may follow: ``name + ".net"``, ``name}.net"``, ``.net"``.
_AFTER = {
    "+": re.compile(r"""[ \t]*[\w.]+(?:\[[^\[\]\n]*\])?[ \t]*\+[ \t]*["']([\w.]{0,60})["']"""),
    "{": re.compile(r"""[^{}\n]*\}([\w.]{0,60})["']"""),
    "s": re.compile(r"""([\w.]{0,60})["']"""),
}
_QUOTED = re.compile(rf"{COMMENT}|{STRING}", re.VERBOSE | re.DOTALL)
_COMMENT = re.compile(COMMENT)
_NAME = re.compile(r"\s*(\*|[^\W\d]\w*)")
_MODULE = re.compile(r"\s*([^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_CHECKED = re.compile(r"^([ \t]*)if\b[ \t(]*(?:\w+\.)?TYPE_CHECKING\b[^\r\n]*:[ \t]*(?:#[^\r\n]*)?\r?$", re.MULTILINE)
_GUARD = re.compile(
    r"""^if[ \t(]+(?:__name__[ \t]*==|["']__main__["'][ \t]*==[ \t]*__name__|__name__[ \t]+in[ \t]*[(\[{])""",
    re.MULTILINE,
)
#: What Sacred runs if the file is the script: ``@ex.automain``.
_AUTOMAIN = re.compile(r"^@\w+\.automain\b", re.MULTILINE)
#: ``hydra.utils.instantiate(cfg.model)``, ``instantiate_from_config(config.model)``
_INSTANTIATING = re.compile(r"\binstantiate(?:_from_config)?\(")
_ADDING = re.compile(r"\bsys\s*\.\s*path\s*\.\s*(?:append|insert|extend)\b")

#: How a top-level statement begins that does more than bind names: a loop, a ``with``, or a call of anything.
_DOING = re.compile(
    r"^(?:(?:for|while|with|if|try|async|await)\b|[^\W\d][\w.]*[ \t]*[(\[\\]|[(\[{]|[^\s#][^\r\n#]*;)", re.MULTILINE
)


@dataclass(frozen=True)
class Imported:
    """One imported module, and the names that are taken from it."""

    module: str  #: as it is written, without the dots of a relative import
    level: int = 0  #: how many dots a relative import has
    names: tuple[str, ...] = ()  #: of a ``from`` import; ``"*"`` for all
    runs: bool = True  #: False: it is in an ``if TYPE_CHECKING``, for type checkers and lazy packages
    below: str = ""  #: of which modules below one may be meant: ``*.net`` of ``import_module(f"models.{name}.net")``

    @property
    def top(self) -> str:
        """The first part of an absolute module's name; ``""`` of a relative one."""
        return "" if self.level else self.module.partition(".")[0]


@dataclass(frozen=True)
class Outline:
    """What the import graph needs to know of a file."""

    imports: tuple[Imported, ...] = ()
    has_guard: bool = False  #: whether it has an ``if __name__ == "__main__"``, or a function that runs then
    changes_path: bool = False  #: whether it calls a method of ``sys.path`` that adds to it
    tops: frozenset[str] = frozenset()  #: the first parts of the absolute modules
    instantiates: bool = False  #: whether it makes objects of classes that configuration files name
    loads: PathLoads = NO_LOADS  #: modules that are loaded by their paths


def outline(text: str) -> Outline:
    """The outline of a file's text. It never fails: what is not Python has no imports."""
    imports = tuple(dict.fromkeys(_imports(text)))
    return Outline(
        imports,
        ("__main__" in text and _GUARD.search(text) is not None)
        or ("automain" in text and _AUTOMAIN.search(text) is not None),
        "sys.path" in text and _ADDING.search(text) is not None,
        frozenset(item.top for item in imports if item.top),
        "instantiate" in text and _INSTANTIATING.search(text) is not None,
        path_loads(text),
    )


def may_run(text: str) -> bool:
    """Whether a top-level statement may do more than bind names; False is certain."""
    return _DOING.search(text) is not None


def _imports(text: str) -> Iterator[Imported]:
    found = list(_import_statements(text))
    quoted = _quoted_starts(text, [match.start() for match in found])
    checked = list(_type_checking_blocks(text))
    for match in found:
        if match.start() not in quoted:
            runs = not any(start <= match.start() < end for start, end in checked)
            yield from _imported(*match.group("origin", "names", "modules"), runs)
    if "import_module" in text or "__import__" in text:
        for dynamic in _DYNAMIC.finditer(text):
            yield Imported(dynamic[1])
        for computed in _COMPUTED.finditer(text):
            dots, inner, package, begin, unknown = computed.groups()
            after = _AFTER[unknown[-1]].match(text, computed.end())
            end = after[1] if after is not None else ""
            yield Imported(package or inner or "", len(dots or ""), below=f"{begin}*{end}")


@lru_cache(maxsize=20_000)  # files have the same imports
def _imported(origin: str | None, names: str | None, modules: str | None, runs: bool) -> tuple[Imported, ...]:
    """What one statement imports, by what `_IMPORT` has found."""
    if origin is None or names is None:
        parts = (modules or "").replace("\\", " ").split(",")
        return tuple(Imported(module[1], runs=runs) for part in parts if (module := _MODULE.match(part)) is not None)
    parts = _COMMENT.sub("", names).replace("\\", " ").strip("() \t\r\n").split(",")
    taken = tuple(name[1] for part in parts if (name := _NAME.match(part)) is not None)
    return (Imported(origin.lstrip(". \t"), len(origin) - len(origin.lstrip(".")), taken, runs),)


def _import_statements(text: str) -> Iterator[re.Match[str]]:
    """What `_IMPORT` finds. Only rows that contain the word are searched: it is slow, and most rows do not."""
    end = 0
    at = text.find("import")
    while at >= 0:
        row, following = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        stop = following + 1 if following >= 0 else len(text)
        start = max(row, end)
        for begin in (start, *(match.start() for match in _SEPARATOR.finditer(text, start, stop))):
            match = _IMPORT.match(text, begin) if begin >= end else None
            if match is not None:
                yield match
                end = match.end()
        at = text.find("import", max(end, stop))


def _type_checking_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Offsets ``[start, end)`` of what is indented under each ``if TYPE_CHECKING``."""
    if "TYPE_CHECKING" not in text:
        return
    for match in _CHECKED.finditer(text):
        outer = re.compile(rf"^(?!{match[1]}[ \t]|[ \t]*(?:#|\r?$))", re.MULTILINE)
        end = outer.search(text, match.end() + 1)
        yield match.end(), end.start() if end is not None else len(text)


def _quoted_starts(text: str, starts: list[int]) -> frozenset[int]:
    """Those of ``starts``, sorted offsets, that are within a string or comment."""
    if not starts or not any(quotes in text[: starts[-1]] for quotes in ('"""', "'''")):
        return frozenset()
    inside = set()
    position = 0
    for match in _QUOTED.finditer(text, 0):
        while position < len(starts) and starts[position] <= match.start():
            position += 1
        if position == len(starts):
            break
        while position < len(starts) and starts[position] < match.end():
            inside.add(starts[position])
            position += 1
    return frozenset(inside)
