"""One source of settings: a file or the command line, read and checked for keys and types."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchlint.settings.globs import PatternError, translated
from torchlint.settings.keys import CHOICES, KEYS, WrittenFloat
from torchlint.source.paths import repository_of

#: The settings whose strings, or keys, are patterns of paths.
_PATTERNS = frozenset(
    {"exclude", "extend-exclude", "per-file-ignores", "extend-per-file-ignores", "per-file-target-torch"}
)


class SettingsError(Exception):
    """A setting is not valid; the text is one line that names the file, the key and what would be valid."""

    def __init__(self, message: str, excerpt: str = "") -> None:
        super().__init__(message)
        self.excerpt = excerpt  #: the line of the file, with a caret below the place; or empty
        self.others: tuple[SettingsError, ...] = ()  #: further errors of the same settings


def raise_all(errors: Sequence[SettingsError]) -> None:
    """Raise the first of some errors, with the others attached to it; nothing if there are none."""
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]


@dataclass(frozen=True)
class Layer:
    """One source of settings, its values checked for type: a file, or the command line."""

    where: str  #: for messages
    folder: str  #: patterns are relative to it
    values: Mapping[str, Any]
    trusted: bool = True  #: whether the user gave it, not a file or folder that may come from anywhere
    text: str = field(default="", repr=False, compare=False)  #: of the file, to find places in it
    above: tuple[str, ...] = ()  #: the keys of the table in the file that contains the settings

    def error(self, message: str, *path: str | int, key: bool = False) -> SettingsError:
        """An error in what is set by the keys ``path``: in the value, or in the last ``key``."""
        if self.text:
            from torchlint.settings.toml_positions import excerpt, position, positions

            keys, values = positions(self.text)
            full = (*self.above, *path)
            span = keys.get(full) if key else values.get(full, keys.get(full))
            if span is not None:
                row, column = position(self.text, span[0])
                return SettingsError(f"{self.where}:{row}:{column}: {message}", excerpt(self.text, span))
        return SettingsError(f"{self.where}: {message}")


def layer_of(
    table: Mapping[str, Any],
    where: str,
    folder: str,
    *,
    trusted: bool = True,
    text: str = "",
    above: tuple[str, ...] = (),
) -> Layer:
    """Settings as a table, checked for keys and types. Raises SettingsError.

    ``text`` is that of the file in which the table has the keys ``above``.
    """
    given = Layer(where, folder, table, trusted, text, above)
    errors = [error for key, value in table.items() for error in [_error_in(given, key, value)] if error is not None]
    raise_all(errors)
    return replace(given, values={key: KEYS[key].kind.normal(value) for key, value in table.items()})


def _error_in(layer: Layer, key: str, value: Any) -> SettingsError | None:
    """What is wrong with a setting, if something is."""
    if key not in KEYS:
        return layer.error(f"unknown setting `{key}`{suggestion(key, KEYS)}", key, key=True)
    kind = KEYS[key].kind
    if not kind.admits(value):
        return layer.error(f"`{key}` must be {kind.value}, not {value!r}", key)
    if _has_nul(value):
        return layer.error(f"`{key}` contains a NUL character", key)
    choices = CHOICES.get(key)
    if choices is not None and value not in choices:
        return layer.error(f"unknown `{key}` {value!r}{suggestion(value, choices)}", key)
    if key == "min-speedup" and not 0 <= value < float("inf"):
        return layer.error(f"`{key}` must be a factor such as 1.1, not {value!r}", key)
    if key == "timeout" and not 0 <= value < float("inf"):
        return layer.error(f"`{key}` must be a number of seconds such as 10, not {value!r}", key)
    return _pattern_error(layer, key, value) if key in _PATTERNS else None


def _pattern_error(layer: Layer, key: str, patterns: list[str] | dict[str, Any]) -> SettingsError | None:
    """What is wrong with the first pattern of paths that is not valid."""
    for index, pattern in enumerate(patterns):
        try:
            translated(pattern)
        except PatternError as error:
            place = pattern if isinstance(patterns, dict) else index
            return layer.error(f"`{key}`: {pattern!r} is not a pattern: {error}", key, place, key=place == pattern)
    return None


def _has_nul(value: object) -> bool:
    """Whether a string in a value has a character that no path, pattern or name can have."""
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def inline_layers(text: str) -> list[Layer]:
    """Settings given as ``key = value`` on the command line, after those that they extend. Raises SettingsError."""
    where = f"--config {text!r}"
    layer = layer_of(parse_toml(text.encode(), where), where, os.getcwd())
    extended = layer.values.get("extend")
    return [*(chain(os.path.abspath(os.path.expanduser(extended))) if extended else ()), layer]


def path_in(layers: Sequence[Layer], key: str) -> str:
    """The absolute path that the strongest of the layers sets ``key`` to; an empty one takes back what is set below.

    Raises SettingsError for one that a checked repository has outside of it: torchlint would write there.
    """
    layer = next((layer for layer in reversed(layers) if key in layer.values), None)
    if layer is None or not layer.values[key]:
        return ""
    path = os.path.abspath(os.path.join(layer.folder, os.path.expanduser(layer.values[key])))
    root = os.path.realpath(repository_of(layer.folder) or layer.folder)
    if not layer.trusted and not os.path.realpath(path).startswith(os.path.join(root, "")):
        raise SettingsError(
            f"{layer.where}: `{key}` leads out of {displayed(root)}; to use it all the same, pass "
            f"--{key} {displayed(path)}"
        )
    return path


def has_settings(folder: str) -> bool:
    """Whether a folder itself has settings: a torchlint.toml, or a pyproject.toml with ``[tool.torchlint]``."""
    if os.path.isfile(os.path.join(folder, "torchlint.toml")):
        return True
    pyproject = os.path.join(folder, "pyproject.toml")
    try:
        with open(pyproject, "rb") as stream:
            data = stream.read()
        return b"torchlint" in data and "torchlint" in table_in(parse_toml(data, pyproject).get("tool"))
    except OSError:
        return False
    except SettingsError:
        return True  # they are broken, but they are there


def chain(file: str) -> list[Layer]:
    """The layers of a settings file, what it extends first."""
    layers: list[Layer] = []
    seen: list[str] = []
    following: str | None = file
    while following is not None:
        if following in seen:
            raise SettingsError(f"{displayed(seen[-1])}: `extend` leads back to {displayed(following)}")
        seen.append(following)
        try:
            with open(following, "rb") as stream:
                data = stream.read()
        except OSError as error:
            by = f" (extended by {displayed(seen[-2])})" if len(seen) > 1 else ""
            raise SettingsError(f"{displayed(following)}: cannot be read: {error.strerror}{by}") from error
        table = parse_toml(data, following)
        text = data.decode("utf-8-sig")
        above = ("tool", "torchlint") if os.path.basename(following) == "pyproject.toml" else ()
        if above:
            table = table_in(table.get("tool")).get("torchlint", {})
            if not isinstance(table, dict):
                raise Layer(displayed(following), "", {}, text=text).error("`tool.torchlint` must be a table", *above)
        folder = os.path.dirname(following)
        layers.append(layer_of(table, displayed(following), folder, trusted=False, text=text, above=above))
        extended = table.get("extend")
        following = os.path.normpath(os.path.join(folder, os.path.expanduser(extended))) if extended else None
    return layers[::-1]


def parse_toml(data: bytes, where: str) -> dict[str, Any]:
    """The table that a TOML text is. Raises SettingsError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{displayed(where)}: not UTF-8: {error.reason}") from error
    try:
        return tomllib.loads(text, parse_float=WrittenFloat)
    except (ValueError, RecursionError) as error:  # ValueError: also an integer of too many digits
        raise _syntax_error(str(error).partition(";")[0] or "too deeply nested", text, displayed(where)) from error


def _syntax_error(reason: str, text: str, where: str) -> SettingsError:
    """The error for a text that is not TOML; the parser's ``reason`` ends with the place."""
    from torchlint.settings.toml_positions import excerpt, position

    match = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", reason, re.DOTALL)
    if match is None or "\n" not in text:  # a setting on the command line
        return SettingsError(f"{where}: not valid TOML: {reason}")
    if match[2]:
        lines = text.splitlines(keepends=True)
        start = sum(map(len, lines[: int(match[2]) - 1])) + int(match[3]) - 1
    else:
        start = len(text.rstrip())
    row, column = position(text, start)
    return SettingsError(f"{where}:{row}:{column}: not valid TOML: {match[1]}", excerpt(text, (start, start + 1)))


def table_in(value: object) -> dict[str, Any]:
    """``value`` if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def displayed(path: str) -> str:
    """A path, relative to the current folder if it is below it."""
    if not os.path.isabs(path):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the known word that is most like ``word``, or nothing."""
    matches = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), matches, n=1, cutoff=0.4)
    return f"; did you mean `{matches[close[0]]}`?" if close else ""
