"""The configuration files of a project: what they set a key to, found in their text without a parser."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from torchlint.model.syntax.context import CLASS_KEYS, ConfigValue
from torchlint.project.known import VENDORED
from torchlint.project.layout import ancestors, folder_of
from torchlint.project.outlines import Imported

#: What the names of configuration files end in.
ENDINGS = (".yaml", ".yml", ".json", ".toml")
#: Libraries that read files with these endings.
_READERS = {
    "yaml ruamel oyaml omegaconf hydra yacs fvcore detectron2 jsonargparse configargparse": (".yaml", ".yml"),
    "json simplejson ujson orjson json5 jsonargparse": (".json",),
    "toml tomllib tomli tomlkit pytoml rtoml": (".toml",),
}
#: Files with the settings of tools.
_TOOLS = frozenset({"pyproject.toml", "torchlint.toml", "ruff.toml", ".ruff.toml", "Cargo.toml", "package.json"})
#: A project with more such files is not looked into.
MAX_FILES = 3_000
#: A folder with more of them contains data.
MAX_FOLDER_FILES = 300
#: Larger files contain data.
MAX_BYTES = 200_000
#: Bytes of all files; in a project with more, nothing is known.
MAX_TOTAL = 10_000_000
#: Folders with files of other projects, or for tests, which are small runs.
_OTHERS = VENDORED | {"test", "tests", "testing", "test_data", "fixtures", "node_modules"}
_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_INDENTATION = re.compile(r"[ \t]*")
#: A row that opens a mapping: ``train:``, ``"train": {``.
_OPENED = re.compile(r"""[ \t]*(?:-[ \t]+)?(?P<quote>["']?)(?P<key>[\w.-]+)(?P=quote)[ \t]*:[ \t]*\{?[ \t\r]*""")
#: How many characters of a mapping are looked through for its key.
_MAX_GROUP = 4_000
#: A row that opens a table of TOML.
_HEADER = re.compile(r"""^[ \t]*\[(?:[^\]\n]*\.)?["']?([\w-]+)["']?\][ \t\r]*$""", re.MULTILINE)
#: A string with the path of a configuration file.
_NAMED = re.compile(r"""["']([\w./-]+\.(?:ya?ml|json|toml))["']""")
_COMMENT = re.compile(r"(?m)(?:^|[ \t])#[^\n]*")


def listed(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the paths of configuration files, relative to the root of a project, that may concern its programs."""
    found = []
    for name in sorted(names):
        parts = name.split("/")
        if not any(part.startswith(".") for part in parts) and _OTHERS.isdisjoint(parts) and parts[-1] not in _TOOLS:
            found.append(name)
    return tuple(found) if len(found) <= MAX_FILES else ()


def read_by(libraries: frozenset[str]) -> tuple[str, ...]:
    """What the names of the files end in that a program can read which imports these libraries."""
    return tuple(
        ending for names, endings in _READERS.items() if not libraries.isdisjoint(names.split()) for ending in endings
    )


class Configs:
    """Configuration files. Nothing is read before a key is requested; what was read is kept."""

    def __init__(self, root: str, files: Sequence[str]) -> None:
        """The paths of `files` are relative to the root."""
        self._root = root
        self._files = tuple(files)
        self._found: dict[str, tuple[ConfigValue, ...]] = {}

    def values(self, key: str) -> tuple[ConfigValue, ...]:
        """What the files set a key to, in any mapping, in order."""
        if key != key.strip() or not key:
            return ()
        known = self._found.get(key)
        if known is None:
            known = self._found[key] = tuple(
                ConfigValue(file, value, group)
                for file, text in self._texts.items()
                if key in text
                for value, group in _values(text, key, os.path.splitext(file)[1])
            )
        return known

    def contain(self, word: str) -> bool:
        """Whether one of the files contains a word, which counts as a key that was asked for."""
        self.values(word)
        return any(word in text for text in self._texts.values())

    @cached_property
    def classes(self) -> tuple[tuple[str, Imported], ...]:
        """The classes and functions that the files name for `instantiate`, as imports of them, each with its file."""
        named = {(value.file, value.text.strip("\"'")) for key in CLASS_KEYS for value in self.values(key)}
        parts = [(file, path.rpartition(".")) for file, path in sorted(named) if _PATH.fullmatch(path)]
        return tuple((file, Imported(module, names=(name,))) for file, (module, _, name) in parts)

    @property
    def read(self) -> Mapping[str, str]:
        """By absolute path the texts that answers depended on; empty if no key was asked for."""
        if not self._found:
            return {}
        return {self._path(file): text for file, text in self._texts.items() if self._concerns(text)}

    @property
    def keys(self) -> frozenset[str]:
        """The keys that were asked for."""
        return frozenset(self._found)

    def depend_on(self, path: str) -> bool:
        """Whether an answer may be another one now that the file at an absolute path has changed, or is new or gone."""
        if not self._found or not path.endswith(ENDINGS):
            return False
        if not path.startswith(os.path.join(self._root, "")):
            return False
        file = os.path.relpath(path, self._root).replace(os.sep, "/")
        now = _text(path) or ""
        return now != self._texts.get(file, "") and (self._concerns(now) or self._concerns(self._texts.get(file, "")))

    def _concerns(self, text: str) -> bool:
        return any(key in text for key in self._found)

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        """The texts of the files; none if they are too many."""
        found: dict[str, str] = {}
        size = 0
        for file in self._files:
            text = _text(self._path(file))
            if text is not None:
                size += len(text)
                if size > MAX_TOTAL:
                    return {}
                found[file] = text
        return found

    def _path(self, file: str) -> str:
        return os.path.join(self._root, *file.split("/"))


def namers(texts: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """By path of a configuration file the folders of Python files that name it, from there or from the root.

    `texts` are these files with their texts; all paths are relative to the root.
    """
    found: dict[str, set[str]] = {}
    for file, text in texts:
        for name in _NAMED.findall(text):
            for start in ("", folder_of(file)):
                found.setdefault(posixpath.normpath(posixpath.join(start, name)), set()).add(folder_of(file))
    return found


def is_own(config: str, reader: str, script_folders: Collection[str], namer_folders: Collection[str] = ()) -> bool:
    """Whether a configuration file may be one of the program that a file is part of; all relative to the root.

    It is another program's if a script is next to it or above it, but below the folder that contains both files, unless
    a file next to the reader or above it names its path.
    """
    above = ancestors(folder_of(reader))
    if not set(above).isdisjoint(namer_folders):
        return True
    return all(folder in above or folder not in script_folders for folder in ancestors(folder_of(config)))


def _text(path: str) -> str | None:
    try:
        if os.path.getsize(path) > MAX_BYTES or not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
        return content.decode("utf-8-sig") if len(content) <= MAX_BYTES else None
    except (OSError, UnicodeDecodeError, ValueError):
        return None


def _values(text: str, key: str, ending: str) -> Iterator[tuple[str, str]]:
    """What is written behind a key: ``4``; empty where that is a mapping or a list on the rows below.

    With each the key of the mapping around it.
    """
    if ending != ".json":
        text = _COMMENT.sub("", text)
    sign = "=" if ending == ".toml" else ":"
    begin = r"""(?m)(?:^[ \t]*(?:-[ \t]+)?|[{,][ \t]*)(?P<quote>["']?)"""
    entry = rf"{begin}{re.escape(key)}(?P=quote)[ \t]*{sign}([^\n,}}]*)"
    for match in re.finditer(entry, text):
        value = match[2]
        if sign == "=":
            yield value.strip(), _table(text, match.start())
        elif match["quote"] or not value or value[0] in " \t\r":  # `key:4` is a word in YAML
            yield value.strip(), _group(text, match.start())


def _table(text: str, start: int) -> str:
    """The last key of the table of TOML around ``start``: ``data`` of ``[train.data]``; empty if it is not seen."""
    headers = _HEADER.findall(text, max(0, start - _MAX_GROUP), start)
    return headers[-1] if headers else ""


def _group(text: str, start: int) -> str:
    """The key of the mapping around the row that begins at ``start``; empty if the rows above do not show it."""
    indentation = _INDENTATION.match(text, start)
    if indentation is None or (start and text[start - 1] != "\n"):
        return ""
    for row in reversed(text[max(0, start - _MAX_GROUP) : start].split("\n")):
        if row.strip() and len(row) - len(row.lstrip(" \t")) < len(indentation[0]):
            opened = _OPENED.fullmatch(row)
            return opened["key"] if opened is not None else ""
    return ""
