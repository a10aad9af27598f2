"""Which settings apply to a file: those of the files above it, and what the editor says on top."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torchlint.cache.folder import CacheFolder
from torchlint.server.documents import Snapshot
from torchlint.settings.files import find_files, is_excluded
from torchlint.settings.layers import Layer, SettingsError, layer_of
from torchlint.settings.resolver import Given, Resolver
from torchlint.settings.settings import Settings


@dataclass(frozen=True)
class Options:
    """What the client sets, under ``torchlint``."""

    #: ``enable``: whether anything is reported.
    enable: bool = True
    #: ``configuration``: settings as in ``[tool.torchlint]``, or the file that contains them.
    configuration: Mapping[str, Any] | str | None = None
    #: ``workspaceDiagnostics``: whether a request for the workspace is answered for files that are not open.
    workspace: bool = False

    @classmethod
    def of(cls, sent: object) -> Options:
        """The options in what a client sent; of keys that are not known, other programs may know more."""
        table = sent if isinstance(sent, Mapping) else {}
        for key in ("torchlint", "settings"):  # ruff's clients send theirs under `settings`
            if isinstance(table.get(key), Mapping):
                table = table[key]
        configuration = table.get("configuration")
        if isinstance(configuration, Mapping):
            configuration = {key: value for key, value in configuration.items() if value is not None}
        elif not isinstance(configuration, str):
            configuration = None
        return cls(table.get("enable") is not False, configuration or None, table.get("workspaceDiagnostics") is True)


@dataclass
class Session:
    """What outlives a change of settings."""

    given: Given = field(default_factory=Given)  #: what the command line says
    last_good: dict[str, Settings] = field(default_factory=dict)  #: folder -> settings
    reported: set[str] = field(default_factory=set)  #: the problems that were reported


class Configuration:
    """Settings by folder, read once. After a change, another object takes its place."""

    def __init__(
        self, options: Options, root: str, session: Session | None = None, folders: Sequence[str] = ()
    ) -> None:
        """``folders`` are those that are open: each may have a cache."""
        self._options = options
        self.session = session or Session()  #: for the object that takes the place of this one
        self._problems: list[str] = []
        self._resolver = self._make_resolver(root)
        self._paths: dict[str, Settings | None] = {}
        self._folders = sorted(folders, key=len, reverse=True)
        self._caches: dict[str, CacheFolder | None] = {}

    def settings_for(self, snapshot: Snapshot) -> Settings | None:
        """The settings of what is open; None if it is not to be checked."""
        if not self._options.enable:
            return None
        if snapshot.path not in self._paths:
            settings = self._of_folder(os.path.dirname(snapshot.path))
            excluded = snapshot.stored and is_excluded(snapshot.path, settings)
            self._paths[snapshot.path] = None if excluded else settings
        return self._paths[snapshot.path]

    def files_in(self, folders: Sequence[str]) -> list[str]:
        """The Python files in some folders that are to be checked, sorted; notebooks only if they are open."""
        if not self._options.enable:
            return []
        found = find_files(folders, self._of_folder).files
        return [path for file in found if (path := os.path.abspath(file.path)).endswith(".py")]

    def cache_for(self, path: str) -> CacheFolder | None:
        """The cache for a file: that of the innermost open folder around it."""
        folder = next((one for one in self._folders if _is_below(path, one)), None)
        if folder is None:
            return None
        if folder not in self._caches:
            try:
                self._caches[folder] = self._resolver.cache(folder)
            except SettingsError:
                self._caches[folder] = None
        return self._caches[folder]

    def is_in_cache(self, path: str) -> bool:
        """Whether a file belongs to a cache."""
        return any(cache is not None and _is_below(path, cache.path) for cache in list(self._caches.values()))

    def problems(self) -> list[str]:
        """What is wrong with settings and was not reported yet. A file that stays broken is reported once."""
        new = [text for text in dict.fromkeys(self._problems) if text not in self.session.reported]
        self.session.reported.update(new)
        return new

    def _of_folder(self, folder: str) -> Settings:
        try:
            settings = self._resolver.for_folder(folder)
        except SettingsError as error:
            self._problems.append(str(error))
            return self.session.last_good.get(folder) or Resolver(isolated=True).for_folder(folder)
        except Exception as error:  # a plugin may raise anything, and must not take the server with it
            self._problems.append(f"the settings of {folder} cannot be read: {type(error).__name__}: {error}")
            return self.session.last_good.get(folder) or Resolver(isolated=True).for_folder(folder)
        self.session.last_good[folder] = settings
        if not self._problems:
            self.session.reported.clear()
        return settings

    def _make_resolver(self, root: str) -> Resolver:
        given = self._options.configuration
        if isinstance(given, str):
            path = os.path.join(root, os.path.expanduser(given))
            return replace(self.session.given, config=path).resolver()
        layers: list[Layer] = []
        try:
            if given is not None:
                layers.append(layer_of(given, "the editor's `configuration`", root, trusted=False))
        except SettingsError as error:
            self._problems.append(str(error))
        return self.session.given.resolver(above=layers)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))
