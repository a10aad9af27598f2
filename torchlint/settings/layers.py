"""One source of settings: a file or the command line, read and checked for keys and types."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchlint.settings.formats import FORMATS
from torchlint.settings.keys import KEYS
from torchlint.source.paths import repository_of


class SettingsError(Exception):
    """A setting is at fault; the text is one line naming the file, the key and what would be valid."""


@dataclass(frozen=True)
class Layer:
    """One source of settings, its values checked for type: a file, or the command line."""

    where: str  #: for messages
    folder: str  #: patterns are relative to it
    values: Mapping[str, Any]
    trusted: bool = True  #: whether the user gave it, not a file or folder that may come from anywhere


def layer_of(table: Mapping[str, Any], where: str, folder: str, *, trusted: bool = True) -> Layer:
    """Settings as a table, checked for keys and types. Raises SettingsError."""
    for key, value in table.items():
        if key not in KEYS:
            raise SettingsError(f"{where}: unknown setting `{key}`{suggestion(key, KEYS)}")
        if not KEYS[key].kind.admits(value):
            raise SettingsError(f"{where}: `{key}` must be {KEYS[key].kind.value}, not {value!r}")
        if _has_nul(value):
            raise SettingsError(f"{where}: `{key}` contains a NUL character")
    if table.get("output-format", "full") not in FORMATS:
        name = table["output-format"]
        raise SettingsError(f"{where}: unknown `output-format` {name!r}{suggestion(name, FORMATS)}")
    if not re.fullmatch(r"\d{1,9}\.\d{1,9}(\.\d+)*", table.get("target-torch", "2.0")):
        raise SettingsError(f'{where}: `target-torch` must be a version such as "2.4", not {table["target-torch"]!r}')
    if not 0 <= table.get("min-speedup", 0) < float("inf"):
        raise SettingsError(f"{where}: `min-speedup` must be a factor such as 1.1, not {table['min-speedup']!r}")
    if not 0 <= table.get("timeout", 0) < float("inf"):
        raise SettingsError(f"{where}: `timeout` must be a number of seconds such as 10, not {table['timeout']!r}")
    return Layer(where, folder, table, trusted)


def _has_nul(value: object) -> bool:
    """Whether a string in a value has a character that no path, pattern or name can have."""
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def inline_layer(text: str) -> Layer:
    """Settings given as ``key = value`` on the command line. Raises SettingsError."""
    where = f"--config {text!r}"
    return layer_of(parse_toml(text.encode(), where), where, os.getcwd())


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
        if os.path.basename(following) == "pyproject.toml":
            table = table_in(table.get("tool")).get("torchlint", {})
            if not isinstance(table, dict):
                raise SettingsError(f"{displayed(following)}: `tool.torchlint` must be a table")
        folder = os.path.dirname(following)
        layers.append(layer_of(table, displayed(following), folder, trusted=False))
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
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{displayed(where)}: not UTF-8: {error.reason}") from error
    except (ValueError, RecursionError) as error:  # ValueError: also an integer of too many digits
        reason = str(error).partition(";")[0] or "too deeply nested"
        raise SettingsError(f"{displayed(where)}: not valid TOML: {reason}") from error


def table_in(value: object) -> dict[str, Any]:
    """``value`` if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def displayed(path: str) -> str:
    """A path as short as it can be said from here."""
    if not os.path.isabs(path):
        return path
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the known word that is most like ``word``, or nothing."""
    matches = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), matches, n=1, cutoff=0.4)
    return f"; did you mean `{matches[close[0]]}`?" if close else ""
